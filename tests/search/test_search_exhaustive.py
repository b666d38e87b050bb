"""A beam wide enough to prune nothing equals the enumeration of all possible targets (M24)."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_inputs import inputs
from toy_decoders import RecurrentToy, TableToy, teacher_forced

from uwaga.search import SearchOptions, search

CONTENT = (3, 4, 5)
VOCABULARY = 6
END = 2


def repeats(tokens: tuple[int, ...], size: int, free: int) -> bool:
    """Return True if any n-gram that ends after the first ``free`` tokens occurs twice."""
    ngrams = [tokens[i : i + size] for i in range(len(tokens) - size + 1)]
    return any(ngram in ngrams[:i] and i + size > free for i, ngram in enumerate(ngrams))


def divisor(options: SearchOptions, length: int) -> float:
    if options.length_formula == "average":
        return length**options.length_penalty
    if options.length_formula == "gnmt":
        return ((5 + length) / 6) ** options.length_penalty
    return 1.0


def enumerate_targets(decoder, source, options, prefix=()):
    """Return all targets that the options allow, with their scores, best first."""
    scored = []
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
        has_end = length < limit
        ended = [tokens + (END,) * has_end for tokens in targets]
        log_probs, _ = teacher_forced(decoder, source, ended)
        for tokens, table in zip(ended, log_probs, strict=True):
            token_log_probs = [table[index, token] for index, token in enumerate(tokens)]
            scored_log_probs = token_log_probs if options.score_forced else token_log_probs[len(prefix) :]
            score = sum(scored_log_probs) / divisor(options, len(scored_log_probs))
            scored.append((score, tokens[:length], sum(token_log_probs), not has_end))
    return sorted(scored, key=lambda entry: -entry[0])


def check(decoder, source, options, prefix=()):
    """Check that the n-best list equals the enumeration, except for the order of ties."""
    targets = enumerate_targets(decoder, source, options, prefix)
    by_tokens = {
        tokens: values
        for *values, tokens in [(target[0], target[2], target[3], target[1]) for target in targets]
    }
    (nbest,) = search(decoder, inputs([source], prefixes=[prefix]), options)
    best = [entry[0] for entry in targets[: options.nbest]]
    assert [hypothesis.score for hypothesis in nbest] == pytest.approx(best, abs=1e-5)
    assert len({hypothesis.tokens for hypothesis in nbest}) == len(nbest)
    for hypothesis in nbest:
        score, log_prob, truncated = by_tokens[hypothesis.tokens]
        assert hypothesis.score == pytest.approx(score, abs=1e-5)
        assert hypothesis.log_prob == pytest.approx(log_prob, abs=1e-5)
        assert hypothesis.truncated is truncated


WIDE_BEAM = len(CONTENT) ** 3 * (len(CONTENT) + 1)


def wide(**changes) -> SearchOptions:
    defaults = {
        "beam": WIDE_BEAM, "nbest": WIDE_BEAM, "early_stopping": False, "max_length": 4,
        "max_ratio": math.inf,
    }  # fmt: skip
    return SearchOptions(**(defaults | changes))


@pytest.mark.parametrize("kind", [TableToy, RecurrentToy])
@pytest.mark.parametrize("formula", ["average", "gnmt", "none"])
@pytest.mark.parametrize("alpha", [-0.7, 0.0, 0.6, 1.0, 2.0])
def test_M24_wide_beam_equals_enumeration(kind, formula, alpha):
    decoder = kind(VOCABULARY, seed=int(10 * alpha) + 20, end_bias=1.0)
    check(decoder, [7, 8, 2], wide(length_formula=formula, length_penalty=alpha))


@given(
    seed=st.integers(0, 10_000), recurrent=st.booleans(), alpha=st.sampled_from([-1.0, 0.5, 1.0, 1.7]),
    formula=st.sampled_from(["average", "gnmt", "none"]), limit=st.integers(1, 4),
    min_length=st.integers(0, 3), ngram=st.integers(0, 3),
    prefix=st.lists(st.sampled_from(CONTENT), max_size=3), score_forced=st.booleans(),
    best=st.sampled_from([1, 3, WIDE_BEAM]), source=st.lists(st.integers(4, 20), min_size=1, max_size=4),
)  # fmt: skip
def test_M24_wide_constrained_beam_equals_enumeration(
    seed, recurrent, alpha, formula, limit, min_length, ngram, prefix, score_forced, best, source
):
    decoder = (RecurrentToy if recurrent else TableToy)(VOCABULARY, seed=seed, end_bias=0.5)
    options = wide(
        length_penalty=alpha, length_formula=formula, max_length=limit, min_length=min(min_length, limit),
        no_repeat_ngram=ngram, score_forced=score_forced, nbest=best,
    )  # fmt: skip
    prefix = tuple(prefix[: limit - 1])
    if enumerate_targets(decoder, [*source, END], options, prefix):
        check(decoder, [*source, END], options, prefix)


def test_M24_exact_stopping_never_gives_worse_scores_than_estimated_stopping():
    """With a large length penalty, only the exact bound waits for the long target."""
    gains = []
    for seed in range(20):
        decoder = RecurrentToy(VOCABULARY, seed=seed, end_bias=1.0)
        exact, estimate = (
            search(
                decoder,
                inputs([[9, 2]]),
                SearchOptions(
                    beam=3, early_stopping=stopping, length_penalty=3.0, max_length=12, max_ratio=math.inf
                ),
            )[0][0].score
            for stopping in (False, "estimate")
        )
        gains.append(exact - estimate)
    assert min(gains) >= 0.0
    assert max(gains) > 0.0


def test_M24_exact_stopping_ends_before_the_length_limit():
    """Without length normalisation, the score of an unfinished hypothesis can only decrease."""
    decoder = RecurrentToy(VOCABULARY, seed=3, end_bias=3.0)
    options = SearchOptions(
        beam=4, early_stopping=False, length_formula="none", max_length=50, max_ratio=math.inf
    )
    search(decoder, inputs([[9, 2]]), options)
    assert decoder.calls["step"] < 50
