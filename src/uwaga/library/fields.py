"""Values of an untrusted catalogue's JSON, each checked for its type, size and characters."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from uwaga.errors import CatalogueError, shown

LANGUAGE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8}){0,3}", re.ASCII)
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", re.ASCII)
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}", re.ASCII)
PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._+=@~-]{0,199}", re.ASCII)
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
HASH = re.compile(r"[0-9a-f]{64}")
RESERVED = ("origin.json", "card.md")
"""Names of files that uwaga writes, which no catalogue may use."""
MOST_ENTRIES = 100_000
LONGEST = 500
LONGEST_PAIR = 60
"""Characters of a language pair."""


class Fields:
    """A JSON object of a catalogue whose methods check each value that they return.

    Args:
        values: the object.
        where: its place, for messages.
    """

    def __init__(self, values: object, where: str) -> None:
        if not isinstance(values, dict):
            raise CatalogueError(f"{where}: expected an object, not {shown(values)}")
        self._values: Mapping[str, Any] = values
        self.where = where

    def has(self, key: str) -> bool:
        """Return True if a key is present and not null."""
        return self._values.get(key) is not None

    def fields(self, key: str) -> Fields:
        """Return the object under a key."""
        return Fields(self._of(key), f"{self.where}: {key}")

    def items(self) -> Iterator[tuple[str, object]]:
        """Yield all keys and values, unchecked."""
        yield from self._values.items()

    def entries(self, key: str) -> list[object]:
        """Return the list under a key."""
        return as_list(self._of(key), f"{self.where}: {key}")

    def text(self, key: str, default: str | None = None) -> str:
        """Return a printable line of text."""
        value = self._of(key, default)
        if not isinstance(value, str) or len(value) > LONGEST or CONTROL.search(value):
            raise self._wrong(key, "a line of text")
        return value

    def language(self, key: str) -> str:
        """Return a language code."""
        return check_language(self._of(key), f"{self.where}: {key}")

    def word(self, key: str, default: str | None = None) -> str:
        """Return a word that is safe as part of a folder's name."""
        value = self._of(key, default)
        if value == "" and default == "":
            return ""
        if not isinstance(value, str) or not WORD.fullmatch(value) or ".." in value:
            raise self._wrong(key, "a word of letters, digits, dots and hyphens")
        return value

    def sha256(self, key: str) -> str:
        """Return a SHA-256 as lower-case hexadecimal digits."""
        value = self._of(key)
        if not isinstance(value, str) or not HASH.fullmatch(value.lower()):
            raise self._wrong(key, "a SHA-256 in hexadecimal")
        return value.lower()

    def size(self, key: str, most: int) -> int:
        """Return the size of a file in bytes, from 1 to ``most``."""
        value = self._of(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
            raise self._wrong(key, f"a number of bytes from 1 to {most}")
        return value

    def count(self, key: str) -> int | None:
        """Return a non-negative integer, None if the key is missing."""
        value = self._values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 60:
            raise self._wrong(key, "an integer of at least 0")
        return value

    def number(self, key: str) -> float:
        """Return a finite number."""
        value = self._of(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
            raise self._wrong(key, "a finite number")
        return float(value)

    def path(self, key: str) -> str:
        """Return a file's path relative to the catalogue's base, with slashes, each part a plain name."""
        value = self._of(key)
        parts = value.split("/") if isinstance(value, str) else []
        if not parts or len(str(value)) > 2 * LONGEST or not all(map(_is_part, parts)):
            raise self._wrong(key, "a relative path of plain names")
        return str(value)

    def _of(self, key: str, default: object = None) -> Any:
        value = self._values.get(key)
        value = default if value is None else value
        if value is None:
            raise CatalogueError(f"{self.where}: {key} is missing")
        return value

    def _wrong(self, key: str, expected: str) -> CatalogueError:
        return CatalogueError(
            f"{self.where}: {key} is {shown(self._values.get(key))}, not {expected}; refused"
        )


def as_list(values: object, where: str) -> list[object]:
    """Return a list after checking its type and length."""
    if not isinstance(values, list):
        raise CatalogueError(f"{where}: expected a list, not {shown(values)}")
    if len(values) > MOST_ENTRIES:
        raise CatalogueError(f"{where}: {len(values)} entries, more than {MOST_ENTRIES}; refused")
    return values


def check_language(value: object, where: str) -> str:
    """Return a language code after checking its form."""
    if not isinstance(value, str) or not LANGUAGE.fullmatch(value):
        raise CatalogueError(f"{where} is {shown(value)}, not a language code such as `en`; refused")
    return value


def same_spelling(code: str, other: str) -> bool:
    """Return True if two codes, or two pairs of codes, are equal but for case, hyphens and underscores."""
    return code.replace("_", "-").lower() == other.replace("_", "-").lower()


def language_pairs(model: str) -> list[tuple[str, str]]:
    """Return the language pairs that a name such as ``en-pt`` may mean; codes may contain hyphens."""
    if len(model) > LONGEST_PAIR:
        return []
    parts = re.split(r"[-_]", model)
    pairs = [("-".join(parts[:cut]), "-".join(parts[cut:])) for cut in range(1, len(parts))]
    return [pair for pair in pairs if all(LANGUAGE.fullmatch(code) for code in pair)]


def check_file_name(name: str, where: str, reserved: Sequence[str] = RESERVED) -> str:
    """Return the name under which a file is installed, after checking it."""
    if not FILE_NAME.fullmatch(name) or ".." in name or name.lower() in reserved:
        raise CatalogueError(f"{where}: unacceptable file name {shown(name)}; refused")
    return name


def parse_json(content: bytes, where: str) -> object:
    """Parse UTF-8 JSON in which no object has a duplicate key."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in pairs:
            if key in values:
                raise CatalogueError(f"{where}: duplicate key {shown(key)}; refused")
            values[key] = value
        return values

    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise CatalogueError(
            f"{where}: not a JSON catalogue ({shown(str(error))}, beginning {shown(content[:40])})"
        ) from None


def _is_part(part: str) -> bool:
    return bool(PART.fullmatch(part)) and ".." not in part


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
