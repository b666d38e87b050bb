"""The small files beside a pretrained tokeniser: its settings and special tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uwaga.errors import ModelError
from uwaga.files.regular import read_regular

TOKENIZER = "tokenizer.json"
SETTINGS = "tokenizer_config.json"
SPECIAL = "special_tokens_map.json"
ADDED = "added_tokens.json"
ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
LARGEST = 1 << 28
"""Bytes; the largest vocabulary known to us takes 33 million."""


@dataclass(frozen=True)
class Special:
    """A token that text may spell and that is then one id.

    ``lstrip`` and ``rstrip``: whether it swallows the white space before and behind it. ``special``:
    whether decoding drops it.
    """

    content: str
    lstrip: bool = False
    rstrip: bool = False
    special: bool = True


@dataclass(frozen=True)
class Declared:
    """What a folder says of its tokeniser.

    ``settings`` is ``tokenizer_config.json``; ``named`` the special tokens by their role (``bos``,
    ``eos``, ...); ``numbered`` tokens added to the vocabulary, by id.
    """

    settings: Mapping[str, Any]
    named: Mapping[str, Special]
    numbered: dict[int, Special]

    def flag(self, name: str, default: bool) -> bool:
        """A truth value of the settings."""
        value = self.settings.get(name)
        return value if isinstance(value, bool) else default

    def text(self, name: str) -> str | None:
        """A text of the settings, None where there is none."""
        value = self.settings.get(name)
        return value if isinstance(value, str) and value else None


def read_declared(folder: Path) -> Declared:
    """Read ``tokenizer_config.json``, ``special_tokens_map.json`` and ``added_tokens.json``, if there.

    Raises:
        ModelError: a file is not a JSON mapping.
    """
    settings, special, added = (
        read_json(folder / name) if (folder / name).exists() else {} for name in (SETTINGS, SPECIAL, ADDED)
    )
    named: dict[str, Special] = {}
    for role in ROLES:
        for values in (settings, special):
            if found := _special(values.get(f"{role}_token")):
                named[role] = found
                break
    numbered: dict[int, Special] = {}
    for content, number in added.items():
        if type(number) is int:
            numbered[number] = Special(content)
    decoder = settings.get("added_tokens_decoder")
    for number, value in (decoder if isinstance(decoder, dict) else {}).items():
        if (found := _special(value)) and str(number).isdecimal():
            numbered[int(number)] = found
    return Declared(settings, named, numbered)


def read_json(path: Path) -> dict[str, Any]:
    """The mapping in a JSON file.

    Raises:
        ModelError: missing, unreadable, or not a JSON mapping.
    """
    content = read_bytes(path)
    try:
        values = json.loads(content)
        refuse_surrogates(content, values)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not valid JSON: {error}; fetch the model again") from None
    if not isinstance(values, dict):
        raise ModelError(f"{path}: not a mapping; fetch the model again")
    return values


def refuse_surrogates(content: bytes, values: object) -> None:
    """Refuse halves of surrogate pairs, which JSON can escape but which are no text.

    Args:
        content: the JSON.
        values: what it says.

    Raises:
        ValueError: there is one.
    """
    if b"\\ud" in content or b"\\uD" in content:
        json.dumps(values, ensure_ascii=False).encode("utf-8")


def read_bytes(path: Path, what: str = "tokeniser") -> bytes:
    """The contents of a tokeniser's file; ``what`` it is, for messages.

    Raises:
        ModelError: missing, unreadable or impossibly large.
    """
    try:
        return read_regular(path, LARGEST)
    except OSError as error:
        raise ModelError(
            f"{path}: the {what} cannot be read: {error.strerror or error}; fetch the model again"
        ) from None


def missing(folder: Path, *ways: str) -> ModelError:
    """The error for a folder that holds none of the ways to store its tokeniser."""
    return ModelError(
        f"{folder}: no tokeniser; it should hold {', or '.join(ways)}; fetch the whole repository again, "
        "as `hf download owner/model` does"
    )


def _special(value: object) -> Special | None:
    if isinstance(value, str) and value:
        return Special(value)
    if isinstance(value, dict) and isinstance(value.get("content"), str) and value["content"]:
        return Special(
            content=value["content"],
            lstrip=value.get("lstrip") is True,
            rstrip=value.get("rstrip") is True,
            special=value.get("special") is not False,
        )
    return None
