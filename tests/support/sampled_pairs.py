"""How far the first two sampled tokens are from the distribution that ``transformers`` draws them from."""

from collections import Counter

import torch
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from uwaga.search import search

SHAPE = {"temperature": 1.4, "top_k": 4, "top_p": 0.9}
SAMPLES = 4000


def total_variation(model, options, sources, next_logits):
    """Half the sum of differences, per source; ``next_logits`` (vocabulary,) from a source and tokens.

    With n samples of k outcomes its mean is at most ``sqrt(k / (2 pi n))``, 0.025 here.
    """
    options = options.changed(
        {**SHAPE, "sample": True, "nbest": SAMPLES, "seed": 1, "max_length": 2, "banned": (), "beam": 1}
    )
    found = search(model, sources, options)
    return [
        _distance(Counter(one.tokens for one in ways), _pairs(source, next_logits, model.symbols.end))
        for source, ways in zip(sources, found, strict=True)
    ]


def _pairs(source, next_logits, end):
    """The exact probability of each outcome: one token before the end, or two."""
    chances = {}
    for token, chance in _chances(next_logits(source, [])):
        if token == end:
            chances[()] = chance
            continue
        for second, behind in _chances(next_logits(source, [token])):
            chances[(token,) if second == end else (token, second)] = chance * behind
    return chances


def _chances(logits):
    table = logits[None]
    for warp in (
        TemperatureLogitsWarper(SHAPE["temperature"]),
        TopKLogitsWarper(SHAPE["top_k"]),
        TopPLogitsWarper(SHAPE["top_p"]),
    ):
        table = warp(None, table)
    return [(token, chance) for token, chance in enumerate(torch.softmax(table[0], -1).tolist()) if chance]


def _distance(counted, chances):
    drawn = {outcome: count / SAMPLES for outcome, count in counted.items()}
    return sum(abs(drawn.get(one, 0.0) - chances.get(one, 0.0)) for one in {*drawn, *chances}) / 2
