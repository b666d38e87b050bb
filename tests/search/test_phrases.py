"""Lexically constrained search (M27): what a target must contain, it contains, and is the best that does."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_decoders import JoiningToy, RecurrentToy, TableToy, teacher_forced

from uwaga.errors import SettingsError
from uwaga.search import SearchOptions, search
from uwaga.search.banks import MAX_BANKS, WIDTH_MULTIPLE, Banks, beam_size
from uwaga.search.phrases import Phrase, Phrases

CONTENT = (3, 4, 5)
VOCABULARY, END = 6, 2
WIDE = len(CONTENT) ** 3 * (len(CONTENT) + 1)


def contained(tokens, phrase, inside=()):
    """How often one of a phrase's alternatives ends in a target, by definition."""
    count = 0
    for end in range(1, len(tokens) + 1):
        if phrase.whole and end < len(tokens) and tokens[end] in inside:
            continue
        count += any(tuple(tokens[:end])[-len(one) :] == one for one in phrase.alternatives)
    return count


def holds(tokens, phrases, inside=()):
    return all(contained(tokens, one, inside) >= one.times for one in phrases)


alternative = st.lists(st.sampled_from(CONTENT), min_size=1, max_size=3).map(tuple)
some_phrases = st.lists(
    st.builds(
        Phrase,
        st.lists(alternative, min_size=1, max_size=2).map(tuple),
        st.integers(1, 2),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
)
insides = st.sets(st.sampled_from(CONTENT), max_size=2)


def compiled(phrases, inside=(), bonus=None):
    return Phrases(phrases, np.isin(np.arange(VOCABULARY), list(inside)), bonus)


@settings(max_examples=80, deadline=None)
@given(some_phrases, insides, st.lists(st.sampled_from(CONTENT), max_size=12))
def test_M27_the_automaton_counts_what_a_target_contains(phrases, inside, tokens):
    expected = [min(contained(tokens, one, inside), one.times) for one in phrases]
    assert compiled(phrases, inside).met(tokens) == expected


def enumerated(decoder, source, limit, phrases, inside):
    """Every target with all phrases, with its score, best first."""
    found = []
    for length in range(limit):
        targets = [one for one in itertools.product(CONTENT, repeat=length) if holds(one, phrases, inside)]
        if not targets:
            continue
        fed = [(*one, END) for one in targets]
        log_probs, _ = teacher_forced(decoder, source, fed)
        for tokens, table in zip(fed, log_probs, strict=True):
            found.append((sum(table[at, token] for at, token in enumerate(tokens)) / len(tokens), tokens))
    return sorted(found, reverse=True)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.booleans(), some_phrases, insides)
def test_M27_a_wide_beam_finds_the_best_target_with_all_phrases(seed, recurrent, phrases, inside):
    decoder = (RecurrentToy if recurrent else TableToy)(VOCABULARY, seed=seed, end_bias=0.5)
    options = SearchOptions(beam=2 * WIDE, early_stopping=False, max_length=4, max_ratio=math.inf)
    [[found]] = search(decoder, [[7, 8, 2]], options, phrases=[compiled(phrases, inside)])
    every = enumerated(decoder, [7, 8, 2], 4, phrases, inside)
    if every and not found.truncated:
        assert found.score == pytest.approx(every[0][0], abs=1e-5)
        assert holds(found.tokens, phrases, inside)
    elif every:  # a target that the limit cut competes on its own length
        assert found.score >= every[0][0] - 1e-5
        assert holds(found.tokens, phrases, inside)


def toy(kind=RecurrentToy, size=30, **given):
    return kind(size, **given)


