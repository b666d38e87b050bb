"""Lexically constrained search (M27): targets contain their phrases and are the best ones that do."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_inputs import inputs
from toy_decoders import JoiningToy, RecurrentToy, TableToy, teacher_forced

from uwaga.errors import SettingsError
from uwaga.search import SearchOptions, search
from uwaga.search.banks import MAX_BANKS, WIDTH_MULTIPLE, Banks, beam_size
from uwaga.search.phrases import Phrase, Phrases

CONTENT = (3, 4, 5)
VOCABULARY, END = 6, 2
WIDE_BEAM = len(CONTENT) ** 3 * (len(CONTENT) + 1)


def count_occurrences(tokens, phrase, continuations=()):
    """Return the number of occurrences of any alternative of a phrase in a target, by definition."""
    count = 0
    for end in range(1, len(tokens) + 1):
        if phrase.whole_word and end < len(tokens) and tokens[end] in continuations:
            continue
        count += any(
            tuple(tokens[:end])[-len(alternative) :] == alternative for alternative in phrase.alternatives
        )
    return count


def contains_all(tokens, phrases, continuations=()):
    return all(count_occurrences(tokens, phrase, continuations) >= phrase.times for phrase in phrases)


alternative = st.lists(st.sampled_from(CONTENT), min_size=1, max_size=3).map(tuple)
some_phrases = st.lists(
    st.builds(
        Phrase, st.lists(alternative, min_size=1, max_size=2).map(tuple), st.integers(1, 2), st.booleans()
    ),
    min_size=1,
    max_size=3,
)
continuation_sets = st.sets(st.sampled_from(CONTENT), max_size=2)


def compile_phrases(phrases, continuations=(), bonus=None):
    return Phrases(phrases, np.isin(np.arange(VOCABULARY), list(continuations)), bonus)


@given(some_phrases, continuation_sets, st.lists(st.sampled_from(CONTENT), max_size=12))
def test_M27_phrase_automaton_counts_occurrences(phrases, continuations, tokens):
    expected = [min(count_occurrences(tokens, phrase, continuations), phrase.times) for phrase in phrases]
    assert compile_phrases(phrases, continuations).occurrences(tokens) == expected


def enumerate_targets(decoder, source, limit, phrases, continuations):
    """Return all targets that contain the phrases, with their scores, best first."""
    scored = []
    for length in range(limit):
        targets = [
            tokens
            for tokens in itertools.product(CONTENT, repeat=length)
            if contains_all(tokens, phrases, continuations)
        ]
        if not targets:
            continue
        with_ends = [(*tokens, END) for tokens in targets]
        log_probs, _ = teacher_forced(decoder, source, with_ends)
        for tokens, table in zip(with_ends, log_probs, strict=True):
            scored.append(
                (sum(table[index, token] for index, token in enumerate(tokens)) / len(tokens), tokens)
            )
    return sorted(scored, reverse=True)


@given(st.integers(0, 10_000), st.booleans(), some_phrases, continuation_sets)
def test_M27_wide_beam_finds_the_best_target_with_all_phrases(seed, recurrent, phrases, continuations):
    decoder = (RecurrentToy if recurrent else TableToy)(VOCABULARY, seed=seed, end_bias=0.5)
    options = SearchOptions(beam=2 * WIDE_BEAM, early_stopping=False, max_length=4, max_ratio=math.inf)
    [[hypothesis]] = search(
        decoder, inputs([[7, 8, 2]], phrases=[compile_phrases(phrases, continuations)]), options
    )
    targets = enumerate_targets(decoder, [7, 8, 2], 4, phrases, continuations)
    if targets and not hypothesis.truncated:
        assert hypothesis.score == pytest.approx(targets[0][0], abs=1e-5)
        assert contains_all(hypothesis.tokens, phrases, continuations)
    elif targets:  # a truncated target competes at its own length
        assert hypothesis.score >= targets[0][0] - 1e-5
        assert contains_all(hypothesis.tokens, phrases, continuations)


def toy(kind=RecurrentToy, size=30, **arguments):
    return kind(size, **arguments)


phrase_lists = st.lists(
    st.builds(
        Phrase,
        st.lists(st.lists(st.integers(4, 29), min_size=1, max_size=4).map(tuple), min_size=1, max_size=3).map(
            tuple
        ),
        st.integers(1, 2),
    ),
    max_size=4,
)


@given(st.integers(0, 1000), st.lists(phrase_lists, min_size=1, max_size=5), st.integers(1, 7), st.booleans())
def test_M27_all_targets_contain_their_phrases(seed, phrases, beam, early_stopping):
    decoder = toy(seed=seed, end_bias=3.0)
    sources = [[7 + i, 8, 5, 2] for i in range(len(phrases))]
    compiled = [Phrases(sentence_phrases) for sentence_phrases in phrases]
    options = SearchOptions(beam=beam, nbest=beam, early_stopping=early_stopping or "estimate", max_extra=40)
    results = search(decoder, inputs(sources, phrases=compiled), options)
    for source, sentence_phrases, nbest in zip(sources, phrases, results, strict=True):
        assert nbest
        for hypothesis in nbest:
            assert contains_all(hypothesis.tokens, sentence_phrases)
        if sentence_phrases:
            assert search(decoder, inputs([source], phrases=[Phrases(sentence_phrases)]), options) == [nbest]
        else:
            assert search(decoder, inputs([source]), options) == [nbest]


@given(st.integers(0, 1000), phrase_lists.filter(bool), st.integers(1, 4))
def test_M27_search_stops_at_the_requested_number_of_hypotheses(seed, phrases, beam):
    """A search for more hypotheses begins with the same steps and then continues."""
    compiled = Phrases(phrases)
    options = SearchOptions(beam=beam, early_stopping=True, max_extra=40)
    wide = beam_size(options, compiled)
    short, long = (toy(seed=seed, end_bias=3.0) for _ in range(2))
    source = [7, 8, 5, 2]
    [[first]] = search(short, inputs([source], phrases=[compiled]), options)
    [[last]] = search(long, inputs([source], phrases=[compiled]), replace(options, beam=wide))
    assert contains_all(first.tokens, phrases)
    assert short.calls["step"] <= long.calls["step"] and first.score <= last.score


@given(phrase_lists, st.integers(1, 16), st.none() | st.just(1.5))
def test_M27_last_bank_size_is_the_number_of_hypotheses_selected_from_it(phrases, beams, bonus):
    compiled = Phrases(phrases, None, bonus)
    count = 1 if bonus is not None else compiled.total + 1
    banks = Banks([compiled], beams, 30)
    banks.admit(np.array([0]))
    candidate_banks = np.repeat(np.arange(count), beams)[None]  # `beams` candidates of each bank
    selected = banks.allocate(candidate_banks, np.ones(candidate_banks.shape, dtype=bool))
    assert (selected & (candidate_banks == count - 1)).sum() == banks.last_bank_size[0]


@given(phrase_lists, st.integers(1, 40))
def test_M27_beam_is_widened_to_hold_all_banks(phrases, beam):
    compiled = Phrases(phrases)
    wide = beam_size(SearchOptions(beam=beam), compiled)
    assert wide >= max(beam, min(compiled.total + 1, MAX_BANKS))
    assert wide == beam or (wide % WIDTH_MULTIPLE == 0 and wide <= MAX_BANKS)
    assert beam_size(SearchOptions(beam=beam), None) == beam


def test_M27_results_do_not_depend_on_when_a_sentence_joins_the_batch():
    options = SearchOptions(beam=4, batch_tokens=60)
    sources = [[4 + i % 9, 5 + i % 7, 6, 2] for i in range(40)]
    phrases = [Phrases([Phrase(((9 + i % 5, 20), (21,)))]) if i % 3 else None for i in range(40)]
    joining, plain = (toy(kind, seed=3, end_bias=1.5) for kind in (JoiningToy, RecurrentToy))
    results = search(joining, inputs(sources, phrases=phrases), options)
    assert joining.calls["join"]
    assert results == search(plain, inputs(sources, phrases=phrases), options)


@given(st.integers(0, 1000), st.integers(2, 6), st.floats(0.0, 3.0))
def test_M27_phrase_bonus_is_added_to_the_score(seed, beam, bonus):
    decoder = toy(seed=seed, end_bias=1.0)
    options = SearchOptions(beam=beam, nbest=beam, length_formula="none", early_stopping=False)
    phrases = [Phrase(((9, 10), (11,))), Phrase(((12, 13, 14),))]
    source = [[7, 8, 5, 2]]
    assert search(decoder, inputs(source, phrases=[Phrases(phrases, None, 0.0)]), options) == search(
        decoder, inputs(source), options
    )
    compiled = Phrases(phrases, None, bonus)
    [nbest] = search(decoder, inputs(source, phrases=[compiled]), options)
    for hypothesis in nbest:
        matched = sum(
            size * times for size, times in zip((1, 3), compiled.occurrences(hypothesis.tokens), strict=True)
        )
        assert hypothesis.truncated or hypothesis.score == pytest.approx(
            hypothesis.log_prob + bonus * matched, abs=1e-6
        )


def test_M27_large_bonus_makes_the_phrase_occur():
    decoder, plain = toy(seed=5, end_bias=1.0), SearchOptions(beam=4)
    phrases = Phrases([Phrase(((17, 18),))], None, 20.0)
    [[hypothesis]] = search(decoder, inputs([[7, 8, 2]], phrases=[phrases]), plain)
    assert phrases.occurrences(hypothesis.tokens) == [1]
    [[plain_hypothesis]] = search(decoder, inputs([[7, 8, 2]]), plain)
    assert phrases.occurrences(plain_hypothesis.tokens) == [0]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_M27_truncated_hypothesis_contains_the_beginning_of_the_phrase(limit):
    decoder, phrases = toy(seed=5, end_bias=1.0), Phrases([Phrase(((17, 18, 19, 20),))])
    options = SearchOptions(beam=6, max_length=limit)
    [[hypothesis]] = search(decoder, inputs([[7, 8, 2]], phrases=[phrases]), options)
    assert hypothesis.truncated
    assert hypothesis.tokens == (17, 18, 19)[:limit]


def test_M27_phrase_with_a_banned_token_is_dropped_and_a_phrase_in_a_prefix_counts():
    decoder = toy(seed=5, end_bias=1.0)
    phrases = Phrases([Phrase(((17, 18),)), Phrase(((20,),))])
    [[hypothesis]] = search(decoder, inputs([[7, 8, 2]], phrases=[phrases]), SearchOptions(banned=(18,)))
    assert phrases.occurrences(hypothesis.tokens) == [0, 1]
    [[hypothesis]] = search(
        decoder, inputs([[7, 8, 2]], prefixes=[[9, 17, 18]], phrases=[phrases]), SearchOptions()
    )
    assert hypothesis.tokens[:3] == (9, 17, 18)
    assert phrases.occurrences(hypothesis.tokens) == [1, 1]


def test_M27_all_phrases_occur_even_with_more_banks_than_beams():
    decoder = toy(seed=8, end_bias=2.0)
    phrases = [Phrase(((4 + i, 24 - i),)) for i in range(12)]
    for beam in (1, 5, 20):
        [[hypothesis]] = search(
            decoder, inputs([[7, 8, 2]], phrases=[Phrases(phrases)]), SearchOptions(beam=beam)
        )
        assert contains_all(hypothesis.tokens, phrases)


@pytest.mark.parametrize(
    ("phrases", "message"),
    [
        (lambda: Phrases([Phrase(())]), "phrase 1"),
        (lambda: Phrases([Phrase(((4,),)), Phrase(((),))]), "phrase 2"),
        (lambda: Phrases([Phrase(((4,),), 0)]), "times"),
        (lambda: Phrases([Phrase(((4,),))], None, -1.0), "bonus"),
        (lambda: Phrases([Phrase(((30,),))]), "outside the vocabulary"),
        (lambda: Phrases([Phrase(((4, END),))]), "special token 2"),
        (lambda: Phrases([Phrase(((4,),))], np.zeros(4, bool)), "continues_word"),
    ],
)
def test_M27_invalid_phrases_are_rejected(phrases, message):
    with pytest.raises(SettingsError, match=message):
        search(toy(), inputs([[7, 2]], phrases=[phrases()]), SearchOptions())


@pytest.mark.parametrize("changes", [{"sample": True}, {"mbr": 4, "sample": True}])
def test_M27_sampling_rejects_phrases(changes):
    options = replace(SearchOptions(), **changes)
    with pytest.raises(SettingsError, match="beam"):
        search(toy(), inputs([[7, 2]], phrases=[Phrases([Phrase(((4,),))])]), options)
