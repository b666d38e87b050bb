"""Markdown (CommonMark with tables and strikethrough): paragraphs, headings and cells as texts with tags.

markdown-it-py reads it. Footnotes, formulas between dollar signs and emoji names, which CommonMark takes for
text, are untranslated. What is written is read again, to make sure that it means the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from uwaga.errors import MissingExtraError
from uwaga.markup import Inline, Tag
from uwaga.markup.html import html_pieces
from uwaga.markup.inline import joined
from uwaga.markup.units import Fragment, Piece, balanced, text_unit
from uwaga.markup.wrapping import fill

if TYPE_CHECKING:
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token


class MarkdownParser:
    """A parser that remembers how links, images and code are written."""

    def __init__(self) -> None:
        try:
            from markdown_it import MarkdownIt
            from markdown_it.rules_inline import autolink, backtick, image, link
        except ImportError:
            raise MissingExtraError(
                "Markdown is read with markdown-it-py: pip install 'uwaga[documents]'"
            ) from None
        self._parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        self._parser.inline.ruler2.disable("fragments_join")
        ruler = self._parser.inline.ruler
        rules = {"backticks": backtick, "link": link, "image": image, "autolink": autolink}
        for name, rule in rules.items():
            ruler.at(name, _remembering(rule))
        ruler.before("escape", "untranslated", _untranslated)
        self._env: dict[str, Any] = {}

    def blocks(self, text: str) -> Sequence[Token]:
        """Return the blocks of a document, and remember the definitions of its links."""
        self._env = {}
        self._parser.disable("inline", True)
        try:
            return self._parser.parse(text, self._env)
        finally:
            self._parser.enable("inline", True)

    def inline(self, content: str) -> Sequence[Token]:
        """Return the tokens of the text of a block."""
        tokens = self._parser.parseInline(content, self._env)
        return tokens[0].children or []

    def is_paragraph(self, content: str) -> bool:
        """Return whether a text is one paragraph and nothing else."""
        env = dict(self._env)
        self._parser.disable("inline", True)
        try:
            tokens = self._parser.parse(content, env)
        finally:
            self._parser.enable("inline", True)
        return [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]


def _remembering(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """Return a rule that stores with each token how it is written."""

    def run(state: StateInline, silent: bool) -> bool:
        start, count = state.pos, len(state.tokens)
        pending = bool(state.pending)
        if not rule(state, silent):
            return False
        if silent:
            return True
        own = state.tokens[count + (1 if pending and len(state.tokens) > count else 0) :]
        if own:
            own[0].meta = {**own[0].meta, "raw": state.src[start : state.pos]}
            if own[0].type == "link_open" and own[0].markup != "autolink":
                from markdown_it.helpers import parseLinkLabel

                here = state.pos
                state.pos = start
                end = parseLinkLabel(state, start, True)
                state.pos = here
                own[-1].meta = {"raw": _link_end(state.src[start + 1 : end], state.src[end:here])}
        return True

    return run


def _link_end(label: str, end: str) -> str:
    """Return the end of a link; one defined by its own text gets a label, as that text will change."""
    return f"][{label}]" if end in ("]", "][]") else end


def _untranslated(state: StateInline, silent: bool) -> bool:
    """Read a footnote, a formula or the name of an emoji, which is no markup in CommonMark."""
    pattern = UNTRANSLATED.get(state.src[state.pos])
    match = pattern.match(state.src, state.pos) if pattern is not None else None
    if match is None:
        return False
    if not silent:
        token = state.push("untranslated", "", 0)
        token.content = match[0]
    state.pos = match.end()
    return True


BlockKind = Literal["paragraph", "heading", "cell", "html"]


class TextBlock(NamedTuple):
    """The text of a block.

    Attributes:
        kind: its kind; ``html`` is a block of HTML.
        start: where it begins in the document.
        end: where it ends.
        content: the text in Markdown, without what precedes its lines, such as ``> ``.
        between: the characters between its first two lines, line break included.
        width: the length of its longest line, 0 for a text of one line.
    """

    kind: BlockKind
    start: int
    end: int
    content: str
    between: str
    width: int


def read_markdown(text: str) -> Fragment:
    """Read a string of Markdown."""
    return Fragment(tuple(markdown_pieces(text)))


def markdown_pieces(text: str) -> Iterator[Piece]:
    """Yield the pieces of a document without front matter."""
    parser = MarkdownParser()
    at = 0
    for block in text_blocks(parser, text):
        yield text[at : block.start]
        if block.kind == "html":
            yield from html_pieces(text[block.start : block.end])
        else:
            yield _unit(parser, text[block.start : block.end], block)
        at = block.end
    yield text[at:]


def _unit(parser: MarkdownParser, raw: str, block: TextBlock) -> Piece:
    return text_unit(raw, _inline(parser, block.content), lambda made: write_block(parser, block, made))


def text_blocks(parser: MarkdownParser, text: str) -> Iterator[TextBlock]:
    """Yield the texts of a document, in order. A text whose place is uncertain is left out."""
    lines = LINE.findall(text)  # for Markdown, only LF, CR and CRLF end a line
    starts = [0, *accumulate(map(len, lines))]
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
            first, last = (min(number, len(lines)) for number in token.map)
            yield TextBlock("html", starts[first], starts[last], "", "", 0)
            at = starts[last]
        elif token.type == "inline" and token.map and token.content:
            contents = token.content.split("\n")
            for number, part in _definitions(contents) if kind == "paragraph" else [(0, contents)]:
                block = _placed(part, token.map[0] + number, kind, lines, starts, at)
                if block is not None:
                    yield block
                    at = block.end


def _definitions(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the terms and definitions of a definition list, with the numbers of their first lines.

    Any other paragraph is yielded as it is.
    """
    marks = [DEFINITION.match(line) for line in lines]
    if marks[0] is not None or not any(marks):
        yield 0, lines
        return
    first = 0
    for number in range(1, len(lines) + 1):
        mark = marks[first]
        if mark is not None and number < len(lines) and marks[number] is None:
            continue  # the definition goes on
        yield first, [lines[first][mark.end() :] if mark else lines[first], *lines[first + 1 : number]]
        first = number


