"""The ``format`` and ``placeholders`` options of translators."""

import re

import pytest
from pivot_models import with_languages

from uwaga.alignment.words import word_spans
from uwaga.errors import DataError, SettingsError
from uwaga.translator import Request, Translator

HTML = '<p>A man in a <b>blue shirt</b> sings.</p><img alt="Two dogs"><p>Two <i>cats</i> &amp; {n} dogs.</p>'


@pytest.mark.parametrize("pivot", [False, True])
def test_html_translation_keeps_tags_and_placeholders(translator: Translator, pivot: bool) -> None:
    chain = translator.then(with_languages(translator, "de", "en")) if pivot else translator
    translation = chain.translate(HTML, format="html", nbest=2)
    assert translation.source == HTML
    for text in (translation.text, *(alternative.text for alternative in translation.alternatives)):
        assert sorted(re.findall(r"</?\w+", text)) == sorted(re.findall(r"</?\w+", HTML))
        assert text.count("{n}") == 1
    assert "shirt" not in translation.text
    assert "dogs" not in translation.text
    assert translation.tokens


def test_alternative_translations_keep_markup(translator: Translator) -> None:
    translation = translator.translate("A <b>woman</b> is in the house.", format="html", nbest=3)
    assert len(translation.alternatives) == 2
    assert all("<b>" in result.text and "</b>" in result.text for result in translation.alternatives)


def test_placeholders_are_kept_by_default(translator: Translator) -> None:
    text = "Hello {name}!"
    assert "{name}" in translator.translate(text).text
    assert "{name}" in next(translator.run([Request(text)])).text
    text = "The $name is big."
    assert translator.translate(text, placeholders=False).text != translator.translate(text).text
    assert "ACME" in translator.translate("The ACME is big.", placeholders=["ACME"]).text


def test_plain_texts_are_not_parsed_as_markup(translator, monkeypatch) -> None:
    texts = ["A man sings.", "5 dogs.\nTwo lines.", ""]
    plain = translator.translate(texts, placeholders=False)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr("uwaga.translator.layers.formats.write_translation", refuse)
    assert translator.translate(texts) == plain
    assert list(translator.run([Request(texts[0])])) == plain[:1]


def test_malformed_xml_is_rejected_or_copied(translator: Translator) -> None:
    texts = ["A <b>dog</b>.", "A <b>dog."]
    with pytest.raises(DataError, match="text 2: not well-formed XML"):
        translator.translate(texts, format="xml")
    valid, invalid = translator.translate(texts, format="xml", on_error="copy")
    assert "<b>" in valid.text
    assert (invalid.text, type(invalid.error)) == (texts[1], DataError)


@pytest.mark.parametrize(
    "options",
    [{"format": "rtf"}, {"ignore_tags": "b"}, {"ignore_tags": ["b"]}, {"placeholders": ["("]}, {"formt": 1}],
)
def test_invalid_format_options_are_rejected(translator: Translator, options: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        translator.translate("A dog.", **options)  # type: ignore[call-overload]


def test_run_method_accepts_requests_with_a_format(translator: Translator) -> None:
    lines = ["A <b>woman</b>.", "Two dogs."]
    translations = list(translator.run((Request(line, format="html") for line in lines), window=1))
    assert translations[0].text.count("<b>") == 1
    assert translations == translator.translate(lines, format="html")


def test_alignment_links_placeholders(translator: Translator) -> None:
    text = "Hello {name}, two dogs run."
    translation = translator.translate(text, alignment=True)
    assert translation.alignment is not None
    assert translation.source == text
    for side, spans in (
        (translation.source, translation.alignment.source),
        (translation.text, translation.alignment.target),
    ):
        assert list(spans) == word_spans(side)
    words = [
        (
            translation.source[slice(*translation.alignment.source[source_index])],
            translation.text[slice(*translation.alignment.target[target_index])],
        )
        for source_index, target_index in translation.alignment.links
    ]
    assert ("name", "name") in words
    assert ("dogs", "Hunde") in words
    assert translator.translate("Two <b>dogs</b>.", format="html", alignment=True).alignment is None
