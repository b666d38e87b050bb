"""Configuration files of pretrained tokenisers: settings and special tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from uwaga.errors import ModelError
from uwaga.files.regular import read_regular

TOKENIZER_FILE = "tokenizer.json"
SETTINGS_FILE = "tokenizer_config.json"
SPECIAL_TOKENS_FILE = "special_tokens_map.json"
ADDED_TOKENS_FILE = "added_tokens.json"
ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
MAX_FILE_BYTES = 1 << 28
"""Maximum size of a file; the largest known vocabulary has 33 million bytes."""


class AddedToken(NamedTuple):
    """A special token, which is encoded as one id if it is spelt in a text.

    Attributes:
        content: the text of the token.
        lstrip: whether the token includes the white space before it.
        rstrip: whether the token includes the white space after it.
        special: whether the token is left out in decoding.
    """

    content: str
    lstrip: bool = False
    rstrip: bool = False
    special: bool = True


class TokeniserConfig(NamedTuple):
    """The configuration of a tokeniser.

    Attributes:
        settings: the content of ``tokenizer_config.json``.
        special_tokens: special tokens by role (``bos``, ``eos``, ...).
        added_tokens: tokens added to the vocabulary, by id.
    """

    settings: Mapping[str, Any]
    special_tokens: Mapping[str, AddedToken]
    added_tokens: dict[int, AddedToken]

    def flag(self, name: str, default: bool) -> bool:
        """Return a boolean setting, or ``default`` if it is missing or not a boolean."""
        value = self.settings.get(name)
        return value if isinstance(value, bool) else default

    def text(self, name: str) -> str | None:
        """Return a string setting, or None if it is missing, empty or not a string."""
        value = self.settings.get(name)
        return value if isinstance(value, str) and value else None


def read_tokeniser_config(folder: Path) -> TokeniserConfig:
    """Read ``tokenizer_config.json``, ``special_tokens_map.json`` and ``added_tokens.json``, if present."""
    settings, special, added = (
        read_json(folder / name) if (folder / name).exists() else {}
        for name in (SETTINGS_FILE, SPECIAL_TOKENS_FILE, ADDED_TOKENS_FILE)
    )
    special_tokens: dict[str, AddedToken] = {}
    for role in ROLES:
        for values in (settings, special):
            if token := _read_token(values.get(f"{role}_token")):
                special_tokens[role] = token
                break
    added_tokens: dict[int, AddedToken] = {}
    for content, token_id in added.items():
        if type(token_id) is int:
            added_tokens[token_id] = AddedToken(content)
    decoder = settings.get("added_tokens_decoder")
    for token_id, value in (decoder if isinstance(decoder, dict) else {}).items():
        if (token := _read_token(value)) and str(token_id).isdecimal() and len(token_id) < 10:
            added_tokens[int(token_id)] = token
    return TokeniserConfig(settings, special_tokens, added_tokens)


def read_json(path: Path) -> dict[str, Any]:
    """Return the content of a file with a JSON object."""
    content = read_bytes(path)
    try:
        values = json.loads(content)
        check_surrogates(content, values)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not valid JSON: {error}; fetch the model again") from None
    if not isinstance(values, dict):
        raise ModelError(f"{path}: not a JSON object; fetch the model again")
    return values


def check_surrogates(content: bytes, values: object) -> None:
    """Raise UnicodeEncodeError for lone surrogates, which JSON can escape but which are not valid Unicode.

    Args:
        content: the JSON text.
        values: the values parsed from the text.
    """
    if b"\\ud" in content or b"\\uD" in content:
        json.dumps(values, ensure_ascii=False).encode("utf-8")


def read_bytes(path: Path, description: str = "tokeniser") -> bytes:
    """Return the contents of a tokeniser file; ``description`` names it in messages."""
    try:
        return read_regular(path, MAX_FILE_BYTES)
    except OSError as error:
        raise ModelError(
            f"{path}: the {description} cannot be read: {error.strerror or error}; fetch the model again"
        ) from None


def missing_files_error(folder: Path, *alternatives: str) -> ModelError:
    """Return the error for a folder without any of the files that may store its tokeniser."""
    return ModelError(
        f"{folder}: no tokeniser found; expected {', or '.join(alternatives)}; fetch the whole repository "
        "again, as `hf download owner/model` does"
    )


def _read_token(value: object) -> AddedToken | None:
    if isinstance(value, str) and value:
        return AddedToken(value)
    if isinstance(value, dict) and isinstance(value.get("content"), str) and value["content"]:
        return AddedToken(
            content=value["content"],
            lstrip=value.get("lstrip") is True,
            rstrip=value.get("rstrip") is True,
            special=value.get("special") is not False,
        )
    return None
