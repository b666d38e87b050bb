"""Division of overlong sentences, copied texts, quality warnings, and distinct n-best lists."""

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
import tiny_models as tiny
from hypothesis import given, settings
from hypothesis import strategies as st

import uwaga
from uwaga.checkpoints.score_stats import ScoreStats, summarise_scores
from uwaga.errors import DataError, SettingsError, TextTooLongError
from uwaga.results.translation import Hypothesis
from uwaga.search import options_from_settings
from uwaga.translator import Model, Request, Translator, checks, detokenise
from uwaga.translator.layers.search import BEAM_FACTORS
from uwaga.translator.split import BLANKS, cut_to_fit
from uwaga.translator.text import Sentence

JOINT = tiny.tokeniser()
SHAPE = tiny.TINY.model_copy(update={"tie": "none"})
MODEL = tiny.transformer(SHAPE, JOINT, JOINT)
LIMIT = MODEL.max_source
CLAUSES = "The dog sees the cat, and the cat sees the dog, and she has read the book twice, and he has not."


def make_translator(languages=("en", "de"), score_stats=None, **decoding):
    search, text = options_from_settings(tiny.DECODING.model_copy(update=decoding))
    return Translator(Model(MODEL, JOINT, JOINT, search, languages, text=text, score_stats=score_stats))


def test_long_sentence_is_cut_at_commas_with_a_warning():
    assert len(JOINT.encode(CLAUSES)) + 1 > LIMIT
    translation = make_translator().translate(CLAUSES)
    [warning] = translation.warnings
    assert f"at most {LIMIT}" in warning
    assert "parts" in warning
    passage = make_translator().model.segmenter().split_text(CLAUSES, "auto", "it")
    parts = [JOINT.decode(list(sentence.ids[:-1])) for sentence in passage.sentences]
    assert " ".join(parts) == CLAUSES
    assert all(part.endswith((",", ".")) for part in parts)
    assert all(len(sentence.ids) <= LIMIT for sentence in passage.sentences)
    assert translation.text == " ".join(part.text for part in make_translator().translate(parts))
    assert "".join(make_translator().stream(CLAUSES)) == make_translator().translate(CLAUSES, beam=1).text
    assert make_translator().translate("I want to buy a car.").warnings == ()


@pytest.mark.parametrize("text", ["house " * 80, "x" * 500, "é\u0301" * 300, "Wo, wo " * 40 + "z" * 200])
def test_long_clause_is_cut_at_spaces_or_characters(text):
    passage = make_translator().model.segmenter().split_text(text, "auto", "it")
    assert all(0 < len(sentence.ids) <= LIMIT for sentence in passage.sentences)
    joined = "".join(JOINT.decode(list(sentence.ids[:-1])) + sentence.after for sentence in passage.sentences)
    assert joined.split() == JOINT.decode(JOINT.encode(" ".join(text.split()))).split()


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([*"ab ,;.，é \u00a0", "é\u0301"]), max_size=150).map("".join), st.integers(3, 30)
)
def test_parts_of_a_cut_text_fit_the_limit_and_form_the_text(text, limit):
    parts = cut_to_fit(text, limit, len)
    assert "".join(parts) == text
    assert all(len(part) <= limit for part in parts)


@settings(deadline=None)
@given(st.text(alphabet="ab ,é\u0301\u2028", max_size=200), st.integers(3, 30))
def test_texts_with_non_additive_token_counts_are_cut_to_fit(text, limit):
    """A character may add tokens only inside a sentence, such as a line separator."""

    def count(part):
        return len(part.strip()) ** 2 // 10

    parts = cut_to_fit(text, limit, count)
    assert "".join(parts) == text
    assert all(count(part) <= limit for part in parts)


