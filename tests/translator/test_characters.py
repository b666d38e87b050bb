"""Characters that a model does not know come through a translation, or a warning names them."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from types import SimpleNamespace

import pytest
import tiny_models as tiny
from hypothesis import given
from hypothesis import strategies as st

import uwaga
from uwaga.markup.inline import Tag
from uwaga.results.translation import Translation
from uwaga.translator.layers.characters import Characters
from uwaga.translator.split import KnownCharacters
from uwaga.translator.text import Text

SIGNS = "₽→≥≤×±§•★♪½¼²©™日本Łéñ😀👋🏽"


@pytest.fixture(scope="module")
def translator():
    return uwaga.load(threads=1)


class Losing:
    """A model that answers in capitals, and loses some of the pieces that it is given."""

    def __init__(self, lost: str) -> None:
        self._lost = lost

    def translate(self, texts):
        for text in texts:
            words = "".join(part if isinstance(part, str) else part.text for part in text.content)
            translation = "".join(character for character in words if character not in self._lost).upper()
            text.translation = Translation(translation, 0.0, (), (), source=words)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("I love it 😀.", "😀"),
        ("★★★★★ Great product!", "★★★★★"),
        ("It costs ₽20.", "₽20"),
        ("It is −5 °C today.", "−5 °C"),
        ("Москва is a city.", "Москва"),
        ("It is −5 degrees.", "−5"),
        ("½ cup of sugar", "½"),
        ("• First item", "•"),
        ("© 2026 Acme™", "© 2026 Acme™"),
        ("Family: 👨‍👩‍👧‍👦 and 👍🏽!", "👨‍👩‍👧‍👦"),
        ("See § 5.", "§"),
        ("Click File › Open.", "›"),
        ("Wait… what?", "…"),
    ],
)
def test_special_characters_survive_translation(translator, source, expected):
    for options in ({}, {"format": "html"}, {"format": "markdown"}, {"beam": 3, "nbest": 2}):
        translation = translator.translate(source, **options)
        assert expected in translation.text, (options, translation.text)
        assert not [
            warning for warning in translation.warnings if "symbol" in warning or "missing" in warning
        ]
        assert translation.source == source


def test_quotation_marks_are_those_of_the_target_language(translator):
    text = translator.translate("“The house is old,” said the man. “It’s very old.”").text
    assert len(re.findall("„", text)) == len(re.findall("“", text)) == 2, text
    assert "”" not in text and '"' not in text


@given(st.text(SIGNS + " abc.", max_size=30))
def test_no_special_character_is_lost_or_duplicated(translator, text):
    translation = translator.translate(text)
    signs = Counter(character for character in text if character in SIGNS)
    assert Counter(character for character in translation.text if character in SIGNS) == signs


def test_alignment_refers_to_the_original_text(translator):
    source = "“The man…” reads 😀 a book — slowly."
    translation = translator.translate(source, alignment=True)
    assert translation.alignment is not None
    for text, spans in (
        (source, translation.alignment.source),
        (translation.text, translation.alignment.target),
    ):
        words = [text[start:end] for start, end in spans]
        assert all(word and not any(map(str.isspace, word)) for word in words), words
    words = [source[start:end] for start, end in translation.alignment.source]
    assert {"man", "reads", "book"} <= set(words)


def test_special_characters_are_escaped_in_html(translator):
    text = translator.translate("<p>The value a &lt; b is small.</p>", format="html").text
    assert "a &lt; b" in text


def test_lost_characters_are_reported():
    tokeniser = tiny.tokeniser()
    layer = Characters(Losing("★"), KnownCharacters(tokeniser), ("en", "de"))
    text = Text(("a ★ b",), "text 1")
    layer.translate([text])
    assert text.result.warnings == ("characters that the model does not know are missing: ★",)


def test_lost_quotation_marks_are_restored_around_their_words():
    class Forgetful(Losing):
        def translate(self, texts):
            super().translate(texts)
            for text in texts:
                if any(isinstance(part, Tag) for part in text.content):
                    text.inlines = [
                        tuple(part.upper() if isinstance(part, str) else part for part in text.content)
                    ]

    known = SimpleNamespace(unknown=set("“”").intersection)
    text = Text(("he said “no” to it",), "text 1")
    Characters(Forgetful('"'), known, ("en", "de")).translate([text])
    assert text.result.text == "HE SAID „NO“ TO IT"


def test_texts_with_known_characters_are_unchanged():
    class Recording:
        def translate(self, texts):
            self.texts = list(texts)

    recording, text = Recording(), Text(("The dog sleeps.",), "text 1")
    Characters(recording, KnownCharacters(tiny.tokeniser()), ("en", "de")).translate([text])
    assert recording.texts == [text]


def test_characters_outside_the_tokeniser_are_unknown():
    tokeniser = tiny.tokeniser()
    characters = KnownCharacters(tokeniser)
    known = set("the dog")
    assert not characters.unknown("the dog")
    assert characters.unknown("the 😀 dog") == {"😀"}
    assert characters.unknown("½ …") >= {"½"}
    assert not characters.unknown("\u200d\ufe0f\u0301 \n\t") & known
    decomposed = unicodedata.normalize("NFD", "é")
    assert "\u0301" not in characters.unknown(decomposed)


def test_incomplete_byte_tokens_are_omitted(translator):
    """Each answer is decoded from arbitrary tokens, byte tokens among them."""
    target = translator.target
    bytes_ = [target.encode("é")[-1], *target.encode("😀")[-4:]]
    from uwaga.translator.checks import decode

    assert decode([*bytes_[:1], *target.encode("Haus")], target).strip() == "Haus"
    assert decode(target.encode("😀"), target).strip() == "😀"
    assert Counter(decode(bytes_, target))["\ufffd"] == 0
