"""The distance of the first two sampled tokens from the distribution that ``transformers`` samples from."""

from collections import Counter

import torch
from search_inputs import inputs
from transformers import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from uwaga.search import search

SAMPLING_OPTIONS = {"temperature": 1.4, "top_k": 4, "top_p": 0.9}
SAMPLES = 4000


def total_variation(model, options, sources, next_logits):
    """Return the total variation distance per source; ``next_logits`` returns (vocabulary,).

    With n samples of k outcomes its mean is at most ``sqrt(k / (2 pi n))``, 0.025 here.
    """
    options = options.changed(
        {
            **SAMPLING_OPTIONS, "sample": True, "nbest": SAMPLES, "seed": 1, "max_length": 2, "banned": (),
            "beam": 1,
        }
    )  # fmt: skip
    results = search(model, inputs(sources), options)
    return [
        _distance(
            Counter(translation.tokens for translation in translations),
            _pairs(source, next_logits, model.symbols.end),
        )
        for source, translations in zip(sources, results, strict=True)
    ]


def _pairs(source, next_logits, end):
    """Return the exact probability of each outcome: one or two tokens before the end."""
    probabilities = {}
    for token, chance in _token_probabilities(next_logits(source, [])):
        if token == end:
            probabilities[()] = chance
            continue
        for second, next_chance in _token_probabilities(next_logits(source, [token])):
            probabilities[(token,) if second == end else (token, second)] = chance * next_chance
    return probabilities


def _token_probabilities(logits):
    table = logits[None]
    for warp in (
        TemperatureLogitsWarper(SAMPLING_OPTIONS["temperature"]),
        TopKLogitsWarper(SAMPLING_OPTIONS["top_k"]),
        TopPLogitsWarper(SAMPLING_OPTIONS["top_p"]),
    ):
        table = warp(None, table)
    return [(token, chance) for token, chance in enumerate(torch.softmax(table[0], -1).tolist()) if chance]


def _distance(counted, probabilities):
    frequencies = {outcome: count / SAMPLES for outcome, count in counted.items()}
    return (
        sum(
            abs(frequencies.get(outcome, 0.0) - probabilities.get(outcome, 0.0))
            for outcome in {*frequencies, *probabilities}
        )
        / 2
    )
