"""Properties of all searches: M20 (probability), M21 (encode once), M22 (limits), M23 (greedy), streams."""

import dataclasses
import math

import numpy as np
import pytest
from search_inputs import inputs
from toy_decoders import RecurrentToy, TableToy, teacher_forced

from uwaga.decoder import Step, Symbols
from uwaga.errors import DataError, ModelError, SettingsError, TextTooLongError
from uwaga.search import SearchOptions, search, stream

END = 2
SOURCES = [[7, 9, 11, 2], [5, 2], [30, 31, 32, 33, 34, 35, 2], [8, 4, 2], [6, 2]]
GREEDY = SearchOptions(beam=1, max_length=20)


def hand_table() -> TableToy:
    """Return a decoder whose most probable target is 4, 5 and the end symbol."""
    table = np.full((7, 7), -3.0)
    table[1, 4], table[4, 5], table[5, END] = 2.0, 1.0, 3.0
    return TableToy(7, table=table)


def test_M23_greedy_search_matches_hand_calculation():
    ((hypothesis,),) = search(hand_table(), inputs([[9, 2]]), GREEDY)
    rest = 6 * math.exp(-3.0)
    expected = [math.log(math.exp(top) / (math.exp(top) + rest)) for top in (2.0, 1.0, 3.0)]
    assert hypothesis.tokens == (4, 5)
    assert hypothesis.token_scores == pytest.approx(expected, abs=1e-6)
    assert hypothesis.log_prob == pytest.approx(sum(expected), abs=1e-6)
    assert hypothesis.score == pytest.approx(sum(expected) / 3, abs=1e-6)
    assert not hypothesis.truncated


def test_M23_greedy_search_equals_the_argmax_of_teacher_forcing():
    decoder = RecurrentToy(8, seed=5, end_bias=1.0)
    for source, (hypothesis,) in zip(SOURCES, search(decoder, inputs(SOURCES), GREEDY), strict=True):
        (table,), _ = teacher_forced(decoder, source, [[*hypothesis.tokens, END]])
        allowed = [token for token in range(8) if token not in (0, 1)]
        tokens = [*hypothesis.tokens] if hypothesis.truncated else [*hypothesis.tokens, END]
        assert tokens == [max(allowed, key=lambda token: row[token]) for row in table[: len(tokens)]]


@pytest.mark.parametrize(
    "changes",
    [
        {"beam": 4, "nbest": 4},
        {"beam": 3, "nbest": 3, "min_length": 4, "no_repeat_ngram": 2},
        {"beam": 3, "nbest": 2, "force_end": True, "max_length": 6, "score_forced": False},
        {"sample": True, "nbest": 3, "temperature": 0.5, "top_k": 4, "top_p": 0.9},
    ],
)
def test_M20_log_prob_is_the_sum_of_teacher_forced_log_probabilities(changes):
    decoder = RecurrentToy(9, seed=8, end_bias=0.5)
    options = SearchOptions(**({"max_length": 15, "attention": True} | changes))
    prefixes = [(4,), (), (5, 6), (), (7,)]
    for source, prefix, hypotheses in zip(
        SOURCES, prefixes, search(decoder, inputs(SOURCES, prefixes=prefixes), options), strict=True
    ):
        for hypothesis in hypotheses:
            tokens = hypothesis.tokens if hypothesis.truncated else (*hypothesis.tokens, END)
            (table,), (weights,) = teacher_forced(decoder, source, [tokens])
            expected = [table[index, token] for index, token in enumerate(tokens)]
            assert hypothesis.tokens[: len(prefix)] == prefix
            assert hypothesis.token_scores == pytest.approx(expected, abs=1e-5)
            assert hypothesis.log_prob == pytest.approx(sum(expected), abs=1e-5)
            # attention rows are reordered with their hypothesis
            assert hypothesis.attention.shape == (len(hypothesis.token_scores), len(source))
            assert hypothesis.attention == pytest.approx(weights, abs=1e-6)


