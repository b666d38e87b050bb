"""Which elements of XML part its texts."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import uwaga
from uwaga.errors import DataError, SettingsError
from uwaga.markup.inline import plain_text
from uwaga.markup.xml_text import XmlOutline
from uwaga.markup.xml_text import read_xml as read_xml

DOCUMENT = """<document>
  <meta>
    <title>A document's title</title>
  </meta>
  <content>
    <par>This is the <b>first</b> sentence. Followed by a second one.</par>
    <par>This is the third sentence.</par>
  </content>
</document>"""
TEXTS = [
    "A document's title",
    "This is the first sentence. Followed by a second one.",
    "This is the third sentence.",
]


def texts(text, ignored=(), **outline):
    fragment = read_xml(text, frozenset(ignored), XmlOutline.of(**outline))
    return [plain_text(one) for one in fragment.inlines]


def test_a_document_is_parted_where_words_stand():
    assert texts(DOCUMENT) == TEXTS


def test_named_elements_do_the_same_without_detection():
    assert texts(DOCUMENT, detect=False, splitting=("par", "title")) == TEXTS


def test_without_detection_and_names_all_is_one_text():
    assert len(texts(DOCUMENT, detect=False)) == 1
    assert texts("a <p>b</p> c", detect=False) == ["a b c"]


def test_words_beside_children_are_one_text_with_them():
    assert texts("Press <i>Continue</i> to <b>advance <u>now</u></b>.") == ["Press Continue to advance now."]


def test_elements_that_never_part_a_text():
    text = "<par>The firm said it had been </par><par> conducting an inquiry.</par>"
    assert texts(text) == ["The firm said it had been", "conducting an inquiry."]
    [whole] = texts(text, non_splitting=("par",))
    assert whole.split() == ["The", "firm", "said", "it", "had", "been", "conducting", "an", "inquiry."]


def test_elements_that_always_part_a_text():
    text = "One <note>two <b>three</b></note> four"
    assert texts(text) == ["One two three four"]
    assert texts(text, splitting=("note",)) == ["One", "two three", "four"]


def test_what_is_around_an_element_that_parts_does_so_too():
    text = "a <b>c <p>d</p> e</b> f"
    fragment = read_xml(text, frozenset(), XmlOutline.of(splitting=["p"]))
    assert [plain_text(one) for one in fragment.inlines] == ["a", "c", "d", "e", "f"]
    assert fragment.written([(f"{plain_text(one)}!",) for one in fragment.inlines]) == (
        "a! <b>c! <p>d!</p> e!</b> f!"
    )


def test_ignored_elements_are_kept_with_all_they_hold():
    text = "<d><p>Open the page <x>Settings <y>now</y></x>.</p><x>Save</x></d>"
    fragment = read_xml(text, frozenset({"x"}), XmlOutline())
    assert [[one if isinstance(one, str) else one.raw for one in part] for part in fragment.inlines] == [
        ["Open the page ", "<x>Settings <y>now</y></x>", "."]
    ]


def test_line_breaks_inside_a_text_may_be_spaces():
    text = "<div>She bought oat\n  biscuits.</div>"
    assert texts(text) == ["She bought oat\n  biscuits."]
    assert texts(text, lines=False) == ["She bought oat biscuits."]


def test_what_is_no_xml_is_refused():
    for text in ("<a>", "a < b", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "<a></b>"):
        with pytest.raises(DataError):
            texts(text)


def test_impossible_outlines_are_refused():
    with pytest.raises(SettingsError, match="both"):
        XmlOutline.of(splitting=["p"], non_splitting=["p"])
    with pytest.raises(SettingsError):
        XmlOutline(splitting="p")
    translator = uwaga.Translator.load()
    with pytest.raises(SettingsError, match="needs the format xml"):
        translator.translate("a", format="html", outline=XmlOutline())
    with pytest.raises(SettingsError, match="XmlOutline"):
        translator.translate("a", format="xml", outline=True)


NAMES = st.sampled_from(["a", "b", "par", "x"])
WORDS = st.sampled_from(["one", " two ", "three &amp; four", "\n", " ", "<!-- c -->", "<v/>", "", "&lt;five"])
TREES = st.recursive(
    WORDS,
    lambda inner: st.builds(
        lambda name, parts: f"<{name} k='1'>{''.join(parts)}</{name}>", NAMES, st.lists(inner, max_size=4)
    ),
    max_leaves=20,
)
SETS = st.frozensets(NAMES, max_size=2)


@given(st.lists(TREES, max_size=5).map("".join), SETS, SETS, SETS, st.booleans(), st.booleans())
def test_a_text_comes_back_as_it_was_and_changed_texts_leave_it_well_formed(
    text, splitting, non_splitting, ignored, detect, lines
):
    outline = XmlOutline(detect, splitting, non_splitting - splitting, lines)
    fragment = read_xml(text, ignored, outline)
    if lines:
        assert fragment.written(fragment.inlines) == text
    moved = [
        (*(one for one in inline if not isinstance(one, str)), plain_text(inline))
        for inline in fragment.inlines
    ]
    root = ElementTree.fromstring(f"<r>{fragment.written(moved)}</r>")
    before = ElementTree.fromstring(f"<r>{text}</r>")
    assert sorted(one.tag for one in root.iter()) == sorted(one.tag for one in before.iter())


def test_translated_xml_keeps_its_outline():
    made = uwaga.Translator.load().translate(DOCUMENT, format="xml", outline=XmlOutline()).text
    before, after = ElementTree.fromstring(DOCUMENT), ElementTree.fromstring(made)
    assert [one.tag for one in after.iter()] == [one.tag for one in before.iter()]
    assert made.count("\n") == DOCUMENT.count("\n")
    assert "erste" in made
    assert "first" not in made
