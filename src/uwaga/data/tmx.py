"""Streaming readers of XML files that consist of a list of items (units of TMX, entries of TBX).

The files are untrusted, and parsed by Expat. Entity declarations are rejected and external files are never
read, so the content cannot expand (a document type declaration is allowed but ignored).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Generic, TypeVar
from xml.parsers import expat

from uwaga.data.columns import NumberedRow
from uwaga.errors import DataError, quoted
from uwaga.files.lines import MAX_LINE_LENGTH, damage_error, open_bytes
from uwaga.languages.codes import SCRIPT_LETTERS, SEPARATOR, base_language
from uwaga.settings import CorpusSettings

BLOCK_BYTES = 1 << 16  # at most the items of one block are in memory
MAX_MARKUP_BYTES = 1 << 24  # maximum size of a tag or comment, which Expat keeps in memory
MAX_DEPTH = 256  # maximum number of nested elements
MAX_NAME_LENGTH = 40  # maximum number of characters of the root element's name in a message

Item = TypeVar("Item")


class XmlItems(ABC, Generic[Item]):
    """Reads the items of a file; subclasses build the items.

    Attributes:
        file: name of the file, for messages.
        ready: complete items that have not been yielded yet.
    """

    kind: ClassVar[str]
    """Name of the format, for messages."""
    roots: ClassVar[frozenset[str]]
    """Allowed root elements."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self.file = str(path)
        self.ready: deque[Item] = deque()
        self._depth = self.parsed_bytes = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self.characters
        self._parser.EntityDeclHandler = self._entity
        self._parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)

    @abstractmethod
    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Handle a start tag."""

    @abstractmethod
    def end(self, name: str) -> None:
        """Handle an end tag."""

    @abstractmethod
    def characters(self, text: str) -> None:
        """Handle text between tags."""

    @abstractmethod
    def progress(self) -> str:
        """Return the position that the parser has reached, for messages: ``after ...``."""

    @abstractmethod
    def damage_error(self, problem: str, line: int) -> DataError:
        """Return the error to raise for a file that is damaged in the given line."""

    @abstractmethod
    def depth_error(self, problem: str, line: int) -> DataError:
        """Return the error to raise for a file whose elements are nested too deeply in the given line."""

    @property
    def line(self) -> int:
        """The number of the line that the parser has reached."""
        return self._parser.CurrentLineNumber

    def read(self) -> Iterator[Item]:
        """Yield all items of the file."""
        with open_bytes(self._path) as content:
            while True:
                try:
                    block = content.read(BLOCK_BYTES)
                except DataError:
                    raise
                except Exception as error:
                    raise damage_error(self._path, error, self.progress()) from None
                self._feed(block)
                while self.ready:
                    yield self.ready.popleft()
                if not block:
                    break

    def _feed(self, block: bytes) -> None:
        try:
            self._parser.Parse(block, not block)
        except expat.ExpatError as error:
            raise self.damage_error(expat.ErrorString(error.code), error.lineno) from None
        self.parsed_bytes += len(block)
        if self.parsed_bytes - self._parser.CurrentByteIndex > MAX_MARKUP_BYTES:
            raise self.damage_error(f"a tag or comment of more than {MAX_MARKUP_BYTES >> 20} MiB", self.line)

    def _entity(self, name: str, *_: object) -> None:
        raise DataError(
            f"{self.file}: declares the entity {quoted(name)}, which {self.kind} does not need and which "
            "could expand without bound; remove the declaration"
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 1 and name not in self.roots:
            raise DataError(f"{self.file}: not a {self.kind} file: its root is <{name[:MAX_NAME_LENGTH]}>")
        if self._depth > MAX_DEPTH:
            raise self.depth_error(f"{self._depth} nested elements", self.line)
        self.start(name, attributes)

    def _end(self, name: str) -> None:
        self._depth -= 1
        self.end(name)


MARKUP_ELEMENTS = frozenset({"bpt", "ept", "it", "ph", "ut", "sub"})
"""Elements of a segment that contain native markup of a document instead of text."""
USUAL_SCRIPTS = {"zh": "hans", "sr": "cyrl", "uz": "latn", "az": "latn", "pa": "guru"}
"""Usual scripts of languages written in several scripts, for codes that do not name a script."""
MAX_LISTED_LANGUAGES = 10  # number of languages listed in a message
MAX_CODE_LENGTH = 64  # maximum number of characters of a language's code
MAX_UNIT_LENGTH = 1 << 23  # maximum number of characters of all variants of a unit together


def nearest_variants(variants: Sequence[tuple[str, str]], requested_language: str) -> list[str]:
    """Return the texts whose language best matches the requested one, in their original order.

    A variant in another script does not match. The best match is a variant of the requested region, then one
    without a region, then one of another region; only variants with the best match are returned. If no region
    is requested, variants of all regions match equally well, but those in the usual script are preferred.
    """
    ranked: list[tuple[int, str]] = []
    script, region = _script_and_region(requested_language)
    for language, text in variants:
        if not language or base_language(language) != base_language(requested_language):
            continue
        variant_script, variant_region = _script_and_region(language)
        if script and variant_script and script != variant_script:
            continue
        rank = 0 if region == variant_region else 1 if not variant_region else 2
        if not region:
            rank = int(
                bool(variant_script)
                and variant_script
                != (script or USUAL_SCRIPTS.get(base_language(requested_language), variant_script))
            )
        ranked.append((rank, text))
    best_rank = min((rank for rank, _ in ranked), default=0)
    return [text for rank, text in ranked if rank == best_rank]


def _script_and_region(code: str) -> tuple[str, str]:
    """Return the script and region of a code, each empty if unknown; a region of Chinese implies a script."""
    language, *subtags = SEPARATOR.split(code.lower())
    script = next((subtag for subtag in subtags if len(subtag) == SCRIPT_LETTERS and subtag.isalpha()), "")
    regions = (subtag for subtag in subtags if len(subtag) == 2 or (len(subtag) == 3 and subtag.isdigit()))
    region = next((subtag for subtag in regions if subtag != "xx"), "")
    if base_language(language) == "zh" and not script and region:
        script = "hant" if region in ("tw", "hk", "mo") else "hans"
    return script, region


def tmx_rows(file: str, corpus: CorpusSettings) -> Iterator[NumberedRow]:
    """Yield the pairs of a TMX file, numbered by unit from 1; further target variants are references."""
    reader = _UnitReader(file, corpus.languages or ("src", "tgt"))
    yield from reader.read()
    reader.check()


class _UnitReader(XmlItems[NumberedRow]):
    """Reads the translation units of a TMX file as numbered rows."""

    kind = "TMX"
    roots = frozenset({"tmx"})

    def __init__(self, file: str, languages: tuple[str, str]) -> None:
        super().__init__(file)
        self._languages = languages
        self.count = 0
        self._file_languages: dict[str, None] = {}
        self._has_pair = False
        self._variants: list[tuple[str, str]] = []
        self._language = ""
        self._text: list[str] | None = None  # of the open segment
        self._segment_size = 0
        self._open_markup = 0  # number of open markup elements
        self._unit_size = 0

    def progress(self) -> str:
        """Return the number of the last complete unit, as in ``after unit 3``."""
        return f"after unit {self.count}"

    def damage_error(self, problem: str, line: int) -> DataError:
        """Return the error for a damaged file; its message gives the number of the last complete unit."""
        return DataError(
            f"{self.file}: not a complete TMX file: {problem} in line {line}, {self.progress()}; "
            "fetch it again"
        )

    def depth_error(self, problem: str, line: int) -> DataError:
        """Return the error for elements that are nested too deeply, with the last complete unit."""
        return DataError(f"{self.file}: not a TMX file: {problem} in line {line}, {self.progress()}")

    def check(self) -> None:
        """Raise DataError if the file has units, but none of them has both languages."""
        if self.count and not self._has_pair:
            language_list = ", ".join(sorted(self._file_languages)[:MAX_LISTED_LANGUAGES]) or "none"
            raise DataError(
                f"{self.file}: no unit has both {' and '.join(self._languages)}; the languages of the file "
                f"are {language_list}; check the setting languages"
            )

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Handle the start tag of a unit, a variant, a segment or markup."""
        if name == "tu":
            self._variants, self._unit_size = [], 0
        elif name == "tuv":
            self._language = (attributes.get("xml:lang") or attributes.get("lang") or "")[:MAX_CODE_LENGTH]
            if len(self._file_languages) < MAX_LINE_LENGTH >> 8:
                self._file_languages[self._language] = None
        elif name == "seg":
            self._text, self._segment_size, self._open_markup = [], 0, 0
        elif self._text is not None and name in MARKUP_ELEMENTS:
            self._open_markup += 1

    def characters(self, text: str) -> None:
        """Collect the text of a segment without its markup."""
        if self._text is not None and not self._open_markup:
            self._segment_size += len(text)
            self._unit_size += len(text)
            if self._segment_size <= MAX_LINE_LENGTH and self._unit_size <= MAX_UNIT_LENGTH:
                self._text.append(text)

    def end(self, name: str) -> None:
        """Handle the end tag of a unit, a segment or markup."""
        if name == "seg" and self._text is not None:
            is_short_enough = self._segment_size <= MAX_LINE_LENGTH and self._unit_size <= MAX_UNIT_LENGTH
            if is_short_enough and len(self._variants) < MAX_LINE_LENGTH >> 8:
                self._variants.append((self._language, " ".join("".join(self._text).split())))
            self._text = None
        elif name == "tu":
            self._finish_unit()
        elif self._text is not None and name in MARKUP_ELEMENTS:
            self._open_markup -= 1

    def _finish_unit(self) -> None:
        self.count += 1
        sources, targets = (
            nearest_variants(self._variants, requested_language) for requested_language in self._languages
        )
        self._variants = []
        if not sources or not targets:
            self.ready.append((self.count, "missing language"))
            return
        self._has_pair = True
        self.ready.append((self.count, (sources[0], *targets)))
