"""Formats and placeholders by the ordinary calls."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from uwaga.alignment.words import word_spans
from uwaga.errors import DataError, SettingsError
from uwaga.translator import Model, Request, Translator


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(threads=1)


HTML = '<p>A man in a <b>blue shirt</b> sings.</p><img alt="Two dogs"><p>Two <i>cats</i> &amp; {n} dogs.</p>'


@pytest.mark.parametrize("pivot", [False, True])
def test_html(translator: Translator, pivot: bool) -> None:
    other = Translator(
        Model(translator.decoder, translator.source, translator.target, translator.decoding, ("de", "en"))
    )
    way = translator.then(other) if pivot else translator
    one = way.translate(HTML, format="html", nbest=2)
    assert one.source == HTML
    for text in (one.text, *(other.text for other in one.alternatives)):
        assert sorted(re.findall(r"</?\w+", text)) == sorted(re.findall(r"</?\w+", HTML))
        assert text.count("{n}") == 1
    assert "shirt" not in one.text
    assert "dogs" not in one.text
    assert one.tokens


def test_one_text_has_its_alternatives_marked(translator: Translator) -> None:
    one = translator.translate("A <b>woman</b> is in the house.", format="html", nbest=3)
    assert len(one.alternatives) == 2
    assert all("<b>" in other.text and "</b>" in other.text for other in one.alternatives)


def test_placeholders_are_kept_unless_told_otherwise(translator: Translator) -> None:
    text = "Hello {name}!"
    assert "{name}" in translator.translate(text).text
    assert "{name}" in next(translator.run([Request(text)])).text
    assert translator.translate(text, placeholders=False).text != translator.translate(text).text
    assert "ACME" in translator.translate("The ACME is big.", placeholders=["ACME"]).text


def test_plain_texts_take_the_plain_path(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["A man sings.", "5 dogs.\nTwo lines.", ""]
    plain = translator.translate(texts, placeholders=False)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("taken apart")

    monkeypatch.setattr("uwaga.translator.layers.formats.write", refuse)
    assert translator.translate(texts) == plain
    assert list(translator.run([Request(texts[0])])) == plain[:1]


def test_what_is_no_xml(translator: Translator) -> None:
    texts = ["A <b>dog</b>.", "A <b>dog."]
    with pytest.raises(DataError, match="text 2: not well-formed XML"):
        translator.translate(texts, format="xml")
    good, bad = translator.translate(texts, format="xml", on_error="copy")
    assert "<b>" in good.text
    assert (bad.text, type(bad.error)) == (texts[1], DataError)


@pytest.mark.parametrize(
    "options",
    [{"format": "rtf"}, {"ignore_tags": "b"}, {"ignore_tags": ["b"]}, {"placeholders": ["("]}, {"formt": 1}],
)
def test_wrong_values(translator: Translator, options: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        translator.translate("A dog.", **options)  # type: ignore[call-overload]


def test_lines_of_a_format(translator: Translator) -> None:
    lines = ["A <b>woman</b>.", "Two dogs."]
    made = list(translator.run((Request(line, format="html") for line in lines), window=1))
    assert made[0].text.count("<b>") == 1
    assert made == translator.translate(lines, format="html")


def test_neither_torch_nor_lxml_is_imported() -> None:
    code = (
        "import sys, uwaga; uwaga.load(threads=1).translate('A <b>dog</b> of {x}.', format='html'); "
        "print({'torch', 'lxml', 'markdown_it'} & set(sys.modules))"
    )
    made = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout.splitlines()[-1] == "set()"


def test_alignments_are_of_the_text_with_what_is_kept(translator: Translator) -> None:
    text = "Hello {name}, two dogs run."
    one = translator.translate(text, alignment=True)
    assert one.alignment is not None
    assert one.source == text
    for side, spans in ((one.source, one.alignment.source), (one.text, one.alignment.target)):
        assert list(spans) == word_spans(side)
    words = [
        (one.source[slice(*one.alignment.source[here])], one.text[slice(*one.alignment.target[there])])
        for here, there in one.alignment.links
    ]
    assert ("name", "name") in words
    assert ("dogs", "Hunde") in words
    assert translator.translate("Two <b>dogs</b>.", format="html", alignment=True).alignment is None
