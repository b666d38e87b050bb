"""Pivot translation: a chain of models gives the same results as separate calls."""

import json
import re
from itertools import pairwise

import pytest
import tiny_models as tiny
from pivot_models import chained_model

from uwaga import Request
from uwaga.errors import SettingsError, TextTooLongError
from uwaga.tokenizers.sentences import split_sentences
from uwaga.translator.checks import UNFAMILIAR_TEXT
from uwaga.translator.plan import search_options

LINE_BREAK = re.compile(r"(\r\n|\n|\r)")
TEXTS = [
    "I want to buy a car.", "", "The dog sees the cat and the cat sees the dog.", "3.14",
    "Do you know what time it is?", "  My brother   never drinks coffee in the evening. ",
]  # fmt: skip
TEXT = (
    "\n\nWhere is the station? It is not far from here.\r\n \nWe are going home now. 42. They stay for "
    "another hour.\r\r\nA small house stands on the hill.\n"
)


FIRST, SECOND = chained_model("pt", "en", 1), chained_model("en", "de", 2)
GERMAN_TO_PORTUGUESE = chained_model("de", "pt", 3)
ENGLISH_TO_GERMAN_WITH_SHORT_LIMIT = chained_model("en", "de", 2, max_length=8)
CHAINS = [(FIRST, SECOND), (FIRST, SECOND, GERMAN_TO_PORTUGUESE)]


def translate_by_steps(chain, texts, **options):
    """Translate with each model in turn, without placeholders, and return the results of every step."""
    steps = []
    for translator in chain:
        steps.append(translator.translate(texts, placeholders=False, **options))
        texts = [translation.text for translation in steps[-1]]
    return steps


@pytest.mark.parametrize("chain", CHAINS, ids=len)
@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"sample": True, "seed": 5, "top_k": 4}], ids=str)
def test_chain_of_models_gives_the_same_results_as_separate_calls(chain, options):
    pivot = chain[0].then(*chain[1:])
    steps = translate_by_steps(chain, TEXTS, **options)
    translations = pivot.translate(TEXTS, placeholders=False, **options)
    assert [result.text for result in translations] == [result.text for result in steps[-1]]
    assert [translation.steps for translation in translations] == list(zip(*steps, strict=True))
    assert [translation.source for translation in translations] == TEXTS
    assert [pivot.translate(text, placeholders=False, **options) for text in TEXTS] == translations
    requests = (Request(text, placeholders=False, search=options) for text in TEXTS)
    assert list(pivot.run(requests, window=2)) == translations
    for translation in translations:
        for before, after in pairwise(translation.steps):
            assert after.source == before.text
        assert (translation.score, translation.tokens, translation.log_prob) == (
            translation.steps[-1].score,
            translation.steps[-1].tokens,
            translation.steps[-1].log_prob,
        )
        assert translation.source_tokens == translation.steps[0].source_tokens


@pytest.mark.parametrize("chain", CHAINS, ids=len)
@pytest.mark.parametrize("text", [TEXT, TEXT * 2, TEXT.strip(), "\n \n", " "])
def test_chain_splits_the_text_once_and_joins_it_once(chain, text):
    """Every sentence passes through all models separately; line breaks and blank lines are kept."""
    expected = ""
    for line in LINE_BREAK.split(text):
        if LINE_BREAK.fullmatch(line):
            crlf = expected.endswith("\r") and line == "\n"
            expected += (" " if crlf else "") + line
            continue
        sentences = [sentence for sentence in split_sentences(line, "pt") if sentence.strip()]
        translations = translate_by_steps(chain, sentences)[-1]
        expected += " ".join(translation.text for translation in translations if translation.text)
    translation = chain[0].then(*chain[1:]).translate(text, split="sentences", placeholders=False)
    assert translation.text == expected


def test_last_language_determines_spaces_between_sentences():
    text = "Where is the station? It is not far."
    to_chinese = chained_model("pt", "zh", 1)
    spaced = to_chinese.then(chained_model("zh", "en", 2)).translate(text, split="sentences")
    first, second = translate_by_steps(
        (to_chinese, chained_model("zh", "en", 2)), split_sentences(text, "pt")
    )
    assert spaced.text == " ".join(translation.text for translation in second)
    assert spaced.steps[0].text == "".join(translation.text for translation in first)


def test_nbest_list_comes_from_the_last_model():
    pivot = FIRST.then(SECOND)
    first = FIRST.translate(TEXTS[0], beam=4)
    expected = SECOND.translate(first.text, beam=4, nbest=3)
    translation = pivot.translate(TEXTS[0], beam=4, nbest=3)
    assert [alternative.text for alternative in translation.alternatives] == [
        alternative.text for alternative in expected.alternatives
    ]
    assert translation.steps == (first, expected)
    assert {alternative.source for alternative in translation.alternatives} == {TEXTS[0]}


def test_options_for_the_target_apply_to_the_last_model():
    pivot = FIRST.then(SECOND)
    banned = tuple(range(10, 60))
    first = FIRST.translate(TEXTS)
    options = {"max_length": 6, "min_length": 1, "banned": banned, "prefix": "D"}
    expected = SECOND.translate([translation.text for translation in first], **options)
    assert [translation.text for translation in pivot.translate(TEXTS, **options)] == [
        translation.text for translation in expected
    ]
    earlier, last = search_options([model.decoding for model in pivot.models], {"max_length": 3})
    assert (earlier.max_length, last.max_length) == (12, 3)
    assert all(result.truncated for result in pivot.translate(["I want to buy a car."], max_length=2))


