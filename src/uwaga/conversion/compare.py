"""How like each other a model and its rounded copy translate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from uwaga.engine import NativeModel
from uwaga.errors import ModelError
from uwaga.search import SearchOptions, search
from uwaga.settings import DecoderOnlySettings
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.scoring import in_batches, step_scorer

DRAWN, SHORTEST, LONGEST = 32, 6, 20
"""Sources drawn from the vocabulary where no text is given, and their tokens."""
BATCH_TOKENS = 2048
CONTINUED = 32
"""Tokens made behind each prompt of a decoder-only model."""


@dataclass(frozen=True)
class Agreement:
    """How like each other float32 and int8 translate or continue a sample, greedily.

    ``same``: of the sentences, the share that come out alike; ``tokens``: of all tokens, the share that
    agrees from the start of its sentence on; ``difference``: by how much the log-probability of a token of
    the float32 result differs on average; ``largest``: the largest difference of a sentence's mean;
    ``continued``: whether the model is decoder-only and continues; ``measured_on``: what the sample is.
    """

    sentences: int
    same: float
    tokens: float
    difference: float
    largest: float
    continued: bool = False
    measured_on: str = "sentences"

    def to_dict(self) -> dict[str, object]:
        """The agreement for JSON."""
        return asdict(self)


def measure_agreement(
    exact: NativeModel, rounded: NativeModel, sources: Sequence[Sequence[int]]
) -> Agreement:
    """How alike two engines of one model translate ``sources``, token ids with their end symbols.

    A decoder-only model continues them as prompts.
    """
    options = SearchOptions(beam=1, max_length=None if exact.max_target else 256, batch_tokens=BATCH_TOKENS)
    continues = isinstance(exact.settings, DecoderOnlySettings)
    if continues and exact.max_source is not None:
        room = exact.max_source - max(map(len, sources)) + 1  # the last token made needs no position
        options = options.changed({"max_length": min(CONTINUED, room), "max_ratio": math.inf})
    found = [[one for [one] in search(model, sources, options)] for model in (exact, rounded)]
    pairs = [(one.tokens, other.tokens) for one, other in zip(*found, strict=True)]
    agreeing = sum(_prefix(one, other) for one, other in pairs)
    targets = [one.tokens if one.truncated else (*one.tokens, exact.symbols.end) for one in found[0]]
    scores = [in_batches(step_scorer(model), sources, targets, BATCH_TOKENS) for model in (exact, rounded)]
    differences = [
        np.asarray(one) - np.asarray(other) for one, other in zip(scores[0], scores[1], strict=True)
    ]
    every = np.concatenate(differences)
    return Agreement(
        sentences=len(pairs),
        same=sum(one == other for one, other in pairs) / len(pairs),
        tokens=agreeing / max(1, sum(max(len(one), len(other)) for one, other in pairs)),
        difference=float(np.abs(every).mean()),
        largest=max(math.fabs(float(one.mean())) for one in differences),
        continued=continues,
    )


def _prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Tokens that both begin with."""
    alike = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        alike += 1
    return alike


def comparison_sources(
    sample: Sequence[str] | None, tokeniser: Subwords, model: NativeModel
) -> list[tuple[int, ...]]:
    """Token ids to compare two engines on: of a sample's sentences, or drawn from the vocabulary.

    Raises:
        ModelError: the sample holds no sentence that the model can take.
    """
    limit = model.max_source or 512
    size = model.source_vocabulary
    if sample is not None:
        framed = [
            tuple(tokeniser.add_special_tokens(tokeniser.encode(line.strip())))
            for line in sample
            if line.strip()
        ]
        usable = [source for source in framed if 0 < len(source) <= limit]
        if not usable:
            raise ModelError("the sample holds no sentence that the model can take; give another")
        return usable
    symbols = tokeniser.symbols
    special = {symbols.start, symbols.end, symbols.pad, symbols.unknown}
    pieces = np.array([token for token in range(size) if token not in special])
    rng = np.random.default_rng(0)
    lengths = rng.integers(min(SHORTEST, limit - 1), min(LONGEST, limit - 1) + 1, DRAWN)
    return [tuple(tokeniser.add_special_tokens(rng.choice(pieces, length).tolist())) for length in lengths]
