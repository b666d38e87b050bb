"""Several models one after the other: what comes out is what calling them by hand gives."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
import tiny_models as tiny
from pivot_models import chained_model

from uwaga import Request
from uwaga.errors import SettingsError, TextTooLongError
from uwaga.tokenizers.sentences import split_sentences
from uwaga.translator.checks import UNLIKE
from uwaga.translator.plan import search_options
from uwaga.translator.split import LINE_BREAK

TEXTS = [
    "I want to buy a car.",
    "",
    "The dog sees the cat and the cat sees the dog.",
    "3.14",
    "Do you know what time it is?",
    "  My brother   never drinks coffee in the evening. ",
]
TEXT = (
    "\n\nWhere is the station? It is not far from here.\r\n \nWe are going home now. 42. They stay for "
    "another hour.\r\r\nA small house stands on the hill.\n"
)


FIRST, SECOND = chained_model("pt", "en", 1), chained_model("en", "de", 2)
THIRD = chained_model("de", "pt", 3)
SHORT = chained_model("en", "de", 2, max_length=8)
CHAINS = [(FIRST, SECOND), (FIRST, SECOND, THIRD)]


def by_hand(chain, texts, **options):
    """What each model makes of what the one before it has made, which may look like a placeholder."""
    steps = []
    for translator in chain:
        steps.append(translator.translate(texts, placeholders=False, **options))
        texts = [one.text for one in steps[-1]]
    return steps


@pytest.mark.parametrize("chain", CHAINS, ids=len)
@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"sample": True, "seed": 5, "top_k": 4}], ids=str)
def test_lines_become_what_the_runs_by_hand_give(chain, options):
    pivot = chain[0].then(*chain[1:])
    steps = by_hand(chain, TEXTS, **options)
    found = pivot.translate(TEXTS, placeholders=False, **options)
    assert [one.text for one in found] == [one.text for one in steps[-1]]
    assert [one.steps for one in found] == list(zip(*steps, strict=True))
    assert [one.source for one in found] == TEXTS
    assert [pivot.translate(text, placeholders=False, **options) for text in TEXTS] == found
    requests = (Request(text, placeholders=False, search=options) for text in TEXTS)
    assert list(pivot.run(requests, window=2)) == found
    for one in found:
        for before, after in pairwise(one.steps):
            assert after.source == before.text
        assert (one.score, one.tokens, one.log_prob) == (
            one.steps[-1].score,
            one.steps[-1].tokens,
            one.steps[-1].log_prob,
        )
        assert one.source_tokens == one.steps[0].source_tokens


@pytest.mark.parametrize("chain", CHAINS, ids=len)
@pytest.mark.parametrize("text", [TEXT, TEXT * 2, TEXT.strip(), "\n \n", " "])
def test_a_text_is_taken_apart_once_and_put_together_once(chain, text):
    """Each sentence goes through all models by itself; lines, blank ones too, stay as they are."""
    expected = ""
    for line in LINE_BREAK.split(text):
        if LINE_BREAK.fullmatch(line):
            both = expected.endswith("\r") and line == "\n"
            expected += (" " if both else "") + line
            continue
        sentences = [one for one in split_sentences(line, "pt") if one.strip()]
        made = by_hand(chain, sentences)[-1]
        expected += " ".join(one.text for one in made if one.text)
    found = chain[0].then(*chain[1:]).translate(text, split="sentences", placeholders=False)
    assert found.text == expected


def test_spaces_between_sentences_are_the_last_languages():
    text = "Where is the station? It is not far."
    middle = chained_model("pt", "zh", 1)
    spaced = middle.then(chained_model("zh", "en", 2)).translate(text, split="sentences")
    first, second = by_hand((middle, chained_model("zh", "en", 2)), split_sentences(text, "pt"))
    assert spaced.text == " ".join(one.text for one in second)
    assert spaced.steps[0].text == "".join(one.text for one in first)


def test_the_nbest_list_is_the_last_models_of_the_best_before():
    pivot = FIRST.then(SECOND)
    first = FIRST.translate(TEXTS[0], beam=4)
    expected = SECOND.translate(first.text, beam=4, nbest=3)
    found = pivot.translate(TEXTS[0], beam=4, nbest=3)
    assert [one.text for one in found.alternatives] == [one.text for one in expected.alternatives]
    assert found.steps == (first, expected)
    assert {one.source for one in found.alternatives} == {TEXTS[0]}


def test_what_is_about_the_result_is_for_the_last_model():
    pivot = FIRST.then(SECOND)
    banned = tuple(range(10, 60))
    first = FIRST.translate(TEXTS)
    asked = {"max_length": 6, "min_length": 1, "banned": banned, "prefix": "D"}
    expected = SECOND.translate([one.text for one in first], **asked)
    assert [one.text for one in pivot.translate(TEXTS, **asked)] == [one.text for one in expected]
    earlier, last = search_options([one.decoding for one in pivot.models], {"max_length": 3})
    assert (earlier.max_length, last.max_length) == (12, 3)
    assert all(one.truncated for one in pivot.translate(["I want to buy a car."], max_length=2))


@pytest.mark.parametrize("chain", CHAINS, ids=len)
@pytest.mark.parametrize("text", [*TEXTS, TEXT, "The dog {name} sees.\nThe %s."])
def test_a_stream_is_the_greedy_translation(chain, text):
    pivot = chain[0].then(*chain[1:])
    expected = pivot.translate(text, beam=1, split="sentences")
    pieces, cut = [], []

    def listen():
        cut.append((yield from pivot.stream(text, split="sentences")))

    pieces = list(listen())
    assert "".join(pieces) == expected.text and "" not in pieces
    assert cut == [expected.truncated]


def test_a_sentence_too_long_for_a_later_model_is_cut_there():
    pivot = FIRST.then(SHORT)
    first = FIRST.translate(TEXTS[2])
    found = pivot.translate(TEXTS[2])
    expected = SHORT.translate(first.text)
    assert found.text == expected.text
    assert found.warnings == tuple(f"{one} (in the step en → de)" for one in expected.warnings)
    assert any("parts" in one for one in found.warnings)
    with pytest.raises(TextTooLongError, match=r"^the text in en: the sentence .* at most 8"):
        pivot.translate(TEXTS[2], split="never")
    with pytest.raises(TextTooLongError, match=r"^the text in en: "):
        pivot.stream(TEXTS[2], split="never")


@pytest.mark.parametrize("on_error", ["return", "copy"])
def test_a_text_that_fails_does_not_hold_up_the_others(on_error):
    """It may fail in the first model (not Unicode, too long) or in a later one (too long there)."""
    pivot = FIRST.then(SHORT)
    texts = ["42", TEXTS[2], "a \ud800", "one " * 60, 7, "42"]
    found = pivot.translate(texts, split="never", on_error=on_error, prefix=["", "a", "b", "c", "d", "x"])
    errors = [None if one.error is None else str(one.error) for one in found]
    assert errors[0] is None and errors[5] is None
    assert errors[1].startswith("text 2 in en: ") and "surrogate" in errors[2]
    assert errors[3].startswith("text 4: ") and errors[4].startswith("text 5 is not a string")
    kept = [texts[1], texts[2], texts[3], ""] if on_error == "copy" else [""] * 4
    assert [one.text for one in found[1:5]] == kept
    assert found[0] == pivot.translate("42") and found[5] == pivot.translate("42", prefix="x")
    with pytest.raises(TextTooLongError, match=r"^line 12 in en"):
        list(pivot.run([Request(texts[1], split="never", name="line 12")]))


def test_warnings_of_both_steps_say_which():
    pivot = chained_model("ru", "el", 1).then(chained_model("el", "de", 2))
    found = pivot.translate(TEXTS[0])
    strange = [one for one in found.warnings if one.startswith(UNLIKE)]
    assert [one.partition(" (in")[2] for one in strange] == [" the step ru → el)", " the step el → de)"]
    assert pivot.input_warnings(TEXTS[0]) == tuple(strange[:1])


def test_steps_are_shown():
    pivot = FIRST.then(SECOND)
    found = pivot.translate(TEXTS[0], attention=True)
    assert found.attention is None
    for step in found.steps:
        assert step.attention.shape == (len(step.token_scores), len(step.source_tokens) + 1)
    values = json.loads(found.to_json())
    assert [one["text"] for one in values["steps"]] == [one.text for one in found.steps]
    assert "2 steps" in repr(found)
    assert repr(pivot) == f"Translator({FIRST.model!r}; {SECOND.model!r})"
    assert pivot.languages == ("pt", "de") and pivot.route == ("pt", "en", "de")
    assert (pivot.languages.sources, pivot.languages.targets) == (("pt",), ("de",))


def test_its_own_languages_are_taken_and_no_others():
    pivot = FIRST.then(SECOND)
    assert pivot.translate("Hi", source="pt_BR", target="deu_Latn") == pivot.translate("Hi")
    for call in (
        lambda: pivot.translate("Hi", source="en"),
        lambda: pivot.stream("Hi", target="en"),
        lambda: pivot.between("pt", "en"),
    ):
        with pytest.raises(SettingsError, match="translates pt to de only"):
            call()


def test_what_cannot_be_is_refused_by_name():
    pivot = FIRST.then(SECOND)
    with pytest.raises(SettingsError, match="single model"):
        pivot.score([("a", "b")])
    with pytest.raises(SettingsError, match="single model"):
        pivot.attend("a")
    with pytest.raises(SettingsError, match="model 1 translates to en and the next one from pt"):
        FIRST.then(FIRST)
    with pytest.raises(SettingsError, match="model 2 translates to de and the next one from en"):
        FIRST.then(SECOND, SECOND)
    with pytest.raises(SettingsError, match="single model"):
        list(pivot.run([Request("a", search=tiny.SEARCH)]))
    with pytest.raises(SettingsError, match="did you mean 'beam'"):
        pivot.translate("a", beams=2)
    with pytest.raises(SettingsError, match="more than beam"):
        pivot.translate("a", beam=2, nbest=3)
    with pytest.raises(SettingsError, match="streaming needs beam 1"):
        pivot.stream("a", beam=2)
    with pytest.raises(SettingsError, match="2 prefixes for 1 texts"):
        pivot.translate(["a"], prefix=["a", "b"])
    with pytest.raises(SettingsError, match="on_error must be one of"):
        pivot.translate("a", on_error="ignore")
