"""Reading of JSON in untrusted catalogues, with checks of the type, size and characters of each value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from uwaga.errors import CatalogueError, quoted

LANGUAGE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8}){0,3}", re.ASCII)
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", re.ASCII)
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}", re.ASCII)
PATH_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._+=@~-]{0,199}", re.ASCII)
CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
SHA256 = re.compile(r"[0-9a-f]{64}")
RESERVED_NAMES = ("origin.json", "card.md")
"""Names of files that uwaga writes; catalogues must not use them."""
MAX_ENTRIES = 100_000
MAX_TEXT_LENGTH = 500
MAX_PAIR_LENGTH = 60
"""Maximum length of a language pair in characters."""


class Fields:
    """A JSON object in a catalogue, whose methods check the values that they return.

    Args:
        values: the JSON value, which must be an object.
        context: location of the object, for error messages.
    """

    def __init__(self, values: object, context: str) -> None:
        if not isinstance(values, dict):
            raise CatalogueError(f"{context}: expected an object, not {quoted(values)}")
        self._values: Mapping[str, Any] = values
        self.context = context

    def has_key(self, key: str) -> bool:
        """Return True if a key is present and not null."""
        return self._values.get(key) is not None

    def fields(self, key: str) -> Fields:
        """Return the JSON object under a key as :class:`Fields`."""
        return Fields(self._require(key), f"{self.context}: {key}")

    def items(self) -> Iterator[tuple[str, object]]:
        """Yield all keys and values without checking the values."""
        yield from self._values.items()

    def entries(self, key: str) -> list[object]:
        """Return the list under a key."""
        return as_list(self._require(key), f"{self.context}: {key}")

    def text(self, key: str, default: str | None = None) -> str:
        """Return a line of printable text, or the default if the key is missing."""
        value = self._require(key, default)
        if not isinstance(value, str) or len(value) > MAX_TEXT_LENGTH or CONTROL_CHARACTER.search(value):
            raise self._error(key, "a line of text")
        return value

    def language(self, key: str) -> str:
        """Return a language code."""
        return check_language(self._require(key), f"{self.context}: {key}")

    def word(self, key: str, default: str | None = None) -> str:
        """Return a word that can safely be part of a folder name, or the default if the key is missing."""
        value = self._require(key, default)
        if value == "" and default == "":
            return ""
        if not isinstance(value, str) or not WORD.fullmatch(value) or ".." in value:
            raise self._error(key, "a word of letters, digits, dots and hyphens")
        return value

    def sha256(self, key: str) -> str:
        """Return a SHA-256 as lower-case hexadecimal digits."""
        value = self._require(key)
        if not isinstance(value, str) or not SHA256.fullmatch(value.lower()):
            raise self._error(key, "a SHA-256 in hexadecimal")
        return value.lower()

    def size(self, key: str, limit: int) -> int:
        """Return a file size in bytes of at least 1 and at most ``limit``."""
        value = self._require(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= limit:
            raise self._error(key, f"a number of bytes from 1 to {limit}")
        return value

    def count(self, key: str) -> int | None:
        """Return a non-negative integer, or None if the key is missing."""
        value = self._values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 60:
            raise self._error(key, "an integer of at least 0")
        return value

    def number(self, key: str) -> float:
        """Return a finite number."""
        value = self._require(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
            raise self._error(key, "a finite number")
        return float(value)

    def path(self, key: str) -> str:
        """Return a relative path whose parts, separated by slashes, are plain file names."""
        value = self._require(key)
        parts = value.split("/") if isinstance(value, str) else []
        are_names = all(PATH_PART.fullmatch(part) and ".." not in part for part in parts)
        if not parts or len(str(value)) > 2 * MAX_TEXT_LENGTH or not are_names:
            raise self._error(key, "a relative path of plain names")
        return str(value)

    def _require(self, key: str, default: object = None) -> Any:
        value = self._values.get(key)
        value = default if value is None else value
        if value is None:
            raise CatalogueError(f"{self.context}: {key} is missing")
        return value

    def _error(self, key: str, expected: str) -> CatalogueError:
        return CatalogueError(
            f"{self.context}: {key} is {quoted(self._values.get(key))}, not {expected}; the entry is refused"
        )


def as_list(values: object, context: str) -> list[object]:
    """Return a value after checking that it is a list of permitted length."""
    if not isinstance(values, list):
        raise CatalogueError(f"{context}: expected a list, not {quoted(values)}")
    if len(values) > MAX_ENTRIES:
        raise CatalogueError(
            f"{context}: has {len(values)} entries, more than the {MAX_ENTRIES} allowed; the catalogue is "
            "refused"
        )
    return values


def check_language(value: object, context: str) -> str:
    """Return a value after checking that it is a language code."""
    if not isinstance(value, str) or not LANGUAGE.fullmatch(value):
        raise CatalogueError(f"{context} is {quoted(value)}, not a language code such as `en`")
    return value


def same_spelling(code: str, other: str) -> bool:
    """Return True if two codes or pairs of codes are equal, ignoring case and treating ``_`` as ``-``."""
    return code.replace("_", "-").lower() == other.replace("_", "-").lower()


def language_pairs(model: str) -> list[tuple[str, str]]:
    """Return all language pairs that a name such as ``en-pt`` may mean.

    There may be several, since language codes may contain hyphens.
    """
    if len(model) > MAX_PAIR_LENGTH:
        return []
    parts = re.split(r"[-_]", model)
    pairs = [("-".join(parts[:cut]), "-".join(parts[cut:])) for cut in range(1, len(parts))]
    return [pair for pair in pairs if all(LANGUAGE.fullmatch(code) for code in pair)]


def check_file_name(name: str, context: str, reserved_names: Sequence[str] = RESERVED_NAMES) -> str:
    """Return a file name after checking that a file can safely be installed under it."""
    if not FILE_NAME.fullmatch(name) or ".." in name or name.lower() in reserved_names:
        raise CatalogueError(
            f"{context}: the file name {quoted(name)} is not permitted; the entry is refused"
        )
    return name


def parse_json(content: bytes, context: str) -> object:
    """Return the value of a JSON text in UTF-8, rejecting duplicate keys."""

    def reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in pairs:
            if key in values:
                raise CatalogueError(f"{context}: duplicate key {quoted(key)}; the catalogue is refused")
            values[key] = value
        return values

    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=reject_duplicates)
    except (ValueError, RecursionError) as error:
        raise CatalogueError(
            f"{context}: not a JSON catalogue ({quoted(str(error))}, beginning {quoted(content[:40])})"
        ) from None


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