def _placed(
    contents: Sequence[str], first: int, kind: BlockKind, lines: list[str], starts: list[int], at: int
) -> TextBlock | None:
    """Find a text in the lines of the document; None where its place is uncertain."""
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
        kind, places[0][0], places[-1][1], "\n".join(contents), between, width if len(places) > 1 else 0
    )


def _find(line: str, content: str, kind: BlockKind, at: int) -> int | None:
    """Return where a text begins in its line."""
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


SPECIAL = re.compile(r"([\\`*_\[\]<>&~|$:])")
LEADING = re.compile(r"^([ \t]*)(?:([-+#>=~:|])|(\d{1,9})([.)]))", re.MULTILINE)
CLOSING = re.compile(r"(^|[ \t])(#+[ \t]*)$")
"""What Markdown takes for the end of a heading."""
HTML_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)")
HTML_VOID = frozenset(("br", "hr", "img", "wbr", "input"))
AS_HTML = {"*": "em", "_": "em", "**": "strong", "__": "strong", "~~": "del"}
BLANK = "\x00"
"""Stands for a space inside a tag while lines are filled."""
LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
DEFINITION = re.compile(r":[ \t]+(?=\S)")
UNTRANSLATED = {
    "[": re.compile(r"\A\[\^[^\]\s]{1,100}\]:|\[\^[^\]\s]{1,100}\](?![(\[])"),
    "$": re.compile(r"\$\$[^$]+\$\$|\$(?![\s$])[^$\n]*(?<!\s)\$(?!\w)"),
    ":": re.compile(r"(?<!\w):(?=[a-z0-9_+-]{0,40}[a-z])[a-z0-9_+-]{1,40}:(?!\w)"),
}
"""Footnotes, formulas and names of emoji, by their first character."""


def _inline(parser: MarkdownParser, content: str) -> Inline:
    parts: list[str | Tag] = []
    skipping = 0
    for token in parser.inline(content):
        if skipping:
            skipping -= 1
        elif token.markup == "autolink":
            parts.append(Tag("kept", token.meta["raw"], token.meta["raw"][1:-1]))
            skipping = 2
        else:
            parts.append(_part(token))
    return balanced(joined(parts))


