"""Passages: texts that are split into sentences and joined again."""

import itertools

import numpy as np
import pytest
import tiny_models as tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from precision import tolerance

from uwaga.errors import TextTooLongError
from uwaga.results.translation import Hypothesis
from uwaga.search import options_from_settings
from uwaga.translator import Model, Translator
from uwaga.translator.layers.assemble import Part, best_combinations
from uwaga.translator.text import Sentence

JOINT = tiny.tokeniser()
SHAPE = tiny.TINY.model_copy(update={"tie": "none"})
MODEL = tiny.transformer(SHAPE, JOINT, JOINT)
SENTENCES = ["I want to buy a car.", "Where is the station?", "It is not far from here."]
PASSAGE = " ".join(SENTENCES)


def make_translator(languages=("en", "de"), **decoding):
    search, text = options_from_settings(tiny.DECODING.model_copy(update=decoding))
    return Translator(Model(MODEL, JOINT, JOINT, search, languages, text=text))


def test_long_line_is_translated_sentence_by_sentence():
    translator = make_translator()
    assert len(JOINT.encode(PASSAGE)) + 1 > MODEL.max_source
    parts = translator.translate(SENTENCES, attention=True)
    passage = translator.translate(PASSAGE, attention=True)
    assert passage.text == " ".join(part.text for part in parts)
    assert passage.token_scores == pytest.approx(
        [score for part in parts for score in part.token_scores], abs=1e-5
    )
    assert passage.log_prob == pytest.approx(sum(part.log_prob for part in parts), abs=1e-4)
    assert passage.score == pytest.approx(sum(part.score for part in parts) / 3, abs=1e-5)
    assert passage.truncated == any(part.truncated for part in parts)
    row = column = 0
    for part in parts:  # diagonal blocks, zero elsewhere
        rows, columns = part.attention.shape
        block = passage.attention[row : row + rows, column : column + columns]
        np.testing.assert_allclose(block, part.attention, **tolerance(part.attention))
        row, column = row + rows, column + columns
    assert passage.attention.shape == (row, column)
    np.testing.assert_allclose(passage.attention.sum(axis=1), 1.0, **tolerance(1.0))


def test_sentences_are_separated_by_end_tokens():
    translator = make_translator()
    passage = translator.translate(PASSAGE)
    end = JOINT.pieces([JOINT.symbols.end])[0]
    assert passage.source_tokens.count(end) == 2
    last = translator.translate(SENTENCES[-1])
    assert len(passage.token_scores) == len(passage.tokens) + (not last.truncated)
    parts = translator.translate(SENTENCES, max_length=4)
    short = translator.translate(PASSAGE, max_length=4)
    assert short.truncated
    expected = []
    for number, part in enumerate(parts):
        expected += [*part.tokens, *([end] if number < 2 and not part.truncated else [])]
    assert list(short.tokens) == expected


def test_split_option_controls_sentence_splitting():
    translator = make_translator(split_above=0)
    text = " ".join(SENTENCES[1:])
    by_sentences = " ".join(part.text for part in translator.translate(SENTENCES[1:]))
    assert translator.translate(text).text != by_sentences
    assert translator.translate(text, split="sentences").text == by_sentences
    assert make_translator().translate(text).text == by_sentences
    assert make_translator(split_above=20).translate(text).text == by_sentences
    assert (
        make_translator(split_above=2).translate(SENTENCES[0]).text == translator.translate(SENTENCES[0]).text
    )
    assert translator.translate(text, split="never").text == translator.translate(text).text
    with pytest.raises(TextTooLongError, match="at most 40"):
        translator.translate(PASSAGE, split="never")


def test_sentences_of_unspaced_languages_are_joined_without_spaces():
    spaced, unspaced = (
        make_translator().translate(PASSAGE),
        make_translator(("en", "zh-Hans")).translate(PASSAGE),
    )
    assert unspaced.text == "".join(part.text for part in make_translator().translate(SENTENCES))
    assert spaced.tokens == unspaced.tokens


def test_prefix_applies_to_the_first_sentence():
    passage = make_translator().translate(PASSAGE, prefix="Der Hund")
    parts = make_translator().translate(SENTENCES, prefix=["Der Hund", "", ""])
    assert passage.text == " ".join(part.text for part in parts)


def test_alternatives_of_a_passage_are_the_best_combinations_of_its_sentences():
    parts = make_translator().translate(SENTENCES, beam=4, nbest=4)
    passage = make_translator().translate(PASSAGE, beam=4, nbest=4)
    lists = [[part, *part.alternatives] for part in parts]
    first, *others = (sum(part.score for part in parts) / 3 for parts in itertools.product(*lists))
    assert passage.text == " ".join(part.text for part in parts)
    actual = [translation.score for translation in (passage, *passage.alternatives)]
    assert actual == pytest.approx([first, *sorted(others, reverse=True)[:3]], abs=1e-5)
    assert len({translation.tokens for translation in (passage, *passage.alternatives)}) == 4


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(-20, 0), min_size=1, max_size=4), max_size=4), st.integers(1, 5))
def test_best_combinations_after_the_first_match_exhaustive_sorting(lists, nbest):
    sentences = [
        Sentence((), hypotheses=[Hypothesis((), score, score, ()) for score in scores]) for scores in lists
    ]
    choices = [[Part(sentence, result, "") for result in sentence.hypotheses] for sentence in sentences]
    totals = [sum(part.score for part in best) for best in best_combinations(choices, nbest)]
    first, *others = map(sum, itertools.product(*lists))
    assert totals == pytest.approx([first, *sorted(others, reverse=True)[: nbest - 1]])
