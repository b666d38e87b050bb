"""What is cut, copied or doubted on the way of a text, and n-best lists of different texts."""

import itertools
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
from uwaga.search import from_settings
from uwaga.translator import Model, Request, Translator, checks
from uwaga.translator.layers.search import WIDENINGS
from uwaga.translator.split import cut_to_fit
from uwaga.translator.text import Sentence

JOINT = tiny.tokeniser()
SHAPE = tiny.TINY.model_copy(update={"tie": "none"})
MODEL = tiny.transformer(SHAPE, JOINT, JOINT)
LIMIT = MODEL.max_source
CLAUSES = "The dog sees the cat, and the cat sees the dog, and she has read the book twice, and he has not."


def make(languages=("en", "de"), score_stats=None, **decoding):
    search, text = from_settings(tiny.DECODING.model_copy(update=decoding))
    return Translator(Model(MODEL, JOINT, JOINT, search, languages, text=text, score_stats=score_stats))


def test_I11_3_a_sentence_beyond_the_limit_is_cut_at_commas_and_says_so():
    assert len(JOINT.encode(CLAUSES)) + 1 > LIMIT
    made = make().translate(CLAUSES)
    [warning] = made.warnings
    assert f"at most {LIMIT}" in warning
    assert "parts" in warning
    passage = make().model.segmenter().cut(CLAUSES, "auto", "it")
    parts = [JOINT.decode(list(one.ids[:-1])) for one in passage.sentences]
    assert " ".join(parts) == CLAUSES
    assert all(part.endswith((",", ".")) for part in parts)
    assert all(len(one.ids) <= LIMIT for one in passage.sentences)
    assert made.text == " ".join(one.text for one in make().translate(parts))
    assert "".join(make().stream(CLAUSES)) == make().translate(CLAUSES, beam=1).text
    assert make().translate("I want to buy a car.").warnings == ()


@pytest.mark.parametrize("text", ["house " * 80, "x" * 500, "é\u0301" * 300, "Wo, wo " * 40 + "z" * 200])
def test_I11_3_spaces_and_then_characters_are_the_last_resort(text):
    made = make().model.segmenter().cut(text, "auto", "it")
    assert all(0 < len(one.ids) <= LIMIT for one in made.sentences)
    joined = "".join(JOINT.decode(list(one.ids[:-1])) + one.after for one in made.sentences)
    assert joined.split() == JOINT.decode(JOINT.encode(" ".join(text.split()))).split()


@settings(deadline=None)
@given(
    st.lists(st.sampled_from([*"ab ,;.，é \u00a0", "é\u0301"]), max_size=150).map("".join), st.integers(3, 30)
)
def test_I11_3_parts_fit_are_few_and_joined_are_the_text(text, limit):
    parts = cut_to_fit(text, limit, len)
    assert "".join(parts) == text
    assert all(len(part) <= limit for part in parts)


@settings(deadline=None)
@given(st.text(alphabet="ab ,é\u0301\u2028", max_size=200), st.integers(3, 30))
def test_I11_3_tokens_that_do_not_add_up_are_cut_all_the_same(text, limit):
    """What is nothing by itself may be something between others, as a line separator in a sentence is."""

    def count(part):
        return len(part.strip()) ** 2 // 10

    parts = cut_to_fit(text, limit, count)
    assert "".join(parts) == text
    assert all(count(part) <= limit for part in parts)


