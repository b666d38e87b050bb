"""The text of a Markdown block, and back: what is written is read again, to see that it says the same."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from uwaga.documents.document import balanced, joined
from uwaga.documents.markdown_blocks import TextBlock
from uwaga.documents.markdown_parser import MarkdownParser
from uwaga.documents.wrapping import fill
from uwaga.markup import Inline, Tag

if TYPE_CHECKING:
    from markdown_it.token import Token

SPECIAL = re.compile(r"([\\`*_\[\]<>&~|])")
LEADING = re.compile(r"^([ \t]*)(?:([-+#>=~:|])|(\d{1,9})([.)]))", re.MULTILINE)
HTML_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)")
HTML_VOID = frozenset(("br", "hr", "img", "wbr", "input"))
AS_HTML = {"*": "em", "_": "em", "**": "strong", "__": "strong", "~~": "del"}
BLANK = "\x00"
"""Stands for a space inside a tag while lines are filled."""


def read_inline(parser: MarkdownParser, block: TextBlock) -> Inline:
    """What a block says."""
    return _inline(parser, block.content)


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
    """How Markdown writes a text in the place of a block.

    It is tried with as few escapes as stand in ordinary text, then with all, then with tags of HTML in the
    place of emphasis, until it is read as what it is.
    """
    text = ""
    for parts, escaped in ((made, False), (made, True), (_as_stars(made), True), (_as_html(made), True)):
        text = _laid(parts, block, escaped)
        if block.kind == "paragraph" and not parser.is_paragraph(text):
            text = LEADING.sub(_escape_leading, text)
        whole = block.kind != "paragraph" or parser.is_paragraph(text)
        if whole and _says(parser, text, parts):
            break
    if block.kind == "cell":
        text = re.sub(r"(?<!\\)\|", r"\\|", text)
    return text.replace("\n", block.between) if block.between else text


def _laid(parts: Inline, block: TextBlock, escaped: bool) -> str:
    """The text in lines as wide as those of the block; of a text in one line, in one."""
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
    """Whether a text is read as these parts; runs of spaces count as one."""
    return _flat(_inline(parser, text)) == _flat(wanted)


def _flat(inline: Inline) -> list[str]:
    parts = [part if isinstance(part, str) else f"\x01{_kept(part)}\x01" for part in inline]
    return "".join(parts).split()


def _kept(tag: Tag) -> str:
    return " ".join(tag.raw.split()) if tag.raw != "<br>" else "\\"


def _as_stars(inline: Inline) -> Inline:
    """Emphasis by stars, which may stand inside words."""
    stars = {"_": "*", "__": "**"}
    return tuple(
        Tag(part.kind, stars.get(part.raw, part.raw), part.text) if isinstance(part, Tag) else part
        for part in inline
    )


def _as_html(inline: Inline) -> Inline:
    """Emphasis by tags of HTML, which may stand anywhere."""
    made: list[str | Tag] = []
    for part in inline:
        if isinstance(part, Tag) and part.raw in AS_HTML and part.kind in ("open", "close"):
            slash = "/" if part.kind == "close" else ""
            made.append(Tag(part.kind, f"<{slash}{AS_HTML[part.raw]}>"))
        else:
            made.append(part)
    return tuple(made)
