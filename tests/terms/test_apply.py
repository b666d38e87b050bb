"""A glossary put to use: what every translation holds, and what is said of what it lacks."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from uwaga import Request, Translator
from uwaga.cli.main import app
from uwaga.errors import DataError, SettingsError
from uwaga.results.translation import TermUse
from uwaga.terms import Glossary, Term
from uwaga.terms.apply import TermFinder, word_parts
from uwaga.tokenizers.marian import SpacedPieces
from uwaga.translator.plan import make_plan

BUNDLED = Translator.load()
TERMS = {"car": "Wagen|Wagens", "fast": "flott", "man": "Herr"}


def plan(glossary):
    return make_plan(BUNDLED.models, BUNDLED.languages, Request("", glossary=glossary), ())


def finder(glossary):
    return plan(glossary).stages[-1].terms


def test_M27_terms_are_in_the_translation_and_the_result_says_so():
    made = BUNDLED.translate("The car is fast. A Man waits.", glossary=TERMS, split="sentences")
    assert made.terms == (TermUse("car", "Wagen", True), TermUse("fast", "flott", True))
    assert "Wagen" in made.text.split()
    assert made.to_dict()["terms"][0] == {"source": "car", "target": "Wagen", "applied": True}
    assert BUNDLED.translate("A dog.", glossary=TERMS) == BUNDLED.translate("A dog.")


def test_M27_a_term_twice_is_there_twice_and_its_forms_count():
    made = BUNDLED.translate("A car and a car.", glossary={"car": "Gefährt|Gefährts"})
    assert made.text.count("Gefährt") == 2
    assert [one.applied for one in made.terms] == [True, True]


@pytest.mark.parametrize("mode", ["forced", "soft"])
def test_M27_a_term_replaces_the_usual_word(mode):
    for text, usual, term in (
        ("The car is very fast.", "Auto", "Wagen"),
        ("She saw a dog in the house.", "Hund", "Rüde"),
        ("She saw a dog in the house.", "Haus", "Gebäude"),
    ):
        source = {"Auto": "car", "Hund": "dog", "Haus": "house"}[usual]
        assert usual in BUNDLED.translate(text).text
        made = BUNDLED.translate(text, glossary={source: term}, glossary_mode=mode).text
        assert made.count(term) == 1 and usual not in made


def test_M27_several_terms_of_a_sentence_are_all_replaced():
    glossary = {"dog": "Köter", "house": "Gebäude"}
    made = BUNDLED.translate("The dog is in the house.", glossary=glossary)
    assert [use.applied for use in made.terms] == [True, True]
    assert "Hund" not in made.text and "Haus" not in made.text


def test_M27_a_text_that_is_one_term_becomes_that_term():
    glossary = {"dog": "Vierbeiner", "traffic light": "ampel"}
    for text, expected in (("dog", "Vierbeiner"), ("Dog", "Vierbeiner"), ("Traffic light", "Ampel")):
        for mode in ("forced", "soft"):
            made = BUNDLED.translate(text, glossary=glossary, glossary_mode=mode, alignment=True)
            assert made.text == expected
            assert [use.applied for use in made.terms] == [True]


def test_M27_a_prefix_stays_before_terms():
    made = BUNDLED.translate("The dog sleeps.", glossary={"dog": "Köter"}, prefix="Der Hund")
    assert made.text.startswith("Der Hund") and "Köter" in made.text


def test_M27_a_term_ends_with_its_word():
    """Haus is no part of Hausboot, which the model would go on to."""
    terms = finder({"house": "Haus"})
    of_it = terms.terms_of("A house.")
    inside = word_parts(BUNDLED.target, BUNDLED.decoder.vocabulary)
    assert not inside[BUNDLED.target.encode("das")].any()
    both = BUNDLED.target.encode("Hausboote")
    assert inside[both[1:]].all()
    assert of_it.phrases.met(BUNDLED.target.encode("Das Haus.")) == [1]


@pytest.mark.parametrize("sentence", ["Cars, she said.", "He said: “cars”", "(cars)"])
def test_M27_what_is_glued_to_the_term_may_be_so_in_the_target(sentence):
    of_it = finder({"cars": "Wagen"}).terms_of(sentence)
    forms = [BUNDLED.target.decode(way) for way in of_it.phrases.phrases[0].alternatives]
    assert {form.strip() for form in forms} == {"Wagen"}
    glued = not sentence.startswith("Cars")
    assert len(forms) == 1 + glued


def test_M27_terms_within_others_are_counted_apart():
    terms = finder({"York": "York", "New York": "New York"})
    of_it = terms.terms_of("York and New York")
    assert sorted(one.times for one in of_it.phrases.phrases) == [1, 2]
    assert [use.applied for use in of_it.uses(BUNDLED.target.encode("New York"), "New York")] == [False, True]
    both = "York und New York"
    assert [use.applied for use in of_it.uses(BUNDLED.target.encode(both), both)] == [True, True]


def test_M27_what_a_limit_leaves_no_room_for_is_said():
    made = BUNDLED.translate("The car is fast.", glossary={"fast": "ungeheuerlich flott"}, max_length=4)
    assert made.warnings[-1] == "the term 'fast' was not translated as 'ungeheuerlich flott'"
    assert not made.terms[0].applied


def test_M27_soft_terms_stay_out_where_they_do_not_fit():
    fits = BUNDLED.translate("I want to buy a car.", glossary={"car": "Wagen"}, glossary_mode="soft")
    assert "Wagen" in fits.text
    strange = {"car": "Quietscheentchenverordnung"}
    plain = BUNDLED.translate("The car is very fast.")
    soft = BUNDLED.translate("The car is very fast.", glossary=strange, glossary_mode="soft")
    assert soft.text == plain.text
    assert [one.applied for one in soft.terms] == [False]


def test_M27_terms_are_not_split_into_sentences():
    texts = "I saw Mr. Smith. Smith waved."
    for glossary, expected in ((None, 2), ({"Smith. Smith": "Schmidt"}, 1)):
        [stage] = plan(glossary).stages
        cut = stage.segmenter.cut(texts, "sentences", "x")
        assert len(cut.sentences) == expected
        assert "".join(one.text for one in cut.sentences) == texts


def test_M27_batches_do_not_matter_and_n_best_lists_hold_the_terms():
    texts = ["The car is fast.", "A dog.", "The man sees a fast car.", "Cars!"] * 3
    every = BUNDLED.translate(texts, glossary=TERMS, nbest=3)
    for text, one in zip(texts, every, strict=True):
        assert one == BUNDLED.translate(text, glossary=TERMS, nbest=3)
        for way in (one, *one.alternatives):
            assert ("car" not in text.split()) or "Wagen" in way.text
    assert list(BUNDLED.run(Request(text, glossary=TERMS, search={"nbest": 3}) for text in texts)) == every


def test_a_term_that_cannot_be_spelt_is_named(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_text("house\tHaus\ncar\tWagen\n")
    pieces = SpacedPieces({"</s>": 0, "<unk>": 1, "<pad>": 2, "Haus": 3, "a": 4}, BUNDLED.target.symbols, "x")
    symbols = type(BUNDLED.target.symbols)(start=2, end=0, pad=2, unknown=1)
    pieces = SpacedPieces({"</s>": 0, "<unk>": 1, "<pad>": 2, "Haus": 3, "a": 4}, symbols, "x")
    with pytest.raises(DataError, match=r"terms.tsv, line 2: the model's tokeniser cannot spell 'Wagen'"):
        TermFinder(Glossary.read(path), pieces, 5)
    assert TermFinder(Glossary((Term("house", ("Haus",), "here"),)), pieces, 5).terms_of("house")


def test_what_cannot_be_searched_is_refused():
    with pytest.raises(SettingsError, match="beam"):
        BUNDLED.translate("The car.", glossary=TERMS, sample=True)
    with pytest.raises(SettingsError, match="glossary_mode"):
        BUNDLED.translate("The car.", glossary=TERMS, glossary_mode="hard")


def test_the_command_line_takes_a_glossary(tmp_path):
    path = tmp_path / "terms.csv"
    path.write_text("car,Wagen\nfast,flott\n")
    run = CliRunner()
    made = run.invoke(app, ["translate", "--glossary", str(path), "--json", "The car is fast.", "A dog."])
    lines = [json.loads(line) for line in made.stdout.splitlines()]
    assert [one["applied"] for one in lines[0]["terms"]] == [True, True]
    assert "terms" not in lines[1]
    given = ["translate", "--glossary", str(path)]
    assert run.invoke(app, [*given, "--glossary-mode", "soft", "The car is fast."]).exit_code == 0
    streamed = run.invoke(app, [*given, "--stream", "The car is fast."])
    greedy = run.invoke(app, [*given, "--beam", "1", "The car is fast."])
    assert (streamed.exit_code, streamed.stdout) == (0, greedy.stdout)


def test_word_parts_are_those_that_go_on_with_a_word():
    inside = word_parts(BUNDLED.target, BUNDLED.decoder.vocabulary)
    pieces = BUNDLED.target.pieces(range(BUNDLED.decoder.vocabulary))
    assert inside.dtype == np.bool_
    for piece, goes_on in zip(pieces[260:], inside[260:], strict=True):
        assert goes_on == piece[0].isalnum()
