"""Probabilities of word links computed from several attention heads: shapes, bounds and features."""

import numpy as np
import pytest

from uwaga.alignment.link_evidence import (
    FIRST_WEIGHTS,
    LEXICON_WEIGHTS,
    SECOND_WEIGHTS,
    first_evidence,
    link_probabilities,
    second_evidence,
    word_maps,
)
from uwaga.alignment.piece_alignment import MIN_PROBABILITY, PieceAlignment, align_words, compose_alignments
from uwaga.alignment.words import word_spans
from uwaga.errors import ModelError
from uwaga.results.translation import WordAlignment, noisy_or
from uwaga.settings import LinkModel, WordLexicon
from uwaga.settings.alignment import MAX_LEXICON_BYTES

SOURCE, TARGET = ["Anna", "sees", "a", "dog", "."], ["Anna", "sieht", "Hunde", "."]


def random_maps(heads: int = 2) -> np.ndarray:
    maps = np.random.default_rng(3).random((heads, len(TARGET), len(SOURCE)))
    return maps / maps.sum(axis=2, keepdims=True)


def link_model(heads: int, first: list[float], second: list[float]) -> LinkModel:
    head_keys = tuple((1, 1 + head, "reading") for head in range(heads))
    return LinkModel(heads=head_keys, first=tuple(first), second=tuple(second))


