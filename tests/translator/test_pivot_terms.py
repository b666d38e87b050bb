"""Glossaries for the first and the last language of a chain of models."""

import re
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pivot_models import chained_model, with_languages

import uwaga
from uwaga import Translator
from uwaga.results.translation import TermUse
from uwaga.terms import Glossary
from uwaga.translator import Model, Request
from uwaga.translator.split import divide_text

FIRST, SECOND = chained_model("pt", "en", 1), chained_model("en", "de", 2)
GERMAN_TO_PORTUGUESE = chained_model("de", "pt", 3)
ENGLISH_TO_GERMAN_WITH_SHORT_LIMIT = chained_model("en", "de", 2, max_length=8)
TEXTS = [
    "I want to buy a car.", "", "The dog sees the cat and the cat sees the dog.", "3.14",
    "Do you know what time it is? My brother never drinks coffee.",
]  # fmt: skip
CHAINS = [(FIRST, SECOND), (FIRST, SECOND, GERMAN_TO_PORTUGUESE), (FIRST, ENGLISH_TO_GERMAN_WITH_SHORT_LIMIT)]
TERMS = {"car": "Wagen", "cat": "Katze|Katzen", "coffee": "Kaffee", "dog": "dog", "time": "die zeit"}
WORDS = sorted({word for text in TEXTS for word in re.findall(r"\w+", text)})


def count(form: str, text: str) -> int:
    return len(re.findall(rf"(?<!\w){re.escape(form)}(?!\w)", text))


def check_terms(
    glossary: Glossary, text: str, translation: uwaga.Translation, whole_words: bool = True
) -> None:
    """Check that a translation contains each term as often as its text, as whole words if required."""
    assert [use.source for use in translation.terms] == [match.term.source for match in glossary.find(text)]
    assert all(use.applied for use in translation.terms), translation
    for term in {match.term for match in glossary.find(text)}:
        times = sum(match.term == term for match in glossary.find(text))
        forms = {variant for form in term.targets for variant in (form, form[:1].upper() + form[1:])}
        target_text = translation.text
        assert (
            sum(count(form, target_text) if whole_words else target_text.count(form) for form in forms)
            >= times
        )


@pytest.mark.parametrize("chain", CHAINS, ids=["two", "three", "cut further"])
def test_terms_are_applied_in_the_last_translation_of_a_chain(chain):
    pivot, glossary = chain[0].then(*chain[1:]), Glossary.from_argument(TERMS)
    translations = pivot.translate(TEXTS, glossary=TERMS)
    for text, translation in zip(TEXTS, translations, strict=True):
        check_terms(
            glossary, text, translation, whole_words=chain[-1] is not ENGLISH_TO_GERMAN_WITH_SHORT_LIMIT
        )
    assert [pivot.translate(text, glossary=TERMS) for text in TEXTS] == translations
    assert list(pivot.run((Request(text, glossary=glossary) for text in TEXTS), window=2)) == translations
    unconstrained = pivot.translate(TEXTS)
    assert [
        translation
        for translation, expected in zip(translations, unconstrained, strict=True)
        if not translation.terms
    ] == [
        expected
        for expected, translation in zip(unconstrained, translations, strict=True)
        if not translation.terms
    ]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join), min_size=1, max_size=4),
    st.dictionaries(st.sampled_from(WORDS), st.sampled_from(WORDS), min_size=1, max_size=4),
    st.sampled_from(CHAINS),
)
def test_arbitrary_terms_are_applied_in_a_chain(texts, terms, chain):
    glossary = Glossary.from_argument(terms)
    for text, translation in zip(
        texts, chain[0].then(*chain[1:]).translate(texts, glossary=terms, max_length=39), strict=True
    ):
        assert all(use.applied for use in translation.terms)
        assert len(translation.terms) == len(glossary.find(text))


def test_term_that_equals_its_translation_is_kept_by_every_model():
    translation = FIRST.then(SECOND, GERMAN_TO_PORTUGUESE).translate(TEXTS[2], glossary={"dog": "dog"})
    assert all(count("dog", step.text) for step in translation.steps)
    assert [step.terms for step in translation.steps[:2]] == [(), ()]
    assert translation.terms == (TermUse("dog", "dog", True),) * 2
    translated = FIRST.then(SECOND).translate(TEXTS[2], glossary={"dog": "car"})
    assert translated.steps[0] == FIRST.translate(TEXTS[2])


def test_terms_are_applied_next_to_tags_and_placeholders(translator):
    pivot = translator.then(with_languages(translator, "de", "en"))
    page = (
        "<p>A man in a <b>blue <i>shirt</i></b> sees {n} dogs.</p><p>The dog barks at <a href='x'>%s</a>.</p>"
    )
    translation = pivot.translate(
        page, format="html", glossary={"dogs": "Rüden", "shirt": "Kittel", "dog": "Dackel"}
    )
    assert [(use.target, use.applied) for use in translation.terms] == [
        ("Kittel", True),
        ("Rüden", True),
        ("Dackel", True),
    ]
    assert all(count(word, translation.text) == 1 for word in ("Kittel", "Rüden", "Dackel"))
    assert sorted(re.findall(r"<[^>]+>|\{n\}|%s", translation.text)) == sorted(
        re.findall(r"<[^>]+>|\{n\}|%s", page)
    )


def test_empty_intermediate_translation_keeps_terms():
    end = FIRST.target.symbols.end
    banned = tuple(token for token in range(FIRST.decoder.vocabulary) if token != end)
    silent = Translator(
        Model(FIRST.decoder, FIRST.source, FIRST.target, replace(FIRST.decoding, banned=banned), ("pt", "en"))
    )
    pivot = silent.then(SECOND)
    assert pivot.translate(TEXTS[0]).text == ""
    translation = pivot.translate(TEXTS[0], glossary=TERMS, alignment=True)
    check_terms(Glossary.from_argument(TERMS), TEXTS[0], translation)


def test_streams_apply_terms():
    pivot = FIRST.then(SECOND)
    streamed = "".join(pivot.stream(TEXTS[0], glossary=TERMS))
    assert streamed == pivot.translate(TEXTS[0], beam=1, glossary=TERMS).text


@given(st.text("ab ", max_size=30), st.lists(st.integers(1, 9), max_size=5))
def test_text_is_divided_without_loss_and_without_cutting_terms(text, sizes):
    shares = divide_text(text, sizes, lambda line: [match.span() for match in re.finditer("a b", line)])
    assert len(shares) == len(sizes)
    if sizes:
        assert "".join(shares) == text
        assert sum(share.count("a b") for share in shares) == text.count("a b")