many = st.lists(
    st.builds(
        Phrase,
        st.lists(st.lists(st.integers(4, 29), min_size=1, max_size=4).map(tuple), min_size=1, max_size=3).map(
            tuple
        ),
        st.integers(1, 2),
    ),
    max_size=4,
)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), st.lists(many, min_size=1, max_size=5), st.integers(1, 7), st.booleans())
def test_M27_every_phrase_is_in_every_target(seed, each, beam, early):
    decoder = toy(seed=seed, end_bias=3.0)
    sources = [[7 + at, 8, 5, 2] for at in range(len(each))]
    wanted = [Phrases(one) for one in each]
    options = SearchOptions(beam=beam, nbest=beam, early_stopping=early or "estimate", max_extra=40)
    together = search(decoder, sources, options, phrases=wanted)
    for source, one, nbest in zip(sources, each, together, strict=True):
        assert nbest
        for hypothesis in nbest:
            assert holds(hypothesis.tokens, one)
        if one:
            assert search(decoder, [source], options, phrases=[Phrases(one)]) == [nbest]
        else:
            assert search(decoder, [source], options) == [nbest]


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1000), many.filter(bool), st.integers(1, 4))
def test_M27_a_sentence_waits_for_no_more_hypotheses_than_asked_for(seed, phrases, beam):
    """Also where its banks have widened the beam: one that waits for more is as this, and goes on."""
    wanted = Phrases(phrases)
    options = SearchOptions(beam=beam, early_stopping=True, max_extra=40)
    wide = beam_size(options, wanted)
    short, long = (toy(seed=seed, end_bias=3.0) for _ in range(2))
    source = [7, 8, 5, 2]
    [[first]] = search(short, [source], options, phrases=[wanted])
    [[last]] = search(long, [source], replace(options, beam=wide), phrases=[wanted])
    assert holds(first.tokens, phrases)
    assert short.calls["step"] <= long.calls["step"] and first.score <= last.score


@given(many, st.integers(1, 16), st.none() | st.just(1.5))
def test_M27_the_last_bank_has_so_many_places(phrases, beams, bonus):
    wanted = Phrases(phrases, None, bonus)
    count = 1 if bonus is not None else wanted.total + 1
    banks = Banks([wanted], beams, 30)
    banks.admit(np.array([0]))
    held = np.repeat(np.arange(count), beams)[None]  # as many candidates of each as there are places
    taken = banks.share(held, np.ones(held.shape, dtype=bool))
    assert (taken & (held == count - 1)).sum() == banks.last[0]


@given(many, st.integers(1, 40))
def test_M27_a_beam_is_widened_to_few_widths_and_is_never_narrower(phrases, beam):
    wanted = Phrases(phrases)
    wide = beam_size(SearchOptions(beam=beam), wanted)
    assert wide >= max(beam, min(wanted.total + 1, MAX_BANKS))
    assert wide == beam or (wide % WIDTH_MULTIPLE == 0 and wide <= MAX_BANKS)
    assert beam_size(SearchOptions(beam=beam), None) == beam


def test_M27_sentences_that_enter_late_find_the_same():
    options = SearchOptions(beam=4, batch_tokens=60)
    sources = [[4 + at % 9, 5 + at % 7, 6, 2] for at in range(40)]
    wanted = [Phrases([Phrase(((9 + at % 5, 20), (21,)))]) if at % 3 else None for at in range(40)]
    joining, plain = (toy(one, seed=3, end_bias=1.5) for one in (JoiningToy, RecurrentToy))
    found = search(joining, sources, options, phrases=wanted)
    assert joining.calls["join"]
    assert found == search(plain, sources, options, phrases=wanted)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 6), st.floats(0.0, 3.0))
def test_M27_a_bonus_of_nothing_is_the_plain_search_and_any_is_in_the_rank(seed, beam, bonus):
    decoder = toy(seed=seed, end_bias=1.0)
    options = SearchOptions(beam=beam, nbest=beam, length_formula="none", early_stopping=False)
    phrases = [Phrase(((9, 10), (11,))), Phrase(((12, 13, 14),))]
    source = [[7, 8, 5, 2]]
    assert search(decoder, source, options, phrases=[Phrases(phrases, None, 0.0)]) == search(
        decoder, source, options
    )
    made = Phrases(phrases, None, bonus)
    [nbest] = search(decoder, source, options, phrases=[made])
    for one in nbest:
        met = sum(size * times for size, times in zip((1, 3), made.met(one.tokens), strict=True))
        assert one.truncated or one.score == pytest.approx(one.log_prob + bonus * met, abs=1e-6)


