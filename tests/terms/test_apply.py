"""Glossaries in translations: applied terms, and warnings about missing ones."""

import json

import numpy as np
import pytest
from command_line import run_uwaga

from uwaga import Request, Translator
from uwaga.errors import DataError, SettingsError
from uwaga.results.translation import TermUse
from uwaga.terms import Glossary, Term
from uwaga.terms.apply import TermFinder, word_continuations
from uwaga.tokenizers.marian import SegmentedTextTokeniser
from uwaga.translator.plan import make_plan

BUNDLED = Translator.load()
TERMS = {"car": "Wagen|Wagens", "fast": "flott", "man": "Herr"}


def plan(glossary):
    return make_plan(BUNDLED.models, BUNDLED.languages, Request("", glossary=glossary), ())


def finder(glossary):
    return plan(glossary).stages[-1].terms


def test_M27_terms_are_used_and_reported():
    translation = BUNDLED.translate("The car is fast. A Man waits.", glossary=TERMS, split="sentences")
    assert translation.terms == (TermUse("car", "Wagen", True), TermUse("fast", "flott", True))
    assert "Wagen" in translation.text.split()
    assert translation.to_dict()["terms"][0] == {"source": "car", "target": "Wagen", "applied": True}
    assert BUNDLED.translate("A dog.", glossary=TERMS) == BUNDLED.translate("A dog.")


def test_M27_repeated_term_is_applied_to_each_occurrence():
    translation = BUNDLED.translate("A car and a car.", glossary={"car": "Gefährt|Gefährts"})
    assert translation.text.count("Gefährt") == 2
    assert [use.applied for use in translation.terms] == [True, True]


@pytest.mark.parametrize("mode", ["forced", "soft"])
def test_M27_term_replaces_the_usual_translation_of_a_word(mode):
    for text, usual, term in (
        ("The car is very fast.", "Auto", "Wagen"),
        ("She saw a dog in the house.", "Hund", "Rüde"),
        ("She saw a dog in the house.", "Haus", "Gebäude"),
    ):
        source = {"Auto": "car", "Hund": "dog", "Haus": "house"}[usual]
        assert usual in BUNDLED.translate(text).text
        translation = BUNDLED.translate(text, glossary={source: term}, glossary_mode=mode).text
        assert translation.count(term) == 1 and usual not in translation


def test_M27_several_terms_in_a_sentence_are_applied():
    glossary = {"dog": "Köter", "house": "Gebäude"}
    translation = BUNDLED.translate("The dog is in the house.", glossary=glossary)
    assert [use.applied for use in translation.terms] == [True, True]
    assert "Hund" not in translation.text and "Haus" not in translation.text


def test_M27_text_that_consists_of_a_term_is_translated_as_the_term():
    glossary = {"dog": "Vierbeiner", "traffic light": "ampel"}
    for text, expected in (("dog", "Vierbeiner"), ("Dog", "Vierbeiner"), ("Traffic light", "Ampel")):
        for mode in ("forced", "soft"):
            translation = BUNDLED.translate(text, glossary=glossary, glossary_mode=mode, alignment=True)
            assert translation.text == expected
            assert [use.applied for use in translation.terms] == [True]


def test_M27_prefix_takes_precedence_over_terms():
    translation = BUNDLED.translate("The dog sleeps.", glossary={"dog": "Köter"}, prefix="Der Hund")
    assert translation.text.startswith("Der Hund") and "Köter" in translation.text
    assert translation.terms[0].applied


def test_M27_applied_term_ends_at_a_word_boundary():
    """The term Haus must not be continued to Hausboot, which the model prefers."""
    terms = finder({"house": "Haus"})
    sentence_terms = terms.find_terms("A house.")
    continuations = word_continuations(BUNDLED.target, BUNDLED.decoder.vocabulary)
    assert not continuations[BUNDLED.target.encode("das")].any()
    compound = BUNDLED.target.encode("Hausboote")
    assert continuations[compound[1:]].all()
    assert sentence_terms.phrases.occurrences(BUNDLED.target.encode("Das Haus.")) == [1]


@pytest.mark.parametrize("sentence", ["Cars, she said.", "He said: “cars”", "(cars)"])
def test_M27_term_without_a_preceding_space_has_an_additional_token_sequence(sentence):
    sentence_terms = finder({"cars": "Wagen"}).find_terms(sentence)
    forms = [BUNDLED.target.decode(tokens) for tokens in sentence_terms.phrases.phrases[0].alternatives]
    assert {form.strip() for form in forms} == {"Wagen"}
    unspaced = not sentence.startswith("Cars")
    assert len(forms) == 1 + unspaced


