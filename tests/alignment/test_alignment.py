"""The statistical word aligner, and the symmetrisation of the links of two directions."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from uwaga.alignment import WordAligner, align_corpus, corpus_lexicon, grow_diagonal
from uwaga.alignment.aligner import NULL_PROBABILITY, diagonal_prior, digamma, distances
from uwaga.errors import DataError

LINKS = st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 5)))


def random_corpus(
    pairs: int, swapped: bool
) -> tuple[list[list[str]], list[list[str]], list[frozenset[tuple[int, int]]]]:
    """Return random sources, their word-by-word translations, optionally reordered, and the word links."""
    rng = random.Random(3)
    dictionary = {f"{letter}s": f"{letter}t" for letter in "abcdefghijklmnopqrstuvwxyz"}
    sources, targets, links = [], [], []
    for _ in range(pairs):
        source = rng.sample(sorted(dictionary), rng.randint(3, 8))
        order = list(range(len(source)))
        if swapped:
            i = rng.randrange(len(order) - 1)
            order[i], order[i + 1] = order[i + 1], order[i]
        sources.append(source)
        targets.append([dictionary[source[position]] for position in order])
        links.append(frozenset((position, index) for index, position in enumerate(order)))
    return sources, targets, links


@pytest.mark.parametrize("swapped", [False, True])
def test_aligner_recovers_the_links_of_a_generated_corpus(swapped: bool) -> None:
    sources, targets, links = random_corpus(400, swapped)
    assert align_corpus(sources, targets) == links


def test_lexicon_recovers_the_dictionary_of_a_generated_corpus() -> None:
    sources, targets, _ = random_corpus(400, True)
    lexicon = corpus_lexicon(sources, targets)
    assert set(lexicon.translations) == {word for source in sources for word in source}
    for source, partners in lexicon.translations.items():
        forward, backward = partners[f"{source[0]}t"]
        assert forward > 0.9 and backward > 0.9
        assert all(
            0 <= probability <= 1 for probabilities in partners.values() for probability in probabilities
        )


def test_target_words_have_at_most_one_link_in_any_order_of_pairs() -> None:
    sources, targets, _ = random_corpus(100, True)
    links = WordAligner().fit(sources, targets)
    for pair_links, source, target in zip(links, sources, targets, strict=True):
        assert len({target_word for _, target_word in pair_links}) == len(pair_links)
        assert all(
            source_word < len(source) and target_word < len(target) for source_word, target_word in pair_links
        )
    order = list(range(100))[::-1]
    reversed_links = WordAligner().fit([sources[i] for i in order], [targets[i] for i in order])
    assert [reversed_links[i] for i in order] == links


def test_pairs_without_words_have_no_links() -> None:
    sources, targets, links = random_corpus(200, False)
    results = align_corpus([[], *sources, ["as"]], [["at"], *targets, []])
    assert results == [frozenset(), *links, frozenset()]
    with pytest.raises(DataError, match="no sentence pair has words on both sides"):
        align_corpus([[]], [["a"]])


@given(LINKS, LINKS)
def test_symmetrised_links_contain_the_intersection_and_are_within_the_union(first, second) -> None:
    links = grow_diagonal(first, second)
    assert first & second <= links <= first | second
    assert grow_diagonal(first, first) == first
    sources, targets = {link[0] for link in links}, {link[1] for link in links}
    assert all(link[0] in sources or link[1] in targets for link in first | second)  # final-and


def test_grow_diagonal_matches_hand_calculation() -> None:
    first, second = frozenset({(0, 0), (1, 1), (3, 5)}), frozenset({(0, 0), (0, 1), (2, 3)})
    # (0, 1) is adjacent to (0, 0), and word 1 is unaligned; so is (1, 1); the distant links are added last.
    assert grow_diagonal(first, second) == first | second


@given(st.integers(1, 9), st.integers(1, 9), st.floats(0.1, 14.0))
def test_position_prior_sums_to_one_and_decreases_with_distance_from_the_diagonal(source, target, tension):
    deviations = distances(source, target)
    prior = diagonal_prior(deviations, tension)
    np.testing.assert_allclose(prior.sum(axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(prior[:, 0], NULL_PROBABILITY)
    for row, row_deviations in zip(prior[:, 1:], deviations, strict=True):
        assert (np.diff(row[np.argsort(row_deviations, kind="stable")]) <= 1e-6).all()


def test_digamma_function_matches_torch() -> None:
    x = np.concatenate([np.linspace(0.005, 10.0, 300), [100.0, 1e6]])
    np.testing.assert_allclose(digamma(x), torch.digamma(torch.from_numpy(x)).numpy(), rtol=1e-6, atol=1e-7)
