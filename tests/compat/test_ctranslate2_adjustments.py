"""CTranslate2's penalties, suppressed sequences and biased prefixes, compared with hand calculations."""

import numpy as np
import pytest

from uwaga.decoder import Choice, Sampling, Step, Symbols
from uwaga_compat.ctranslate2.adjusted import (
    AdjustedDecoder,
    bias_prefix,
    repetition_penalty,
    suppress_sequences,
)

MINUS_INFINITY = -np.inf


def adjusted(adjust, logits, written):
    table = np.array(logits, dtype=np.float64)
    adjust(table, np.array(written))
    return table


def test_repetition_penalty_divides_positive_logits_and_multiplies_negative_ones_once():
    logits, written = [[4.0, -1.0, 3.0], [4.0, -1.0, 3.0]], [[0, 1, 0], [2, 2, 2]]
    assert adjusted(repetition_penalty(2), logits, written).tolist() == [[2, -2, 3], [4, -1, 1.5]]
    assert adjusted(repetition_penalty(2), [[1.0, MINUS_INFINITY]], [[1]]).tolist() == [[1, MINUS_INFINITY]]


def test_last_token_of_a_suppressed_sequence_is_banned_after_its_prefix():
    logits = [[1.0, 2.0, 3.0]] * 3
    table = adjusted(suppress_sequences([[0, 1], [2, 0, 2]]), logits, [[2, 0], [0, 2], [1, 1]])
    assert table.tolist() == [[1, MINUS_INFINITY, MINUS_INFINITY], [1, 2, 3], [1, 2, 3]]
    # Longer than what is written; a single token is always suppressed.
    table = adjusted(suppress_sequences([[2, 2, 0], [1]]), logits[:1], [[2]])
    assert table.tolist() == [[1, MINUS_INFINITY, 3]]


def test_bias_moves_probability_to_the_next_token_of_the_prefix():
    half = np.log([[0.5, 0.25, 0.25]] * 2) + 7  # not normalised
    table = adjusted(bias_prefix([1, 2], 0.2), half, [[1], [0]])
    np.testing.assert_allclose(np.exp(table[0]), [0.4, 0.2, 0.4])
    np.testing.assert_array_equal(table[1], half[1])  # has left the prefix
    table = adjusted(bias_prefix([1], 0.2), half, [[1], [1]])
    np.testing.assert_array_equal(table, half)  # the prefix is over


class FixedDecoder:
    """A model whose logits are always the same."""

    symbols, vocabulary = Symbols(start=0, end=0, pad=0, unknown=0), 4
    max_source = max_target = attentions = recording = cross_attention = cross_attentions = None
    logits = np.log(np.array([0.1, 0.2, 0.3, 0.4], dtype=np.float32))

    def start(self, memory, beams):
        return self

    def step(self, tokens, state, choice):
        rows = np.tile(self.logits, (len(tokens), 1))
        return Step(np.tile(np.arange(4), (len(tokens), 1)), rows, state)


class Memory:
    sentences = 1


def first_step(adjustments, choice, seed=None):
    decoder = AdjustedDecoder(FixedDecoder(), adjustments, seed)
    return decoder.step(np.array([0]), decoder.start(Memory(), 1), choice)


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        (1, {1: 0.5 * 0.2 / 0.6 + 0.5, 2: 0.5 * 0.3 / 0.6, 0: 0.5 * 0.1 / 0.6}),
        (3, {3: 0.5, 2: 0.5 * 0.3 / 0.6, 1: 0.5 * 0.2 / 0.6, 0: 0.5 * 0.1 / 0.6}),
    ],
)
def test_prefix_bias_is_applied_after_bans(prefix, expected):
    """The remaining probability is shared by tokens that are not banned; a banned token keeps its bias."""
    banned = np.array([[0, 3]])
    step = first_step([bias_prefix([prefix], 0.5)], Choice(4, banned=banned, renormalise=True))
    probabilities = dict(zip(step.tokens[0].tolist(), np.exp(step.log_probs[0]).tolist(), strict=True))
    assert {token: p for token, p in probabilities.items() if p} == pytest.approx(expected)


def test_each_forced_token_consumes_one_random_number():
    draws = {}
    for forced in (-1, 2):
        decoder = AdjustedDecoder(FixedDecoder(), [], 5)
        sampling = Sampling(np.zeros(1), 1.0, 0, 1.0)
        state, drawn = decoder.start(Memory(), 1), []
        for number in range(20):
            token = forced if number == 0 else -1
            step = decoder.step(np.array([1]), state, Choice(1, sampling=sampling, forced=np.array([token])))
            state = step.state
            drawn.append(step.tokens[0, 0])
        draws[forced] = drawn
    assert draws[2][0] == 2 and draws[2][1:] == draws[-1][1:]
