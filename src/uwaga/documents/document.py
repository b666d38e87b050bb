"""What every document is read into: text that stays as it is, and units of text to translate."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from uwaga.markup import Inline, Tag

Write = Callable[[Sequence[Inline]], str]
"""How the format writes what became of a unit's texts, in their order."""


@dataclass(frozen=True)
class Unit:
    """Texts that stand in one place of a document and are written there together.

    Attributes:
        inlines: the texts, in the order of the document.
        write: gives what stands there when they are translated.
        raw: what stands there now, and stays where the translations are the texts; None where the
            translation stands beside its source, and is written even if it is equal.
    """

    inlines: tuple[Inline, ...]
    write: Write
    raw: str | None = None


Piece = str | Unit
"""A stretch of a document: what is copied, or what is translated."""


@dataclass(frozen=True)
class DocumentOptions:
    """What a user may say of a document beside its languages.

    Attributes:
        encoding: of a text file, where it does not say so itself; None for UTF-8.
        keys: of messages in JSON and YAML: those to translate, none for all. ``title`` is every key of that
            name, ``menu.file.*`` a path, where ``*`` stands for any key.
        columns: of CSV and TSV: the names of those to translate.
        retranslate: of PO and XLIFF: translate also what has a translation.
        source: the language of the document, if it is known.
        target: the language that it is translated to, if it is known.
    """

    encoding: str | None = None
    keys: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    retranslate: bool = False
    source: str | None = None
    target: str | None = None


@dataclass(frozen=True)
class DocumentSource:
    """A document as it lies in its file, or one member of an archive.

    Attributes:
        name: for messages.
        content: its bytes.
        options: what the user says of it.
    """

    name: str
    content: bytes
    options: DocumentOptions = field(default_factory=DocumentOptions)


@dataclass(frozen=True)
class Reading:
    """A document taken apart.

    Attributes:
        pieces: give, one after the other, the whole document; units are made when they are asked for.
        encoding: turns text into the document's bytes.
        errors: what becomes of a character that the encoding lacks: ``xmlcharrefreplace`` where the format
            can write it by its number, else ``strict``.
        mark: the bytes that stand before all text.
    """

    pieces: Iterable[Piece]
    encoding: str = "utf-8"
    errors: str = "strict"
    mark: bytes = b""

    def encoder(self) -> codecs.IncrementalEncoder:
        """What turns pieces into bytes, one after the other."""
        return codecs.getincrementalencoder(self.encoding)(self.errors)


Reader = Callable[[DocumentSource], Reading]


def translatable(inline: Inline) -> bool:
    """Whether there is a letter in it that a model may translate."""
    return any(isinstance(part, str) and any(map(str.isalpha, part)) for part in inline)


def joined(parts: Iterable[str | Tag]) -> Inline:
    """An inline of these parts: neighbours of text become one, empty ones none."""
    made: list[str | Tag] = []
    for part in parts:
        if isinstance(part, str) and made and isinstance(made[-1], str):
            made[-1] += part
        elif part != "":
            made.append(part)
    return tuple(made)


def trimmed(inline: Inline) -> tuple[str, Inline, str]:
    """The spaces before a text, the text, and the spaces behind it."""
    parts = list(inline)
    before = after = ""
    if parts and isinstance(parts[0], str):
        bare = parts[0].lstrip()
        before, parts[0] = parts[0][: len(parts[0]) - len(bare)], bare
    if parts and isinstance(parts[-1], str):
        bare = parts[-1].rstrip()
        after, parts[-1] = parts[-1][len(bare) :], bare
    return before, joined(parts), after


def peeled(inline: Inline) -> tuple[Inline, Inline, Inline]:
    """What stands before a text, the text, and what stands behind it: spaces, tags that stand alone, and
    pairs of tags around the whole of it.
    """
    before: list[str | Tag] = []
    after: list[str | Tag] = []
    ends = _pairs(inline)
    low, high = 0, len(inline)
    while low < high:
        first, last = inline[low], inline[high - 1]
        if _stands_alone(first):
            before.append(first)
            low += 1
        elif _stands_alone(last):
            after.append(last)
            high -= 1
        elif ends.get(low) == high - 1:
            before.append(first)
            after.append(last)
            low, high = low + 1, high - 1
        else:
            break
    start, core, end = trimmed(inline[low:high])
    return joined((*before, start)), core, joined((end, *reversed(after)))


def _stands_alone(part: str | Tag) -> bool:
    return part.isspace() if isinstance(part, str) else part.kind == "void"


def _pairs(inline: Inline) -> dict[int, int]:
    """Where each opening tag is ended."""
    opened: list[int] = []
    found: dict[int, int] = {}
    for at, part in enumerate(inline):
        if isinstance(part, Tag) and part.kind == "open":
            opened.append(at)
        elif isinstance(part, Tag) and part.kind == "close" and opened:
            found[opened.pop()] = at
    return found


def balanced(inline: Inline) -> Inline:
    """The same tags, where an opening one that nothing ends, or an end that nothing began, stands alone."""
    pairs = _pairs(inline)
    kinds = {*pairs, *pairs.values()}
    return tuple(
        Tag("void", part.raw, part.text)
        if isinstance(part, Tag) and part.kind in ("open", "close") and at not in kinds
        else part
        for at, part in enumerate(inline)
    )


def text_unit(raw: str, inline: Inline, write: Callable[[Inline], str]) -> Piece:
    """A unit of one text, whose outer spaces and tags stay; what has no letter is copied.

    Args:
        raw: how it stands in the document.
        inline: what it says.
        write: how the format writes an inline.
    """
    before, core, after = peeled(inline)
    if not translatable(core):
        return raw
    return Unit((core,), lambda made: write(joined((*before, *made[0], *after))), raw)


def nested_unit(
    raw: str,
    inline: Inline,
    inner: Mapping[str, Sequence[Piece]],
    write: Callable[[Inline], str],
) -> Piece:
    """As :func:`text_unit`, where tags hold texts of their own, such as the title of a link.

    Args:
        raw: how it stands in the document.
        inline: what it says.
        inner: by how a tag is written, the pieces of which that consists.
        write: how the format writes an inline.
    """
    if not inner:
        return text_unit(raw, inline, write)
    before, core, after = peeled(inline)
    main = (core,) if translatable(core) else ()
    units = {key: [one for one in pieces if isinstance(one, Unit)] for key, pieces in inner.items()}
    inlines = (*main, *(text for own in units.values() for unit in own for text in unit.inlines))
    if not inlines:
        return raw

    def put(made: Sequence[Inline]) -> str:
        body = made[0] if main else core
        rest = iter(made[len(main) :])
        written = {key: "".join(_written(pieces, rest)) for key, pieces in inner.items()}
        parts = (
            Tag(part.kind, written.get(part.raw, part.raw), part.text) if isinstance(part, Tag) else part
            for part in (*before, *body, *after)
        )
        return write(joined(parts))

    return Unit(inlines, put, raw)


def _written(pieces: Iterable[Piece], made: Iterator[Inline]) -> Iterator[str]:
    for piece in pieces:
        if isinstance(piece, str):
            yield piece
        else:
            yield written(piece, [next(made) for _ in piece.inlines])


def written(unit: Unit, made: Sequence[Inline]) -> str:
    """What stands in a unit's place when its texts have become these; as it was where they are the same."""
    if unit.raw is not None and tuple(made) == unit.inlines:
        return unit.raw
    return unit.write(made)
