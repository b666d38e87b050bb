"""A beam wide enough to prune nothing must equal the enumeration of every possible target (M24)."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_decoders import RecurrentToy, TableToy, teacher_forced

from uwaga.search import SearchOptions, search

CONTENT = (3, 4, 5)
VOCABULARY = 6
END = 2


def repeats(tokens: tuple[int, ...], size: int, free: int) -> bool:
    """Whether an n-gram that ends behind the first ``free`` tokens occurred before."""
    grams = [tokens[at : at + size] for at in range(len(tokens) - size + 1)]
    return any(gram in grams[:at] and at + size > free for at, gram in enumerate(grams))


def divisor(options: SearchOptions, length: int) -> float:
    if options.length_formula == "average":
        return length**options.length_penalty
    if options.length_formula == "gnmt":
        return ((5 + length) / 6) ** options.length_penalty
    return 1.0


def enumerated(decoder, source, options, prefix=()):
    """Every target that the options allow, with its score, best first."""
    found = []
    limit = options.max_length
    for length in range(limit + 1):
        targets = [
            tokens
            for tokens in itertools.product(CONTENT, repeat=length)
            if tokens[: len(prefix)] == prefix
            and length >= len(prefix)
            and not (options.no_repeat_ngram and repeats(tokens, options.no_repeat_ngram, len(prefix)))
            and (length >= options.min_length or length == limit)
        ]
        if not targets:
            continue
        ended = length < limit
        fed = [tokens + (END,) * ended for tokens in targets]
        log_probs, _ = teacher_forced(decoder, source, fed)
        for tokens, table in zip(fed, log_probs, strict=True):
            each = [table[at, token] for at, token in enumerate(tokens)]
            counted = each if options.score_forced else each[len(prefix) :]
            score = sum(counted) / divisor(options, len(counted))
            found.append((score, tokens[:length], sum(each), not ended))
    return sorted(found, key=lambda entry: -entry[0])


def check(decoder, source, options, prefix=()):
    """The n-best list is the enumeration's, but for the order of targets whose scores tie."""
    every = enumerated(decoder, source, options, prefix)
    by_tokens = {tokens: rest for *rest, tokens in [(e[0], e[2], e[3], e[1]) for e in every]}
    (found,) = search(decoder, [source], options, prefixes=[prefix])
    best = [entry[0] for entry in every[: options.nbest]]
    assert [hypothesis.score for hypothesis in found] == pytest.approx(best, abs=1e-5)
    assert len({hypothesis.tokens for hypothesis in found}) == len(found)
    for hypothesis in found:
        score, log_prob, truncated = by_tokens[hypothesis.tokens]
        assert hypothesis.score == pytest.approx(score, abs=1e-5)
        assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-5)
        assert hypothesis.truncated is truncated


WIDE = len(CONTENT) ** 3 * (len(CONTENT) + 1)


def wide(**changes) -> SearchOptions:
    given = {"beam": WIDE, "nbest": WIDE, "early_stopping": False, "max_length": 4, "max_ratio": math.inf}
    return SearchOptions(**(given | changes))


@pytest.mark.parametrize("kind", [TableToy, RecurrentToy])
@pytest.mark.parametrize("formula", ["average", "gnmt", "none"])
@pytest.mark.parametrize("alpha", [-0.7, 0.0, 0.6, 1.0, 2.0])
def test_M24_a_wide_beam_is_the_enumeration(kind, formula, alpha):
    decoder = kind(VOCABULARY, seed=int(10 * alpha) + 20, end_bias=1.0)
    check(decoder, [7, 8, 2], wide(length_formula=formula, length_penalty=alpha))


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    recurrent=st.booleans(),
    alpha=st.sampled_from([-1.0, 0.5, 1.0, 1.7]),
    formula=st.sampled_from(["average", "gnmt", "none"]),
    limit=st.integers(1, 4),
    least=st.integers(0, 3),
    ngram=st.integers(0, 3),
    prefix=st.lists(st.sampled_from(CONTENT), max_size=3),
    score_forced=st.booleans(),
    best=st.sampled_from([1, 3, WIDE]),
    source=st.lists(st.integers(4, 20), min_size=1, max_size=4),
)
def test_M24_constraints_are_the_enumeration(
    seed, recurrent, alpha, formula, limit, least, ngram, prefix, score_forced, best, source
):
    decoder = (RecurrentToy if recurrent else TableToy)(VOCABULARY, seed=seed, end_bias=0.5)
    options = wide(
        length_penalty=alpha,
        length_formula=formula,
        max_length=limit,
        min_length=min(least, limit),
        no_repeat_ngram=ngram,
        score_forced=score_forced,
        nbest=best,
    )
    prefix = tuple(prefix[: limit - 1])
    if enumerated(decoder, [*source, END], options, prefix):
        check(decoder, [*source, END], options, prefix)


def test_M24_exact_stopping_never_loses_to_the_estimate():
    """Both walk the same beam; with a steep penalty only the exact bound waits for the long target."""
    gains = []
    for seed in range(20):
        decoder = RecurrentToy(VOCABULARY, seed=seed, end_bias=1.0)
        exact, estimate = (
            search(
                decoder,
                [[9, 2]],
                SearchOptions(
                    beam=3, early_stopping=stopping, length_penalty=3.0, max_length=12, max_ratio=math.inf
                ),
            )[0][0].score
            for stopping in (False, "estimate")
        )
        gains.append(exact - estimate)
    assert min(gains) >= 0.0
    assert max(gains) > 0.0


def test_M24_exact_stopping_saves_steps():
    """Without a length penalty no running hypothesis can win back what it has lost."""
    decoder = RecurrentToy(VOCABULARY, seed=3, end_bias=3.0)
    options = SearchOptions(
        beam=4, early_stopping=False, length_formula="none", max_length=50, max_ratio=math.inf
    )
    search(decoder, [[9, 2]], options)
    assert decoder.calls["step"] < 50
