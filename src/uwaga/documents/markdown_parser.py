"""markdown-it-py as documents need it: it remembers how links, images and code were written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from uwaga.errors import MissingExtraError

if TYPE_CHECKING:
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token


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
