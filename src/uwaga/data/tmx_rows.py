"""Pairs of a TMX file (Translation Memory eXchange 1.4b), a unit at a time.

Expat reads it as a stream. Entities of the file's own are refused and nothing outside it is fetched, so that
its content cannot grow beyond the file (a document type is allowed: most files name one, which is not read).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from xml.parsers import expat

from uwaga.data.columns import Placed
from uwaga.data.lines import LONGEST_LINE, damage, open_bytes
from uwaga.errors import DataError
from uwaga.settings import CorpusSettings
from uwaga.text.language_codes import same_language

BLOCK = 1 << 16  # bytes; at most the units of one are held
CODES = frozenset({"bpt", "ept", "it", "ph", "ut", "sub"})
"""Elements of a segment whose content is the markup of another format, not text."""
SHOWN = 10  # languages in a message
LONGEST_MARKUP = 1 << 24  # bytes; a tag or comment beyond it would be held whole
LONGEST_CODE = 64  # characters of a language's code
LONGEST_UNIT = 1 << 23  # characters
DEEPEST = 256  # elements within each other


def tmx_rows(file: str, corpus: CorpusSettings) -> Iterator[Placed]:
    """The pairs of a TMX file; units are numbered from 1, further variants of the target are references.

    Raises:
        DataError: missing, damaged, no TMX file, one that declares entities, or without the two languages.
    """
    units = _Units(file, corpus.languages or ("src", "tgt"))
    with open_bytes(file) as content:
        while True:
            try:
                block = content.read(BLOCK)
            except Exception as error:
                if isinstance(error, DataError):
                    raise
                raise damage(file, error, f"after unit {units.count}") from None
            units.feed(block)
            while units.ready:
                yield units.ready.popleft()
            if not block:
                break
    units.check()


class _Units:
    """What expat has told so far: the units that are whole, and the one that is open."""

    def __init__(self, file: str, languages: tuple[str, str]) -> None:
        self._file = file
        self._wanted = languages
        self.ready: deque[Placed] = deque()
        self.count = 0
        self._seen: dict[str, None] = {}
        self._hit = False
        self._root = False
        self._variants: list[tuple[str, str]] = []
        self._language = ""
        self._text: list[str] | None = None  # of the segment that is open
        self._size = 0
        self._codes = 0  # how many elements of markup are open
        self._depth = 0
        self._unit_size = 0
        self._fed = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._characters
        self._parser.EntityDeclHandler = self._entity
        self._parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)

    def feed(self, block: bytes) -> None:
        """Parse the next bytes; none are the end."""
        try:
            self._parser.Parse(block, not block)
        except expat.ExpatError as error:
            raise DataError(
                f"{self._file}: not a whole TMX file: {expat.ErrorString(error.code)} in line "
                f"{error.lineno}, after unit {self.count}; fetch it again"
            ) from None
        self._fed += len(block)
        if self._fed - self._parser.CurrentByteIndex > LONGEST_MARKUP:
            raise DataError(
                f"{self._file}: not a whole TMX file: a tag or comment of more than "
                f"{LONGEST_MARKUP >> 20} MiB in line {self._parser.CurrentLineNumber}, after unit "
                f"{self.count}; fetch it again"
            )

    def check(self) -> None:
        """Refuse a file that has no pair of the two languages at all."""
        if self.count and not self._hit:
            there = ", ".join(sorted(self._seen)[:SHOWN]) or "none"
            raise DataError(
                f"{self._file}: no unit has both {' and '.join(self._wanted)}; its languages are {there}: "
                "check languages"
            )

    def _entity(self, name: str, *_: object) -> None:
        raise DataError(
            f"{self._file}: declares the entity {name[:SHOWN]!r}, which TMX has no need of and which could "
            "make it grow without bound; take the declaration out"
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if not self._root:
            self._root = True
            if name != "tmx":
                raise DataError(f"{self._file}: not a TMX file: its root is <{name[:SHOWN]}>")
        self._depth += 1
        if self._depth > DEEPEST:
            raise DataError(
                f"{self._file}: not a TMX file: {self._depth} elements within each other in line "
                f"{self._parser.CurrentLineNumber}, after unit {self.count}"
            )
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

    def _characters(self, text: str) -> None:
        if self._text is not None and not self._codes:
            self._size += len(text)
            self._unit_size += len(text)
            if self._size <= LONGEST_LINE and self._unit_size <= LONGEST_UNIT:
                self._text.append(text)

    def _end(self, name: str) -> None:
        self._depth -= 1
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
