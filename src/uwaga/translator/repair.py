"""Adaptation of the translation of a similar text, if two texts differ only in pieces that are copied.

Such pieces are names in code, numbers and placeholders. In the translation of the similar text, they are
replaced by the pieces of the new text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from uwaga.alignment.words import WORD
from uwaga.markup.inline import Tag
from uwaga.markup.placeholders import Placeholders
from uwaga.results.translation import Span

CODE_MARKS = "`*~._:"
"""Marks directly before words in code and in roles of reStructuredText."""
COPIED_PIECE = re.compile(r"(?=.*\d)[\w.]+|(?=.*_)\w+|[a-z]+[A-Z]\w*")
"""A number, or a name as in program code."""
MAX_COMPARED_WORDS = 250
"""Maximum number of words of a text that is compared."""


class Token(NamedTuple):
    """A word, a punctuation mark, or a piece that a translation copies."""

    text: str
    start: int
    end: int
    is_piece: bool


def adapt_target(
    words: Sequence[Token], source: str, target: str, placeholders: Placeholders | None
) -> str | None:
    """Return the target of a similar pair, in which the copied pieces are replaced by those of a text.

    The result is None if the text and the source of the pair also differ in other parts.

    Args:
        words: the tokens of the text, from :func:`split_tokens`.
        source: the source of the pair.
        target: the target of the pair.
        placeholders: the patterns of placeholders.
    """
    if len(words) > MAX_COMPARED_WORDS:
        return None
    new_pieces, counts = dict[str, str](), Counter[str]()
    for new_token, old_token in zip_longest(words, split_tokens(source, placeholders)):
        if new_token is None or old_token is None:
            return None
        if not (
            _comparison_key(old_token) == _comparison_key(new_token)
            or (_is_copied(old_token) and _is_copied(new_token))
        ):
            return None
        if _is_copied(old_token) and new_pieces.setdefault(old_token.text, new_token.text) != new_token.text:
            return None
        counts[old_token.text] += 1
    replacements: list[tuple[Span, str]] = []
    for piece, new_piece in new_pieces.items():
        if piece != new_piece:
            spans = _occurrences(piece, target)
            if len(spans) != counts[piece]:
                return None
            replacements += [(span, new_piece) for span in spans]
    parts, end = list[str](), 0
    for (start, stop), piece in sorted(replacements):
        if start < end:
            return None
        parts += [target[end:start], piece]
        end = stop
    return "".join([*parts, target[end:]])


def split_tokens(text: str, placeholders: Placeholders | None) -> Iterator[Token]:
    """Yield the words, punctuation marks and copied pieces of a text."""
    position = 0
    parts = (text,) if placeholders is None else placeholders.split(text)
    for part in parts:
        if isinstance(part, Tag):
            yield Token(part.raw, position, position + len(part.raw), True)
            position += len(part.raw)
            continue
        for match in WORD.finditer(part):
            start, end = position + match.start(), position + match.end()
            touches_code = start > 0 and text[start - 1] in CODE_MARKS and text[end : end + 1] != " "
            is_piece = (touches_code and match[0][0].isalnum()) or bool(COPIED_PIECE.fullmatch(match[0]))
            yield Token(match[0], start, end, is_piece)
        position += len(part)


def _comparison_key(token: Token) -> str:
    """Return the key by which tokens are compared: the case-folded word, or a null character for a piece."""
    return "\0" if token.is_piece else token.text.casefold()


def _is_copied(token: Token) -> bool:
    """Return True for a copied piece or a punctuation mark."""
    return token.is_piece or not token.text[0].isalnum()


def _occurrences(piece: str, text: str) -> Sequence[Span]:
    start_boundary = r"(?<!\w)" if piece[:1].isalnum() or piece[:1] == "_" else ""
    end_boundary = r"(?!\w)" if piece[-1:].isalnum() or piece[-1:] == "_" else ""
    return [match.span() for match in re.finditer(start_boundary + re.escape(piece) + end_boundary, text)]
