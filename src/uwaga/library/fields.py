"""Values of a stranger's JSON, each with its type, size and characters checked."""

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
OURS = ("origin.json", "card.md")
"""Files that no catalogue may bring."""
MOST_ENTRIES = 100_000
LONGEST = 500


class Fields:
    """A mapping of a catalogue, by whose methods alone its values are read.

    Args:
        values: the mapping.
        where: what messages call it.

    Raises:
        CatalogueError: it is no mapping; each method raises it too, naming the place, the key and the value.
    """

    def __init__(self, values: object, where: str) -> None:
        if not isinstance(values, dict):
            raise CatalogueError(f"{where}: not a mapping but {shown(values)}")
        self._values: Mapping[str, Any] = values
        self.where = where

    def has(self, key: str) -> bool:
        """Whether a key is there and not null."""
        return self._values.get(key) is not None

    def fields(self, key: str) -> Fields:
        """A mapping inside."""
        return Fields(self._of(key), f"{self.where}: {key}")

    def items(self) -> Iterator[tuple[str, object]]:
        """All keys and values, unchecked."""
        yield from self._values.items()

    def entries(self, key: str) -> list[object]:
        """A list inside."""
        return as_list(self._of(key), f"{self.where}: {key}")

    def text(self, key: str, otherwise: str | None = None) -> str:
        """A line of text that may be printed."""
        value = self._of(key, otherwise)
        if not isinstance(value, str) or len(value) > LONGEST or CONTROL.search(value):
            raise self._wrong(key, "a line of text")
        return value

    def language(self, key: str) -> str:
        """A language's code."""
        return check_language(self._of(key), f"{self.where}: {key}")

    def word(self, key: str, otherwise: str | None = None) -> str:
        """A word that may be a part of a folder's name."""
        value = self._of(key, otherwise)
        if value == "" and otherwise == "":
            return ""
        if not isinstance(value, str) or not WORD.fullmatch(value) or ".." in value:
            raise self._wrong(key, "a word of letters, digits, dots and hyphens")
        return value

    def sha256(self, key: str) -> str:
        """A SHA-256 in hexadecimal."""
        value = self._of(key)
        if not isinstance(value, str) or not HASH.fullmatch(value.lower()):
            raise self._wrong(key, "a SHA-256 in hexadecimal")
        return value.lower()

    def size(self, key: str, most: int) -> int:
        """Bytes of a file, of which there is one at least."""
        value = self._of(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= most:
            raise self._wrong(key, f"a number of bytes from 1 to {most}")
        return value

    def count(self, key: str) -> int | None:
        """A whole number, None where there is none."""
        value = self._values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 60:
            raise self._wrong(key, "a whole number")
        return value

    def number(self, key: str) -> float:
        """A finite number."""
        value = self._of(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
            raise self._wrong(key, "a finite number")
        return float(value)

    def path(self, key: str) -> str:
        """The path of a file below a catalogue's base: relative, with slashes, each part a plain name."""
        value = self._of(key)
        parts = value.split("/") if isinstance(value, str) else []
        if not parts or len(str(value)) > 2 * LONGEST or not all(_is_part(one) for one in parts):
            raise self._wrong(key, "a relative path of plain names")
        return str(value)

    def _of(self, key: str, otherwise: object = None) -> Any:
        value = self._values.get(key)
        value = otherwise if value is None else value
        if value is None:
            raise CatalogueError(f"{self.where}: {key} is missing")
        return value

    def _wrong(self, key: str, expected: str) -> CatalogueError:
        return CatalogueError(
            f"{self.where}: {key} is {shown(self._values.get(key))}, not {expected}; refused"
        )


def as_list(values: object, where: str) -> list[object]:
    """A list of a catalogue.

    Raises:
        CatalogueError: it is none, or longer than any catalogue.
    """
    if not isinstance(values, list):
        raise CatalogueError(f"{where}: not a list but {shown(values)}")
    if len(values) > MOST_ENTRIES:
        raise CatalogueError(f"{where}: {len(values)} entries, more than {MOST_ENTRIES}; refused")
    return values


def check_language(value: object, where: str) -> str:
    """A language's code.

    Raises:
        CatalogueError: it is none.
    """
    if not isinstance(value, str) or not LANGUAGE.fullmatch(value):
        raise CatalogueError(f"{where} is {shown(value)}, not a language's code such as `en`; refused")
    return value


def same_language(asked: str, found: str) -> bool:
    """Whether two codes are one language: capitals and the kind of hyphen do not matter."""
    return asked.replace("_", "-").lower() == found.replace("_", "-").lower()


def check_file_name(name: str, where: str, ours: Sequence[str] = OURS) -> str:
    """The name under which a file is installed; none of ``ours``, which uwaga writes.

    Raises:
        CatalogueError: it is no plain name of a file, or one of uwaga's own.
    """
    if not FILE_NAME.fullmatch(name) or ".." in name or name.lower() in ours:
        raise CatalogueError(f"{where}: a file called {shown(name)}; refused")
    return name


def parse_json(content: bytes, where: str) -> object:
    """JSON in UTF-8 in which no mapping has a key twice.

    Raises:
        CatalogueError: it is none.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise CatalogueError(f"{where}: {shown(key)} stands there twice; refused")
            found[key] = value
        return found

    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        raise CatalogueError(
            f"{where}: not the JSON of a catalogue ({shown(str(error))}, beginning {shown(content[:40])})"
        ) from None


def _is_part(part: str) -> bool:
    return bool(PART.fullmatch(part)) and ".." not in part


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
