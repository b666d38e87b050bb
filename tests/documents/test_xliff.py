# ruff: noqa: E501 (documents are shown as they are)
import pytest
from document_laws import identity, reasons, render, swap_case, texts
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

from uwaga.errors import DataError
from uwaga.markup import plain_text
from uwaga_documents import DocumentOptions

VERSION_1 = """<?xml version="1.0"?>
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file original="a.c" source-language="en" datatype="plaintext"><body>
  <group translate="no"><trans-unit id="0"><source>Not me</source></trans-unit></group>
  <trans-unit id="1">
   <source>Hello <g id="1">bold <x id="2"/></g> world &amp; all</source>
   <note>A note</note>
  </trans-unit>
  <trans-unit id="2"><source>Done</source><target state="translated">Fertig</target></trans-unit>
  <trans-unit id="3"><source>New</source><target state="new"/></trans-unit>
  <trans-unit id="4" translate="no"><source>Left</source></trans-unit>
  <trans-unit id="5"><source>Press <ph id="1">&lt;br/></ph> the <mrk mtype="protected">Key</mrk></source></trans-unit>
 </body></file></xliff>
"""
VERSION_2 = """<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en"><file id="f">
<unit id="1"><segment id="a" state="initial"><source>One <pc id="1">two</pc> <ph id="2"/></source></segment>
<ignorable><source> </source></ignorable>
<segment><source>Three</source><target>Drei</target></segment></unit></file></xliff>
"""


def test_xliff_1_units_get_targets():
    rendered = render("a.xlf", VERSION_1.encode(), swap_case, DocumentOptions(target="de")).decode()
    etree.fromstring(rendered.encode())
    assert '<target>hELLO <g id="1">BOLD <x id="2"/></g> WORLD &amp; ALL</target>' in rendered
    assert '<target state="translated">nEW</target>' in rendered and ">Fertig<" in rendered
    assert '<target>pRESS <ph id="1">&lt;br/></ph> THE <mrk mtype="protected">Key</mrk></target>' in rendered
    assert 'target-language="de"' in rendered and rendered.count("<target") == 4
    assert (
        "<source>Left</source></trans-unit>" in rendered
        and "<source>Not me</source></trans-unit>" in rendered
    )
    assert render("a.xlf", rendered.encode(), swap_case) == rendered.encode()


def test_xliff_2_segments_get_targets():
    rendered = render("a.xliff", VERSION_2.encode(), swap_case, DocumentOptions(target="de")).decode()
    assert (
        '<source>One <pc id="1">two</pc> <ph id="2"/></source><target>oNE <pc id="1">TWO</pc> <ph id="2"/></target>'
        in rendered
    )
    assert (
        'state="translated"' in rendered
        and "<target>Drei</target>" in rendered
        and 'trgLang="de"' in rendered
    )
    options = DocumentOptions(retranslate=True)
    assert "<target>tHREE</target>" in render("a.xliff", VERSION_2.encode(), swap_case, options).decode()


@example(["<&a", "x &b"])
@given(st.lists(st.text("abc <>&'\"é\n", max_size=20), max_size=5))
def test_xliff_translation_adds_only_targets(sources):
    units = "".join(
        f'<trans-unit id="{index}"><source>{text.replace("&", "&amp;").replace("<", "&lt;")}</source></trans-unit>\n'
        for index, text in enumerate(sources)
    )
    content = (
        f'<xliff version="1.2"><file source-language="en"><body>\n{units}</body></file></xliff>'.encode()
    )
    tree = etree.fromstring(render("a.xlf", content, identity))
    for target in tree.iter("target"):
        assert target.text == target.getprevious().text
        target.getparent().remove(target)
    assert etree.tostring(tree) == etree.tostring(etree.fromstring(content))


HOSTILE_DOCUMENTS = [
    ('<!DOCTYPE x [<!ENTITY a "b">]><xliff version="1.2"/>', "declares the entity 'a'"),
    ('<!DOCTYPE x [<!ENTITY % a SYSTEM "file:///etc/passwd"> %a;]><xliff version="1.2"/>', "entit"),
    ("<xliff version='1.2'><file></xliff>", "line 1, column .*mismatched tag"),
    ("<html/>", "not an XLIFF file"),
    ("<xliff version='1.2'>" + "<g>" * 300 + "</g>" * 300 + "</xliff>", "more than 256 nested elements"),
    ("<?xml version='1.0' encoding='klingon'?><xliff version='1.2'/>", "encoding"),
]


@pytest.mark.parametrize(("text", "message"), HOSTILE_DOCUMENTS)
def test_hostile_xliff_is_rejected(text, message):
    with pytest.raises(DataError, match=message):
        texts("a.xlf", text.encode())