def test_word_maps_average_target_pieces_and_sum_source_pieces():
    maps = np.array([[[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]])
    word_level = word_maps(maps, [range(1), range(1), range(1, 2)], [range(1), range(1)])
    np.testing.assert_allclose(word_level, [[[0.5, 0.5]]])
    # The end symbol is not a word.
    without_end = word_maps(maps, [range(1), range(1), range(0)], [range(1), range(0)])
    np.testing.assert_allclose(without_end, [[[0.8]]])


@pytest.mark.parametrize("heads", [1, 3])
def test_number_of_features_equals_the_number_of_weights(heads):
    maps = random_maps(heads)
    first = first_evidence(maps, SOURCE, TARGET)
    assert first.shape == (4, 5, 2 * heads + FIRST_WEIGHTS - 1)
    assert second_evidence(first[..., 0]).shape == (4, 5, SECOND_WEIGHTS - 1)
    probabilities = link_probabilities(
        link_model(heads, [0.5] * (2 * heads + FIRST_WEIGHTS), [0.1] * SECOND_WEIGHTS), maps, SOURCE, TARGET
    )
    assert probabilities.shape == (4, 5) and (probabilities >= 0).all() and (probabilities <= 1).all()
    assert second_evidence(np.zeros((1, 1))).shape == (1, 1, SECOND_WEIGHTS - 1)


def test_spelling_features_recognise_equal_words_prefixes_and_punctuation():
    first = first_evidence(np.zeros((1, 4, 5)), SOURCE, TARGET)
    equal, prefixes, punctuation = first[..., 2], first[..., 3], first[..., 4]
    assert set(map(tuple, np.argwhere(equal).tolist())) == {(0, 0), (3, 4)}
    assert prefixes[0, 0] == 1.0 and prefixes[1, 1] == pytest.approx(1 / 5)
    assert punctuation[3, 0] == punctuation[0, 4] == 1.0 and punctuation[3, 4] == 0.0


LEXICON = WordLexicon.from_probabilities(
    3, {("see", "sie"): (0.8, 0.6), ("a", "hun"): (0.012, 0.0), ("dog", "hun"): (0.5, 0.9)}
)


def test_lexicon_features_contain_translation_probabilities():
    maps = random_maps()
    plain, first = first_evidence(maps, SOURCE, TARGET), first_evidence(maps, SOURCE, TARGET, LEXICON)
    np.testing.assert_array_equal(first[..., : plain.shape[-1]], plain)
    lexical = first[..., plain.shape[-1] :]
    assert lexical.shape == (4, 5, LEXICON_WEIGHTS)
    np.testing.assert_allclose(lexical[1, 1, :3], [0.8, 0.6, 0.48**0.5])
    assert not lexical[[0, 3]][..., :5].any()  # unknown words
    np.testing.assert_allclose(lexical[2, 2, :2], [0.01, 0.0])
    assert (lexical[..., 5:] <= 0).all() and not lexical[1, 1, 5:].any()


def test_lexicon_survives_a_json_round_trip():
    assert WordLexicon.model_validate_json(LEXICON.model_dump_json()).translations == {
        "see": {"sie": (0.8, 0.6)},
        "a": {"hun": (0.01, 0.0)},
        "dog": {"hun": (0.5, 0.9)},
    }
    assert WordLexicon.from_probabilities(4, {("a", "b"): (0.001, 0.004)}).translations == {}


OVERSIZED_WORDS = WordLexicon.from_lines(3, "a b 1 2\n" * (MAX_LEXICON_BYTES // 7)).words


@pytest.mark.parametrize(
    "words",
    [
        *(
            WordLexicon.from_lines(3, line).words
            for line in ("see sie 80", "see sie 80 x", "see sie 80 60 er 1")
        ),
        *('no base "', "abcde", LEXICON.words[:-5], OVERSIZED_WORDS),
    ],
    ids=["two", "no number", "four", "no base", "not deflated", "cut", "a bomb"],
)
def test_damaged_lexicon_is_rejected(words):
    damaged = WordLexicon(letters=3, words=words)
    model = link_model(2, [0.5] * (4 + FIRST_WEIGHTS + LEXICON_WEIGHTS), [0.1] * SECOND_WEIGHTS)
    with pytest.raises(ModelError, match=r"lexicon .* is damaged .*--choose"):
        link_probabilities(model.model_copy(update={"lexicon": damaged}), random_maps(), SOURCE, TARGET)


@pytest.mark.parametrize(("first", "second"), [(3, SECOND_WEIGHTS), (4 + FIRST_WEIGHTS, SECOND_WEIGHTS + 1)])
def test_wrong_number_of_weights_is_rejected(first, second):
    with pytest.raises(ModelError, match="link weights"):
        link_probabilities(link_model(2, [0.5] * first, [0.1] * second), random_maps(), SOURCE, TARGET)


def test_links_have_probabilities_above_one_half():
    text = "a b", "x y"
    maps = np.array([[[0.9, 0.1], [0.2, 0.8]]], np.float32)
    pieces = PieceAlignment(((0, 1), (2, 3)), ((0, 1), (2, 3)), maps[0], maps=maps)
    weights = [10.0, *[0.0] * FIRST_WEIGHTS, -5.0]
    spans = word_spans(text[0]), word_spans(text[1])
    alignment = align_words(
        [pieces], *spans, text, link_model(1, weights, [1.0, *[0.0] * (SECOND_WEIGHTS - 1)])
    )
    assert alignment.links == ((0, 0), (1, 1))
    assert {pair for pair, probability in alignment.link_probabilities.items() if probability > 0.5} == set(
        alignment.links
    )
    assert all(probability >= MIN_PROBABILITY for probability in alignment.link_probabilities.values())
    assert align_words([pieces], *spans).likely == ()


def test_composed_links_have_noisy_or_probabilities():
    first = WordAlignment(((0, 1),), ((0, 1), (2, 3)), ((0, 0),), ((0, 0, 0.8), (0, 1, 0.4)))
    second = WordAlignment(first.target, ((0, 1),), ((0, 0),), ((0, 0, 0.5), (1, 0, 0.5)))
    composed = compose_alignments([first, second])
    assert composed is not None and composed.link_probabilities == {(0, 0): pytest.approx(1 - 0.6 * 0.8)}
    assert noisy_or([((1, 1), 0.5), ((0, 0), 1.0), ((1, 1), 0.5)]) == ((0, 0, 1.0), (1, 1, 0.75))
