"""Outlines of XML: the elements that divide a document into texts."""

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
    fragment = read_xml(text, frozenset(ignored), XmlOutline.from_names(**outline))
    return [plain_text(inline) for inline in fragment.inlines]


def test_xml_outline_is_detected():
    assert texts(DOCUMENT) == TEXTS


def test_named_splitting_elements_apply_without_outline_detection():
    assert texts(DOCUMENT, detect=False, splitting=("par", "title")) == TEXTS


def test_xml_without_outline_detection_or_named_elements_is_a_single_text():
    assert len(texts(DOCUMENT, detect=False)) == 1
    assert texts("a <p>b</p> c", detect=False) == ["a b c"]


def test_element_with_mixed_content_is_translated_as_a_single_text():
    assert texts("Press <i>Continue</i> to <b>advance <u>now</u></b>.") == ["Press Continue to advance now."]


def test_elements_named_as_non_splitting_remain_inside_texts():
    text = "<par>The firm said it had been </par><par> conducting an inquiry.</par>"
    assert texts(text) == ["The firm said it had been", "conducting an inquiry."]
    [single] = texts(text, non_splitting=("par",))
    assert single.split() == ["The", "firm", "said", "it", "had", "been", "conducting", "an", "inquiry."]


def test_splitting_elements_split_texts():
    text = "One <note>two <b>three</b></note> four"
    assert texts(text) == ["One two three four"]
    assert texts(text, splitting=("note",)) == ["One", "two three", "four"]


def test_ancestors_of_splitting_elements_divide_texts_too():
    text = "a <b>c <p>d</p> e</b> f"
    fragment = read_xml(text, frozenset(), XmlOutline.from_names(splitting=["p"]))
    assert [plain_text(inline) for inline in fragment.inlines] == ["a", "c", "d", "e", "f"]
    assert fragment.write([(f"{plain_text(inline)}!",) for inline in fragment.inlines]) == (
        "a! <b>c! <p>d!</p> e!</b> f!"
    )


def test_elements_named_as_ignored_are_not_translated():
    text = "<d><p>Open the page <x>Settings <y>now</y></x>.</p><x>Save</x></d>"
    fragment = read_xml(text, frozenset({"x"}), XmlOutline())
    assert [
        [part if isinstance(part, str) else part.raw for part in inline] for inline in fragment.inlines
    ] == [["Open the page ", "<x>Settings <y>now</y></x>", "."]]


def test_line_breaks_are_converted_to_spaces_on_request():
    text = "<div>She bought oat\n  biscuits.</div>"
    assert texts(text) == ["She bought oat\n  biscuits."]
    assert texts(text, lines=False) == ["She bought oat biscuits."]


def test_malformed_xml_is_rejected():
    for text in ("<a>", "a < b", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "<a></b>"):
        with pytest.raises(DataError):
            texts(text)


def test_invalid_outlines_are_rejected():
    with pytest.raises(SettingsError, match="both"):
        XmlOutline.from_names(splitting=["p"], non_splitting=["p"])
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
NAME_SETS = st.frozensets(NAMES, max_size=2)


@given(
    st.lists(TREES, max_size=5).map("".join), NAME_SETS, NAME_SETS, NAME_SETS, st.booleans(), st.booleans()
)
def test_xml_survives_a_round_trip_and_changes_are_well_formed(
    text, splitting, non_splitting, ignored, detect, lines
):
    outline = XmlOutline(detect, splitting, non_splitting - splitting, lines)
    fragment = read_xml(text, ignored, outline)
    if lines:
        assert fragment.write(fragment.inlines) == text
    moved = [
        (*(part for part in inline if not isinstance(part, str)), plain_text(inline))
        for inline in fragment.inlines
    ]
    root = ElementTree.fromstring(f"<r>{fragment.write(moved)}</r>")
    before = ElementTree.fromstring(f"<r>{text}</r>")
    assert sorted(element.tag for element in root.iter()) == sorted(element.tag for element in before.iter())


def test_translation_preserves_the_outline():
    translated = uwaga.Translator.load().translate(DOCUMENT, format="xml", outline=XmlOutline()).text
    before, after = ElementTree.fromstring(DOCUMENT), ElementTree.fromstring(translated)
    assert [element.tag for element in after.iter()] == [element.tag for element in before.iter()]
    assert translated.count("\n") == DOCUMENT.count("\n")
    assert "erste" in translated
    assert "first" not in translated