@pytest.mark.parametrize("unit", ["a", "house ", "house, ", "a\u2028", "\u200b a", "日本語、", "é\u0301"])
def test_I11_3_cutting_is_linear_in_the_length(unit):
    """A hundred times the text is a hundred times the work, however its tokens add up."""
    counted = []
    for length in (2_000, 200_000):
        text, read = unit * (length // len(unit)), []

        def count(part, read=read):
            read.append(len(part))
            return len(part.strip()) + part.count("\u2028") * 2

        assert "".join(cut_to_fit(text, 60, count)) == text
        counted.append(sum(read) / len(text))
    assert counted[1] < 1.2 * counted[0] < 10


@pytest.mark.parametrize(
    "text", ["€ \u2028\t \r\n &amp; \u2028 العربية\u2028&amp;", "\u202e one&\ufeff \u2028 " + "1" * 60]
)
def test_I11_3_invisible_characters_inside_a_sentence_do_not_hold_up(text):
    translator = make()
    for limit in (9, 12, LIMIT):
        segmenter = replace(translator.model.segmenter(), limit=limit)
        assert all(len(one.ids) <= limit for one in segmenter.cut(text * 3, "auto", "it").sentences)


def test_I11_3_one_text_that_fails_does_not_take_the_others_along():
    long = "house " * 60
    texts = ["I want to buy a car.", long, "Where is the station?", None, "Yes."]
    good = [one for one in texts if isinstance(one, str) and one != long]
    wanted = iter(make().translate(good))
    with pytest.raises(TextTooLongError, match="text 2"):
        make().translate(texts[:3], split="never")
    for how in ("return", "copy"):
        made = make().translate(texts, split="never", on_error=how)
        assert len(made) == len(texts)
        assert isinstance(made[1].error, TextTooLongError)
        assert "text 2" in str(made[1].error)
        assert made[1].to_dict()["error"] == str(made[1].error)
        assert made[1].text == (long if how == "copy" else "")
        assert isinstance(made[3].error, DataError)
        assert "text 4" in str(made[3].error)
        assert [made[at].error for at in (0, 2, 4)] == [None] * 3
    for at in (0, 2, 4):
        assert made[at].text == next(wanted).text
    request = Request(long, split="never", on_error="return", name="line 8")
    assert "line 8" in str(next(make().run([request])).error)
    with pytest.raises(SettingsError, match="on_error must be one of raise, return, copy"):
        make().translate("a", on_error="ignore")


def test_I11_5_an_nbest_list_holds_different_texts():
    """A decoder whose vocabulary spells one text in several ways; the head is that of the beam alone."""
    translator = uwaga.load(threads=1)
    for text in ("Hello!", "I want to buy a car.", "Tom is my friend."):
        made = translator.translate(text, beam=10, nbest=10)
        ways = [made, *made.alternatives]
        assert len(ways) == 10
        assert len({one.text for one in ways}) == 10
        assert made.tokens == translator.translate(text, beam=10).tokens
        scores = [one.score for one in made.alternatives]
        assert scores == sorted(scores, reverse=True)
    drawn = translator.translate("Hello!", sample=True, nbest=10, temperature=0.1, seed=1)
    assert len(drawn.alternatives) == 9  # samples are independent: they may be alike


def test_I11_5_the_search_for_more_texts_is_bounded():
    one_token = make().translate("I want to buy a car.", beam=3, nbest=3, max_length=1)
    assert len({one.text for one in (one_token, *one_token.alternatives)}) == 1 + len(one_token.alternatives)
    assert max(WIDENINGS) <= 8


@pytest.mark.parametrize(
    "text", ["😀😀", "3.14", "12:30 – 14:00!", "https://example.org/a?b=c", "a.b@example.org", "...", "№ 7"]
)
def test_I11_7_what_has_no_letters_is_copied(text):
    made = make().translate(f"  {text} ", attention=True, nbest=2)
    assert (made.text, made.tokens, made.token_scores, made.score) == (text, (), (), 0.0)
    assert "".join(make().stream(text)) == text
    mixed = make().translate(f"I want.\n{text}\nYes.", attention=True)
    assert mixed.text.split("\n")[1] == text
    assert len(mixed.token_scores) == len(mixed.tokens) + (not mixed.truncated)
    assert mixed.attention.shape == (len(mixed.token_scores), len(mixed.source_tokens) + 1)
    np.testing.assert_allclose(mixed.attention.sum(axis=1), 1.0, atol=1e-5)
    assert make().translate(text, prefix="Der Hund").text.startswith("Der Hund")
    unnamed = make(("src", "tgt")).translate(text, placeholders=False)  # may be a model that does sums
    assert unnamed.tokens


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 9), max_size=20),
    st.lists(st.integers(0, 9), min_size=1, max_size=6),
    st.integers(12, 20),
)
def test_I11_7_a_loop_is_found_wherever_it_stands(before, cycle, turns):
    assert checks.loops([*before, *cycle * turns])
    assert checks.loops([*cycle * turns, *before])
    assert not checks.loops(list(range(100)))
    assert not checks.loops([1, 2, 3] * 3)