def _part(token: Token) -> str | Tag:
    if token.type in ("text", "text_special"):
        return token.content
    if token.type == "softbreak":
        return " "
    if token.type == "hardbreak":
        return Tag("void", "\\\n", "\n")
    if token.type == "untranslated":
        definition = token.content.endswith("]:")
        return Tag("void", token.content) if definition else Tag("kept", token.content, token.content)
    if token.type in ("code_inline", "image"):
        return Tag("kept" if token.type == "code_inline" else "void", token.meta["raw"], token.content)
    if token.type == "html_inline":
        found = HTML_TAG.match(token.content)
        if found is None or found[2].lower() in HTML_VOID or token.content.endswith("/>"):
            return Tag("void", token.content)
        return Tag("close" if found[1] else "open", token.content)
    if token.type == "link_open":
        return Tag("open", "[")
    if token.type == "link_close":
        return Tag("close", token.meta["raw"])
    return Tag("open" if token.nesting > 0 else "close", token.markup)


def write_block(parser: MarkdownParser, block: TextBlock, made: Inline) -> str:
    """Write a text in the place of a block.

    It is written without escapes, then with escapes, then with tags of HTML instead of emphasis, until it is
    read as the same text.
    """
    text = ""
    for parts, escaped in ((made, False), (made, True), (_as_stars(made), True), (_as_html(made), True)):
        text = _laid(parts, block, escaped)
        if block.kind == "paragraph" and not parser.is_paragraph(text):
            text = LEADING.sub(_escape_leading, text)
        if block.kind == "heading":
            text = CLOSING.sub(r"\1\\\2", text)
        whole = block.kind != "paragraph" or parser.is_paragraph(text)
        if whole and _says(parser, text, parts):
            break
    if block.kind == "cell":
        text = re.sub(r"(?<!\\)\|", r"\\|", text)
    return text.replace("\n", block.between) if block.between else text


def _laid(parts: Inline, block: TextBlock, escaped: bool) -> str:
    """Lay out a text in lines as wide as those of the block, or in one line if the block has one."""
    written = []
    for part in parts:
        if isinstance(part, str):
            text = " ".join(part.split("\n"))
            written.append(SPECIAL.sub(r"\\\1", text) if escaped else text)
        else:
            written.append(part.raw.replace(" ", BLANK))
    whole = "".join(written)
    if not block.width:
        return whole.replace("\\\n", "<br>").replace(BLANK, " ")
    width = max(block.width - len(block.between.lstrip("\r\n")), 20)
    lines = [line for hard in whole.split("\n") for line in fill(hard.split(" "), width)]
    return "\n".join(line.strip(" ") for line in lines).replace(BLANK, " ")


def _escape_leading(found: re.Match[str]) -> str:
    space, sign, number, end = found.groups()
    return f"{space}\\{sign}" if sign else f"{space}{number}\\{end}"


def _says(parser: MarkdownParser, text: str, wanted: Inline) -> bool:
    """Return whether a text is read as these parts; runs of spaces count as one."""
    return _flat(_inline(parser, text)) == _flat(wanted)


def _flat(inline: Inline) -> list[str]:
    parts = [part if isinstance(part, str) else f"\x01{_kept(part)}\x01" for part in inline]
    return "".join(parts).split()


def _kept(tag: Tag) -> str:
    return " ".join(tag.raw.split()) if tag.raw != "<br>" else "\\"


def _as_stars(inline: Inline) -> Inline:
    """Write emphasis with asterisks, which may stand inside words."""
    stars = {"_": "*", "__": "**"}
    return tuple(
        Tag(part.kind, stars.get(part.raw, part.raw), part.text) if isinstance(part, Tag) else part
        for part in inline
    )


def _as_html(inline: Inline) -> Inline:
    """Write emphasis with tags of HTML, which may stand anywhere."""
    made: list[str | Tag] = []
    for part in inline:
        if isinstance(part, Tag) and part.raw in AS_HTML and part.kind in ("open", "close"):
            slash = "/" if part.kind == "close" else ""
            made.append(Tag(part.kind, f"<{slash}{AS_HTML[part.raw]}>"))
        else:
            made.append(part)
    return tuple(made)
