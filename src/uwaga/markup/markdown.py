"""Markdown (CommonMark with tables and strikethrough): paragraphs, headings and cells as texts with tags.

It is parsed with markdown-it-py. Footnotes, formulas between dollar signs and emoji names, which are text in
CommonMark, are untranslated. Written Markdown is parsed again to verify that it has the same meaning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from uwaga.errors import MissingExtraError
from uwaga.markup import Inline, Tag
from uwaga.markup.html import html_pieces
from uwaga.markup.inline import join_parts
from uwaga.markup.units import Fragment, Piece, balance_tags, text_unit
from uwaga.markup.wrapping import fill

if TYPE_CHECKING:
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token


class MarkdownParser:
    """A parser that records the source of links, images and code."""

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
            ruler.at(name, _with_raw(rule))
        ruler.before("escape", "untranslated", _untranslated_rule)
        self._env: dict[str, Any] = {}

    def blocks(self, text: str) -> Sequence[Token]:
        """Return the blocks of a document, and record its link definitions."""
        self._env = {}
        self._parser.disable("inline", True)
        try:
            return self._parser.parse(text, self._env)
        finally:
            self._parser.enable("inline", True)

    def inline(self, content: str) -> Sequence[Token]:
        """Return the tokens of a block's text."""
        tokens = self._parser.parseInline(content, self._env)
        return tokens[0].children or []

    def is_paragraph(self, content: str) -> bool:
        """Return whether a text is exactly one paragraph."""
        env = dict(self._env)
        self._parser.disable("inline", True)
        try:
            tokens = self._parser.parse(content, env)
        finally:
            self._parser.enable("inline", True)
        return [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]


