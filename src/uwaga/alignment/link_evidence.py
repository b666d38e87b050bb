"""How likely two words are linked, by what several heads of a model say together.

No single head aligns as well as all do: one finds nouns, another the articles before them, a third looks a
step too far. So each pair of words has evidence, that of a lexicon too where there is one, and a logistic
regression says what it is worth. A second one looks at what the first has made of the pair, of those around
it, since words go on side by side, and of the other partners that either word might have (as the fertility
and distortion of Brown 1993). The weights are a :class:`uwaga.settings.LinkModel`, which
:mod:`uwaga.inspection.head_selection` finds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from uwaga.errors import ModelError
from uwaga.results.attention import Floats
from uwaga.settings import LinkModel, WordLexicon

SHARED = 0.05
"""Attention that a source word must have in all for its share to count."""
DIAGONALS = ((1, 1), (-1, -1), (1, -1), (-1, 1))
SIDES = ((1, 0), (-1, 0)), ((0, 1), (0, -1))
FIRST_ALONE, SECOND = 8, 11
"""Weights of the first regression beside two a head, and of the second; a constant each among them."""
LEXICAL = 9
"""Weights that the first one has more where there is a lexicon."""
UNLIKELY = -3.0
"""Power of ten below which no chance of a lexicon goes: that of words which it does not know."""
Evidence = NDArray[np.float64]


def word_maps(maps: Floats, sources: Sequence[range], targets: Sequence[range]) -> Evidence:
    """Attention between pieces as attention between words: (heads, target words, source words).

    What the pieces of a source word get is added up, what those of a target word give is their mean.

    Args:
        maps: (heads, target pieces, source pieces).
        sources: of each source piece its words, counted from 0.
        targets: of each target piece its words.
    """
    given = np.zeros((maps.shape[2], _words(sources)))
    for piece, words in enumerate(sources):
        given[piece, words.start : words.stop] = 1.0 / max(len(words), 1)
    taken = np.zeros((_words(targets), maps.shape[1]))
    for piece, words in enumerate(targets):
        taken[words.start : words.stop, piece] = 1.0
    taken /= np.maximum(taken.sum(axis=1, keepdims=True), 1.0)
    found: Evidence = taken @ (maps.astype(np.float64) @ given)
    return found


def first_evidence(
    maps: Evidence, source: Sequence[str], target: Sequence[str], lexicon: WordLexicon | None = None
) -> Evidence:
    """What attention and spelling say: (target words, source words, evidence).

    Of each head its attention, and its share of all that the source word gets; whether the words are equal,
    what share of their letters begins both, and whether one alone is a word and not a mark; and the first
    head's attention at the four corners around. Of a lexicon how likely each word is of the other and both
    together, as they are and as powers of ten, and how far that is below the likeliest of its row and column.

    Args:
        maps: (heads, target words, source words), the best head first.
        source: the words of the source.
        target: the words of the translation.
        lexicon: what words stand for one another.

    Raises:
        ModelError: the lexicon is damaged.
    """
    shares = maps / (maps.sum(axis=1, keepdims=True) + SHARED)
    spelt = np.array([[_likeness(one, other) for one in source] for other in target])
    spelt = spelt.reshape(len(target), len(source), 3).transpose(2, 0, 1)
    around = [_shifted(maps[0], *by) for by in DIAGONALS]
    lexical = [] if lexicon is None else _lexical(source, target, lexicon)
    return np.stack([*maps, *shares, *spelt, *around, *lexical], axis=-1)


def second_evidence(logits: Evidence) -> Evidence:
    """What the first regression says of a pair and of the others: (target words, source words, evidence).

    Its logit and probability; of the other partners of either word the sum and the most; and of the pairs
    around it those on the diagonal, and beside it in either text.

    Args:
        logits: (target words, source words) of the first regression.
    """
    found = logistic(logits)
    others = [found.sum(axis=axis, keepdims=True) - found for axis in (1, 0)]
    most = [_most_other(found, axis) for axis in (1, 0)]
    along = [_shifted(found, *by) for by in DIAGONALS[:2]]
    beside = [_shifted(found, *one) + _shifted(found, *other) for one, other in SIDES]
    return np.stack([logits, found, *others, *most, *along, *beside], axis=-1)


def link_probabilities(
    model: LinkModel, maps: Evidence, source: Sequence[str], target: Sequence[str]
) -> Evidence:
    """(target words, source words) how likely each pair is linked.

    Args:
        model: the weights.
        maps: (heads, target words, source words) of the model's heads.
        source: the words of the source.
        target: the words of the translation.

    Raises:
        ModelError: the model has another number of weights, or its lexicon is damaged.
    """
    if not source or not target:
        return np.zeros((len(target), len(source)))
    logits = weighed(first_evidence(maps, source, target, model.lexicon), model.first)
    return logistic(weighed(second_evidence(logits), model.second))


def weighed(evidence: Evidence, weights: Sequence[float]) -> Evidence:
    """The logits: evidence by its weights, and the constant, which is the last of these.

    Raises:
        ModelError: there are not as many weights.
    """
    wanted = evidence.shape[-1] + 1
    if len(weights) != wanted:
        raise ModelError(
            f"the model's alignment head has {len(weights)} weights for links where {wanted} are wanted; "
            "choose another with `uwaga align --choose`"
        )
    found: Evidence = evidence @ np.array(weights[:-1]) + weights[-1]
    return found


def logistic(logits: Evidence) -> Evidence:
    """The probabilities that logits stand for."""
    found: Evidence = 1.0 / (1.0 + np.exp(-np.clip(logits, -30.0, 30.0)))
    return found


def _words(owners: Sequence[range]) -> int:
    return max((words.stop for words in owners), default=0)


def _shifted(table: Evidence, down: int, right: int) -> Evidence:
    """The table moved, with zeros where nothing came to."""
    rows, columns = table.shape
    found = np.zeros_like(table)
    found[max(down, 0) : rows + min(down, 0), max(right, 0) : columns + min(right, 0)] = table[
        max(-down, 0) : rows + min(-down, 0), max(-right, 0) : columns + min(-right, 0)
    ]
    return found


def _most_other(table: Evidence, axis: int) -> Evidence:
    """Of each cell the most that another cell has, along an axis."""
    if table.shape[axis] < 2:
        return np.zeros_like(table)
    second, first = np.moveaxis(np.partition(table, (-2, -1), axis=axis), axis, 0)[-2:]
    first, second = np.expand_dims(first, axis), np.expand_dims(second, axis)
    return np.where(table >= first, second, first)


def _lexical(source: Sequence[str], target: Sequence[str], lexicon: WordLexicon) -> list[Evidence]:
    """What a lexicon says of each pair of words: :data:`LEXICAL` arrays of (target words, source words)."""
    known = [lexicon.partners.get(word.lower()[: lexicon.letters], {}) for word in source]
    written = [word.lower()[: lexicon.letters] for word in target]
    chances = np.array([[partners.get(word, (0.0, 0.0)) for partners in known] for word in written])
    chances = chances.transpose(2, 0, 1)  # (2, target words, source words)
    both = np.sqrt(chances.prod(axis=0))
    powers = 1.0 - np.log10(np.maximum(chances, 10.0**UNLIKELY)) / UNLIKELY
    relative = [
        one - one.max(axis=axis, keepdims=True) for one in (both, powers.mean(axis=0)) for axis in (0, 1)
    ]
    return [*chances, both, *powers, *relative]


def _likeness(one: str, other: str) -> tuple[float, float, float]:
    """Whether two words are equal without case, what share begins both, and whether but one has letters."""
    marks = float(one[0].isalnum() != other[0].isalnum())
    if one[0].casefold() != other[0].casefold():
        return 0.0, 0.0, marks
    left, right = one.casefold(), other.casefold()
    same = next(
        (at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right))
    )
    return float(left == right), same / max(len(left), len(right)), marks
