"""Markdown in a string: paragraphs, headings, items and cells as texts with tags; code stays as it is.

Read by markdown-it-py. Each of its tokens is found again in the source, so that tags are written as they
were; where one cannot be found, the block is one text without tags. Lines that a browser would join become
one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from uwaga.errors import MissingExtraError
from uwaga.markup.fragments import Fragment, TextUnit
from uwaga.markup.inline import Inline, Tag
from uwaga.markup.matching import matched

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

SPECIAL = re.compile(
    r"[*`]|\\(?=[!-/:-@\[-`{-~])|(?<![^\W_])_|_(?![^\W_])|\[|\](?=[(\[:])|<(?=[A-Za-z/!?])|~(?=~)|&(?=#?\w+;)"
    r"|\A(?:#(?=#{0,5}\s)|[-+>](?=\s))"
)
"""What Markdown would not take for text."""
NUMBERED = re.compile(r"\A(\d{1,9})([.)])(?=\s)")
LINK = r"""(?:<[^<>\n]*>|(?:[^\s()\\]|\\.|\((?:[^\s()\\]|\\.)*\))*)"""
TITLE = r"""(?:\s+(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\((?:[^()\\]|\\.)*\)))?"""
TARGET = re.compile(rf"\]\(\s*{LINK}{TITLE}\s*\)|\]\[[^\[\]]*\]|\]", re.DOTALL)
SOFT = re.compile(r"[ \t]*\n[ \t]*")
HARD = re.compile(r"(?: {2,}|\\)\n[ \t]*")


def read_markdown(text: str, ignored: frozenset[str] = frozenset()) -> Fragment:
    """A string of Markdown taken apart.

    Args:
        text: one block or several.
        ignored: not used: Markdown has no names of tags.

    Raises:
        MissingExtraError: markdown-it-py is not installed.
    """
    parser = _parser()
    parts: list[str | Tag | TextUnit] = []
    lines = re.split(r"(?<=\n)", text)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    at = 0
    for token in parser.parse(text):
        if token.type != "inline" or token.map is None or not token.content.strip():
            continue
        last = starts[min(token.map[1], len(lines))]
        place = _place(text, token.content, max(at, starts[token.map[0]]), last)
        inline = _inline(token.children or [], token.content)
        if place is None or not any(isinstance(part, str) and not part.isspace() for part in inline):
            continue
        parts += [text[at : place[0]], TextUnit(inline, escape)]
        at = place[1]
    return Fragment((*(part for part in parts if part != ""), text[at:]))


def escape(text: str) -> str:
    """Plain text as Markdown writes it."""
    return NUMBERED.sub(r"\1\\\2", SPECIAL.sub(lambda found: "\\" + found.group(), text))


def _parser() -> MarkdownIt:
    try:
        from markdown_it import MarkdownIt
    except ImportError:
        raise MissingExtraError(
            "format 'markdown' is read by markdown-it-py: pip install 'uwaga[documents]'"
        ) from None
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.core.ruler.disable("text_join")  # escapes stay tokens of their own
    parser.inline.ruler2.disable("fragments_join")
    return parser


def _place(text: str, content: str, start: int, stop: int) -> tuple[int, int] | None:
    """Where the lines of a block stand: each behind what Markdown puts before it, such as ``> ``."""
    begin, at = -1, start
    for line in content.split("\n"):
        found = text.find(line.strip(), at, stop)
        if found < 0:
            return None
        begin = found if begin < 0 else begin
        at = found + len(line.strip())
    return begin, at


def _inline(tokens: Sequence[Token], content: str) -> Inline:
    """The text and tags of a block; one text where a token is not found in the source."""
    walk = _Walk(content)
    try:
        number = 0
        while number < len(tokens):
            number = walk.take(tokens, number)
    except LookupError:
        return (content,)
    return matched(walk.parts, by_name=False)


class _Walk:
    """A block on its way: its parts, and the place behind them."""

    def __init__(self, content: str) -> None:
        self.parts: list[str | Tag] = []
        self._content = content
        self._at = 0

    def take(self, tokens: Sequence[Token], number: int) -> int:
        """Take a token, and all that belongs to it; the number of the next.

        Raises:
            LookupError: it is not where it should be.
        """
        token = tokens[number]
        kind = token.type
        if kind == "text":
            self._expect(token.content)
            self.parts.append(token.content)
        elif kind == "text_special":
            self._expect(token.markup)
            self.parts.append(token.content)
        elif kind == "softbreak":
            self._match(SOFT)
            self.parts.append(" ")
        elif kind == "hardbreak":
            self.parts.append(Tag("void", self._match(HARD), "\n"))
        elif kind == "code_inline":
            run = re.escape(token.markup)
            raw = self._match(re.compile(rf"{run}(?!`).*?(?<!`){run}(?!`)", re.DOTALL))
            self.parts.append(Tag("kept", raw, token.content))
        elif kind == "image":
            self._expect("![")
            begin = self._at - 2
            self._at = self._bracket(self._at)
            self._match(TARGET)
            self.parts.append(Tag("kept", self._content[begin : self._at]))
        elif kind == "link_open" and token.markup == "autolink":
            raw = self._match(re.compile(r"<[^<>]*>"))
            self.parts.append(Tag("kept", raw, raw[1:-1]))
            return number + 3
        else:
            self._tag(token)
        return number + 1

    def _tag(self, token: Token) -> None:
        if token.type == "link_open":
            self._expect("[")
            self.parts.append(Tag("open", "["))
        elif token.type == "link_close":
            self.parts.append(Tag("close", self._match(TARGET)))
        elif token.type == "html_inline":
            raw = token.content
            self._expect(raw)
            closes, alone = raw.startswith("</"), raw.endswith("/>") or not raw[1:2].isalpha()
            self.parts.append(Tag("close" if closes else "void" if alone else "open", raw))
        else:
            self._expect(token.markup)
            self.parts.append(Tag("open" if token.nesting > 0 else "close", token.markup))

    def _expect(self, text: str) -> None:
        if not self._content.startswith(text, self._at):
            raise LookupError(text)
        self._at += len(text)

    def _match(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._content, self._at)
        if found is None:
            raise LookupError(pattern.pattern)
        self._at = found.end()
        return found.group()

    def _bracket(self, at: int) -> int:
        """Where the bracket is closed that has been opened."""
        depth = 1
        for found in re.compile(r"\\.|[\[\]]", re.DOTALL).finditer(self._content, at):
            depth += {"[": 1, "]": -1}.get(found.group(), 0)
            if not depth:
                return found.start()
        raise LookupError("]")
