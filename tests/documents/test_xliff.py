# ruff: noqa: E501 (documents are shown as they are)
import pytest
from document_laws import identity, render, swap_case, texts
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import etree

from uwaga.errors import DataError
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


def test_version_1_units_get_targets():
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


def test_version_2_segments_get_targets():
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
def test_only_targets_are_added(sources):
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
    ("<html/>", "not XLIFF"),
    ("<xliff version='1.2'>" + "<g>" * 300 + "</g>" * 300 + "</xliff>", "more than 256 nested elements"),
    ("<?xml version='1.0' encoding='klingon'?><xliff version='1.2'/>", "encoding"),
]


@pytest.mark.parametrize(("text", "message"), HOSTILE_DOCUMENTS)
def test_hostile_xml_is_rejected(text, message):
    with pytest.raises(DataError, match=message):
        texts("a.xlf", text.encode())


def test_branches_with_inline_codes_are_texts():
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
