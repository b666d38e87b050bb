"""Forced decoding: known targets are read by a decoder token by token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from uwaga.decoder import Choice, Decoder, Ids, Step


class ForcedTokens(NamedTuple):
    """A step of forced decoding, at one position of all targets that are long enough.

    Attributes:
        indices: (running,) indices of these targets, longest first.
        tokens: (running,) the token of each target at this position.
        step: the step that predicts these tokens.
    """

    indices: Ids
    tokens: Ids
    step: Step


def force_targets(
    decoder: Decoder,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    start: int,
    choice: Choice,
) -> Iterator[ForcedTokens]:
    """Decode known targets together, and yield each step; targets that have ended are removed.

    Args:
        decoder: the model.
        sources: the tokens of each sentence.
        targets: the tokens of each target, end symbol included; at least one target.
        start: the first decoder input.
        choice: what each step returns; if it asks for a candidate, the candidate is the target's token.
    """
    order = np.array(sorted(range(len(targets)), key=lambda index: -len(targets[index])), dtype=np.int64)
    lengths = np.array([len(targets[index]) for index in order])  # (sentences,) descending
    padded: Ids = np.zeros((len(order), int(lengths[0])), dtype=np.int64)  # (sentences, target)
    for row, index in enumerate(order):
        padded[row, : lengths[row]] = targets[index]
    state = decoder.start(decoder.encode([sources[index] for index in order]), 1)
    inputs: Ids = np.full(len(order), start, dtype=np.int64)  # (running,)
    for position in range(padded.shape[1]):
        running_count = int((lengths > position).sum())
        if running_count < len(inputs):
            state, inputs = state.select(np.arange(running_count)), inputs[:running_count]
        tokens = padded[:running_count, position]
        step = decoder.step(inputs, state, replace(choice, forced=tokens) if choice.count else choice)
        yield ForcedTokens(order[:running_count], tokens, step)
        state, inputs = step.state, tokens
