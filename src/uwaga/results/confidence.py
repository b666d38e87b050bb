"""Word probabilities and quality estimates from token probabilities (Fomicheva 2020, section 3.1).

Models give a probability to each subword piece; readers ask about words, so pieces are joined to words here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

SPACES = ("▁", "Ġ")
"""Prefixes of a piece that begins a word, in SentencePiece and in byte-level BPE."""

INSIDE = "##"
"""Prefix of a WordPiece that continues a word."""

START, END = "<s>", "</s>"
"""Labels of the start and the end of a sentence."""


@dataclass(frozen=True)
class Word:
    """A word with its probability.

    ``text`` is delimited by white space and includes punctuation; the end of a sentence is the word ``</s>``.
    ``probability`` is the product over its pieces, the conditional probability of the word; the product over
    all words is that of the translation. ``mean`` is the geometric mean over the pieces, which makes words of
    few and of many pieces comparable. ``entropy`` is the mean over its pieces in nats, None if not requested.
    """

    text: str
    probability: float
    mean: float
    entropy: float | None = None


@dataclass(frozen=True)
class Confidence:
    """Estimates of a translation's quality that need no reference (Fomicheva 2020, section 3.1).

    Higher is better, except for ``entropy``. ``mean_log_prob`` is the mean natural log-probability of the
    tokens, ends of sentences included (TP in the paper); ``probability`` is its exponential, the geometric
    mean of the token probabilities. ``mean_word`` and ``lowest_word`` are the mean and the minimum of the
    word probabilities, without ends of sentences. ``entropy`` is the mean over the tokens (Softmax-Ent in the
    paper) in nats, None if not requested.
    """

    mean_log_prob: float
    probability: float
    mean_word: float
    lowest_word: float
    entropy: float | None = None


def word_spans(pieces: Sequence[str]) -> list[tuple[int, int]]:
    """Return the first piece and the end of each word; start and end symbols are words by themselves."""
    if any(piece.startswith(SPACES) for piece in pieces):
        starts = [at for at, piece in enumerate(pieces) if piece.startswith(SPACES) or piece in (START, END)]
    elif any(piece.startswith(INSIDE) for piece in pieces):
        starts = [at for at, piece in enumerate(pieces) if not piece.startswith(INSIDE)]
    else:
        starts = list(range(len(pieces)))
    starts = sorted({0, *starts, *(at + 1 for at, piece in enumerate(pieces[:-1]) if piece in (START, END))})
    return list(zip(starts, [*starts[1:], len(pieces)], strict=True)) if pieces else []


def joined(pieces: Sequence[str]) -> str:
    """Return the text of a word's pieces, ``␣`` if it is only white space."""
    text = "".join(piece.removeprefix(INSIDE) if at else piece for at, piece in enumerate(pieces))
    for mark in SPACES:
        text = text.replace(mark, " ")
    return text.strip() or "␣"


def words_of(
    text: str, tokens: Sequence[str], token_scores: Sequence[float], entropies: Sequence[float] = ()
) -> tuple[Word, ...]:
    """Return the words of a translation.

    Args:
        text: the translation. Words are spelt as in it if it has as many words as its pieces.
        tokens: its pieces, with the end symbol between two sentences.
        token_scores: natural log-probabilities of the tokens and, unless truncated, of the end symbol.
        entropies: in nats, one for each of ``token_scores``, or empty.
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
    """Return the quality estimates of a translation, None without tokens, such as for a copied text.

    Args:
        words: from :func:`words_of`.
        token_scores: natural log-probabilities of the tokens and, unless truncated, of the end symbol.
        entropies: in nats, one for each of ``token_scores``, or empty.
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
    """Return the exponential, at most 1: rounding may put a log-probability above 0."""
    return min(1.0, math.exp(log_prob))


def in_text(text: str, words: Sequence[Word]) -> list[tuple[str, Word | None]]:
    """Split a translation into words, each with its :class:`Word`, and white space, with None.

    If the words of the text differ from those of its pieces, as in a partly copied text, the whole text is
    one part with None.

    Args:
        text: the translation.
        words: from :func:`words_of`.
    """
    made = [word for word in words if word.text != END]
    if text.split() != [word.text for word in made]:
        return [(text, None)] if text else []
    left = iter(made)
    return [(part, None if part.isspace() else next(left)) for part in re.split(r"(\s+)", text) if part]
