"""Samples follow the exact distribution and do not depend on the batch (M25)."""

import math
from collections import Counter

import numpy as np
import pytest
from search_inputs import inputs
from toy_decoders import RecurrentToy, TableToy, teacher_forced

from uwaga.decoder import Choice, Sampling
from uwaga.search import SearchOptions, choose, search
from uwaga.search.choose import uniforms

END = 2
DRAWS = 4000


def truncated_distribution(log_probs: np.ndarray, temperature: float, top_k: int, top_p: float) -> np.ndarray:
    """Return the truncated distribution defined by the options, with special symbols banned."""
    weights = np.exp(log_probs / temperature)
    weights[:2] = 0.0
    order = sorted(range(len(weights)), key=lambda token: (-weights[token], token))
    if top_k:
        weights[order[top_k:]] = 0.0
    weights /= weights.sum()
    total = 0.0
    for token in order:
        if total >= top_p:
            weights[token] = 0.0
        else:
            total += weights[token]
    return weights / weights.sum()


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("temperature", "top_k", "top_p"),
    [(1.0, 0, 1.0), (0.5, 0, 1.0), (2.0, 0, 1.0), (1.0, 3, 1.0), (1.0, 0, 0.7), (1.3, 4, 0.8)],
)
def test_M25_sample_frequencies_match_the_exact_distribution(temperature, top_k, top_p):
    """Compare all targets of two steps with their exact probabilities by total variation distance."""
    decoder = RecurrentToy(6, seed=11, end_bias=0.5, sharpness=1.0)
    source = [9, 2]
    options = SearchOptions(
        sample=True, nbest=DRAWS, max_length=2, temperature=temperature, top_k=top_k, top_p=top_p
    )
    (samples,) = search(decoder, inputs([source]), options)
    counts = Counter(sample.tokens if sample.truncated else (*sample.tokens, END) for sample in samples)
    exact = {}
    ((first,),), _ = teacher_forced(decoder, source, [[END]])
    for token, weight in enumerate(truncated_distribution(first, temperature, top_k, top_p)):
        if token == END:
            exact[(END,)] = weight
            continue
        (table,), _ = teacher_forced(decoder, source, [[token, END]])
        for next_token, next_weight in enumerate(truncated_distribution(table[1], temperature, top_k, top_p)):
            exact[(token, next_token)] = weight * next_weight
    assert sum(exact.values()) == pytest.approx(1.0)
    assert sum(counts.values()) == DRAWS
    assert {target for target in counts if exact[target] == 0.0} == set()
    distance = 0.5 * sum(abs(exact[target] - counts[target] / DRAWS) for target in exact)
    # the expected distance is about 0.4 of this sum, from the mean absolute deviations of binomials
    assert distance < 0.7 * sum(math.sqrt(p * (1 - p) / DRAWS) for p in exact.values())


def test_M25_log_probs_do_not_depend_on_sampling_options():
    decoder = RecurrentToy(7, seed=1, end_bias=0.5)
    options = SearchOptions(sample=True, nbest=5, temperature=3.0, top_k=4, top_p=0.95, max_length=6)
    (samples,) = search(decoder, inputs([[9, 2]]), options)
    for sample in samples:
        tokens = sample.tokens if sample.truncated else (*sample.tokens, END)
        (table,), _ = teacher_forced(decoder, [9, 2], [tokens])
        assert sample.token_scores == pytest.approx(
            [table[index, t] for index, t in enumerate(tokens)], abs=1e-5
        )


def test_M25_sampling_from_one_candidate_equals_greedy_search():
    decoder = RecurrentToy(8, seed=3, end_bias=0.5)
    ((greedy,),) = search(decoder, inputs([[9, 2]]), SearchOptions(beam=1))
    for options in ({"top_k": 1}, {"temperature": 1e-4}, {"top_p": 1e-6}):
        (samples,) = search(decoder, inputs([[9, 2]]), SearchOptions(sample=True, nbest=4, **options))
        assert {sample.tokens for sample in samples} == {greedy.tokens}


def test_M25_samples_depend_on_the_seed_the_sentence_and_the_index():
    decoder = TableToy(30, seed=3, sharpness=0.3, max_target=12)
    options = {"sample": True, "nbest": 4, "max_length": 12, "max_ratio": math.inf}
    results = search(decoder, inputs([[9, 2], [8, 2], [9, 2]]), SearchOptions(seed=1, **options))
    repeated = search(decoder, inputs([[9, 2]]), SearchOptions(seed=1, **options))
    other_seed = search(decoder, inputs([[9, 2]]), SearchOptions(seed=2, **options))
    tokens = [[sample.tokens for sample in hypotheses] for hypotheses in results]
    assert tokens[0] == tokens[2] == [sample.tokens for sample in repeated[0]]
    assert len(set(tokens[0])) == 4
    assert set(tokens[0]).isdisjoint(tokens[1])  # the model does not see the source: only the draws differ
    assert set(tokens[0]).isdisjoint(sample.tokens for sample in other_seed[0])


def test_M25_fewer_samples_are_a_subset_of_more_samples():
    decoder = RecurrentToy(30, seed=3, sharpness=0.3)
    small, large = (
        search(decoder, inputs([[9, 2]]), SearchOptions(sample=True, nbest=n, max_length=9))[0]
        for n in (2, 6)
    )
    assert {sample.tokens for sample in small} <= {sample.tokens for sample in large}


def test_M25_random_numbers_are_uniform_and_do_not_depend_on_how_many_are_drawn():
    draws = uniforms(1, [5, 6], 0, 20_000)
    assert ((draws >= 0.0) & (draws < 1.0)).all()
    assert (uniforms(1, [5, 6], 0, 7) == draws[:7]).all()
    ranks = np.sort(draws) - (np.arange(20_000) + 0.5) / 20_000
    assert np.abs(ranks).max() < 1.95 / math.sqrt(20_000)  # Kolmogorov-Smirnov, p about 0.001
    for other in (
        uniforms(2, [5, 6], 0, 20_000),
        uniforms(1, [5, 6], 1, 20_000),
        uniforms(1, [56], 0, 20_000),
    ):
        assert abs(np.corrcoef(draws, other)[0, 1]) < 0.03


def test_M25_sampled_token_matches_the_inverse_cdf():
    """The probabilities in descending order are 0.5, 0.25 and 0.25; the lower id precedes in ties."""
    logits = np.log(np.array([[0.25, 0.5, 0.25]])).repeat(5, axis=0)
    draws = np.array([0.0, 0.4999, 0.5001, 0.7499, 0.7501])
    tokens, log_probs = choose(logits, Choice(1, sampling=Sampling(draws)))
    assert tokens.ravel().tolist() == [1, 1, 0, 0, 2]
    assert np.exp(log_probs).ravel() == pytest.approx([0.5, 0.5, 0.25, 0.25, 0.25])
