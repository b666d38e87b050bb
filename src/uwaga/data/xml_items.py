"""XML files that are lists of items (units of TMX, entries of TBX), read as a stream.

Expat reads them. Entities of the file's own are refused and nothing outside it is fetched, so that its
content cannot grow beyond the file (a document type is allowed: most files name one, which is not read).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Generic, TypeVar
from xml.parsers import expat

from uwaga.errors import DataError, shown
from uwaga.files.lines import damage, open_bytes

BLOCK = 1 << 16  # bytes; at most the items of one are held
LONGEST_MARKUP = 1 << 24  # bytes; a tag or comment beyond it would be held whole
DEEPEST = 256  # elements within each other
LONGEST_NAME = 40  # characters of the root's in a message

Item = TypeVar("Item")


class XmlItems(ABC, Generic[Item]):
    """What expat has told of a file so far: the items that are whole, and in a subclass the one that is open.

    Attributes:
        file: its name, for messages.
        ready: the items that are whole and not given out yet.
    """

    kind: ClassVar[str]
    """The format's name, for messages."""
    roots: ClassVar[frozenset[str]]
    """What the first element may be."""

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self.file = str(path)
        self.ready: deque[Item] = deque()
        self._depth = self._fed = 0
        self._parser = expat.ParserCreate()
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self.characters
        self._parser.EntityDeclHandler = self._entity
        self._parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)

    @abstractmethod
    def start(self, name: str, attributes: dict[str, str]) -> None:
        """An element begins."""

    @abstractmethod
    def end(self, name: str) -> None:
        """An element ends."""

    @abstractmethod
    def characters(self, text: str) -> None:
        """Text between tags."""

    @abstractmethod
    def reached(self) -> str:
        """How far the file was read, for messages: ``after ...``."""

    @abstractmethod
    def not_whole(self, what: str, line: int) -> DataError:
        """To be raised where the file is broken at a line."""

    @abstractmethod
    def too_deep(self, what: str, line: int) -> DataError:
        """To be raised where elements are nested beyond measure."""

    @property
    def line(self) -> int:
        """Where the parser is."""
        return self._parser.CurrentLineNumber

    def read(self) -> Iterator[Item]:
        """All items of the file.

        Raises:
            DataError: missing, damaged, of another kind, or one that declares entities.
        """
        with open_bytes(self._path) as content:
            while True:
                try:
                    block = content.read(BLOCK)
                except DataError:
                    raise
                except Exception as error:
                    raise damage(self._path, error, self.reached()) from None
                self._feed(block)
                while self.ready:
                    yield self.ready.popleft()
                if not block:
                    break

    def _feed(self, block: bytes) -> None:
        try:
            self._parser.Parse(block, not block)
        except expat.ExpatError as error:
            raise self.not_whole(expat.ErrorString(error.code), error.lineno) from None
        self._fed += len(block)
        if self._fed - self._parser.CurrentByteIndex > LONGEST_MARKUP:
            raise self.not_whole(f"a tag or comment of more than {LONGEST_MARKUP >> 20} MiB", self.line)

    def _entity(self, name: str, *_: object) -> None:
        raise DataError(
            f"{self.file}: declares the entity {shown(name)}, which {self.kind} has no need of and which "
            "could make it grow without bound; take the declaration out"
        )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 1 and name not in self.roots:
            raise DataError(f"{self.file}: not a {self.kind} file: its root is <{name[:LONGEST_NAME]}>")
        if self._depth > DEEPEST:
            raise self.too_deep(f"{self._depth} elements within each other", self.line)
        self.start(name, attributes)

    def _end(self, name: str) -> None:
        self._depth -= 1
        self.end(name)