def test_hypotheses_have_no_attention_by_default():
    ((hypothesis,),) = search(RecurrentToy(8, end_bias=1.0), inputs([SOURCES[0]]), GREEDY)
    assert hypothesis.attention is None


def test_M21_encoder_runs_once_and_finished_sentences_leave_the_batch():
    decoder = RecurrentToy(8, seed=2, end_bias=0.5)
    options = SearchOptions(beam=3, max_length=30)
    results = search(decoder, inputs(SOURCES), options)
    assert decoder.calls["encode"] == 1
    assert decoder.calls["start"] == 1
    assert decoder.calls["rows"] < decoder.calls["step"] * len(SOURCES) * 3
    longest = max(len(hypothesis.token_scores) for (hypothesis,) in results)
    assert decoder.calls["step"] >= longest


def test_search_batches_stay_within_the_token_budget():
    decoder = RecurrentToy(8, seed=2, end_bias=3.0)
    search(decoder, inputs([[5] * 9 + [2]] * 7), SearchOptions(beam=2, batch_tokens=60))
    assert decoder.calls["encode"] == 3  # 60 tokens are 3 sentences of 10 tokens with 2 beams


def test_M24_nbest_hypotheses_are_distinct_and_sorted():
    decoder = RecurrentToy(8, seed=4, end_bias=0.5)
    lists = search(decoder, inputs(SOURCES), SearchOptions(beam=6, nbest=6, early_stopping=False))
    best = search(decoder, inputs(SOURCES), SearchOptions(beam=6, nbest=1, early_stopping=False))
    for hypotheses, (first,) in zip(lists, best, strict=True):
        assert len(hypotheses) == 6
        assert len({hypothesis.tokens for hypothesis in hypotheses}) == 6
        scores = [hypothesis.score for hypothesis in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert hypotheses[0] == first


def test_M24_early_stopping_reduces_the_number_of_steps():
    early, late = RecurrentToy(8, seed=4, end_bias=1.0), RecurrentToy(8, seed=4, end_bias=1.0)
    search(early, inputs(SOURCES), SearchOptions(beam=4, early_stopping=True))
    search(late, inputs(SOURCES), SearchOptions(beam=4, early_stopping=False))
    assert early.calls["step"] < late.calls["step"]


def test_M24_exact_stopping_ends_earlier_for_a_smaller_nbest_list():
    """The best hypothesis is known earlier than the six best hypotheses."""
    best_only, six_best = RecurrentToy(8, seed=4, end_bias=1.0), RecurrentToy(8, seed=4, end_bias=1.0)
    exact = SearchOptions(beam=6, early_stopping=False, length_formula="none")
    search(best_only, inputs(SOURCES), exact)
    search(six_best, inputs(SOURCES), dataclasses.replace(exact, nbest=6))
    assert best_only.calls["step"] < six_best.calls["step"]


@pytest.mark.parametrize("beam", [1, 3])
def test_M22_truncation_is_reported(beam):
    decoder = RecurrentToy(8, seed=4, end_bias=-30.0)
    for limits, length in [
        ({"max_length": 5}, 5),
        ({"max_length": None, "max_ratio": 2.0, "max_extra": 3}, 7),
    ]:
        ((hypothesis,),) = search(decoder, inputs([[5, 2]]), SearchOptions(beam=beam, **limits))
        assert hypothesis.truncated
        assert len(hypothesis.tokens) == len(hypothesis.token_scores) == length
    ((hypothesis,),) = search(
        dataclasses.replace(decoder, max_target=4),
        inputs([[5, 2]]),
        SearchOptions(beam=beam, max_ratio=math.inf),
    )
    assert hypothesis.truncated
    assert len(hypothesis.tokens) == 4


def test_M22_hypothesis_is_truncated_only_if_its_end_symbol_exceeds_the_limit():
    ((hypothesis,),) = search(hand_table(), inputs([[9, 2]]), dataclasses.replace(GREEDY, max_length=3))
    assert (hypothesis.tokens, hypothesis.truncated) == ((4, 5), False)
    ((hypothesis,),) = search(hand_table(), inputs([[9, 2]]), dataclasses.replace(GREEDY, max_length=2))
    assert (hypothesis.tokens, hypothesis.truncated) == ((4, 5), True)


def test_M22_hypothesis_with_a_forced_end_symbol_is_truncated():
    options = dataclasses.replace(GREEDY, max_length=2, force_end=True)
    ((hypothesis,),) = search(hand_table(), inputs([[9, 2]]), options)
    assert hypothesis.tokens == (4,)
    assert hypothesis.truncated
    assert len(hypothesis.token_scores) == 1


def test_min_length_overrides_max_ratio():
    decoder = RecurrentToy(8, seed=4, end_bias=4.0)
    options = SearchOptions(beam=2, min_length=9, max_ratio=1.0, max_extra=0)
    ((hypothesis,),) = search(decoder, inputs([[5, 2]]), options)
    assert len(hypothesis.tokens) == 9
    assert not hypothesis.truncated


def test_search_never_generates_start_or_padding_symbols_or_banned_tokens():
    decoder = RecurrentToy(6, seed=1, end_bias=-9.0)
    decoder.outward[:, :4] *= 3.0  # the special symbols would often be the most probable
    tokens = {
        t
        for (hypothesis,) in search(decoder, inputs(SOURCES), SearchOptions(beam=1, max_length=30))
        for t in hypothesis.tokens
    }
    assert 3 in tokens
    assert tokens <= {3, 4, 5}
    options = SearchOptions(beam=1, max_length=30, unknown=False, banned=(4,))
    tokens = {t for (hypothesis,) in search(decoder, inputs(SOURCES), options) for t in hypothesis.tokens}
    assert tokens == {5}


def test_start_symbol_may_be_the_end_symbol():
    decoder = dataclasses.replace(
        RecurrentToy(8, seed=4, end_bias=3.0), symbols=Symbols(start=END, end=END, pad=END, unknown=3)
    )
    ((hypothesis,),) = search(decoder, inputs([[5, 2]]), SearchOptions(beam=2))
    assert not hypothesis.truncated


@pytest.mark.parametrize("options", [GREEDY, SearchOptions(sample=True), SearchOptions(beam=3)])
def test_hypothesis_is_truncated_if_all_tokens_are_banned(options):
    """With repeated unigrams and the end symbol banned, no token remains once all have been used."""
    decoder = RecurrentToy(6, seed=1)
    options = dataclasses.replace(options, no_repeat_ngram=1, min_length=10, max_length=20)
    ((hypothesis,),) = search(decoder, inputs([[5, 2]]), options)
    assert sorted(hypothesis.tokens) == [3, 4, 5]
    assert hypothesis.truncated


def test_forced_prefix_of_probability_zero_is_kept():
    decoder = TableToy(7, seed=3, end_bias=1.0)
    decoder.table[4, 6] = -np.inf
    for score_forced in (True, False):
        options = SearchOptions(beam=3, nbest=3, score_forced=score_forced)
        (nbest,) = search(decoder, inputs([[5, 2]], prefixes=[(4, 6)]), options)
        assert all(hypothesis.tokens[:2] == (4, 6) for hypothesis in nbest)
        assert all(result.log_prob == -math.inf and math.isfinite(result.score) for result in nbest)


def test_forced_prefix_overrides_bans():
    decoder = RecurrentToy(7, seed=3, end_bias=1.0)
    options = SearchOptions(beam=2, no_repeat_ngram=1, banned=(4,))
    ((hypothesis,),) = search(decoder, inputs([[5, 2]], prefixes=[(4, 4)]), options)
    assert hypothesis.tokens[:2] == (4, 4)


@pytest.mark.parametrize(
    "options",
    [GREEDY, SearchOptions(sample=True, top_k=3, seed=4), dataclasses.replace(GREEDY, max_length=3)],
)
def test_stream_gives_the_results_of_the_search(options):
    decoder = RecurrentToy(8, seed=6, end_bias=0.5)
    prefixes = [(4, 5), (), (), (), ()]
    expected = search(decoder, inputs(SOURCES, prefixes=prefixes), options)
    streamed = []
    assert search(decoder, inputs(SOURCES, prefixes=prefixes), options, on_token=streamed.append) == expected
    events = list(stream(decoder, inputs(SOURCES, prefixes=prefixes), options))
    assert events == streamed
    for index, (hypothesis,) in enumerate(expected):
        sentence_events = [event for event in events if event.sentence == index]
        assert tuple(event.token for event in sentence_events[:-1]) == hypothesis.tokens
        assert [event.log_prob for event in sentence_events[:-1]] == list(
            hypothesis.token_scores[: len(hypothesis.tokens)]
        )
        assert (sentence_events[-1].token, sentence_events[-1].hypothesis) == (None, hypothesis)


def test_stream_yields_each_token_as_soon_as_it_is_decided():
    decoder = RecurrentToy(8, seed=6, end_bias=-5.0)
    for number, event in enumerate(
        stream(decoder, inputs([[5, 2]]), dataclasses.replace(GREEDY, max_length=9))
    ):
        if event.token is not None:
            assert decoder.calls["step"] == number + 1


def test_empty_list_of_sentences_gives_no_results():
    assert search(RecurrentToy(8), inputs([]), SearchOptions()) == []
    assert list(stream(RecurrentToy(8), inputs([]), GREEDY)) == []


def test_invalid_input_is_rejected_before_encoding():
    decoder = RecurrentToy(8, max_source=4, max_target=6)
    cases = [
        (TextTooLongError, r"the source has 5 tokens.*at most 4.*split", [[5, 2], [5] * 4 + [2]], {}, None),
        (DataError, r"sentence 1: the source has no tokens", [[]], {}, None),
        (SettingsError, r"token 8 .*vocabulary of 8", [[5, 2]], {}, [(8,)]),
        (SettingsError, r"special token 2", [[5, 2]], {}, [(4, 2)]),
        (TextTooLongError, r"prefix has 6 tokens, but the target may have only 6", [[5, 2]], {}, [(4,) * 6]),
        (TextTooLongError, r"may have only 3.*raise max_length", [[5, 2]], {"max_length": 3}, [(4,) * 3]),
        (SettingsError, r"first: token 8", [[5, 2]], {"first": 8}, None),
        (SettingsError, r"end symbol cannot be banned", [[5, 2]], {"banned": (2,)}, None),
    ]
    for error, message, sources, changes, prefixes in cases:
        with pytest.raises(error, match=message):
            search(decoder, inputs(sources, prefixes=prefixes), SearchOptions(**changes))
    with pytest.raises(SettingsError, match="no length limit"):
        search(RecurrentToy(8), inputs([[5, 2]]), SearchOptions(max_length=None, max_ratio=math.inf))
    with pytest.raises(SettingsError, match="streaming needs beam 1"):
        stream(decoder, inputs([[5, 2]]), SearchOptions(beam=2))
    with pytest.raises(SettingsError, match="streaming needs beam 1"):
        search(decoder, inputs([[5, 2]]), SearchOptions(beam=2), on_token=print)
    assert decoder.calls["encode"] == 0


def test_nan_weights_raise_an_error():
    decoder = RecurrentToy(8)
    decoder.outward[0, 0] = np.nan
    with pytest.raises(ModelError, match="not numbers at target token 1"):
        search(decoder, inputs([[5, 2]]), SearchOptions())


def test_decoder_that_returns_too_few_rows_raises_an_error():
    class Broken(RecurrentToy):
        def step(self, tokens, state, choice):
            step = super().step(tokens, state, choice)
            return Step(step.tokens[:1], step.log_probs[:1], step.state)

    with pytest.raises(ModelError, match="with 5 rows"):
        search(Broken(8), inputs([[5, 2]]), SearchOptions())
