"""Word probabilities and quality estimates from token probabilities (Fomicheva 2020, section 3.1).

Models assign a probability to each subword piece; this module joins the pieces of words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

WORD_PREFIXES = ("▁", "Ġ")
"""Prefixes of pieces that begin a word, in SentencePiece and in byte-level BPE."""

CONTINUATION_PREFIX = "##"
"""Prefix of pieces that continue a word, in WordPiece."""

START, END = "<s>", "</s>"
"""Labels of the start and the end of a sentence."""


@dataclass(frozen=True)
class Word:
    """A word with its probability.

    ``text`` is delimited by white space and includes punctuation; the end of a sentence is the word ``</s>``.
    ``probability`` is the product of the probabilities of its pieces, the conditional probability of the
    word; the product over all words is the probability of the translation. ``mean`` is the geometric mean
    over the pieces, which makes words of few and of many pieces comparable. ``entropy`` is the mean entropy
    over the pieces, in nats; None if not requested.
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
    """Return the range of pieces of each word as (start, end); start and end symbols are separate words."""
    if any(piece.startswith(WORD_PREFIXES) for piece in pieces):
        starts = [
            index
            for index, piece in enumerate(pieces)
            if piece.startswith(WORD_PREFIXES) or piece in (START, END)
        ]
    elif any(piece.startswith(CONTINUATION_PREFIX) for piece in pieces):
        starts = [index for index, piece in enumerate(pieces) if not piece.startswith(CONTINUATION_PREFIX)]
    else:
        starts = list(range(len(pieces)))
    starts = sorted(
        {0, *starts, *(index + 1 for index, piece in enumerate(pieces[:-1]) if piece in (START, END))}
    )
    return list(zip(starts, [*starts[1:], len(pieces)], strict=True)) if pieces else []


def join_pieces(pieces: Sequence[str]) -> str:
    """Return the text of a word's pieces, or ``␣`` if it is only white space."""
    text = "".join(
        piece.removeprefix(CONTINUATION_PREFIX) if index else piece for index, piece in enumerate(pieces)
    )
    for mark in WORD_PREFIXES:
        text = text.replace(mark, " ")
    return text.strip() or "␣"


def words_from_tokens(
    text: str, tokens: Sequence[str], token_scores: Sequence[float], entropies: Sequence[float] = ()
) -> tuple[Word, ...]:
    """Return the words of a translation with their probabilities.

    Args:
        text: the translation. It provides the spelling of the words if it has as many words as ``tokens``.
        tokens: the pieces of the translation, with the end symbol between sentences.
        token_scores: natural log-probabilities of the tokens and, unless truncated, of the end symbol.
        entropies: the entropies in nats, one for each of ``token_scores``, or empty.
    """
    pieces = (*tokens, *[END] * (len(token_scores) - len(tokens)))
    spans = word_spans(pieces)
    text_words = iter(text.split())
    word_count = sum(pieces[start] != END for start, _ in spans)
    has_same_count = len(text.split()) == word_count
    words = []
    for start, stop in spans:
        is_end = pieces[start] == END
        spelling = END if is_end else next(text_words) if has_same_count else join_pieces(pieces[start:stop])
        total = math.fsum(token_scores[start:stop])
        mean_probability = _exp(total / (stop - start))
        entropy = math.fsum(entropies[start:stop]) / (stop - start) if entropies else None
        words.append(Word(spelling, _exp(total), mean_probability, entropy))
    return tuple(words)


def estimate_confidence(
    words: Sequence[Word], token_scores: Sequence[float], entropies: Sequence[float] = ()
) -> Confidence | None:
    """Return quality estimates of a translation; None if it has no tokens, such as a copied text.

    Args:
        words: the result of :func:`words_from_tokens`.
        token_scores: natural log-probabilities of the tokens and, unless truncated, of the end symbol.
        entropies: the entropies in nats, one for each of ``token_scores``, or empty.
    """
    if not token_scores:
        return None
    mean_score = math.fsum(token_scores) / len(token_scores)
    probabilities = [word.probability for word in words if word.text != END] or [1.0]
    return Confidence(
        mean_log_prob=mean_score,
        probability=_exp(mean_score),
        mean_word=math.fsum(probabilities) / len(probabilities),
        lowest_word=min(probabilities),
        entropy=math.fsum(entropies) / len(entropies) if entropies else None,
    )


def _exp(log_prob: float) -> float:
    """Return the exponential of a log-probability, at most 1: rounding can make one positive."""
    return min(1.0, math.exp(log_prob))


def split_words(text: str, words: Sequence[Word]) -> list[tuple[str, Word | None]]:
    """Split a translation into words, each with its :class:`Word`, and white space, with None.

    If the words of the text differ from the words of its pieces, as in a partly copied text, the result is
    the complete text with None.

    Args:
        text: the translation.
        words: the result of :func:`words_from_tokens`.
    """
    text_words = [word for word in words if word.text != END]
    if text.split() != [word.text for word in text_words]:
        return [(text, None)] if text else []
    remaining_words = iter(text_words)
    return [
        (part, None if part.isspace() else next(remaining_words)) for part in re.split(r"(\s+)", text) if part
    ]
