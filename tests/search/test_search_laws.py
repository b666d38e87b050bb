"""What every search promises: M20 (probability), M21 (encode once), M22 (limits), M23 (greedy), streams."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from toy_decoders import RecurrentToy, TableToy, teacher_forced

from uwaga.decoder import Step, Symbols
from uwaga.errors import DataError, ModelError, SettingsError, TextTooLongError
from uwaga.search import SearchOptions, search, stream

END = 2
SOURCES = [[7, 9, 11, 2], [5, 2], [30, 31, 32, 33, 34, 35, 2], [8, 4, 2], [6, 2]]
GREEDY = SearchOptions(beam=1, max_length=20)


def hand_table() -> TableToy:
    """start -> 4 -> 5 -> end, each the most probable by far; 6 never."""
    table = np.full((7, 7), -3.0)
    table[1, 4], table[4, 5], table[5, END] = 2.0, 1.0, 3.0
    return TableToy(7, table=table)


def test_M23_greedy_is_the_argmax_of_each_step_by_hand():
    ((found,),) = search(hand_table(), [[9, 2]], GREEDY)
    rest = 6 * math.exp(-3.0)
    expected = [math.log(math.exp(top) / (math.exp(top) + rest)) for top in (2.0, 1.0, 3.0)]
    assert found.tokens == (4, 5)
    assert found.token_scores == pytest.approx(expected, abs=1e-6)
    assert found.log_prob == pytest.approx(sum(expected), abs=1e-6)
    assert found.score == pytest.approx(sum(expected) / 3, abs=1e-6)
    assert not found.truncated


def test_M23_greedy_follows_the_argmax_of_teacher_forcing():
    decoder = RecurrentToy(8, seed=5, end_bias=1.0)
    for source, (found,) in zip(SOURCES, search(decoder, SOURCES, GREEDY), strict=True):
        (table,), _ = teacher_forced(decoder, source, [[*found.tokens, END]])
        allowed = [token for token in range(8) if token not in (0, 1)]
        made = [*found.tokens] if found.truncated else [*found.tokens, END]
        assert made == [max(allowed, key=lambda token: row[token]) for row in table[: len(made)]]


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
        SOURCES, prefixes, search(decoder, SOURCES, options, prefixes=prefixes), strict=True
    ):
        for one in hypotheses:
            made = one.tokens if one.truncated else (*one.tokens, END)
            (table,), (weights,) = teacher_forced(decoder, source, [made])
            expected = [table[at, token] for at, token in enumerate(made)]
            assert one.tokens[: len(prefix)] == prefix
            assert one.token_scores == pytest.approx(expected, abs=1e-5)
            assert one.log_prob == pytest.approx(sum(expected), abs=1e-5)
            # the attention rows followed their hypothesis through every reordering
            assert one.attention.shape == (len(one.token_scores), len(source))
            assert one.attention == pytest.approx(weights, abs=1e-6)


def test_attention_is_left_out_unless_asked_for():
    ((found,),) = search(RecurrentToy(8, end_bias=1.0), [SOURCES[0]], GREEDY)
    assert found.attention is None


def test_M21_the_encoder_runs_once_and_finished_sentences_leave():
    decoder = RecurrentToy(8, seed=2, end_bias=0.5)
    options = SearchOptions(beam=3, max_length=30)
    found = search(decoder, SOURCES, options)
    assert decoder.calls["encode"] == 1
    assert decoder.calls["start"] == 1
    assert decoder.calls["rows"] < decoder.calls["step"] * len(SOURCES) * 3
    longest = max(len(one.token_scores) for (one,) in found)
    assert decoder.calls["step"] >= longest


def test_batches_keep_to_the_token_budget():
    decoder = RecurrentToy(8, seed=2, end_bias=3.0)
    search(decoder, [[5] * 9 + [2]] * 7, SearchOptions(beam=2, batch_tokens=60))
    assert decoder.calls["encode"] == 3  # 60 tokens are 3 sentences of 10 tokens with 2 beams


def test_M24_nbest_is_distinct_sorted_and_begins_with_the_best():
    decoder = RecurrentToy(8, seed=4, end_bias=0.5)
    lists = search(decoder, SOURCES, SearchOptions(beam=6, nbest=6, early_stopping=False))
    best = search(decoder, SOURCES, SearchOptions(beam=6, nbest=1, early_stopping=False))
    for hypotheses, (first,) in zip(lists, best, strict=True):
        assert len(hypotheses) == 6
        assert len({one.tokens for one in hypotheses}) == 6
        scores = [one.score for one in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert hypotheses[0] == first


def test_M24_early_stopping_ends_at_beam_finished_hypotheses():
    early, late = RecurrentToy(8, seed=4, end_bias=1.0), RecurrentToy(8, seed=4, end_bias=1.0)
    search(early, SOURCES, SearchOptions(beam=4, early_stopping=True))
    search(late, SOURCES, SearchOptions(beam=4, early_stopping=False))
    assert early.calls["step"] < late.calls["step"]


def test_M24_the_exact_bound_waits_for_no_more_hypotheses_than_are_asked_for():
    """The best one is settled sooner than the six best."""
    one, six = RecurrentToy(8, seed=4, end_bias=1.0), RecurrentToy(8, seed=4, end_bias=1.0)
    exact = SearchOptions(beam=6, early_stopping=False, length_formula="none")
    search(one, SOURCES, exact)
    search(six, SOURCES, dataclasses.replace(exact, nbest=6))
    assert one.calls["step"] < six.calls["step"]


@pytest.mark.parametrize("beam", [1, 3])
def test_M22_a_limit_that_cuts_is_reported(beam):
    decoder = RecurrentToy(8, seed=4, end_bias=-30.0)
    for cut, length in [({"max_length": 5}, 5), ({"max_length": None, "max_ratio": 2.0, "max_extra": 3}, 7)]:
        ((found,),) = search(decoder, [[5, 2]], SearchOptions(beam=beam, **cut))
        assert found.truncated
        assert len(found.tokens) == len(found.token_scores) == length
    ((found,),) = search(
        dataclasses.replace(decoder, max_target=4), [[5, 2]], SearchOptions(beam=beam, max_ratio=math.inf)
    )
    assert found.truncated
    assert len(found.tokens) == 4


def test_M22_an_end_within_the_limit_is_not_a_cut():
    ((found,),) = search(hand_table(), [[9, 2]], dataclasses.replace(GREEDY, max_length=3))
    assert (found.tokens, found.truncated) == ((4, 5), False)
    ((found,),) = search(hand_table(), [[9, 2]], dataclasses.replace(GREEDY, max_length=2))
    assert (found.tokens, found.truncated) == ((4, 5), True)


def test_M22_a_forced_end_is_reported_and_adds_no_token():
    options = dataclasses.replace(GREEDY, max_length=2, force_end=True)
    ((found,),) = search(hand_table(), [[9, 2]], options)
    assert found.tokens == (4,)
    assert found.truncated
    assert len(found.token_scores) == 1


def test_minimum_length_outweighs_the_ratio_limit():
    decoder = RecurrentToy(8, seed=4, end_bias=4.0)
    options = SearchOptions(beam=2, min_length=9, max_ratio=1.0, max_extra=0)
    ((found,),) = search(decoder, [[5, 2]], options)
    assert len(found.tokens) == 9
    assert not found.truncated


def test_start_and_padding_are_never_made_and_unknown_only_if_allowed():
    decoder = RecurrentToy(6, seed=1, end_bias=-9.0)
    decoder.outward[:, :4] *= 3.0  # the special symbols would often win
    made = {
        t for (one,) in search(decoder, SOURCES, SearchOptions(beam=1, max_length=30)) for t in one.tokens
    }
    assert 3 in made
    assert made <= {3, 4, 5}
    options = SearchOptions(beam=1, max_length=30, unknown=False, banned=(4,))
    made = {t for (one,) in search(decoder, SOURCES, options) for t in one.tokens}
    assert made == {5}


def test_a_model_that_starts_from_its_end_symbol_can_still_end():
    decoder = dataclasses.replace(
        RecurrentToy(8, seed=4, end_bias=3.0), symbols=Symbols(start=END, end=END, pad=END, unknown=3)
    )
    ((found,),) = search(decoder, [[5, 2]], SearchOptions(beam=2))
    assert not found.truncated


@pytest.mark.parametrize("options", [GREEDY, SearchOptions(sample=True), SearchOptions(beam=3)])
def test_a_target_that_cannot_go_on_is_cut_and_says_so(options):
    """No unigram twice and no end: after the last fresh token nothing is left to choose."""
    decoder = RecurrentToy(6, seed=1)
    options = dataclasses.replace(options, no_repeat_ngram=1, min_length=10, max_length=20)
    ((found,),) = search(decoder, [[5, 2]], options)
    assert sorted(found.tokens) == [3, 4, 5]
    assert found.truncated


def test_a_forced_prefix_is_kept_even_if_the_model_finds_it_impossible():
    decoder = TableToy(7, seed=3, end_bias=1.0)
    decoder.table[4, 6] = -np.inf
    for score_forced in (True, False):
        options = SearchOptions(beam=3, nbest=3, score_forced=score_forced)
        (found,) = search(decoder, [[5, 2]], options, prefixes=[(4, 6)])
        assert all(one.tokens[:2] == (4, 6) for one in found)
        assert all(one.log_prob == -math.inf and math.isfinite(one.score) for one in found)


def test_a_forced_prefix_overrides_bans():
    decoder = RecurrentToy(7, seed=3, end_bias=1.0)
    options = SearchOptions(beam=2, no_repeat_ngram=1, banned=(4,))
    ((found,),) = search(decoder, [[5, 2]], options, prefixes=[(4, 4)])
    assert found.tokens[:2] == (4, 4)


@pytest.mark.parametrize(
    "options",
    [GREEDY, SearchOptions(sample=True, top_k=3, seed=4), dataclasses.replace(GREEDY, max_length=3)],
)
def test_streaming_equals_not_streaming(options):
    decoder = RecurrentToy(8, seed=6, end_bias=0.5)
    prefixes = [(4, 5), (), (), (), ()]
    expected = search(decoder, SOURCES, options, prefixes=prefixes)
    heard = []
    assert search(decoder, SOURCES, options, prefixes=prefixes, on_token=heard.append) == expected
    events = list(stream(decoder, SOURCES, options, prefixes=prefixes))
    assert events == heard
    for number, (hypothesis,) in enumerate(expected):
        own = [event for event in events if event.sentence == number]
        assert tuple(event.token for event in own[:-1]) == hypothesis.tokens
        assert [event.log_prob for event in own[:-1]] == list(
            hypothesis.token_scores[: len(hypothesis.tokens)]
        )
        assert (own[-1].token, own[-1].hypothesis) == (None, hypothesis)


def test_a_stream_gives_each_token_before_the_next_is_computed():
    decoder = RecurrentToy(8, seed=6, end_bias=-5.0)
    for number, event in enumerate(stream(decoder, [[5, 2]], dataclasses.replace(GREEDY, max_length=9))):
        if event.token is not None:
            assert decoder.calls["step"] == number + 1


def test_nothing_in_nothing_out():
    assert search(RecurrentToy(8), [], SearchOptions()) == []
    assert list(stream(RecurrentToy(8), [], GREEDY)) == []


def test_bad_input_is_refused_before_anything_is_encoded():
    decoder = RecurrentToy(8, max_source=4, max_target=6)
    cases = [
        (TextTooLongError, r"sentence 2: 5 tokens.*at most 4.*split", [[5, 2], [5] * 4 + [2]], {}, None),
        (DataError, r"sentence 1: no tokens", [[]], {}, None),
        (SettingsError, r"1 forced prefixes for 2", [[5, 2], [5, 2]], {}, [(4,)]),
        (SettingsError, r"token 8 .*vocabulary of 8", [[5, 2]], {}, [(8,)]),
        (SettingsError, r"special token 2", [[5, 2]], {}, [(4, 2)]),
        (TextTooLongError, r"prefix has 6 tokens, and a target may have 6", [[5, 2]], {}, [(4,) * 6]),
        (TextTooLongError, r"may have 3.*raise max_length", [[5, 2]], {"max_length": 3}, [(4,) * 3]),
        (SettingsError, r"first: token 8", [[5, 2]], {"first": 8}, None),
        (SettingsError, r"end symbol cannot be banned", [[5, 2]], {"banned": (2,)}, None),
    ]
    for error, message, sources, changes, prefixes in cases:
        with pytest.raises(error, match=message):
            search(decoder, sources, SearchOptions(**changes), prefixes=prefixes)
    with pytest.raises(SettingsError, match="no length limit"):
        search(RecurrentToy(8), [[5, 2]], SearchOptions(max_length=None, max_ratio=math.inf))
    with pytest.raises(SettingsError, match="streaming needs beam 1"):
        stream(decoder, [[5, 2]], SearchOptions(beam=2))
    with pytest.raises(SettingsError, match="streaming needs beam 1"):
        search(decoder, [[5, 2]], SearchOptions(beam=2), on_token=print)
    assert decoder.calls["encode"] == 0


def test_a_damaged_model_is_an_error_not_a_translation():
    decoder = RecurrentToy(8)
    decoder.outward[0, 0] = np.nan
    with pytest.raises(ModelError, match="not numbers at target token 1"):
        search(decoder, [[5, 2]], SearchOptions())


def test_a_decoder_that_breaks_the_contract_is_an_error():
    class Broken(RecurrentToy):
        def step(self, tokens, state, choice):
            made = super().step(tokens, state, choice)
            return Step(made.tokens[:1], made.log_probs[:1], made.state)

    with pytest.raises(ModelError, match="for 5 rows"):
        search(Broken(8), [[5, 2]], SearchOptions())