def _with_raw(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """Return a rule that stores the source of each token in its ``meta``."""

    def run(state: StateInline, silent: bool) -> bool:
        start, count = state.pos, len(state.tokens)
        pending = bool(state.pending)
        if not rule(state, silent):
            return False
        if silent:
            return True
        tokens = state.tokens[count + (1 if pending and len(state.tokens) > count else 0) :]
        if tokens:
            tokens[0].meta = {**tokens[0].meta, "raw": state.src[start : state.pos]}
            if tokens[0].type == "link_open" and tokens[0].markup != "autolink":
                from markdown_it.helpers import parseLinkLabel

                rule_end = state.pos
                state.pos = start
                end = parseLinkLabel(state, start, True)
                state.pos = rule_end
                tokens[-1].meta = {"raw": _link_end(state.src[start + 1 : end], state.src[end:rule_end])}
        return True

    return run


def _link_end(label: str, end: str) -> str:
    """Return the end of a link; a link defined by its text gets a label, as its text will change."""
    return f"][{label}]" if end in ("]", "][]") else end


def _untranslated_rule(state: StateInline, silent: bool) -> bool:
    """Read a footnote, a formula or the name of an emoji, which are not markup in CommonMark."""
    pattern = UNTRANSLATED_PATTERNS.get(state.src[state.pos])
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
        kind: the kind of block; ``html`` is a block of HTML.
        start: start offset in the document.
        end: end offset.
        content: the text in Markdown, without prefixes of its lines such as ``> ``.
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
    position = 0
    for block in text_blocks(parser, text):
        yield text[position : block.start]
        if block.kind == "html":
            yield from html_pieces(text[block.start : block.end])
        else:
            yield _block_unit(parser, text[block.start : block.end], block)
        position = block.end
    yield text[position:]


def _block_unit(parser: MarkdownParser, raw: str, block: TextBlock) -> Piece:
    return text_unit(raw, _inline(parser, block.content), lambda inline: write_block(parser, block, inline))


def text_blocks(parser: MarkdownParser, text: str) -> Iterator[TextBlock]:
    """Yield the texts of a document, in order, without those whose position is uncertain."""
    lines = LINE.findall(text)  # in Markdown, only LF, CR and CRLF end a line
    starts = [0, *accumulate(map(len, lines))]
    kind: BlockKind = "paragraph"
    position = 0
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
            position = starts[last]
        elif token.type == "inline" and token.map and token.content:
            contents = token.content.split("\n")
            for number, part in _definitions(contents) if kind == "paragraph" else [(0, contents)]:
                block = _locate(part, token.map[0] + number, kind, lines, starts, position)
                if block is not None:
                    yield block
                    position = block.end


def _definitions(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the terms and definitions of a definition list, with the numbers of their first lines.

    Any other paragraph is yielded unchanged.
    """
    marks = [DEFINITION.match(line) for line in lines]
    if marks[0] is not None or not any(marks):
        yield 0, lines
        return
    first = 0
    for number in range(1, len(lines) + 1):
        mark = marks[first]
        if mark is not None and number < len(lines) and marks[number] is None:
            continue  # the definition continues
        yield first, [lines[first][mark.end() :] if mark else lines[first], *lines[first + 1 : number]]
        first = number


def _locate(
    contents: Sequence[str], first: int, kind: BlockKind, lines: list[str], starts: list[int], position: int
) -> TextBlock | None:
    """Return the block of a text in the lines of the document; None if its position is uncertain."""
    if first + len(contents) > len(lines):
        return None
    spans: list[tuple[int, int]] = []
    for number, content in enumerate(contents, start=first):
        line = lines[number]
        if kind == "cell":
            content = content.replace("|", "\\|")  # a bar inside a cell is escaped in its line
        offset = _find_in_line(line, content.strip(), kind, max(0, position - starts[number]))
        if offset is None:
            return None
        spans.append((starts[number] + offset, starts[number] + offset + len(content.strip())))
    between = ""
    if len(spans) > 1:
        first_end, second_start = spans[0][1], spans[1][0]
        line = lines[first]
        tail = line[first_end - starts[first] :]
        between = tail[len(tail.rstrip("\r\n")) :] + lines[first + 1][: second_start - starts[first + 1]]
    width = max(len(lines[number].rstrip("\r\n")) for number in range(first, first + len(contents)))
    return TextBlock(
        kind, spans[0][0], spans[-1][1], "\n".join(contents), between, width if len(spans) > 1 else 0
    )


def _find_in_line(line: str, content: str, kind: BlockKind, position: int) -> int | None:
    """Return the offset of a text in its line, or None."""
    if not content:
        return len(line.rstrip())
    if kind == "cell":
        offset = line.find(content, position)
        return None if offset < 0 else offset
    stripped = line.rstrip()
    if kind == "heading" and not stripped.endswith(content):
        stripped = stripped.rstrip("#").rstrip()
    offset = len(stripped) - len(content)
    return offset if offset >= 0 and stripped.endswith(content) and offset >= position else None


SPECIAL_CHARACTER = re.compile(r"([\\`*_\[\]<>&~|$:])")
BLOCK_MARKER = re.compile(r"^([ \t]*)(?:([-+#>=~:|])|(\d{1,9})([.)]))", re.MULTILINE)
HEADING_END = re.compile(r"(^|[ \t])(#+[ \t]*)$")
"""A closing sequence of a heading."""
HTML_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)")
HTML_VOID = frozenset(("br", "hr", "img", "wbr", "input"))
HTML_EMPHASIS = {"*": "em", "_": "em", "**": "strong", "__": "strong", "~~": "del"}
TAG_SPACE = "\x00"
"""Replaces a space inside a tag while lines are filled."""
LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
DEFINITION = re.compile(r":[ \t]+(?=\S)")
UNTRANSLATED_PATTERNS = {
    "[": re.compile(r"\A\[\^[^\]\s]{1,100}\]:|\[\^[^\]\s]{1,100}\](?![(\[])"),
    "$": re.compile(r"\$\$[^$]+\$\$|\$(?![\s$])[^$\n]*(?<!\s)\$(?!\w)"),
    ":": re.compile(r"(?<!\w):(?=[a-z0-9_+-]{0,40}[a-z])[a-z0-9_+-]{1,40}:(?!\w)"),
}
"""Footnotes, formulas and names of emoji, by their first character."""


def _inline(parser: MarkdownParser, content: str) -> Inline:
    parts: list[str | Tag] = []
    tokens_to_skip = 0
    for token in parser.inline(content):
        if tokens_to_skip:
            tokens_to_skip -= 1
        elif token.markup == "autolink":
            parts.append(Tag("kept", token.meta["raw"], token.meta["raw"][1:-1]))
            tokens_to_skip = 2
        else:
            parts.append(_token_part(token))
    return balance_tags(join_parts(parts))


def _token_part(token: Token) -> str | Tag:
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
        match = HTML_TAG.match(token.content)
        if match is None or match[2].lower() in HTML_VOID or token.content.endswith("/>"):
            return Tag("void", token.content)
        return Tag("close" if match[1] else "open", token.content)
    if token.type == "link_open":
        return Tag("open", "[")
    if token.type == "link_close":
        return Tag("close", token.meta["raw"])
    return Tag("open" if token.nesting > 0 else "close", token.markup)


def write_block(parser: MarkdownParser, block: TextBlock, inline: Inline) -> str:
    """Write a text in place of a block.

    It is written without escapes, then with escapes, then with asterisks or HTML tags for emphasis, until it
    is parsed as the same text.
    """
    text = ""
    for parts, escaped in (
        (inline, False),
        (inline, True),
        (_with_asterisks(inline), True),
        (_with_html_tags(inline), True),
    ):
        text = _lay_out(parts, block, escaped)
        if block.kind == "paragraph" and not parser.is_paragraph(text):
            text = BLOCK_MARKER.sub(_escape_leading, text)
        if block.kind == "heading":
            text = HEADING_END.sub(r"\1\\\2", text)
        is_single_block = block.kind != "paragraph" or parser.is_paragraph(text)
        if is_single_block and _reads_as(parser, text, parts):
            break
    if block.kind == "cell":
        text = re.sub(r"(?<!\\)\|", r"\\|", text)
    return text.replace("\n", block.between) if block.between else text


def _lay_out(parts: Inline, block: TextBlock, escaped: bool) -> str:
    """Lay out a text in lines as wide as those of the block, or in one line if the block has only one."""
    written = []
    for part in parts:
        if isinstance(part, str):
            text = " ".join(part.split("\n"))
            written.append(SPECIAL_CHARACTER.sub(r"\\\1", text) if escaped else text)
        else:
            written.append(part.raw.replace(" ", TAG_SPACE))
    content = "".join(written)
    if not block.width:
        return content.replace("\\\n", "<br>").replace(TAG_SPACE, " ")
    width = max(block.width - len(block.between.lstrip("\r\n")), 20)
    lines = [line for hard_line in content.split("\n") for line in fill(hard_line.split(" "), width)]
    return "\n".join(line.strip(" ") for line in lines).replace(TAG_SPACE, " ")


def _escape_leading(match: re.Match[str]) -> str:
    space, marker, number, end = match.groups()
    return f"{space}\\{marker}" if marker else f"{space}{number}\\{end}"


def _reads_as(parser: MarkdownParser, text: str, expected: Inline) -> bool:
    """Return whether a text is parsed as the expected parts; runs of spaces count as one."""
    return _flatten(_inline(parser, text)) == _flatten(expected)


def _flatten(inline: Inline) -> list[str]:
    parts = [part if isinstance(part, str) else f"\x01{_normalised_raw(part)}\x01" for part in inline]
    return "".join(parts).split()


def _normalised_raw(tag: Tag) -> str:
    return " ".join(tag.raw.split()) if tag.raw != "<br>" else "\\"


def _with_asterisks(inline: Inline) -> Inline:
    """Write emphasis with asterisks, which are allowed inside words."""
    asterisks = {"_": "*", "__": "**"}
    return tuple(
        Tag(part.kind, asterisks.get(part.raw, part.raw), part.text) if isinstance(part, Tag) else part
        for part in inline
    )


def _with_html_tags(inline: Inline) -> Inline:
    """Write emphasis with HTML tags, which are allowed anywhere."""
    parts: list[str | Tag] = []
    for part in inline:
        if isinstance(part, Tag) and part.raw in HTML_EMPHASIS and part.kind in ("open", "close"):
            slash = "/" if part.kind == "close" else ""
            parts.append(Tag(part.kind, f"<{slash}{HTML_EMPHASIS[part.raw]}>"))
        else:
            parts.append(part)
    return tuple(parts)
