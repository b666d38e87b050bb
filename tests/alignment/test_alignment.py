"""Laws of the word aligner and of making two directions one."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from uwaga.alignment import WordAligner, align_corpus, corpus_lexicon, grow_diagonal
from uwaga.alignment.aligner import NULL, diagonal_prior, digamma, distances
from uwaga.errors import DataError

LINKS = st.frozensets(st.tuples(st.integers(0, 5), st.integers(0, 5)))


def made(
    pairs: int, turned: bool
) -> tuple[list[list[str]], list[list[str]], list[frozenset[tuple[int, int]]]]:
    """Words and their translations by a dictionary, neighbours sometimes swapped, and how they are linked."""
    draw = random.Random(3)
    dictionary = {f"{letter}s": f"{letter}t" for letter in "abcdefghijklmnopqrstuvwxyz"}
    sources, targets, links = [], [], []
    for _ in range(pairs):
        source = draw.sample(sorted(dictionary), draw.randint(3, 8))
        order = list(range(len(source)))
        if turned:
            at = draw.randrange(len(order) - 1)
            order[at], order[at + 1] = order[at + 1], order[at]
        sources.append(source)
        targets.append([dictionary[source[place]] for place in order])
        links.append(frozenset((place, number) for number, place in enumerate(order)))
    return sources, targets, links


@pytest.mark.parametrize("turned", [False, True])
def test_a_dictionary_is_found(turned: bool) -> None:
    sources, targets, links = made(400, turned)
    assert align_corpus(sources, targets) == links


def test_a_lexicon_has_what_the_words_were_made_by() -> None:
    sources, targets, _ = made(400, True)
    lexicon = corpus_lexicon(sources, targets)
    assert set(lexicon.partners) == {word for source in sources for word in source}
    for source, partners in lexicon.partners.items():
        ahead, back = partners[f"{source[0]}t"]
        assert ahead > 0.9 and back > 0.9
        assert all(0 <= chance <= 1 for both in partners.values() for chance in both)


def test_each_target_word_has_one_partner_at_most_and_pairs_do_not_matter_to_each_other() -> None:
    sources, targets, _ = made(100, True)
    links = WordAligner().fit(sources, targets)
    for one, source, target in zip(links, sources, targets, strict=True):
        assert len({word for _, word in one}) == len(one)
        assert all(left < len(source) and right < len(target) for left, right in one)
    order = list(range(100))[::-1]
    turned = WordAligner().fit([sources[at] for at in order], [targets[at] for at in order])
    assert [turned[at] for at in order] == links


def test_pairs_without_words_have_no_links() -> None:
    sources, targets, links = made(200, False)
    found = align_corpus([[], *sources, ["as"]], [["at"], *targets, []])
    assert found == [frozenset(), *links, frozenset()]
    with pytest.raises(DataError, match="no sentence pair has words on both sides"):
        align_corpus([[]], [["a"]])


@given(LINKS, LINKS)
def test_symmetric_links_stand_between_intersection_and_union(one, other) -> None:
    found = grow_diagonal(one, other)
    assert one & other <= found <= one | other
    assert grow_diagonal(one, one) == one
    sources, targets = {link[0] for link in found}, {link[1] for link in found}
    assert all(link[0] in sources or link[1] in targets for link in one | other)  # final-and


def test_grown_by_hand() -> None:
    one, other = frozenset({(0, 0), (1, 1), (3, 5)}), frozenset({(0, 0), (0, 1), (2, 3)})
    # (0, 1) touches (0, 0), and word 1 has none yet; (1, 1) touches too; the far ones join last.
    assert grow_diagonal(one, other) == one | other


@given(st.integers(1, 9), st.integers(1, 9), st.floats(0.1, 14.0))
def test_the_prior_is_a_distribution_and_falls_with_the_distance(source, target, tension) -> None:
    away = distances(source, target)
    prior = diagonal_prior(away, tension)
    np.testing.assert_allclose(prior.sum(axis=1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(prior[:, 0], NULL)
    for row, far in zip(prior[:, 1:], away, strict=True):
        assert (np.diff(row[np.argsort(far, kind="stable")]) <= 1e-6).all()


def test_digamma_is_torchs() -> None:
    x = np.concatenate([np.linspace(0.005, 10.0, 300), [100.0, 1e6]])
    np.testing.assert_allclose(digamma(x), torch.digamma(torch.from_numpy(x)).numpy(), rtol=1e-6, atol=1e-7)