def test_plural_branches_with_inline_codes_are_translated():
    document = (
        '<xliff version="1.2"><file source-language="en"><body><trans-unit id="1"><source>{V, plural, '
        '=1 {one <x id="1"/> car} other {<g id="2">many</g> cars of <x id="3"/>}} now</source></trans-unit>'
        "</body></file></xliff>"
    )
    rendered = render("a.xlf", document.encode(), swap_case).decode()
    assert (
        '<target>{V, plural, =1 {ONE <x id="1"/> CAR} other {<g id="2">MANY</g> CARS OF <x id="3"/>}} NOW</target>'
    ) in rendered
    assert len(texts("a.xlf", document.encode())) == 3


HEAD = (
    '<xliff version="1.2" xmlns:sdl="s"><file original="a" source-language="en" target-language="en"><body>'
)
END = "</body></file></xliff>"


def file(*units):
    return (HEAD + "".join(units) + END).encode()


def test_alternative_translations_are_not_used_as_targets():
    unit = '<trans-unit id="1"><source>Up</source><note>n</note><alt-trans><source>U</source><target xml:lang="fr">H</target></alt-trans></trans-unit>'
    rendered = render("a.xlf", file(unit), swap_case, DocumentOptions(target="de")).decode()
    assert (
        '<source>Up</source><target>uP</target><note>n</note><alt-trans><source>U</source><target xml:lang="fr">H</target></alt-trans>'
        in rendered
    )
    assert 'target-language="de"' in rendered


SEGMENTS = (
    '<trans-unit id="u"><source>One. Two. 3</source><seg-source><g id="1"><mrk mtype="seg" mid="1">One.</mrk> '
    '<mrk mtype="seg" mid="2"><mrk mtype="x-c">Two</mrk>.</mrk></g> <mrk mtype="seg" mid="3">3</mrk></seg-source>{}</trans-unit>'
)


@pytest.mark.parametrize(
    ("target", "first"),
    [
        ("", "oNE."),
        ("<target/>", "oNE."),
        ('<target><g id="1"><mrk mtype="seg" mid="1"/> <mrk mtype="seg" mid="2"/></g> <mrk mtype="seg" mid="3"/></target>', "oNE."),
        ('<target><mrk mtype="seg" mid="1">Eins.</mrk></target>', "Eins."),
        ('<target state="new"><mrk mtype="seg" mid="1">Eins.</mrk></target>', "oNE."),
    ],
)  # fmt: skip
def test_only_segments_without_a_finished_target_are_translated(target, first):
    document = file(SEGMENTS.format(target))
    assert [plain_text(text) for text in texts("a.sdlxliff", document)] == (
        ["One."] if first == "oNE." else []
    ) + ["Two."]
    rendered = render("a.sdlxliff", document, swap_case, DocumentOptions(target="de")).decode()
    assert (
        f'><g id="1"><mrk mtype="seg" mid="1">{first}</mrk> <mrk mtype="seg" mid="2"><mrk mtype="x-c">tWO</mrk>.</mrk></g> <mrk mtype="seg" mid="3">3</mrk></target></trans-unit>'
        in rendered
    )
    assert rendered.count("<target") == 1


def test_locked_segments_and_units_are_not_translated():
    unit = SEGMENTS.format('<sdl:seg-defs><sdl:seg id="1" locked="true"/><sdl:seg id="2"/></sdl:seg-defs>')
    locked = '<trans-unit id="m" mq:locked="locked"><source>Off</source><target></target></trans-unit>'
    assert [plain_text(text) for text in texts("a.mqxliff", file(unit, locked))] == ["Two."]
    assert reasons("a.mqxliff", file(unit, locked)) == {"locked": 2}


def test_untranslated_units_are_counted_by_reason():
    assert reasons("a.xlf", VERSION_1.encode()) == {
        "marked as not to be translated": 2,
        "already translated": 1,
    }
    assert reasons("a.xlf", VERSION_2.encode()) == {"already translated": 1}


def test_target_language_that_contradicts_translations_is_refused():
    unit = '<trans-unit id="1"><source>Up</source><target>Haut</target></trans-unit>'
    document = file(unit).replace(b'target-language="en"', b'target-language="fr-FR"')
    with pytest.raises(DataError, match="'fr-FR' and has translations; set --to to that language"):
        render("a.xlf", document, identity, DocumentOptions(target="de"))
    assert b'"fr-FR"' in render("a.xlf", document, identity, DocumentOptions(target="fr"))
    rendered = render("a.xlf", document, swap_case, DocumentOptions(target="de", retranslate=True))
    assert b'target-language="de"' in rendered and b"<target>uP</target>" in rendered
