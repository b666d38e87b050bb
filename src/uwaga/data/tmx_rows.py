"""Pairs of a TMX file (Translation Memory eXchange 1.4b), a unit at a time."""

from __future__ import annotations

from collections.abc import Iterator

from uwaga.data.columns import Placed
from uwaga.data.xml_items import XmlItems
from uwaga.errors import DataError
from uwaga.files.lines import LONGEST_LINE
from uwaga.languages.codes import same_language
from uwaga.settings import CorpusSettings

CODES = frozenset({"bpt", "ept", "it", "ph", "ut", "sub"})
"""Elements of a segment whose content is the markup of another format, not text."""
SHOWN = 10  # languages in a message
LONGEST_CODE = 64  # characters of a language's code
LONGEST_UNIT = 1 << 23  # characters


def tmx_rows(file: str, corpus: CorpusSettings) -> Iterator[Placed]:
    """The pairs of a TMX file; units are numbered from 1, further variants of the target are references.

    Raises:
        DataError: missing, damaged, no TMX file, one that declares entities, or without the two languages.
    """
    units = _Units(file, corpus.languages or ("src", "tgt"))
    yield from units.read()
    units.check()


class _Units(XmlItems[Placed]):
    """The units that are whole, and the one that is open."""

    kind = "TMX"
    roots = frozenset({"tmx"})

    def __init__(self, file: str, languages: tuple[str, str]) -> None:
        super().__init__(file)
        self._wanted = languages
        self.count = 0
        self._seen: dict[str, None] = {}
        self._hit = False
        self._variants: list[tuple[str, str]] = []
        self._language = ""
        self._text: list[str] | None = None  # of the segment that is open
        self._size = 0
        self._codes = 0  # how many elements of markup are open
        self._unit_size = 0

    def reached(self) -> str:
        """The last unit that is whole."""
        return f"after unit {self.count}"

    def not_whole(self, what: str, line: int) -> DataError:
        """With the last unit that is whole."""
        return DataError(
            f"{self.file}: not a whole TMX file: {what} in line {line}, {self.reached()}; fetch it again"
        )

    def too_deep(self, what: str, line: int) -> DataError:
        """With the last unit that is whole."""
        return DataError(f"{self.file}: not a TMX file: {what} in line {line}, {self.reached()}")

    def check(self) -> None:
        """Refuse a file that has no pair of the two languages at all."""
        if self.count and not self._hit:
            there = ", ".join(sorted(self._seen)[:SHOWN]) or "none"
            raise DataError(
                f"{self.file}: no unit has both {' and '.join(self._wanted)}; its languages are {there}: "
                "check languages"
            )

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """A unit, its variant, a segment or markup in it begins."""
        if name == "tu":
            self._variants, self._unit_size = [], 0
        elif name == "tuv":
            self._language = (attributes.get("xml:lang") or attributes.get("lang") or "")[:LONGEST_CODE]
            if len(self._seen) < LONGEST_LINE >> 8:
                self._seen[self._language] = None
        elif name == "seg":
            self._text, self._size, self._codes = [], 0, 0
        elif self._text is not None and name in CODES:
            self._codes += 1

    def characters(self, text: str) -> None:
        """Kept within a segment, but for markup."""
        if self._text is not None and not self._codes:
            self._size += len(text)
            self._unit_size += len(text)
            if self._size <= LONGEST_LINE and self._unit_size <= LONGEST_UNIT:
                self._text.append(text)

    def end(self, name: str) -> None:
        """A segment or unit is whole."""
        if name == "seg" and self._text is not None:
            fits = self._size <= LONGEST_LINE and self._unit_size <= LONGEST_UNIT
            if fits and len(self._variants) < LONGEST_LINE >> 8:
                self._variants.append((self._language, " ".join("".join(self._text).split())))
            self._text = None
        elif name == "tu":
            self._unit()
        elif self._text is not None and name in CODES:
            self._codes -= 1

    def _unit(self) -> None:
        self.count += 1
        sources, targets = (
            [text for language, text in self._variants if language and same_language(language, wanted)]
            for wanted in self._wanted
        )
        self._variants = []
        if not sources or not targets:
            self.ready.append((self.count, "missing language"))
            return
        self._hit = True
        self.ready.append((self.count, (sources[0], *targets)))