@pytest.mark.parametrize("chain", CHAINS, ids=len)
@pytest.mark.parametrize("text", [*TEXTS, TEXT, "The dog {name} sees.\nThe %s."])
def test_stream_equals_the_greedy_translation(chain, text):
    pivot = chain[0].then(*chain[1:])
    expected = pivot.translate(text, beam=1, split="sentences")
    pieces, truncated = [], []

    def read_stream():
        truncated.append((yield from pivot.stream(text, split="sentences")))

    pieces = list(read_stream())
    assert "".join(pieces) == expected.text and "" not in pieces
    assert truncated == [expected.truncated]


def test_later_model_of_a_chain_cuts_overlong_sentences():
    pivot = FIRST.then(ENGLISH_TO_GERMAN_WITH_SHORT_LIMIT)
    first = FIRST.translate(TEXTS[2])
    translation = pivot.translate(TEXTS[2])
    expected = ENGLISH_TO_GERMAN_WITH_SHORT_LIMIT.translate(first.text)
    assert translation.text == expected.text
    assert translation.warnings == tuple(f"{warning} (in the step en → de)" for warning in expected.warnings)
    assert any("parts" in warning for warning in translation.warnings)
    with pytest.raises(TextTooLongError, match=r"^the text in en: the sentence .* at most 8"):
        pivot.translate(TEXTS[2], split="never")
    with pytest.raises(TextTooLongError, match=r"^the text in en: "):
        pivot.stream(TEXTS[2], split="never")


@pytest.mark.parametrize("on_error", ["return", "copy"])
def test_failing_text_does_not_affect_other_texts_of_the_chain(on_error):
    """A text may fail in the first model (invalid Unicode, too long) or in a later one (too long)."""
    pivot = FIRST.then(ENGLISH_TO_GERMAN_WITH_SHORT_LIMIT)
    texts = ["42", TEXTS[2], "a \ud800", "one " * 60, 7, "42"]
    translations = pivot.translate(
        texts, split="never", on_error=on_error, prefix=["", "a", "b", "c", "d", "x"]
    )
    errors = [None if translation.error is None else str(translation.error) for translation in translations]
    assert errors[0] is None and errors[5] is None
    assert errors[1].startswith("text 2 in en: ") and "surrogate" in errors[2]
    assert errors[3].startswith("text 4: ") and errors[4].startswith("text 5 is not a string")
    expected = [texts[1], texts[2], texts[3], ""] if on_error == "copy" else [""] * 4
    assert [translation.text for translation in translations[1:5]] == expected
    assert translations[0] == pivot.translate("42") and translations[5] == pivot.translate("42", prefix="x")
    with pytest.raises(TextTooLongError, match=r"^line 12 in en"):
        list(pivot.run([Request(texts[1], split="never", name="line 12")]))


def test_warnings_of_a_chain_name_the_model_that_caused_them():
    pivot = chained_model("ru", "el", 1).then(chained_model("el", "de", 2))
    translation = pivot.translate(TEXTS[0])
    script_warnings = [warning for warning in translation.warnings if warning.startswith(UNFAMILIAR_TEXT)]
    assert [warning.partition(" (in")[2] for warning in script_warnings] == [
        " the step ru → el)",
        " the step el → de)",
    ]
    assert pivot.input_warnings(TEXTS[0]) == tuple(script_warnings[:1])


def test_chain_results_and_repr_show_the_steps():
    pivot = FIRST.then(SECOND)
    translation = pivot.translate(TEXTS[0], attention=True)
    assert translation.attention is None
    for step in translation.steps:
        assert step.attention.shape == (len(step.token_scores), len(step.source_tokens) + 1)
    values = json.loads(translation.to_json())
    assert [step["text"] for step in values["steps"]] == [step.text for step in translation.steps]
    assert "2 steps" in repr(translation)
    assert repr(pivot) == f"Translator({FIRST.model!r}; {SECOND.model!r})"
    assert pivot.languages == ("pt", "de") and pivot.route == ("pt", "en", "de")
    assert (pivot.languages.sources, pivot.languages.targets) == (("pt",), ("de",))


def test_chain_of_models_accepts_only_its_languages():
    pivot = FIRST.then(SECOND)
    assert pivot.translate("Hi", source="pt_BR", target="deu_Latn") == pivot.translate("Hi")
    for call in (
        lambda: pivot.translate("Hi", source="en"),
        lambda: pivot.stream("Hi", target="en"),
        lambda: pivot.between("pt", "en"),
    ):
        with pytest.raises(SettingsError, match="translates only pt to de"):
            call()


def test_chain_of_models_rejects_unsupported_calls():
    pivot = FIRST.then(SECOND)
    with pytest.raises(SettingsError, match="single model"):
        pivot.score([("a", "b")])
    with pytest.raises(SettingsError, match="single model"):
        pivot.attend("a")
    with pytest.raises(SettingsError, match="model 1 translates to en, but the next model"):
        FIRST.then(FIRST)
    with pytest.raises(
        SettingsError, match="model 2 translates to de, but the next model translates from en"
    ):
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
