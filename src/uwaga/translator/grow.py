"""Stream the text of a target as it grows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from uwaga.decoder import Decoder
from uwaga.search import SearchOptions, stream
from uwaga.search.search import Drafts

UNFINISHED = "\ufffd"
"""What a character decodes to while some of its bytes are missing."""


class GrowingText:
    """Text pieces of a growing list of tokens; a piece is never changed afterwards.

    Joined, the pieces are ``decode`` of all tokens: a character spelt in several byte tokens is held back
    until it is whole. Only where byte tokens are no valid text may a tokeniser read earlier ones otherwise.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._tokens: list[int] = []
        self._given = 0

    def add(self, token: int) -> str:
        """Return the text that is certain with this token; it may be empty."""
        self._tokens.append(token)
        text = self._decode(self._tokens)
        return self._give(text[: len(text.rstrip(UNFINISHED))])

    def finish(self, tokens: Sequence[int]) -> str:
        """Return the rest of the text, given all tokens."""
        return self._give(self._decode(tokens))

    def _give(self, text: str) -> str:
        piece = text[self._given :]
        self._given = max(self._given, len(text))
        return piece


def grow(
    decoder: Decoder,
    source: Sequence[int],
    options: SearchOptions,
    decode: Callable[[Sequence[int]], str],
    prefix: Sequence[int] = (),
    drafts: Drafts | None = None,
) -> Generator[str, None, bool]:
    """Search one target and yield its text as it grows; no piece is empty.

    Args:
        decoder: the model.
        source: token ids with their end symbol, or a prompt.
        options: the options of one hypothesis; see :meth:`uwaga.search.SearchOptions.check_streams`.
        decode: from the target's tokens to text.
        prefix: tokens that the target begins with.
        drafts: as of :func:`uwaga.search.search`.

    Returns:
        whether a limit cut the target.
    """
    growing, truncated = GrowingText(decode), False
    for event in stream(decoder, [source], options, prefixes=[prefix], drafts=drafts):
        if event.hypothesis is not None:
            piece = growing.finish(event.hypothesis.tokens)
            truncated = event.hypothesis.truncated
        else:
            assert event.token is not None  # a stream gives a token or, last, the hypothesis
            piece = growing.add(event.token)
        if piece:
            yield piece
    return truncated
