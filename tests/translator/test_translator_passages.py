"""Texts of several sentences: taken apart without loss, put together without lies."""

import itertools

import numpy as np
import pytest
import tiny_models as tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from precision import tolerance

from uwaga.errors import TextTooLongError
from uwaga.results.translation import Hypothesis
from uwaga.search import from_settings
from uwaga.translator import Model, Translator
from uwaga.translator.layers.assemble import best_combinations

JOINT = tiny.tokeniser()
SHAPE = tiny.TINY.model_copy(update={"tie": "none"})
MODEL = tiny.transformer(SHAPE, JOINT, JOINT)
SENTENCES = ["I want to buy a car.", "Where is the station?", "It is not far from here."]
LONG = " ".join(SENTENCES)


def make(languages=("en", "de"), **decoding):
    search, text = from_settings(tiny.DECODING.model_copy(update=decoding))
    return Translator(Model(MODEL, JOINT, JOINT, search, languages, text=text))


def test_a_line_beyond_the_limit_is_translated_by_sentences():
    translator = make()
    assert len(JOINT.encode(LONG)) + 1 > MODEL.max_source
    parts = translator.translate(SENTENCES, attention=True)
    whole = translator.translate(LONG, attention=True)
    assert whole.text == " ".join(part.text for part in parts)
    assert whole.token_scores == pytest.approx([one for part in parts for one in part.token_scores], abs=1e-5)
    assert whole.log_prob == pytest.approx(sum(part.log_prob for part in parts), abs=1e-4)
    assert whole.score == pytest.approx(sum(part.score for part in parts) / 3, abs=1e-5)
    assert whole.truncated == any(part.truncated for part in parts)
    row = column = 0
    for part in parts:  # the blocks of the diagonal, and nothing beside them
        rows, columns = part.attention.shape
        block = whole.attention[row : row + rows, column : column + columns]
        np.testing.assert_allclose(block, part.attention, **tolerance(part.attention))
        row, column = row + rows, column + columns
    assert whole.attention.shape == (row, column)
    np.testing.assert_allclose(whole.attention.sum(axis=1), 1.0, **tolerance(1.0))


def test_tokens_of_sentences_stand_apart():
    translator = make()
    whole = translator.translate(LONG)
    end = JOINT.pieces([JOINT.symbols.end])[0]
    assert whole.source_tokens.count(end) == 2
    last = translator.translate(SENTENCES[-1])
    assert len(whole.token_scores) == len(whole.tokens) + (not last.truncated)
    parts = translator.translate(SENTENCES, max_length=4)
    short = translator.translate(LONG, max_length=4)
    assert short.truncated
    together = []
    for number, part in enumerate(parts):
        together += [*part.tokens, *([end] if number < 2 and not part.truncated else [])]
    assert list(short.tokens) == together


def test_split_says_when():
    translator = make(split_above=0)
    two = " ".join(SENTENCES[1:])
    apart = " ".join(part.text for part in translator.translate(SENTENCES[1:]))
    assert translator.translate(two).text != apart
    assert translator.translate(two, split="sentences").text == apart
    assert make().translate(two).text == apart
    assert make(split_above=20).translate(two).text == apart
    assert make(split_above=2).translate(SENTENCES[0]).text == translator.translate(SENTENCES[0]).text
    assert translator.translate(two, split="never").text == translator.translate(two).text
    with pytest.raises(TextTooLongError, match="at most 40"):
        translator.translate(LONG, split="never")


def test_languages_without_spaces_get_none():
    spaced, unspaced = make().translate(LONG), make(("en", "zh-Hans")).translate(LONG)
    assert unspaced.text == "".join(part.text for part in make().translate(SENTENCES))
    assert spaced.tokens == unspaced.tokens


def test_a_prefix_is_the_first_sentences():
    whole = make().translate(LONG, prefix="Der Hund")
    parts = make().translate(SENTENCES, prefix=["Der Hund", "", ""])
    assert whole.text == " ".join(part.text for part in parts)


def test_alternatives_of_a_passage_are_the_best_combinations():
    parts = make().translate(SENTENCES, beam=4, nbest=4)
    whole = make().translate(LONG, beam=4, nbest=4)
    lists = [[part, *part.alternatives] for part in parts]
    scores = sorted((sum(one.score for one in way) / 3 for way in itertools.product(*lists)), reverse=True)
    found = [one.score for one in (whole, *whole.alternatives)]
    assert found == pytest.approx(scores[:4], abs=1e-5)
    assert len({one.tokens for one in (whole, *whole.alternatives)}) == 4


@settings(deadline=None)
@given(
    st.lists(
        st.lists(st.floats(-20, 0), min_size=1, max_size=4).map(lambda scores: sorted(scores, reverse=True)),
        max_size=4,
    ),
    st.integers(1, 5),
)
def test_best_combinations_equal_all_combinations_sorted(lists, nbest):
    hypotheses = [[Hypothesis((), score, score, ()) for score in scores] for scores in lists]
    totals = [sum(each.score for each in best) for best in best_combinations(hypotheses, nbest)]
    assert totals == pytest.approx(sorted(map(sum, itertools.product(*lists)), reverse=True)[:nbest])
