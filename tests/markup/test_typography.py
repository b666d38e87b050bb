"""Typographic marks and their plain equivalents, and words and numbers with unknown characters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.markup.inline import Tag, is_kept, plain_text
from uwaga.markup.typography import (
    Edit,
    apply_edits,
    ascii_edits,
    enclose_quotations,
    insertions,
    inverse_edits,
    mark_unknown_characters,
    move_spans,
    typographic_edits,
    visible_text,
)

TEXTS = st.text("ab1,. \"'“”‘’«»–—…😀‍£×²é", max_size=30)
PARTS = st.lists(st.one_of(TEXTS, st.builds(Tag, st.just("kept"), st.just("{x}"), st.just("x"))), max_size=5)


def unknown(known: str):
    return lambda text: {
        character for character in text if character not in known and not character.isspace()
    }


PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,;:!?'\"-()"
WITHOUT_TYPOGRAPHY = unknown(PLAIN)


@given(PARTS)
def test_inverse_edits_restore_original_typography(parts):
    source = tuple(parts)
    edits = ascii_edits(visible_text(source), WITHOUT_TYPOGRAPHY)
    plain = apply_edits(source, edits)
    restored = apply_edits(plain, inverse_edits(edits, visible_text(source)))
    assert visible_text(restored) == visible_text(source)
    assert [part for part in plain if isinstance(part, Tag)] == [
        part for part in source if isinstance(part, Tag)
    ]


@given(TEXTS)
def test_typography_edits_move_spans_with_their_words(text):
    edits = ascii_edits(text, WITHOUT_TYPOGRAPHY)
    plain = plain_text(apply_edits((text,), edits))
    spans = [(i, i + 1) for i, character in enumerate(text) if character.isalnum()]
    assert [plain[start:end] for start, end in move_spans(spans, edits)] == [
        text[start:end] for start, end in spans
    ]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("“Hi,” she said.", '"Hi," she said.'), ("„Hallo“, ‚ja‘", "\"Hallo\", 'ja'"), ("« Oui »", '" Oui "'),
        ("It’s 1–2 – fine", "It's 1-2 - fine"), ("The car—red—is fast", "The car - red - is fast"),
        ("Wait…", "Wait..."), ("File › Open", "File › Open"), ("a‑b", "a-b"), ("it′s 5′ ″", "it's 5′ ″"),
        ("★—★ “★“", '★—★ "★"'), ("do\u00adg“\u0301", "dog“\u0301"), ("Cafe\u0300", "Cafe\u0300"),
    ],
)  # fmt: skip
def test_typography_unknown_to_the_model_is_replaced_by_plain_characters(text, plain):
    assert plain_text(apply_edits((text,), ascii_edits(text, WITHOUT_TYPOGRAPHY))) == plain


def test_typographic_characters_in_the_vocabulary_are_kept():
    assert ascii_edits("“Hi” – it’s", unknown(PLAIN + "“”’–")) == []
    edits = ascii_edits("“Hi” it’s", unknown(PLAIN + "“’"))  # only ” is unknown
    assert plain_text(apply_edits(("“Hi” it’s",), edits)) == '"Hi" it’s'


@pytest.mark.parametrize(
    ("source", "translation", "language", "expected"),
    [
        ("“Hi,” she said. “Ho.”", '"Oi", disse ela. "Ho."', "pt", "“Oi”, disse ela. “Ho.”"),
        ("“Hi”", '"Hallo"', "de", "„Hallo“"),
        ("“Hi”", '"Salut"', "fr_XX", "«\u00a0Salut\u00a0»"),
        ("“Hi”", '("Hej")', "pl", "(„Hej”)"),
        ("‘Hi’", "'Hallo'", "de", "‚Hallo‘"),
        ("The ‘bad bank’", 'O "mau banco"', "pt", "O “mau banco”"),  # of a model that prefers other marks
        ("It’s – ok…", "Geht's - gut...", "de", "Geht’s – gut…"),
        ('"Hi" and “ho”', '"Hallo" und "ho"', "de", '"Hallo" und "ho"'),  # which is which cannot be known
        ("plain", '"Hallo" - it\'s...', "de", '"Hallo" - it\'s...'),
    ],
)
def test_quotation_marks_use_the_style_of_the_target_language(source, translation, language, expected):
    edits = typographic_edits(source, translation, language)
    assert plain_text(apply_edits((translation,), edits)) == expected


@given(TEXTS)
def test_marking_characters_to_copy_does_not_change_the_text(text):
    inline = mark_unknown_characters(text, WITHOUT_TYPOGRAPHY(text))
    assert plain_text(inline) == text
    assert not WITHOUT_TYPOGRAPHY("".join(part for part in inline if isinstance(part, str))) - {"\u200d"}


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("It costs £20.50 now.", ["£20.50"]), ("20 € or 1,000 £", ["20 €", "1,000 £"]),
        ("C++ and x² + y", ["C++", "x² + y"]), ("3 × 4 is 12 ± 2", ["3 × 4", "12 ± 2"]),
        ("−5 degrees", ["−5"]), ("a < b", ["a < b"]), ("José lives in Łódź.", ["José", "Łódź"]),
        ("Москва и 日本", ["Москва", "и", "日本"]), ("Hi😀!", ["😀"]),
        ("👨‍👩‍👧 and 👍🏽 and ❤️", ["👨‍👩‍👧", "👍🏽", "❤️"]), ("★★★ Great", ["★★★"]),
        ("5 KB → 6 KB", ["→"]), ("© 2026 Acme™", ["© 2026", "Acme™"]), ("salt & pepper, AT&T", ["&", "AT&T"]),
        ("½ cup", ["½"]), ("Press 1️⃣ or *️⃣now", ["1️⃣", "*️⃣"]), ("See H̵e̷y̶ there", ["H̵e̷y̶"]),
        ("is ◕_◕, (◕‿◕) or (╯°□°)╯", ["◕_◕", "(◕‿◕)", "(╯°□°)╯"]),
        ("It is 6′2″, f′ and ″the dog″", ["6′2″", "f′", "″", "″"]),
        ("dog\ue000 \u0378", ["\ue000", "\u0378"]),
    ],
)  # fmt: skip
def test_unknown_characters_are_copied_with_their_whole_word_or_number(text, pieces):
    inline = mark_unknown_characters(text, WITHOUT_TYPOGRAPHY(text))
    assert [part.text for part in inline if is_kept(part)] == pieces


def test_combining_marks_after_a_tag_are_composed_with_the_preceding_letter():
    text = (Tag("open", "<b>"), "e", Tag("close", "</b>"), "\u0301 x")
    edits = ascii_edits(visible_text(text), lambda text: ())
    assert apply_edits(text, edits) == (text[0], "é", text[2], " x")


def test_quotation_marks_are_converted_to_tags():
    inline = enclose_quotations(('He said "no" and ', Tag("void", "<br>"), '"yes".'), "de")
    assert (
        "".join(part if isinstance(part, str) else part.raw for part in inline)
        == "He said „no“ and <br>„yes“."
    )
    assert [part.kind for part in inline if isinstance(part, Tag)] == [
        "open", "close", "void", "open", "close",
    ]  # fmt: skip
    marks = {id(part) for part in inline if isinstance(part, Tag)}
    assert insertions(inline, marks)[:2] == [Edit(8, 8, "„"), Edit(10, 10, "“")]
    unpaired = enclose_quotations(('in 1992."',), "pt")
    assert [part.kind for part in unpaired if isinstance(part, Tag)] == ["void"]


def test_characters_inserted_next_to_a_span_do_not_extend_it():
    assert move_spans([(0, 2), (3, 5)], [Edit(3, 3, "„"), Edit(5, 5, "“")]) == [(0, 2), (4, 6)]