def test_M27_occurrences_of_nested_terms_are_counted_separately():
    terms = finder({"York": "York", "New York": "New York"})
    sentence_terms = terms.find_terms("York and New York")
    assert sorted(phrase.times for phrase in sentence_terms.phrases.phrases) == [1, 2]
    assert [
        use.applied for use in sentence_terms.find_uses(BUNDLED.target.encode("New York"), "New York")
    ] == [False, True]
    text = "York und New York"
    assert [use.applied for use in sentence_terms.find_uses(BUNDLED.target.encode(text), text)] == [
        True,
        True,
    ]


def test_M27_term_that_exceeds_the_length_limit_causes_a_warning():
    translation = BUNDLED.translate(
        "The car is fast.", glossary={"fast": "ungeheuerlich flott"}, max_length=4
    )
    assert translation.warnings[-1] == "the term 'fast' was not translated as 'ungeheuerlich flott'"
    assert not translation.terms[0].applied


def test_M27_improbable_soft_term_is_not_used():
    likely = BUNDLED.translate("I want to buy a car.", glossary={"car": "Wagen"}, glossary_mode="soft")
    assert "Wagen" in likely.text
    glossary = {"car": "Quietscheentchenverordnung"}
    plain = BUNDLED.translate("The car is very fast.")
    soft = BUNDLED.translate("The car is very fast.", glossary=glossary, glossary_mode="soft")
    assert soft.text == plain.text
    assert [use.applied for use in soft.terms] == [False]


def test_M27_terms_are_not_split_between_sentences():
    text = "I saw Mr. Smith. Smith waved."
    for glossary, expected in ((None, 2), ({"Smith. Smith": "Schmidt"}, 1)):
        [stage] = plan(glossary).stages
        passage = stage.segmenter.split_text(text, "sentences", "x")
        assert len(passage.sentences) == expected
        assert "".join(sentence.text for sentence in passage.sentences) == text


def test_M27_terms_are_applied_in_batches_and_nbest_lists():
    texts = ["The car is fast.", "A dog.", "The man sees a fast car.", "Cars!"] * 3
    translations = BUNDLED.translate(texts, glossary=TERMS, nbest=3)
    for text, translation in zip(texts, translations, strict=True):
        assert translation == BUNDLED.translate(text, glossary=TERMS, nbest=3)
        for alternative in (translation, *translation.alternatives):
            assert ("car" not in text.split()) or "Wagen" in alternative.text
    assert (
        list(BUNDLED.run(Request(text, glossary=TERMS, search={"nbest": 3}) for text in texts))
        == translations
    )


def test_term_that_the_tokeniser_cannot_encode_is_rejected(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("house\tHaus\ncar\tWagen\n")
    pieces = SegmentedTextTokeniser(
        {"</s>": 0, "<unk>": 1, "<pad>": 2, "Haus": 3, "a": 4}, BUNDLED.target.symbols, "x"
    )
    symbols = type(BUNDLED.target.symbols)(start=2, end=0, pad=2, unknown=1)
    pieces = SegmentedTextTokeniser({"</s>": 0, "<unk>": 1, "<pad>": 2, "Haus": 3, "a": 4}, symbols, "x")
    with pytest.raises(DataError, match=r"terms.tsv, line 2: the model's tokeniser cannot spell 'Wagen'"):
        TermFinder(Glossary.read(path), pieces, 5)
    assert TermFinder(Glossary((Term("house", ("Haus",), "here"),)), pieces, 5).find_terms("house")


def test_invalid_search_options_are_rejected():
    with pytest.raises(SettingsError, match="beam"):
        BUNDLED.translate("The car.", glossary=TERMS, sample=True)
    with pytest.raises(SettingsError, match="glossary_mode"):
        BUNDLED.translate("The car.", glossary=TERMS, glossary_mode="hard")


def test_command_line_applies_a_glossary(tmp_path):
    path = tmp_path / "terms.csv"
    path.write_text("car,Wagen\nfast,flott\n")
    result = run_uwaga("translate", "--glossary", path, "--json", "The car is fast.", "A dog.")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [use["applied"] for use in lines[0]["terms"]] == [True, True]
    assert "terms" not in lines[1]
    arguments = ["translate", "--glossary", str(path)]
    run_uwaga(*arguments, "--glossary-mode", "soft", "The car is fast.")
    streamed = run_uwaga(*arguments, "--stream", "The car is fast.")
    greedy = run_uwaga(*arguments, "--beam", "1", "The car is fast.")
    assert (streamed.exit_code, streamed.stdout) == (0, greedy.stdout)


def test_tokens_that_continue_a_word_begin_with_a_letter_or_digit():
    continuations = word_continuations(BUNDLED.target, BUNDLED.decoder.vocabulary)
    pieces = BUNDLED.target.pieces(range(BUNDLED.decoder.vocabulary))
    assert continuations.dtype == np.bool_
    for piece, continues in zip(pieces[260:], continuations[260:], strict=True):
        assert continues == piece[0].isalnum()
