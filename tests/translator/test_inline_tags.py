"""Translation of texts with inline tags and placeholders."""

from collections import Counter

import pytest
from pivot_models import with_languages

from uwaga.errors import TextTooLongError
from uwaga.markup import Inline, Tag
from uwaga.markup.placeholders import resolve_placeholders
from uwaga.markup.strip_tags import strip_tags
from uwaga.translator import Request, Translator
from uwaga.translator.layers import placeholders
from uwaga.translator.layers.placeholders import with_placeholders

B, E = Tag("open", "<b>"), Tag("close", "</b>")
TEXTS: tuple[Inline, ...] = (
    ("A man in a ", B, "blue shirt", E, " is cleaning a window.", Tag("void", "<br/>")),
    (" Two dogs ", B, "run.", E, " A cat ", Tag("open", "<i>"), "sleeps", Tag("close", "</i>"), " here. "),
    (B, "A woman sings.", E), ("Two dogs are running.",), (), (B, " ", E),
    ("One ", Tag("void", "<x/>"), "line.\nTwo ", B, "lines", E, "."),
)  # fmt: skip


@pytest.mark.parametrize("pivot", [False, True])
def test_tags_are_kept_and_the_text_equals_the_translation_without_tags(translator, pivot) -> None:
    chain = translator.then(with_languages(translator, "de", "en")) if pivot else translator
    results = chain.run_inlines(TEXTS, Request(""))
    plain = chain.translate([strip_tags(inline).text for inline in TEXTS])
    for inline, result, expected in zip(TEXTS, results, plain, strict=True):
        tags = [part for part in inline if isinstance(part, Tag)]
        assert Counter(part for part in result.inline if isinstance(part, Tag)) == Counter(tags)
        text = "".join(part for part in result.inline if isinstance(part, str))
        assert text.split() == expected.text.split()
        assert (result.translation.text, result.translation.score) == (expected.text, expected.score)


def test_tags_enclose_the_aligned_words(translator: Translator) -> None:
    [result] = translator.run_inlines([("A ", B, "woman", E, " is in the house.")], Request(""))
    assert result.inline[:2] == ("Eine ", B)
    assert str(result.inline[2]).startswith("Frau")


@pytest.mark.parametrize("code", ["`a&amp;b&lt;x&gt;`", "https://a.org/?a=1&amp;b=2", "``&lt;script&gt;``"])
def test_placeholders_are_written_unchanged_in_html(translator: Translator, code: str) -> None:
    for text in (f"<p>The <b>dog</b> sees {code}.</p>", f'<img alt="The dog sees {code}.">'):
        assert code in translator.translate(text, format="html").text


def test_titles_of_restructuredtext_roles_are_translated(translator: Translator) -> None:
    text = "A :ref:`woman <people>` is in the `house <https://a.org/house>`_."
    translation = translator.translate(text).text
    assert translation == "Eine :ref:`Frau <people>` ist im `Haus <https://a.org/house>`_."
    title = translator.translate(":doc:`A woman is in the house. <people>`").text
    assert title == ":doc:`Eine Frau ist im Haus. <people>`"
    page = "<p>A :ref:`woman &lt;people&gt;` is in the <b>house</b>.</p>"
    assert "Eine :ref:`Frau &lt;people&gt;` ist" in translator.translate(page, format="html").text
    message = translator.translate("{n, plural, other {A :ref:`woman <people>` is here.}}").text
    assert ":ref:`Frau <people>`" in message


def test_surrounding_white_space_is_kept(translator: Translator) -> None:
    [first, second] = translator.run_inlines([TEXTS[1], ("\n  Two dogs.\t",)], Request(""))
    assert first.inline[0].startswith(" ")  # type: ignore[union-attr]
    assert first.inline[-1].endswith(". ")  # type: ignore[union-attr]
    assert second.inline[0].startswith("\n  ")  # type: ignore[union-attr]
    assert second.inline[-1].endswith("\t")  # type: ignore[union-attr]


def test_texts_without_inner_tags_are_not_aligned(translator, monkeypatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("aligned")

    monkeypatch.setattr("uwaga.translator.align.add_alignments", refuse)
    plain = [("A dog.",), (B, "Two dogs.", E)]
    results = translator.run_inlines(plain, Request(""))
    assert results[1].inline == (B, translator.translate("Two dogs.").text, E)


def test_overlong_text_is_rejected_copied_or_returned_empty(translator: Translator) -> None:
    long: Inline = ("A ", B, "dog " * 2000, E)
    with pytest.raises(TextTooLongError, match="text 1"):
        translator.run_inlines([long], Request("", split="never"))
    [copied] = translator.run_inlines([long], Request("", split="never", on_error="copy"))
    assert copied.inline == long
    assert copied.translation.error is not None
    [empty] = translator.run_inlines([long], Request("", split="never", on_error="return"))
    assert [part for part in empty.inline if part != " "] == [B, E]


PLACEHOLDERS: tuple[Inline, ...] = (
    ("Hello {name}, you have %d new messages.",),
    ("Run ", B, "$HOME/bin/x.sh", E, " and wait 5 km.\nThen mail bob@example.com."),
    ("{0} of {1} files", Tag("void", "<br/>"), Tag("kept", "<code>ls</code>", "ls")),
    (" ".join(f"{{x{number}}} and" for number in range(12)),),
    ("https://example.com",),
)


@pytest.mark.parametrize("pivot", [False, True])
def test_placeholders_are_kept(translator: Translator, pivot: bool) -> None:
    chain = translator.then(with_languages(translator, "de", "en")) if pivot else translator

    def tags_of(inline: Inline) -> Counter[Tag]:
        parts = with_placeholders(inline, resolve_placeholders(True))
        return Counter(part for part in parts if isinstance(part, Tag))

    for inline, result in zip(
        PLACEHOLDERS, chain.run_inlines(PLACEHOLDERS, Request("", search={"nbest": 2})), strict=True
    ):
        tags = tags_of(inline)
        assert tags_of(result.inline) == tags
        for alternative in result.translation.alternatives:
            assert all(tag.text in alternative.text for tag in tags)


def test_branches_of_plural_messages_are_translated(translator: Translator) -> None:
    text = "{n, plural, one {# dog} other {{g, select, f {women} other {# dogs of {name}}}}} here"
    [result] = translator.run_inlines([(text,)], Request(""))
    translation = result.translation.text
    assert "{n, plural, one {" in translation
    assert "} other {{g, select, f {" in translation
    assert translation.count("#") == 2
    assert "{name}" in translation
    assert "dogs" not in translation
    assert "Hund" in translation


def test_run_inlines_and_translate_give_equal_results_for_plain_texts(translator: Translator) -> None:
    texts = ["A man is singing.", "Two dogs run."]
    results = translator.run_inlines([(text,) for text in texts], Request(""))
    assert [result.translation for result in results] == translator.translate(texts)


def test_missing_placeholder_is_restored_with_a_warning(translator, monkeypatch) -> None:
    monkeypatch.setattr(placeholders, "missing_symbols", lambda symbols, _: list(range(len(symbols))))
    [result] = translator.run_inlines([("A dog of {owner} runs.",)], Request(""))
    assert "{owner}" in result.translation.text
    assert "'{owner}'" in result.translation.warnings[0]
