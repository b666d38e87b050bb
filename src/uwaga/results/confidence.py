"""How sure a model was of each word of a translation, and of the whole (Fomicheva 2020, section 3.1).

A tokeniser cuts words into pieces, and the model gives a probability to each piece after those before it.
What a reader wants to know is of words, so pieces are joined again here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

SPACES = ("▁", "Ġ")
"""What a piece begins with where a word begins: SentencePiece's mark, and byte-level BPE's."""

INSIDE = "##"
"""What a WordPiece begins with where a word goes on."""

START, END = "<s>", "</s>"
"""How the ends of a sentence are shown."""


@dataclass(frozen=True)
class Word:
    """A word with the probability that the model gave it.

    ``text`` is what stands between white space, punctuation included; the end of a sentence is the word
    ``</s>``. ``probability`` is the product over its pieces: that of the whole word after those before it,
    and the product over all words is the translation's. ``mean`` is the geometric mean over the pieces, by
    which words of few and of many pieces compare. ``entropy`` is the mean over its pieces in nats, None where
    it was not asked for.
    """

    text: str
    probability: float
    mean: float
    entropy: float | None = None


@dataclass(frozen=True)
class Confidence:
    """Estimates of a translation's quality that need no reference (Fomicheva 2020, section 3.1).

    The higher the better, but for ``entropy``. ``mean_log_prob`` is the mean natural log-probability of its
    tokens, ends of sentences counted (TP there); ``probability`` is its exponential, the geometric mean of
    the tokens' probabilities. ``mean_word`` and ``lowest_word`` are of the words' probabilities, ends of
    sentences left out. ``entropy`` is the mean over the tokens (Softmax-Ent there) in nats, None where it was
    not asked for.
    """

    mean_log_prob: float
    probability: float
    mean_word: float
    lowest_word: float
    entropy: float | None = None


def word_spans(pieces: Sequence[str]) -> list[tuple[int, int]]:
    """First piece and end of each word; the ends of a sentence are words of their own."""
    if any(piece.startswith(SPACES) for piece in pieces):
        starts = [at for at, piece in enumerate(pieces) if piece.startswith(SPACES) or piece in (START, END)]
    elif any(piece.startswith(INSIDE) for piece in pieces):
        starts = [at for at, piece in enumerate(pieces) if not piece.startswith(INSIDE)]
    else:
        starts = list(range(len(pieces)))
    starts = sorted({0, *starts, *(at + 1 for at, piece in enumerate(pieces[:-1]) if piece in (START, END))})
    return list(zip(starts, [*starts[1:], len(pieces)], strict=True)) if pieces else []


def joined(pieces: Sequence[str]) -> str:
    """The text of a word's pieces, ``␣`` where that is white space alone."""
    text = "".join(piece.removeprefix(INSIDE) if at else piece for at, piece in enumerate(pieces))
    for mark in SPACES:
        text = text.replace(mark, " ")
    return text.strip() or "␣"


def words_of(
    text: str, tokens: Sequence[str], token_scores: Sequence[float], entropies: Sequence[float] = ()
) -> tuple[Word, ...]:
    """The words of a translation.

    Args:
        text: the translation. Where it has as many words as its pieces make, these are spelt as in it.
        tokens: its pieces, with the end symbol between two sentences.
        token_scores: natural log-probabilities of these and, unless a limit cut it, of the end after them.
        entropies: as many, in nats, or none.
    """
    pieces = (*tokens, *[END] * (len(token_scores) - len(tokens)))
    spans = word_spans(pieces)
    spelt = iter(text.split())
    count = sum(pieces[start] != END for start, _ in spans)
    plain = len(text.split()) == count
    words = []
    for start, stop in spans:
        ends = pieces[start] == END
        shown = END if ends else next(spelt) if plain else joined(pieces[start:stop])
        total = math.fsum(token_scores[start:stop])
        mean = _exp(total / (stop - start))
        entropy = math.fsum(entropies[start:stop]) / (stop - start) if entropies else None
        words.append(Word(shown, _exp(total), mean, entropy))
    return tuple(words)


def confidence_of(
    words: Sequence[Word], token_scores: Sequence[float], entropies: Sequence[float] = ()
) -> Confidence | None:
    """The estimates of a translation, None of one without tokens, such as a text that was copied.

    Args:
        words: from :func:`words_of`.
        token_scores: natural log-probabilities of the tokens and, unless truncated, of the end symbol.
        entropies: likewise.
    """
    if not token_scores:
        return None
    mean = math.fsum(token_scores) / len(token_scores)
    probabilities = [word.probability for word in words if word.text != END] or [1.0]
    return Confidence(
        mean_log_prob=mean,
        probability=_exp(mean),
        mean_word=math.fsum(probabilities) / len(probabilities),
        lowest_word=min(probabilities),
        entropy=math.fsum(entropies) / len(entropies) if entropies else None,
    )


def _exp(log_prob: float) -> float:
    """At most 1: a log-probability may lie above 0 by its rounding."""
    return min(1.0, math.exp(log_prob))


def in_text(text: str, words: Sequence[Word]) -> list[tuple[str, Word | None]]:
    """A translation's text cut into its words and what stands between them, which belongs to no word.

    Where the text has other words than the pieces made, as where a part of it was copied, it is one part of
    no word.

    Args:
        text: the translation.
        words: from :func:`words_of`.
    """
    made = [word for word in words if word.text != END]
    if text.split() != [word.text for word in made]:
        return [(text, None)] if text else []
    left = iter(made)
    return [(part, None if part.isspace() else next(left)) for part in re.split(r"(\s+)", text) if part]
