"""What several heads say of a pair of words together: shapes, bounds and what counts."""

from __future__ import annotations

import numpy as np
import pytest

from uwaga.alignment.link_evidence import (
    FIRST_ALONE,
    LEXICAL,
    SECOND,
    first_evidence,
    link_probabilities,
    second_evidence,
    word_maps,
)
from uwaga.alignment.piece_alignment import MIN_PROBABILITY, PieceAlignment, align_words, chained
from uwaga.alignment.words import word_spans
from uwaga.errors import ModelError
from uwaga.results.translation import WordAlignment, noisy_or
from uwaga.settings import LinkModel, WordLexicon
from uwaga.settings.alignment import LARGEST

SOURCE, TARGET = ["Anna", "sees", "a", "dog", "."], ["Anna", "sieht", "Hunde", "."]


def some_maps(heads: int = 2) -> np.ndarray:
    maps = np.random.default_rng(3).random((heads, len(TARGET), len(SOURCE)))
    return maps / maps.sum(axis=2, keepdims=True)


def model_of(heads: int, first: list[float], second: list[float]) -> LinkModel:
    named = tuple((1, 1 + at, "reading") for at in range(heads))
    return LinkModel(heads=named, first=tuple(first), second=tuple(second))


def test_a_target_word_gives_the_mean_of_its_pieces_and_a_source_word_gets_their_sum():
    maps = np.array([[[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]])
    found = word_maps(maps, [range(1), range(1), range(1, 2)], [range(1), range(1)])
    np.testing.assert_allclose(found, [[[0.5, 0.5]]])
    ended = word_maps(maps, [range(1), range(1), range(0)], [range(1), range(0)])  # the end is no word
    np.testing.assert_allclose(ended, [[[0.8]]])


@pytest.mark.parametrize("heads", [1, 3])
def test_each_weight_has_its_evidence(heads):
    maps = some_maps(heads)
    first = first_evidence(maps, SOURCE, TARGET)
    assert first.shape == (4, 5, 2 * heads + FIRST_ALONE - 1)
    assert second_evidence(first[..., 0]).shape == (4, 5, SECOND - 1)
    likely = link_probabilities(
        model_of(heads, [0.5] * (2 * heads + FIRST_ALONE), [0.1] * SECOND), maps, SOURCE, TARGET
    )
    assert likely.shape == (4, 5) and (likely >= 0).all() and (likely <= 1).all()
    assert second_evidence(np.zeros((1, 1))).shape == (1, 1, SECOND - 1)


def test_words_that_are_spelt_alike_count():
    first = first_evidence(np.zeros((1, 4, 5)), SOURCE, TARGET)
    equal, begins, marks = first[..., 2], first[..., 3], first[..., 4]
    assert set(map(tuple, np.argwhere(equal).tolist())) == {(0, 0), (3, 4)}
    assert begins[0, 0] == 1.0 and begins[1, 1] == pytest.approx(1 / 5)
    assert marks[3, 0] == marks[0, 4] == 1.0 and marks[3, 4] == 0.0


LEXICON = WordLexicon.of(
    3, {("see", "sie"): (0.8, 0.6), ("a", "hun"): (0.012, 0.0), ("dog", "hun"): (0.5, 0.9)}
)


def test_a_lexicon_counts_by_first_letters_and_against_the_likeliest_beside():
    maps = some_maps()
    plain, first = first_evidence(maps, SOURCE, TARGET), first_evidence(maps, SOURCE, TARGET, LEXICON)
    np.testing.assert_array_equal(first[..., : plain.shape[-1]], plain)
    lexical = first[..., plain.shape[-1] :]
    assert lexical.shape == (4, 5, LEXICAL)
    np.testing.assert_allclose(lexical[1, 1, :3], [0.8, 0.6, 0.48**0.5])
    assert not lexical[[0, 3]][..., :5].any()  # words that it does not know
    np.testing.assert_allclose(lexical[2, 2, :2], [0.01, 0.0])
    assert (lexical[..., 5:] <= 0).all() and not lexical[1, 1, 5:].any()


def test_a_lexicon_is_read_as_it_was_made():
    assert WordLexicon.model_validate_json(LEXICON.model_dump_json()).partners == {
        "see": {"sie": (0.8, 0.6)},
        "a": {"hun": (0.01, 0.0)},
        "dog": {"hun": (0.5, 0.9)},
    }
    assert WordLexicon.of(4, {("a", "b"): (0.001, 0.004)}).partners == {}


FAR_TOO_LONG = WordLexicon.packed(3, "a b 1 2\n" * (LARGEST // 7)).words


@pytest.mark.parametrize(
    "words",
    [
        *(WordLexicon.packed(3, line).words for line in ("see sie 80", "see sie 80 x", "see sie 80 60 er 1")),
        *('no base "', "abcde", LEXICON.words[:-5], FAR_TOO_LONG),
    ],
    ids=["two", "no number", "four", "no base", "not deflated", "cut", "a bomb"],
)
def test_a_damaged_lexicon_is_refused(words):
    damaged = WordLexicon(letters=3, words=words)
    model = model_of(2, [0.5] * (4 + FIRST_ALONE + LEXICAL), [0.1] * SECOND)
    with pytest.raises(ModelError, match=r"lexicon .* is damaged .*--choose"):
        link_probabilities(model.model_copy(update={"lexicon": damaged}), some_maps(), SOURCE, TARGET)


@pytest.mark.parametrize(("first", "second"), [(3, SECOND), (4 + FIRST_ALONE, SECOND + 1)])
def test_a_model_with_another_number_of_weights_is_refused(first, second):
    with pytest.raises(ModelError, match="link weights"):
        link_probabilities(model_of(2, [0.5] * first, [0.1] * second), some_maps(), SOURCE, TARGET)


def test_links_are_what_is_likelier_than_not_and_the_rest_is_remembered():
    text = "a b", "x y"
    maps = np.array([[[0.9, 0.1], [0.2, 0.8]]], np.float32)
    pieces = PieceAlignment(((0, 1), (2, 3)), ((0, 1), (2, 3)), maps[0], maps=maps)
    alone = [10.0, *[0.0] * FIRST_ALONE, -5.0]
    spans = word_spans(text[0]), word_spans(text[1])
    made = align_words([pieces], *spans, text, model_of(1, alone, [1.0, *[0.0] * (SECOND - 1)]))
    assert made.links == ((0, 0), (1, 1))
    assert {pair for pair, chance in made.chances.items() if chance > 0.5} == set(made.links)
    assert all(chance >= MIN_PROBABILITY for chance in made.chances.values())
    assert align_words([pieces], *spans).likely == ()


def test_chances_go_through_a_text_between():
    one = WordAlignment(((0, 1),), ((0, 1), (2, 3)), ((0, 0),), ((0, 0, 0.8), (0, 1, 0.4)))
    two = WordAlignment(one.target, ((0, 1),), ((0, 0),), ((0, 0, 0.5), (1, 0, 0.5)))
    made = chained([one, two])
    assert made is not None and made.chances == {(0, 0): pytest.approx(1 - 0.6 * 0.8)}
    assert noisy_or([((1, 1), 0.5), ((0, 0), 1.0), ((1, 1), 0.5)]) == ((0, 0, 1.0), (1, 1, 0.75))