@pytest.mark.parametrize("unit", ["a", "house ", "house, ", "a\u2028", "\u200b a", "日本語、", "é\u0301"])
def test_cutting_long_texts_takes_linear_time(unit):
    """The work is proportional to the length, even with non-additive token counts."""
    counted = []
    for length in (2_000, 200_000):
        text, lengths = unit * (length // len(unit)), []

        def count(part, lengths=lengths):
            lengths.append(len(part))
            return len(part.strip()) + part.count("\u2028") * 2

        assert "".join(cut_to_fit(text, 60, count)) == text
        counted.append(sum(lengths) / len(text))
    assert counted[1] < 1.2 * counted[0] < 10


@pytest.mark.parametrize(
    "text", ["€ \u2028\t \r\n &amp; \u2028 العربية\u2028&amp;", "\u202e one&\ufeff \u2028 " + "1" * 60]
)
def test_sentence_with_invisible_characters_is_cut_to_fit_the_limit(text):
    translator = make_translator()
    for limit in (9, 12, LIMIT):
        segmenter = replace(translator.model.segmenter(), limit=limit)
        assert all(
            len(sentence.ids) <= limit for sentence in segmenter.split_text(text * 3, "auto", "it").sentences
        )


def test_failing_text_does_not_affect_other_texts():
    long = "house " * 60
    texts = ["I want to buy a car.", long, "Where is the station?", None, "Yes."]
    valid = [text for text in texts if isinstance(text, str) and text != long]
    expected = iter(make_translator().translate(valid))
    with pytest.raises(TextTooLongError, match="text 2"):
        make_translator().translate(texts[:3], split="never")
    for on_error in ("return", "copy"):
        translations = make_translator().translate(texts, split="never", on_error=on_error)
        assert len(translations) == len(texts)
        assert isinstance(translations[1].error, TextTooLongError)
        assert "text 2" in str(translations[1].error)
        assert translations[1].to_dict()["error"] == str(translations[1].error)
        assert translations[1].text == (long if on_error == "copy" else "")
        assert isinstance(translations[3].error, DataError)
        assert "text 4" in str(translations[3].error)
        assert [translations[index].error for index in (0, 2, 4)] == [None] * 3
    for index in (0, 2, 4):
        assert translations[index].text == next(expected).text
    request = Request(long, split="never", on_error="return", name="line 8")
    assert "line 8" in str(next(make_translator().run([request])).error)
    with pytest.raises(SettingsError, match="on_error must be one of raise, return, copy"):
        make_translator().translate("a", on_error="ignore")


def test_texts_of_an_nbest_list_are_distinct():
    """The vocabulary has several token sequences for a text; the best result is that of the beam."""
    translator = uwaga.load(threads=1)
    for text in ("Hello!", "I want to buy a car.", "Tom is my friend."):
        translation = translator.translate(text, beam=10, nbest=10)
        hypotheses = [translation, *translation.alternatives]
        assert len(hypotheses) == 10
        assert len({hypothesis.text for hypothesis in hypotheses}) == 10
        assert translation.tokens == translator.translate(text, beam=10).tokens
        scores = [hypothesis.score for hypothesis in translation.alternatives]
        assert scores == sorted(scores, reverse=True)
    sampled = translator.translate("Hello!", sample=True, nbest=10, temperature=0.1, seed=1)
    assert len(sampled.alternatives) == 9  # samples are independent and may be equal


def test_search_for_distinct_texts_is_bounded():
    translation = make_translator().translate("I want to buy a car.", beam=3, nbest=3, max_length=1)
    assert len({hypothesis.text for hypothesis in (translation, *translation.alternatives)}) == 1 + len(
        translation.alternatives
    )
    assert max(BEAM_FACTORS) <= 8


@pytest.mark.parametrize(
    "text", ["😀😀", "3.14", "12:30 – 14:00!", "https://example.org/a?b=c", "a.b@example.org", "...", "№ 7"]
)
def test_text_without_letters_is_copied(text):
    translation = make_translator().translate(f"  {text} ", attention=True, nbest=2)
    assert (translation.text, translation.tokens, translation.token_scores, translation.score) == (
        text, (), (), 0.0,
    )  # fmt: skip
    assert "".join(make_translator().stream(text)) == text
    mixed = make_translator().translate(f"I want.\n{text}\nYes.", attention=True)
    assert mixed.text.split("\n")[1] == text
    assert len(mixed.token_scores) == len(mixed.tokens) + (not mixed.truncated)
    assert mixed.attention.shape == (len(mixed.token_scores), len(mixed.source_tokens) + 1)
    np.testing.assert_allclose(mixed.attention.sum(axis=1), 1.0, atol=1e-5)
    assert make_translator().translate(text, prefix="Der Hund").text.startswith("Der Hund")
    unnamed = make_translator(("src", "tgt")).translate(
        text, placeholders=False
    )  # may be a model that does sums
    assert unnamed.tokens


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 9), max_size=20),
    st.lists(st.integers(0, 9), min_size=1, max_size=6),
    st.integers(12, 20),
)
def test_repetition_loop_is_detected_at_any_position(tokens, cycle, repeats):
    assert checks.is_looping([*tokens, *cycle * repeats])
    assert checks.is_looping([*cycle * repeats, *tokens])
    assert not checks.is_looping(list(range(100)))
    assert not checks.is_looping([1, 2, 3] * 3)


