"""Texts with tags inside go through the one path of texts."""

from __future__ import annotations

from collections import Counter

import pytest

from uwaga.errors import TextTooLongError
from uwaga.markup import Inline, Tag
from uwaga.markup.placeholders import resolve_placeholders
from uwaga.markup.strip_tags import strip_tags
from uwaga.translator import Model, Request, Translator
from uwaga.translator.layers import placeholders

B, E = Tag("open", "<b>"), Tag("close", "</b>")
TEXTS: tuple[Inline, ...] = (
    ("A man in a ", B, "blue shirt", E, " is cleaning a window.", Tag("void", "<br/>")),
    (" Two dogs ", B, "run.", E, " A cat ", Tag("open", "<i>"), "sleeps", Tag("close", "</i>"), " here. "),
    (B, "A woman sings.", E),
    ("Two dogs are running.",),
    (),
    (B, " ", E),
    ("One ", Tag("void", "<x/>"), "line.\nTwo ", B, "lines", E, "."),
)


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(threads=1)


@pytest.mark.parametrize("pivot", [False, True])
def test_every_tag_comes_back_and_the_text_is_that_without_tags(translator: Translator, pivot: bool) -> None:
    way = translator.then(swapped(translator)) if pivot else translator
    made = way.run_inlines(TEXTS, Request(""))
    plain = way.translate([strip_tags(inline).text for inline in TEXTS])
    for inline, one, alone in zip(TEXTS, made, plain, strict=True):
        tags = [part for part in inline if isinstance(part, Tag)]
        assert Counter(part for part in one.inline if isinstance(part, Tag)) == Counter(tags)
        text = "".join(part for part in one.inline if isinstance(part, str))
        assert text.split() == alone.text.split()
        assert (one.translation.text, one.translation.score) == (alone.text, alone.score)


def swapped(translator: Translator) -> Translator:
    """The same model under the languages turned about, to be the second of two."""
    return Translator(
        Model(translator.decoder, translator.source, translator.target, translator.decoding, ("de", "en"))
    )


def test_tags_stand_around_the_words_that_mean_the_same(translator: Translator) -> None:
    [one] = translator.run_inlines([("A ", B, "woman", E, " is in the house.")], Request(""))
    assert one.inline[:2] == ("Eine ", B)
    assert str(one.inline[2]).startswith("Frau")


def test_white_space_at_the_ends_stays(translator: Translator) -> None:
    [one, other] = translator.run_inlines([TEXTS[1], ("\n  Two dogs.\t",)], Request(""))
    assert one.inline[0].startswith(" ")  # type: ignore[union-attr]
    assert one.inline[-1].endswith(". ")  # type: ignore[union-attr]
    assert other.inline[0].startswith("\n  ")  # type: ignore[union-attr]
    assert other.inline[-1].endswith("\t")  # type: ignore[union-attr]


def test_texts_without_tags_are_not_aligned(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("aligned")

    monkeypatch.setattr("uwaga.translator.layers.alignment.add_alignments", refuse)
    plain = [("A dog.",), (B, "Two dogs.", E)]
    made = translator.run_inlines(plain, Request(""))
    assert made[1].inline == (B, translator.translate("Two dogs.").text, E)


def test_a_text_that_cannot_be_translated(translator: Translator) -> None:
    long: Inline = ("A ", B, "dog " * 2000, E)
    names = ["the footnote"]
    with pytest.raises(TextTooLongError, match="the footnote"):
        translator.run_inlines([long], Request("", split="never"), names)
    [copied] = translator.run_inlines([long], Request("", split="never", on_error="copy"), names)
    assert copied.inline == long
    assert copied.translation.error is not None
    [empty] = translator.run_inlines([long], Request("", split="never", on_error="return"), names)
    assert [part for part in empty.inline if part != " "] == [B, E]


PLACEHOLDERS: tuple[Inline, ...] = (
    ("Hello {name}, you have %d new messages.",),
    ("Run ", B, "$HOME/bin/x.sh", E, " and wait 5 km.\nThen mail bob@example.com."),
    ("{0} of {1} files", Tag("void", "<br/>"), Tag("kept", "<code>ls</code>", "ls")),
    (" ".join(f"{{x{number}}} and" for number in range(30)),),
    ("https://example.com",),
)


@pytest.mark.parametrize("pivot", [False, True])
def test_every_placeholder_survives(translator: Translator, pivot: bool) -> None:
    way = translator.then(swapped(translator)) if pivot else translator
    usual = resolve_placeholders(True)
    assert usual is not None
    for inline, one in zip(
        PLACEHOLDERS, way.run_inlines(PLACEHOLDERS, Request("", search={"nbest": 2})), strict=True
    ):
        wanted = [
            part for text in inline for part in (usual.split(text) if isinstance(text, str) else (text,))
        ]
        tags = Counter(part for part in wanted if isinstance(part, Tag))
        assert Counter(part for part in one.inline if isinstance(part, Tag)) == tags
        for other in one.translation.alternatives:
            assert all(tag.text in other.text for tag in tags)


def test_branches_of_messages_are_translated(translator: Translator) -> None:
    text = "{n, plural, one {# dog} other {{g, select, f {women} other {# dogs of {name}}}}} here"
    [one] = translator.run_inlines([(text,)], Request(""))
    made = one.translation.text
    assert "{n, plural, one {" in made
    assert "} other {{g, select, f {" in made
    assert made.count("#") == 2
    assert "{name}" in made
    assert "dogs" not in made
    assert "Hund" in made


def test_without_placeholders_the_bits_are_the_same(translator: Translator) -> None:
    texts = ["A man is singing.", "Two dogs run."]
    made = translator.run_inlines([(text,) for text in texts], Request(""))
    assert [one.translation for one in made] == translator.translate(texts)


def test_what_no_symbol_keeps_is_put_back_with_a_warning(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placeholders, "missing_symbols", lambda symbols, _: list(range(len(symbols))))
    [one] = translator.run_inlines([("A dog of {owner} runs.",)], Request(""))
    assert "{owner}" in one.translation.text
    assert "'{owner}'" in one.translation.warnings[0]