def test_M27_a_strong_bonus_brings_the_phrase():
    decoder, plain = toy(seed=5, end_bias=1.0), SearchOptions(beam=4)
    wanted = Phrases([Phrase(((17, 18),))], None, 20.0)
    [[found]] = search(decoder, [[7, 8, 2]], plain, phrases=[wanted])
    assert wanted.met(found.tokens) == [1]
    [[without]] = search(decoder, [[7, 8, 2]], plain)
    assert wanted.met(without.tokens) == [0]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_M27_limits_that_leave_no_room_keep_the_best_effort(limit):
    decoder, wanted = toy(seed=5, end_bias=1.0), Phrases([Phrase(((17, 18, 19, 20),))])
    options = SearchOptions(beam=6, max_length=limit)
    [[found]] = search(decoder, [[7, 8, 2]], options, phrases=[wanted])
    assert found.truncated
    assert found.tokens == (17, 18, 19)[:limit]


def test_M27_banned_phrases_and_prefixes_are_best_efforts_too():
    decoder = toy(seed=5, end_bias=1.0)
    wanted = Phrases([Phrase(((17, 18),)), Phrase(((20,),))])
    [[found]] = search(decoder, [[7, 8, 2]], SearchOptions(banned=(18,)), phrases=[wanted])
    assert wanted.met(found.tokens) == [0, 1]
    [[found]] = search(decoder, [[7, 8, 2]], SearchOptions(), prefixes=[[9, 17, 18]], phrases=[wanted])
    assert found.tokens[:3] == (9, 17, 18)
    assert wanted.met(found.tokens) == [1, 1]


def test_M27_more_banks_than_places_are_met_all_the_same():
    decoder = toy(seed=8, end_bias=2.0)
    phrases = [Phrase(((4 + at, 24 - at),)) for at in range(12)]
    for beam in (1, 5, 20):
        [[found]] = search(decoder, [[7, 8, 2]], SearchOptions(beam=beam), phrases=[Phrases(phrases)])
        assert holds(found.tokens, phrases)


@pytest.mark.parametrize(
    ("phrases", "words"),
    [
        (lambda: Phrases([Phrase(())]), "phrase 1"),
        (lambda: Phrases([Phrase(((4,),)), Phrase(((),))]), "phrase 2"),
        (lambda: Phrases([Phrase(((4,),), 0)]), "times"),
        (lambda: Phrases([Phrase(((4,),))], None, -1.0), "bonus"),
        (lambda: Phrases([Phrase(((30,),))]), "outside the vocabulary"),
        (lambda: Phrases([Phrase(((4, END),))]), "special token 2"),
        (lambda: Phrases([Phrase(((4,),))], np.zeros(4, bool)), "inside"),
    ],
)
def test_M27_impossible_phrases_are_refused(phrases, words):
    with pytest.raises(SettingsError, match=words):
        search(toy(), [[7, 2]], SearchOptions(), phrases=[phrases()])


@pytest.mark.parametrize("changes", [{"sample": True}, {"mbr": 4, "sample": True}])
def test_M27_samples_hold_no_phrases(changes):
    options = replace(SearchOptions(), **changes)
    with pytest.raises(SettingsError, match="beam"):
        search(toy(), [[7, 2]], options, phrases=[Phrases([Phrase(((4,),))])])
    with pytest.raises(SettingsError, match="for all, or none"):
        search(toy(), [[7, 2]] * 2, SearchOptions(), phrases=[Phrases([Phrase(((4,),))])])
