"""Minimum Bayes risk decoding, compared with sacreBLEU's sentence scores and hand calculations."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.errors import SettingsError
from uwaga.search.mbr import UTILITIES, WORD, expected_utilities, rank_by_utility, utilities

sacrebleu = pytest.importorskip("sacrebleu")

TEXTS = st.text(alphabet="ab c.,äß\u00a0'", max_size=14)
SENTENCES = [
    "Der Hund sieht die Katze.", "Die Katze sieht den Hund.", "Ein Hund sah eine Katze!", "", "Nein.",
]  # fmt: skip


def sacrebleu_score(candidate: str, reference: str, metric: str) -> float:
    """Return the sentence score that sacreBLEU computes; for BLEU, words are those that ``WORD`` matches."""
    if metric == "chrf":
        return float(sacrebleu.metrics.CHRF().sentence_score(candidate, [reference]).score)
    scorer = sacrebleu.metrics.BLEU(tokenize="none", force=True, effective_order=True)
    spaced = [" ".join(WORD.findall(text)) for text in (candidate, reference)]
    return float(scorer.sentence_score(spaced[0], [spaced[1]]).score)


@pytest.mark.parametrize("metric", UTILITIES)
@given(candidates=st.lists(TEXTS, max_size=4), references=st.lists(TEXTS, max_size=4))
def test_utilities_match_sacrebleu(metric: str, candidates: list[str], references: list[str]) -> None:
    scores = utilities(candidates, references, metric)
    assert scores.shape == (len(candidates), len(references))
    for row, candidate in enumerate(candidates):
        for column, reference in enumerate(references):
            assert scores[row, column] == pytest.approx(
                sacrebleu_score(candidate, reference, metric), abs=1e-9
            )


@pytest.mark.parametrize("metric", UTILITIES)
def test_utility_of_a_sentence_with_itself_is_100(metric: str) -> None:
    assert utilities(SENTENCES[:3], SENTENCES[:3], metric).diagonal() == pytest.approx([100.0] * 3)


def test_chrf_utility_matches_hand_calculation() -> None:
    """``ab`` and ``abc``: unigrams 2 of 2 and 2 of 3, bigrams 1 of 1 and 1 of 2; F2 of 1 and 7/12."""
    assert utilities(["ab"], ["abc"])[0, 0] == pytest.approx(100 * 5 * (7 / 12) / (4 + 7 / 12))


def test_bleu_utility_matches_hand_calculation() -> None:
    """``a b`` and ``a b c``: both precisions 1, brevity exp(1 - 3/2)."""
    assert utilities(["a b"], ["a b c"], "bleu")[0, 0] == pytest.approx(100 * math.exp(-0.5))


@pytest.mark.parametrize("metric", UTILITIES)
@given(texts=st.lists(TEXTS, min_size=1, max_size=5), data=st.data())
def test_M31_expected_utility_is_the_weighted_sum(metric: str, texts: list[str], data: st.DataObject) -> None:
    weights = data.draw(st.lists(st.integers(1, 9), min_size=len(texts), max_size=len(texts)))
    total = sum(weights)
    weighted_sums = [
        sum(
            weight / total * sacrebleu_score(text, reference, metric)
            for reference, weight in zip(texts, weights, strict=True)
        )
        for text in texts
    ]
    expected = expected_utilities(texts, weights, metric)
    assert expected == pytest.approx(weighted_sums, abs=1e-9)
    ranked, ranked_utilities = zip(*rank_by_utility(texts, weights, metric), strict=True)
    assert list(ranked_utilities) == sorted((expected[index] for index in ranked), reverse=True)
    assert sorted(texts[index] for index in ranked) == sorted(set(texts))
    assert expected[ranked[0]] == expected.max()
    assert all(texts.index(texts[index]) == index for index in ranked)


def test_duplicate_samples_add_their_weights() -> None:
    samples = [SENTENCES[0], SENTENCES[2], SENTENCES[2], SENTENCES[1]]
    weighted = expected_utilities(SENTENCES[:3], [1, 1, 2])
    assert expected_utilities(samples) == pytest.approx(weighted[[0, 2, 2, 1]])
    assert samples[rank_by_utility(samples)[0][0]] in SENTENCES[:3]


def test_single_and_tied_candidates_are_ranked() -> None:
    assert rank_by_utility(["einer"]) == [(0, pytest.approx(100.0))]
    assert rank_by_utility([]) == []
    assert [index for index, _ in rank_by_utility(["xx", "yy"])] == [0, 1]
    assert rank_by_utility(["", ""]) == [(0, 0.0)]


@pytest.mark.parametrize("weights", [[1.0], [1.0, -1.0], [0.0, 0.0], [math.nan, 1.0], [math.inf, 1.0]])
def test_invalid_sample_weights_are_rejected(weights: list[float]) -> None:
    with pytest.raises(SettingsError, match="weights must be 2 finite numbers"):
        expected_utilities(["a", "b"], weights)


def test_unknown_utility_is_rejected() -> None:
    with pytest.raises(SettingsError, match="utility must be one of chrf, bleu, not 'meteor'"):
        utilities(["a"], ["a"], "meteor")  # type: ignore[arg-type]


def test_utilities_of_64_samples_form_a_square_matrix() -> None:
    rng = np.random.default_rng(1)
    texts = ["".join(rng.choice(list("abcde "), 60)) for _ in range(64)]
    assert utilities(texts, texts).shape == (64, 64)
