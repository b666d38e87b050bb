"""Link probabilities of word pairs from several attention heads.

No single head aligns as well as several heads together: one head aligns nouns, another the articles before
them. A logistic regression combines the features of a word pair, which come from the heads, the spelling and,
optionally, a lexicon. A second regression uses the probabilities of the pair, of its neighbours (because
alignments are locally monotonic) and of competing pairs (cf. fertility and distortion, Brown 1993). The
weights are a :class:`uwaga.settings.LinkModel`, trained by :mod:`uwaga.inspection.head_selection`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from uwaga.errors import ModelError
from uwaga.results.attention import Floats
from uwaga.settings import LinkModel, WordLexicon

SHARE_SMOOTHING = 0.05
"""Constant added to the total attention on a source word when shares are computed."""
DIAGONALS = ((1, 1), (-1, -1), (1, -1), (-1, 1))
ADJACENT = ((1, 0), (-1, 0)), ((0, 1), (0, -1))
FIRST_WEIGHTS, SECOND_WEIGHTS = 8, 11
"""Number of weights, bias included, of the first regression (besides two per head) and of the second."""
LEXICON_WEIGHTS = 9
"""Number of further weights of the first regression if a lexicon is used."""
MIN_LOG_PROBABILITY = -3.0
"""Minimum base-10 logarithm of a lexicon probability, which is also used for unknown words."""
Evidence = NDArray[np.float64]


def word_maps(maps: Floats, sources: Sequence[range], targets: Sequence[range]) -> Evidence:
    """Return the attention between words (heads, target words, source words), from attention between pieces.

    Weights are summed over the pieces of a source word and averaged over those of a target word.

    Args:
        maps: (heads, target pieces, source pieces).
        sources: range of word indices of each source piece.
        targets: range of word indices of each target piece.
    """
    source_weights = np.zeros((maps.shape[2], _word_count(sources)))
    for piece, words in enumerate(sources):
        source_weights[piece, words.start : words.stop] = 1.0 / max(len(words), 1)
    target_weights = np.zeros((_word_count(targets), maps.shape[1]))
    for piece, words in enumerate(targets):
        target_weights[words.start : words.stop, piece] = 1.0
    target_weights /= np.maximum(target_weights.sum(axis=1, keepdims=True), 1.0)
    word_level_maps: Evidence = target_weights @ (maps.astype(np.float64) @ source_weights)
    return word_level_maps


def first_evidence(
    maps: Evidence, source: Sequence[str], target: Sequence[str], lexicon: WordLexicon | None = None
) -> Evidence:
    """Return the features of the first regression (target words, source words, features).

    The features are: for each head, the attention and its share of all attention on the source word; whether
    the words are equal, the relative length of their common prefix, and whether only one of them is
    punctuation; the first head's attention at the four diagonal neighbours. With a lexicon, they also include
    the probabilities in both directions and their means, linear and logarithmic, and these means relative to
    the maximum of the row and of the column.

    Args:
        maps: (heads, target words, source words), the best head first.
        source: words of the source.
        target: words of the translation.
        lexicon: word translation probabilities.
    """
    shares = maps / (maps.sum(axis=1, keepdims=True) + SHARE_SMOOTHING)
    spelling = np.array([[_spelling_features(word, partner) for word in source] for partner in target])
    spelling = spelling.reshape(len(target), len(source), 3).transpose(2, 0, 1)
    neighbours = [_shift(maps[0], *offset) for offset in DIAGONALS]
    lexical_evidence = [] if lexicon is None else _lexical_evidence(source, target, lexicon)
    return np.stack([*maps, *shares, *spelling, *neighbours, *lexical_evidence], axis=-1)


def second_evidence(logits: Evidence) -> Evidence:
    """Return the features of the second regression (target words, source words, features).

    The features are the logit and the probability of the pair; the sum and the maximum of the probabilities
    of competing pairs, by target and by source word; and the probabilities of neighbouring pairs, on the
    diagonal and in either text.

    Args:
        logits: (target words, source words) of the first regression.
    """
    probabilities = logistic(logits)
    competitors = [probabilities.sum(axis=axis, keepdims=True) - probabilities for axis in (1, 0)]
    largest = [_largest_competitor(probabilities, axis) for axis in (1, 0)]
    diagonal = [_shift(probabilities, *offset) for offset in DIAGONALS[:2]]
    adjacent = [_shift(probabilities, *before) + _shift(probabilities, *after) for before, after in ADJACENT]
    return np.stack([logits, probabilities, *competitors, *largest, *diagonal, *adjacent], axis=-1)


def link_probabilities(
    model: LinkModel, maps: Evidence, source: Sequence[str], target: Sequence[str]
) -> Evidence:
    """Return the link probability of each word pair (target words, source words).

    Args:
        model: the weights.
        maps: (heads, target words, source words) attention of the heads that the link model uses.
        source: words of the source.
        target: words of the translation.
    """
    if not source or not target:
        return np.zeros((len(target), len(source)))
    logits = weighted_sum(first_evidence(maps, source, target, model.lexicon), model.first)
    return logistic(weighted_sum(second_evidence(logits), model.second))


def weighted_sum(evidence: Evidence, weights: Sequence[float]) -> Evidence:
    """Return the logits: the weighted sums of the features, plus the bias, which is the last weight."""
    expected_count = evidence.shape[-1] + 1
    if len(weights) != expected_count:
        raise ModelError(
            f"the model's alignment head has {len(weights)} link weights, but {expected_count} are needed; "
            "choose another alignment head with `uwaga align --choose`"
        )
    logits: Evidence = evidence @ np.array(weights[:-1]) + weights[-1]
    return logits


def logistic(logits: Evidence) -> Evidence:
    """Return the logistic function of each logit, which is a probability."""
    probabilities: Evidence = 1.0 / (1.0 + np.exp(-np.clip(logits, -30.0, 30.0)))
    return probabilities


def _word_count(piece_words: Sequence[range]) -> int:
    return max((words.stop for words in piece_words), default=0)


def _shift(table: Evidence, row_offset: int, column_offset: int) -> Evidence:
    """Return a table shifted by ``row_offset`` rows and ``column_offset`` columns, padded with zeros."""
    rows, columns = table.shape
    result = np.zeros_like(table)
    result[
        max(row_offset, 0) : rows + min(row_offset, 0),
        max(column_offset, 0) : columns + min(column_offset, 0),
    ] = table[
        max(-row_offset, 0) : rows + min(-row_offset, 0),
        max(-column_offset, 0) : columns + min(-column_offset, 0),
    ]
    return result


def _largest_competitor(table: Evidence, axis: int) -> Evidence:
    """Return, for each cell, the maximum of the other cells along an axis."""
    if table.shape[axis] < 2:
        return np.zeros_like(table)
    second_largest, largest = np.moveaxis(np.partition(table, (-2, -1), axis=axis), axis, 0)[-2:]
    largest, second_largest = np.expand_dims(largest, axis), np.expand_dims(second_largest, axis)
    return np.where(table >= largest, second_largest, largest)


def _lexical_evidence(source: Sequence[str], target: Sequence[str], lexicon: WordLexicon) -> list[Evidence]:
    """Return the :data:`LEXICON_WEIGHTS` features of a lexicon, each (target words, source words)."""
    partner_tables = [lexicon.translations.get(word.lower()[: lexicon.letters], {}) for word in source]
    stems = [word.lower()[: lexicon.letters] for word in target]
    probabilities = np.array(
        [[partners.get(word, (0.0, 0.0)) for partners in partner_tables] for word in stems]
    )
    probabilities = probabilities.transpose(2, 0, 1)  # (2, target words, source words)
    geometric_mean = np.sqrt(probabilities.prod(axis=0))
    powers = 1.0 - np.log10(np.maximum(probabilities, 10.0**MIN_LOG_PROBABILITY)) / MIN_LOG_PROBABILITY
    relative = [
        table - table.max(axis=axis, keepdims=True)
        for table in (geometric_mean, powers.mean(axis=0))
        for axis in (0, 1)
    ]
    return [*probabilities, geometric_mean, *powers, *relative]


def _spelling_features(word: str, partner: str) -> tuple[float, float, float]:
    """Return features of two words: case-insensitive equality, common prefix, and punctuation mismatch."""
    punctuation = float(word[0].isalnum() != partner[0].isalnum())
    if word[0].casefold() != partner[0].casefold():
        return 0.0, 0.0, punctuation
    left, right = word.casefold(), partner.casefold()
    common_length = next(
        (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )
    return float(left == right), common_length / max(len(left), len(right)), punctuation
