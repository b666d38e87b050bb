"""Markdown (CommonMark with tables and strikethrough): paragraphs, headings and cells as texts with tags.

Documents are parsed with markdown-it-py. Footnotes, formulas between dollar signs, emoji names and template
tags, which are text in CommonMark, are not translated. The syntax of Markdown dialects is read first. The
Markdown that is written is parsed again to verify that it has the same meaning.
"""

from __future__ import annotations

import html
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from uwaga.errors import MissingExtraError
from uwaga.markup import Inline, Tag
from uwaga.markup.html import html_pieces, tag_pieces
from uwaga.markup.inline import join_parts, plain_text
from uwaga.markup.markdown_dialects import TEMPLATE, read_dialects
from uwaga.markup.units import (
    ENTITY,
    MARKUP,
    Fragment,
    Piece,
    Untranslated,
    balance_tags,
    is_translatable,
    text_unit,
    untranslated,
)
from uwaga.markup.wrapping import fill

if TYPE_CHECKING:
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token


class MarkdownParser:
    """A Markdown parser that records the source text of links, images and code."""

    def __init__(self) -> None:
        try:
            from markdown_it import MarkdownIt
            from markdown_it.rules_inline import autolink, backtick, image, link
        except ImportError:
            raise MissingExtraError(
                "reading Markdown needs markdown-it-py: pip install 'uwaga[documents]'"
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
        """Return the inline tokens of a block's text."""
        hidden_templates = _HiddenTemplates(content)
        tokens = self._parser.parseInline(hidden_templates.text, self._env)
        return hidden_templates.restore(tokens[0].children or [])

    def is_paragraph(self, content: str) -> bool:
        """Return whether a text is exactly one paragraph."""
        env = dict(self._env)
        self._parser.disable("inline", True)
        try:
            tokens = self._parser.parse(content, env)
        finally:
            self._parser.enable("inline", True)
        return [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]


class _HiddenTemplates:
    """A text in which template tags are replaced by private-use characters for the parser.

    Otherwise the parser would not recognise a link such as ``[text]({{< ref "page" >}})``.
    """

    def __init__(self, content: str) -> None:
        self._templates: list[str] = []
        can_hide = "{" in content and PLACEHOLDER_START not in content
        self.text = TEMPLATE.sub(self._hide, content) if can_hide else content

    def _hide(self, match: re.Match[str]) -> str:
        if len(self._templates) == MAX_TEMPLATE_PLACEHOLDERS:
            return match[0]
        self._templates.append(match[0])
        return f"{PLACEHOLDER_START}{chr(ord(PLACEHOLDER_START) + len(self._templates))}"

    def restore(self, tokens: Sequence[Token]) -> Sequence[Token]:
        """Return the tokens with the template tags restored; in text, each tag becomes a separate token."""
        if not self._templates:
            return tokens
        result: list[Token] = []
        for token in tokens:
            if token.type == "text":
                parts = TEMPLATE_PLACEHOLDER.split(token.content)
                for index, part in enumerate(parts):
                    if part:
                        kind = "untranslated" if index % 2 else "text"
                        result.append(token.copy(type=kind, content=self._restore_text(part)))
                continue
            token.content = self._restore_text(token.content)
            if "raw" in token.meta:
                token.meta = {**token.meta, "raw": self._restore_text(token.meta["raw"])}
            result.append(token)
        return result

    def _restore_text(self, text: str) -> str:
        return TEMPLATE_PLACEHOLDER.sub(
            lambda match: self._templates[ord(match[0][1]) - ord(PLACEHOLDER_START) - 1], text
        )


def _with_raw(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """Return a parser rule that also stores the source of each token in its ``meta``."""

    def run(state: StateInline, silent: bool) -> bool:
        start, count = state.pos, len(state.tokens)
        has_pending_text = bool(state.pending)
        if not rule(state, silent):
            return False
        if silent:
            return True
        tokens = state.tokens[count + (1 if has_pending_text and len(state.tokens) > count else 0) :]
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
    """Return the end of a link, with an added label if the link's text, which will change, was its label."""
    return f"][{label}]" if end in ("]", "][]") else end


def _untranslated_rule(state: StateInline, silent: bool) -> bool:
    """Parse a footnote, a formula or the name of an emoji, which are not markup in CommonMark.

    Returns:
        whether one of these is at the position of the parser.
    """
    pattern = UNTRANSLATED_PATTERNS.get(state.src[state.pos])
    match = pattern.match(state.src, state.pos) if pattern is not None else None
    if match is None:
        return False
    if not silent:
        token = state.push("untranslated", "", 0)
        token.content = match[0]
    state.pos = match.end()
    return True


BlockKind = Literal["paragraph", "heading", "cell", "html", "title", "code", "template", "unknown"]


class TextBlock(NamedTuple):
    """The text of a block.

    Attributes:
        kind: the kind of block; ``html`` is a block of HTML; ``code``, ``template`` (a line of template tags
            with words) and ``unknown`` (a text that is not found in its line) are copied.
        start: start offset in the document.
        end: end offset in the document.
        content: the text in Markdown, without line prefixes such as ``> ``.
        between: the characters between the first two lines, line break included; for a title, the character
            that ends it.
        width: the length of the longest line in characters, 0 for a text of one line.
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
        elif block.kind == "unknown" and block.start == block.end:
            yield Untranslated("", UNTRANSLATED_BLOCKS["unknown"])
        elif block.kind in UNTRANSLATED_BLOCKS:
            yield untranslated(text[block.start : block.end], UNTRANSLATED_BLOCKS[block.kind])
        else:
            yield _block_unit(parser, text[block.start : block.end], block)
        position = block.end
    yield text[position:]


def _block_unit(parser: MarkdownParser, raw: str, block: TextBlock) -> Piece:
    inline = _inline(parser, block.content)
    inner_pieces = {
        tag.raw: pieces for tag in inline if isinstance(tag, Tag) and (pieces := _tag_pieces(tag))
    }
    return text_unit(raw, inline, lambda inline: write_block(parser, block, inline), inner_pieces)


def _tag_pieces(tag: Tag) -> list[Piece]:
    """Return the pieces of a tag that contains texts: an image, a link with a title, or an HTML tag."""
    raw = tag.raw
    if raw.startswith("<") and "=" in raw:
        return tag_pieces(raw)
    if not raw.startswith(("![", "](")):
        return []
    pieces: list[Piece] = []
    label, end = (tag.text, raw[2 + len(tag.text) :]) if raw.startswith("!") else ("", raw)
    if label and LABEL_MARKUP.search(label):
        pieces += ["![", untranslated(label, "markup in an alternative text")]
    elif label:
        link_end = _link_end(label, end)
        new_end = link_end if link_end != end else ""  # the label of an image whose text was its label
        end = "" if new_end else end

        def write(inline: Inline) -> str:
            return LABEL_MARKUP.sub(r"\\\g<0>", plain_text(inline)) + new_end

        pieces += ["![", text_unit(raw[2:] if new_end else label, (label,), write)]
    elif raw.startswith("!"):
        pieces.append("![")
    title = LINK_TITLE.search(end)
    if title is None:
        return [*pieces, end] if pieces else []
    quote, group = (title[0][1], 1) if title[1] is not None else (title[0][1], 2)
    words = html.unescape(title[group])
    entity = "&quot;" if quote == '"' else "&#39;"

    def write_title(inline: Inline) -> str:
        text = plain_text(inline).replace("\\", "\\\\")
        return ENTITY.sub(lambda match: f"&amp;{match[0][1:]}", text).replace(quote, entity)

    return [
        *pieces,
        end[: title.start(group)],
        text_unit(title[group], (words,), write_title),
        end[title.end(group) :],
    ]


def text_blocks(parser: MarkdownParser, text: str) -> Iterator[TextBlock]:
    """Yield the blocks of a document that contain text, in order."""
    lines = LINE.findall(text)  # in Markdown, only LF, CR and CRLF end a line
    starts = [0, *accumulate(map(len, lines))]
    dialects = read_dialects(lines)
    dialect_blocks = [
        TextBlock("title", low, high, text[low:high], end, 0) for low, high, end in dialects.titles
    ]
    dialect_blocks += [TextBlock("template", low, high, "", "", 0) for low, high in dialects.copied]
    remaining_blocks = deque(sorted(dialect_blocks, key=lambda block: block.start))
    position = 0
    for block in _commonmark_blocks(parser, "".join(dialects.lines), lines, starts):
        while remaining_blocks and remaining_blocks[0].start < block.start:
            dialect_block = remaining_blocks.popleft()
            if dialect_block.start >= position:
                yield dialect_block
                position = dialect_block.end
        yield block
        position = max(position, block.end)
    yield from (dialect_block for dialect_block in remaining_blocks if dialect_block.start >= position)


def _commonmark_blocks(
    parser: MarkdownParser, text: str, lines: list[str], starts: list[int]
) -> Iterator[TextBlock]:
    """Yield the CommonMark blocks of a document, with their positions in its text."""
    kind: BlockKind = "paragraph"
    position = quote_depth = 0
    for token in parser.blocks(text):
        if token.type == "heading_open":
            kind = "heading"
        elif token.type == "paragraph_open":
            kind = "paragraph"
        elif token.type in ("th_open", "td_open"):
            kind = "cell"
        elif token.type in ("blockquote_open", "blockquote_close"):
            quote_depth += token.nesting
        elif token.type in ("html_block", "fence", "code_block") and token.map:
            first_line, end_line = (min(line_number, len(lines)) for line_number in token.map)
            yield _copied_block(token, max(position, starts[first_line]), starts[end_line], quote_depth > 0)
            position = max(position, starts[end_line])
        elif token.type == "inline" and token.map and token.content:
            contents = token.content.split("\n")
            for number, part in _parts(contents) if kind == "paragraph" else [(0, contents)]:
                block = _locate(part, token.map[0] + number, kind, lines, starts, position)
                if block is not None:
                    yield block
                    position = block.end
                elif is_translatable((" ".join(part),)):
                    yield TextBlock("unknown", position, position, "", "", 0)


def _copied_block(token: Token, start: int, end: int, in_quote: bool) -> TextBlock:
    """Return the block for HTML, which the HTML reader then reads, or for code."""
    if token.type != "html_block":
        return TextBlock("code", min(start, end), end, "", "", 0)
    if in_quote:  # each of its lines begins with ">"
        has_words = MARKUP.sub("", token.content).strip()
        return TextBlock("unknown" if has_words else "code", min(start, end), end, "", "", 0)
    return TextBlock("html", min(start, end), end, "", "", 0)


def _parts(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the texts of a paragraph, each with the index of its first line.

    The first line of a GitHub alert, ``[!NOTE]``, is not a text; in Obsidian a title may follow it.
    """
    alert = ALERT.match(lines[0])
    if alert is None:
        yield from _definitions(lines)
        return
    if title := lines[0][alert.end() :]:
        yield 0, [title]
    if lines[1:]:
        yield 1, lines[1:]


def _definitions(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the terms and definitions of a definition list, each with the index of its first line.

    Any other paragraph is yielded unchanged.
    """
    marks = [DEFINITION.match(line) for line in lines]
    if marks[0] is not None or not any(marks):
        yield 0, lines
        return
    first_line = 0
    for line_number in range(1, len(lines) + 1):
        mark = marks[first_line]
        if mark is not None and line_number < len(lines) and marks[line_number] is None:
            continue  # the definition continues
        yield (
            first_line,
            [
                lines[first_line][mark.end() :] if mark else lines[first_line],
                *lines[first_line + 1 : line_number],
            ],
        )
        first_line = line_number


def _locate(
    contents: Sequence[str],
    first_line: int,
    kind: BlockKind,
    lines: list[str],
    starts: list[int],
    position: int,
) -> TextBlock | None:
    """Return the block of a text with its position in the document; None if the position is uncertain."""
    if first_line + len(contents) > len(lines):
        return None
    spans: list[tuple[int, int]] = []
    for line_number, content in enumerate(contents, start=first_line):
        line = lines[line_number]
        if kind == "cell":
            content = content.replace("|", "\\|")  # a bar inside a cell is escaped in its line
        offset = _find_in_line(line, content.strip(), kind, max(0, position - starts[line_number]))
        if offset is None:
            return None
        spans.append((starts[line_number] + offset, starts[line_number] + offset + len(content.strip())))
    between = ""
    if len(spans) > 1:
        first_end, second_start = spans[0][1], spans[1][0]
        line = lines[first_line]
        tail = line[first_end - starts[first_line] :]
        between = (
            tail[len(tail.rstrip("\r\n")) :] + lines[first_line + 1][: second_start - starts[first_line + 1]]
        )
    width = max(
        len(lines[line_index].rstrip("\r\n")) for line_index in range(first_line, first_line + len(contents))
    )
    return TextBlock(
        kind, spans[0][0], spans[-1][1], "\n".join(contents), between, width if len(spans) > 1 else 0
    )


def _find_in_line(line: str, content: str, kind: BlockKind, position: int) -> int | None:
    """Return the offset of a text in its line, or None if the text is not found."""
    if not content:
        return len(line.rstrip())
    if kind == "cell":
        offset = line.find(content, position)
        return None if offset < 0 else offset
    stripped_line = line.rstrip()
    if kind == "heading" and not stripped_line.endswith(content):
        stripped_line = stripped_line.rstrip("#").rstrip()
    offset = len(stripped_line) - len(content)
    return offset if offset >= 0 and stripped_line.endswith(content) and offset >= position else None


SPECIAL_CHARACTER = re.compile(r"([\\`*_\[\]<>&~|$:])")
BLOCK_MARKER = re.compile(r"^([ \t]*)(?:([-+#>=~:|])|(\d{1,9})([.)]))", re.MULTILINE)
HEADING_END = re.compile(r"(^|[ \t])(#+[ \t]*)$")
"""A closing sequence of a heading."""
HTML_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)")
HTML_VOID = frozenset(("br", "hr", "img", "wbr", "input"))
HTML_EMPHASIS = {"*": "em", "_": "em", "**": "strong", "__": "strong", "~~": "del"}
TAG_SPACE = "\x00"
"""The character that stands for a space inside a tag while lines are filled."""
LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
DEFINITION = re.compile(r":[ \t]+(?=\S)")
ALERT = re.compile(r"\[![A-Za-z]+\][-+]?[ \t]*")
LABEL_MARKUP = re.compile(r"[\\`*_\[\]<>&~]")
LINK_TITLE = re.compile(r"""\s(?:"([^"\\\n]*)"|'([^'\\\n]*)')[ \t]*\)\Z""")
UNTRANSLATED_BLOCKS = {
    "code": "code and forms",
    "template": "in the tags of a template",
    "unknown": "not found in the lines of the document",
}
"""The kinds of blocks that are copied, with the reason for each."""
PLACEHOLDER_START = "\ue000"
"""The character that precedes every character that stands for a template tag."""
MAX_TEMPLATE_PLACEHOLDERS = 6000
"""Maximum number of template tags that are replaced in a text; the private-use area has 6400 characters."""
TEMPLATE_PLACEHOLDER = re.compile("(\ue000[\ue001-\uf8ff])")
UNTRANSLATED_PATTERNS = {
    "[": re.compile(r"\A\[\^[^\]\s]{1,100}\]:|\[\^[^\]\s]{1,100}\](?![(\[])"),
    "$": re.compile(r"\$\$[^$]+\$\$|\$(?![\s$])[^$\n]*(?<!\s)\$(?!\w)"),
    ":": re.compile(r"(?<!\w):(?=[a-z0-9_+-]{0,40}[a-z])[a-z0-9_+-]{1,40}:(?!\w)"),
}
"""Patterns of footnotes, formulas and names of emoji, by their first character."""


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
        is_void = token.content.endswith("]:") or (
            token.content.startswith("{") and not token.content.startswith("{{ ")
        )
        return Tag("void", token.content) if is_void else Tag("kept", token.content, token.content)
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
    """Return the Markdown of a text that replaces a block.

    The text is written without escapes, then with escapes, then with asterisks or HTML tags for emphasis,
    until the result is parsed as the same text.
    """
    text = ""
    for parts, is_escaped in (
        (inline, False),
        (inline, True),
        (_with_asterisks(inline), True),
        (_with_html_tags(inline), True),
    ):
        text = _fill_lines(parts, block, is_escaped)
        if block.kind == "paragraph" and not parser.is_paragraph(text):
            text = BLOCK_MARKER.sub(_escape_leading, text)
        if block.kind == "heading":
            text = HEADING_END.sub(r"\1\\\2", text)
        is_single_block = block.kind != "paragraph" or parser.is_paragraph(text)
        if is_single_block and _flatten(_inline(parser, text)) == _flatten(parts):
            break
    if block.kind == "cell":
        text = re.sub(r"(?<!\\)\|", r"\\|", text)
    if block.kind == "title" and block.between:
        return text.replace(block.between, f"&#{ord(block.between)};")
    return text.replace("\n", block.between) if block.between else text


def _fill_lines(parts: Inline, block: TextBlock, is_escaped: bool) -> str:
    """Return a text wrapped to the width of the block's lines, or in one line if the block has one line."""
    written_lines = []
    for part in parts:
        if isinstance(part, str):
            text = " ".join(part.split("\n"))
            written_lines.append(SPECIAL_CHARACTER.sub(r"\\\1", text) if is_escaped else text)
        else:
            written_lines.append(part.raw.replace(" ", TAG_SPACE))
    content = "".join(written_lines)
    if not block.width:
        return content.replace("\\\n", "<br>").replace(TAG_SPACE, " ")
    width = max(block.width - len(block.between.lstrip("\r\n")), 20)
    lines = [line for hard_line in content.split("\n") for line in fill(hard_line.split(" "), width)]
    return "\n".join(line.strip(" ") for line in lines).replace(TAG_SPACE, " ")


def _escape_leading(match: re.Match[str]) -> str:
    space, marker, list_number, end = match.groups()
    return f"{space}\\{marker}" if marker else f"{space}{list_number}\\{end}"


def _flatten(inline: Inline) -> list[str]:
    """Return what parts and their parsed text have in common; runs of spaces count as one."""
    parts = [part if isinstance(part, str) else f"\x01{_normalise_raw(part)}\x01" for part in inline]
    return "".join(parts).split()


def _normalise_raw(tag: Tag) -> str:
    return " ".join(tag.raw.split()) if tag.raw != "<br>" else "\\"


def _with_asterisks(inline: Inline) -> Inline:
    """Return the text with emphasis marked by asterisks, which are allowed inside words."""
    asterisks = {"_": "*", "__": "**"}
    return tuple(
        Tag(part.kind, asterisks.get(part.raw, part.raw), part.text) if isinstance(part, Tag) else part
        for part in inline
    )


def _with_html_tags(inline: Inline) -> Inline:
    """Return the text with emphasis marked by HTML tags, which are allowed anywhere."""
    parts: list[str | Tag] = []
    for part in inline:
        if isinstance(part, Tag) and part.raw in HTML_EMPHASIS and part.kind in ("open", "close"):
            slash = "/" if part.kind == "close" else ""
            parts.append(Tag(part.kind, f"<{slash}{HTML_EMPHASIS[part.raw]}>"))
        else:
            parts.append(part)
    return tuple(parts)