@given(st.lists(st.integers(0, 3), max_size=40))
def test_repetition_loop_detection_matches_exhaustive_comparison(tokens):
    def repeated(period):
        runs = [list(group) for _, group in itertools.groupby(map(int.__eq__, tokens, tokens[period:]))]
        return period + max((len(run) for run in runs if run[0]), default=0)

    expected = any(
        repeated(period) >= max(4 * period, 12) for period in range(1, min(12, len(tokens) // 4) + 1)
    )
    assert checks.is_looping(tokens) == expected


def test_translation_with_a_repetition_loop_has_a_warning():
    looping = Hypothesis((5, 6) * 10, -1.0, -20.0, (-1.0,) * 21)
    plain, repeated = (Sentence(ids, hypotheses=[looping]) for ids in ((1, 2, 3), (7, 8) * 10))
    assert "repeats itself" in checks.quality_warnings([plain], None)[0]
    assert checks.quality_warnings([repeated], None) == []  # the source repeats itself too


@pytest.mark.parametrize(
    ("text", "language", "script"),
    [
        ("Привет, как дела?", "en", "Cyrillic"), ("今天天气很好", "en", "Cjk"),
        ("Good morning", "ru", "Latin"), ("Good morning", "en", None), ("Ünïcödé", "de", None),
        ("Привет from Moscow, the capital", "en", None), ("12 + 3 = 15 😀", "ru", None),
        ("Good morning", "xyz", None), ("こんにちは世界", "ja", None), ("नमस्ते", "hin_Deva", None),
    ],
)  # fmt: skip
def test_source_letters_of_another_script_cause_a_warning(text, language, script):
    warning = checks.script_warning(text, language)
    assert (warning is None) == (script is None)
    assert warning is None or (script in warning and warning.startswith(checks.UNFAMILIAR_TEXT))


def test_unusually_low_score_causes_a_warning():
    text = "I want to buy a car."
    translation = make_translator().translate(text)
    mean = translation.log_prob / len(translation.token_scores)
    low_model = make_translator(score_stats=ScoreStats(mean=0.0, low=mean / 2, sentences=100))
    low = low_model.translate(text)
    assert low.warnings[0].startswith(checks.UNFAMILIAR_TEXT)
    assert low.to_dict()["warnings"] == list(low.warnings)
    forced = low_model.translate(text, prefix="Das")
    assert not any(warning.startswith(checks.UNFAMILIAR_TEXT) for warning in forced.warnings)
    assert (
        make_translator(score_stats=ScoreStats(mean=0.0, low=2 * mean, sentences=100))
        .translate(text)
        .warnings
        == ()
    )
    assert "warnings" not in translation.to_dict()


def test_word_unknown_to_the_model_is_copied():
    plain = make_translator()
    mean = checks.mean_score(
        Hypothesis((), 0.0, (known := plain.translate("dog")).log_prob, known.token_scores)
    )
    for word, is_known in ((mean - 0.01, True), (mean + 0.01, False)):
        translator = make_translator(score_stats=ScoreStats(mean=0.0, low=-1e4, sentences=100, word=word))
        translation = translator.translate("dog", alignment=True)
        assert translation.text == (known.text if is_known else "dog")
        assert [warning for warning in translation.warnings if "does not know" in warning] == (
            [] if is_known else ["copied: 'dog' is a word that the model does not know"]
        )
        for text in ("the dog sees", "12", "日本語"):
            assert translator.translate(text).text == plain.translate(text).text
        for options in ({"attention": True}, {"attention": "all"}, {"nbest": 2, "beam": 2}):
            assert translator.translate("dog", **options).text == plain.translate("dog", **options).text


def test_score_statistics_match_hand_calculation():
    hypotheses = [Hypothesis((1,), 0.0, -float(number), (0.0, 0.0)) for number in range(200)]
    assert summarise_scores(hypotheses) == ScoreStats(mean=-199 / 4, low=-197 / 2, sentences=200)
    assert summarise_scores(hypotheses[:99]) is None


def test_text_without_a_full_stop_is_translated_without_one():
    bundled = uwaga.load(threads=1)
    labels = ["Good morning", "Help me", "I like dogs"]
    translations = bundled.translate(labels, nbest=2)
    assert bundled.translate("I like dogs.").text == translations[2].text + "."
    for label, translation in zip(labels, translations, strict=True):
        texts = [translation.text, *(alternative.text for alternative in translation.alternatives)]
        assert len(set(texts)) == len(texts) and not any(text.endswith((".", "!")) for text in texts)
        assert "".join(bundled.stream(label)) == bundled.translate(label, beam=1).text
    assert bundled.translate("Good morning", prefix="Guten Morgen.").text.startswith("Guten Morgen.")


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("Hilf mir!", "Hilf mir"),
        ("Guten Morgen.", "Guten Morgen"),
        ("と言う。", "と言う"),
        *((text, text) for text in ("am 3.", "Bist du?", "Nr.", "Warte...", ".", "")),
    ],
)
def test_only_final_stops_after_words_are_removed(text, without):
    assert detokenise.without_stop(text) == without


@given(st.text(" \t\v\f.a\u00a0", max_size=8))
def test_sequences_of_blanks_are_replaced_by_one_space(text):
    assert BLANKS.sub(" ", text) == re.sub(r"[ \t\v\f]+", " ", text)


@given(st.lists(st.tuples(st.sampled_from(["Hi.", "Yes", " "]), st.sampled_from(["\n", "\r", "\r\n"]))))
def test_line_breaks_of_the_source_are_kept(lines):
    text = "".join(line + line_break for line, line_break in lines)
    passage = make_translator().model.segmenter().split_text(text, "auto", "it")
    assert [sentence.text for sentence in passage.sentences] == [line for line, _ in lines if line != " "]
    written = passage.before + "".join(sentence.text + sentence.after for sentence in passage.sentences)
    expected, actual = ([line.strip() for line in re.split("\r\n|\n|\r", each)] for each in (text, written))
    assert actual == expected
