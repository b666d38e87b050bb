"""The text of a Markdown block, and back: what is written is read again, to see that it says the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from uwaga.documents.document import balanced, joined
from uwaga.documents.markdown_blocks import TextBlock
from uwaga.documents.wrapping import fill
from uwaga.errors import MissingExtraError
from uwaga.markup import Inline, Tag

if TYPE_CHECKING:
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

SPECIAL = re.compile(r"([\\`*_\[\]<>&~|])")
LEADING = re.compile(r"^([ \t]*)(?:([-+#>=~:|])|(\d{1,9})([.)]))", re.MULTILINE)
HTML_TAG = re.compile(r"<(/?)([A-Za-z][^\s/>]*)")
HTML_VOID = frozenset(("br", "hr", "img", "wbr", "input"))
AS_HTML = {"*": "em", "_": "em", "**": "strong", "__": "strong", "~~": "del"}
BLANK = "\x00"
"""Stands for a space inside a tag while lines are filled."""


class MarkdownParser:
    """CommonMark with tables and strikethrough, which remembers how links, images and code were written.

    Raises:
        MissingExtraError: markdown-it-py is not installed.
    """

    def __init__(self) -> None:
        try:
            from markdown_it import MarkdownIt
            from markdown_it.rules_inline import autolink, backtick, image, link
        except ImportError:
            raise MissingExtraError(
                "Markdown is taken apart by markdown-it-py: pip install 'uwaga[documents]'"
            ) from None
        self._parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
        self._parser.inline.ruler2.disable("fragments_join")
        ruler = self._parser.inline.ruler
        rules = {"backticks": backtick, "link": link, "image": image, "autolink": autolink}
        for name, rule in rules.items():
            ruler.at(name, _remembering(rule))
        self._env: dict[str, Any] = {}

    def blocks(self, text: str) -> Sequence[Token]:
        """The blocks of a document; the definitions of its links are known from then on."""
        self._env = {}
        self._parser.disable("inline", True)
        try:
            return self._parser.parse(text, self._env)
        finally:
            self._parser.enable("inline", True)

    def inline(self, content: str) -> Sequence[Token]:
        """The tokens of a block's text."""
        tokens = self._parser.parseInline(content, self._env)
        return tokens[0].children or []

    def is_paragraph(self, content: str) -> bool:
        """Whether a text is a paragraph of its own, and nothing but that."""
        env = dict(self._env)
        self._parser.disable("inline", True)
        try:
            tokens = self._parser.parse(content, env)
        finally:
            self._parser.enable("inline", True)
        return [token.type for token in tokens] == ["paragraph_open", "inline", "paragraph_close"]


def _remembering(rule: Callable[[StateInline, bool], bool]) -> Callable[[StateInline, bool], bool]:
    """A rule that keeps, with each token that it makes, how that stands in the source."""

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
    """What ends a link; one that its own text refers to names it, for the text will be another."""
    return f"][{label}]" if end in ("]", "][]") else end


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
