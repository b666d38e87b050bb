"""Where the texts of a Markdown document stand: paragraphs, headings and cells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from uwaga.documents.markdown_parser import MarkdownParser

if TYPE_CHECKING:
    from markdown_it.token import Token


BlockKind = Literal["paragraph", "heading", "cell", "html"]


class TextBlock(NamedTuple):
    """A text of a document.

    ``start`` and ``end`` are its place; ``content`` is what it says in Markdown, without what stands before
    its lines; ``between`` is what stands between its first two lines, the line break included; ``width`` the
    widest line of the document's that it fills, 0 of a text in one line.
    """

    kind: BlockKind
    start: int
    end: int
    content: str
    between: str
    width: int


def text_blocks(parser: MarkdownParser, text: str) -> Iterator[TextBlock]:
    """The texts of a document, in its order. What cannot be placed with certainty is left alone."""
    lines = _rejoined(text.splitlines(keepends=True))
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    kind: BlockKind = "paragraph"
    at = 0
    for token in parser.blocks(text):
        if token.type == "heading_open":
            kind = "heading"
        elif token.type == "paragraph_open":
            kind = "paragraph"
        elif token.type in ("th_open", "td_open"):
            kind = "cell"
        elif token.type == "html_block" and token.level == 0 and token.map:
            first, last = token.map
            yield TextBlock("html", starts[first], starts[min(last, len(lines))], "", "", 0)
            at = starts[min(last, len(lines))]
        elif token.type == "inline" and token.map and token.content:
            found = _placed(token, kind, lines, starts, at)
            if found is not None:
                yield found
                at = found.end


def _rejoined(lines: list[str]) -> list[str]:
    """Lines as Markdown has them: only LF, CR and CRLF end one."""
    made: list[str] = []
    for line in lines:
        if made and not made[-1].endswith(("\n", "\r")):
            made[-1] += line
        else:
            made.append(line)
    return made


def _placed(token: Token, kind: BlockKind, lines: list[str], starts: list[int], at: int) -> TextBlock | None:
    assert token.map is not None
    first = token.map[0]
    contents = token.content.split("\n")
    if first + len(contents) > len(lines):
        return None
    places: list[tuple[int, int]] = []
    for number, content in enumerate(contents, start=first):
        line = lines[number]
        if kind == "cell":
            content = content.replace("|", "\\|")  # a bar inside a cell is escaped in its line
        begin = _find(line, content.strip(), kind, max(0, at - starts[number]))
        if begin is None:
            return None
        places.append((starts[number] + begin, starts[number] + begin + len(content.strip())))
    between = ""
    if len(places) > 1:
        first_end, second_start = places[0][1], places[1][0]
        line = lines[first]
        tail = line[first_end - starts[first] :]
        between = tail[len(tail.rstrip("\r\n")) :] + lines[first + 1][: second_start - starts[first + 1]]
    width = max(len(lines[number].rstrip("\r\n")) for number in range(first, first + len(contents)))
    return TextBlock(
        kind, places[0][0], places[-1][1], token.content, between, width if len(places) > 1 else 0
    )


def _find(line: str, content: str, kind: BlockKind, at: int) -> int | None:
    """Where a text begins in its line."""
    if not content:
        return len(line.rstrip())
    if kind == "cell":
        begin = line.find(content, at)
        return None if begin < 0 else begin
    bare = line.rstrip()
    if kind == "heading" and not bare.endswith(content):
        bare = bare.rstrip("#").rstrip()
    begin = len(bare) - len(content)
    return begin if begin >= 0 and bare.endswith(content) and begin >= at else None