@given(st.lists(st.integers(0, 3), max_size=40))
@settings(max_examples=100, deadline=None)
def test_I11_7_loops_are_found_by_comparing_everything(tokens):
    def repeated(period):
        runs = [list(group) for _, group in itertools.groupby(map(int.__eq__, tokens, tokens[period:]))]
        return period + max((len(run) for run in runs if run[0]), default=0)

    wanted = any(
        repeated(period) >= max(4 * period, 12) for period in range(1, min(12, len(tokens) // 4) + 1)
    )
    assert checks.loops(tokens) == wanted


def test_I11_7_a_translation_that_loops_is_marked():
    looping = Hypothesis((5, 6) * 10, -1.0, -20.0, (-1.0,) * 21)
    plain, repeated = (Sentence(ids, "", hypotheses=[looping]) for ids in ((1, 2, 3), (7, 8) * 10))
    assert "repeats itself" in checks.quality_warnings([plain], None)[0]
    assert checks.quality_warnings([repeated], None) == []  # as its source does


@pytest.mark.parametrize(
    ("text", "language", "strange"),
    [
        ("Привет, как дела?", "en", "Cyrillic"),
        ("今天天气很好", "en", "Cjk"),
        ("Good morning", "ru", "Latin"),
        ("Good morning", "en", None),
        ("Ünïcödé", "de", None),
        ("Привет from Moscow, the capital", "en", None),
        ("12 + 3 = 15 😀", "ru", None),
        ("Good morning", "xyz", None),
        ("こんにちは世界", "ja", None),
        ("नमस्ते", "hin_Deva", None),
    ],
)
def test_I11_7_letters_of_another_script_are_doubted(text, language, strange):
    found = checks.unlike_language(text, language)
    assert (found is None) == (strange is None)
    assert found is None or (strange in found and found.startswith(checks.UNLIKE))


def test_I11_7_scores_far_below_the_usual_are_doubted():
    text = "I want to buy a car."
    made = make().translate(text)
    mean = made.log_prob / len(made.token_scores)
    low = make(score_stats=ScoreStats(mean=0.0, low=mean / 2, sentences=100)).translate(text)
    assert low.warnings[0].startswith(checks.UNLIKE)
    assert low.to_dict()["warnings"] == list(low.warnings)
    assert make(score_stats=ScoreStats(mean=0.0, low=2 * mean, sentences=100)).translate(text).warnings == ()
    assert "warnings" not in made.to_dict()


def test_I11_7_usual_scores_by_hand():
    made = [Hypothesis((1,), 0.0, -float(number), (0.0, 0.0)) for number in range(200)]
    assert summarise_scores(made) == ScoreStats(mean=-199 / 4, low=-197 / 2, sentences=200)
    assert summarise_scores(made[:99]) is None


def test_a_full_stop_is_not_added_to_a_text_without_one():
    bundled = uwaga.load(threads=1)
    labels = ["Good morning", "Help me", "I like dogs"]
    made = bundled.translate(labels, nbest=3)
    assert bundled.translate("I like dogs.").text == made[2].text + "."
    for label, one in zip(labels, made, strict=True):
        texts = [one.text, *(other.text for other in one.alternatives)]
        assert len(set(texts)) == len(texts) and not any(text.endswith((".", "!")) for text in texts)
        assert "".join(bundled.stream(label)) == bundled.translate(label, beam=1).text
    assert bundled.translate("Good morning", prefix="Guten Morgen.").text.startswith("Guten Morgen.")


@pytest.mark.parametrize(
    ("text", "without"),
    [
        ("Hilf mir!", "Hilf mir"),
        ("Guten Morgen.", "Guten Morgen"),
        ("と言う。", "と言う"),
        *((one, one) for one in ("am 3.", "Bist du?", "Nr.", "Warte...", ".", "")),
    ],
)
def test_marks_of_numbers_and_abbreviations_stay(text, without):
    assert checks.without_stop(text) == without
