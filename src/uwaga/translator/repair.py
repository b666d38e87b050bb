"""Parts of a similar pair of a translation memory that a translation can take.

The words of the text and of the pair's source are compared. Where they differ only in pieces that
translations copy, such as names in code, numbers and placeholders, the pair's target with the pieces
exchanged is the translation. Otherwise the translation can begin as the target does, up to the first word
that translates something that differs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import NamedTuple

from uwaga.alignment.words import WORD
from uwaga.markup.inline import Tag
from uwaga.markup.placeholders import Placeholders
from uwaga.results.translation import Span, WordAlignment

AROUND_CODE = "`*~._:"
"""Marks that touch words in code and in roles of reStructuredText."""
PIECE = re.compile(r"[\w.]*\d[\w.]*|\w*_\w*|[a-z]+[A-Z]\w*")
"""A number, or a name as programs have them."""
AGREEING = 3
"""Letters of words, such as articles, that may agree with the word after them."""
MAX_COMPARED = 250
"""Maximum words of a text that are compared."""


class Token(NamedTuple):
    """A word, a mark, or a piece that a translation copies."""

    text: str
    start: int
    end: int
    is_piece: bool


@dataclass(frozen=True)
class Repair:
    """The target of a pair with the pieces of a text.

    Attributes:
        target: the target of the pair.
        exchanges: spans of ``target`` that are replaced, ascending, with what replaces them.
        differences: spans of the pair's source that differ otherwise; empty for words that the text adds.
    """

    target: str
    exchanges: tuple[tuple[Span, str], ...] = ()
    differences: tuple[Span, ...] = ()

    @property
    def is_complete(self) -> bool:
        """True if nothing differs but pieces."""
        return not self.differences

    def text(self, end: int | None = None) -> str:
        """Return the target, or its beginning up to ``end``, with the pieces of the text."""
        parts, position, end = list[str](), 0, len(self.target) if end is None else end
        for (start, stop), piece in self.exchanges:
            if stop > end:
                break
            parts += [self.target[position:start], piece]
            position = stop
        return "".join([*parts, self.target[position:end]])

    def beginning(self, words: WordAlignment) -> str:
        """Return the beginning of the translation: the target up to the first word that may have to change.

        Args:
            words: the alignment of the pair.
        """
        linked: dict[int, list[int]] = {}
        for source, target in words.links:
            linked.setdefault(source, []).append(target)
        first = len(words.target)
        for start, end in self.differences:
            changed = [n for n, span in enumerate(words.source) if span[0] < end and span[1] > start]
            following = [n for n, span in enumerate(words.source) if span[0] >= start and n in linked]
            if any(n in linked for n in changed):
                first = min(first, *(target for n in changed for target in linked.get(n, ())))
            elif following:
                first = min(first, *linked[following[0]])
        translated = {target for targets in linked.values() for target in targets}
        while first and (first - 1 not in translated or self._may_agree(words.target[first - 1])):
            first -= 1
        return self.text(words.target[first - 1][1]) if first else ""

    def _may_agree(self, span: Span) -> bool:
        word = self.target[slice(*span)]
        return len(word) <= AGREEING and word.isalpha()


def compare(text: str, source: str, target: str, placeholders: Placeholders | None) -> Repair | None:
    """Return what a text can take from a pair; None if the texts are too long to compare.

    Args:
        text: the text.
        source: the source of the pair.
        target: its target.
        placeholders: what placeholders look like.
    """
    words, others = tokens(text, placeholders), tokens(source, placeholders)
    if max(len(words), len(others)) > MAX_COMPARED:
        return None
    matcher = SequenceMatcher(None, list(map(_class, others)), list(map(_class, words)), autojunk=False)
    renamed: dict[str, set[str]] = {}
    differences: list[Span] = []
    for kind, low, high, first, last in matcher.get_opcodes():
        if kind == "equal" or (
            high - low == last - first and all(map(_is_copied, (*others[low:high], *words[first:last])))
        ):
            for offset in range(high - low):
                old = others[low + offset]
                if _is_copied(old):
                    renamed.setdefault(old.text, set()).add(words[first + offset].text)
        elif kind == "insert":
            position = others[low].start if low < len(others) else len(source)
            differences.append((position, position))
        else:
            differences.append((others[low].start, others[high - 1].end))
    exchanges: list[tuple[Span, str]] = []
    for old_text, new_texts in renamed.items():
        if new_texts == {old_text}:
            continue
        spans = _occurrences(old_text, target)
        count = sum(token.text == old_text for token in others)
        if len(new_texts) == 1 and len(spans) == count:
            exchanges += [(span, next(iter(new_texts))) for span in spans]
        else:
            differences += [(token.start, token.end) for token in others if token.text == old_text]
    return Repair(target, tuple(sorted(exchanges)), tuple(sorted(differences)))


def tokens(text: str, placeholders: Placeholders | None) -> list[Token]:
    """Return the words, marks and pieces of a text."""
    found, position = list[Token](), 0
    parts = (text,) if placeholders is None else placeholders.split(text)
    for part in parts:
        if isinstance(part, Tag):
            found.append(Token(part.raw, position, position + len(part.raw), True))
            position += len(part.raw)
            continue
        for match in WORD.finditer(part):
            start, end = position + match.start(), position + match.end()
            touches_code = start > 0 and text[start - 1] in AROUND_CODE and text[end : end + 1] != " "
            is_piece = (touches_code and match[0][0].isalnum()) or bool(PIECE.fullmatch(match[0]))
            found.append(Token(match[0], start, end, is_piece))
        position += len(part)
    return found


def _class(token: Token) -> str:
    """Return what must be equal in both texts: a word, whatever its case, or that there is a piece."""
    return "\0" if token.is_piece else token.text.casefold()


def _is_copied(token: Token) -> bool:
    """Return True for a piece or a mark."""
    return token.is_piece or not token.text[0].isalnum()


def _occurrences(piece: str, text: str) -> Sequence[Span]:
    before = r"(?<!\w)" if piece[:1].isalnum() or piece[:1] == "_" else ""
    after = r"(?!\w)" if piece[-1:].isalnum() or piece[-1:] == "_" else ""
    return [match.span() for match in re.finditer(before + re.escape(piece) + after, text)]
