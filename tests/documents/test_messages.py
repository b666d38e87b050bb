# ruff: noqa: E501 (documents are shown as they are)
"""String resources of Android and Apple applications, and tables of texts."""

import csv
import io

import pytest
from document_laws import SWAP_CASE, check_laws, identity, render, swap_case, texts
from hypothesis import given, settings
from hypothesis import strategies as st

import uwaga
from uwaga.errors import DataError, SettingsError
from uwaga.markup.units import write_unit
from uwaga.translator import Request
from uwaga_documents import DocumentOptions
from uwaga_documents.formats.json import CHROME_SYNTAX
from uwaga_documents.formats.po import ANY_SYNTAX
from uwaga_documents.formats.po import SYNTAXES as PO_SYNTAXES
from uwaga_documents.messages import APPLICATION_SYNTAX, COMMON_SYNTAX, message_unit
from uwaga_documents.translating import inline_translator

ANDROID = r"""<?xml version="1.0" encoding="utf-8"?>
<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
    <!-- a comment -->
    <string name="a">It\'s <b>bold</b> &amp; \"quoted\"\nnext</string>
    <string name="b" translatable="false">Left</string>
    <string name="c">@string/other</string>
    <string name="d">Hi <xliff:g id="name">%1$s</xliff:g>!</string>
    <string name="e">"  spaces   stay "</string>
    <string-array name="f"><item>One</item><item>Two</item></string-array>
    <plurals name="g">
        <item quantity="one">%d file</item>
        <item quantity="other">%d files</item>
    </plurals>
    <color name="x">#fff</color>
</resources>
"""


def test_android_strings_are_translated():
    rendered = check_laws("strings.xml", ANDROID.encode()).decode()
    assert r"<string name=" + r'"a">iT\'S <b>BOLD</b> &amp; \"QUOTED\"\nNEXT</string>' in rendered
    assert 'translatable="false">Left<' in rendered and ">@string/other<" in rendered
    assert 'hI <xliff:g id="name">%1$s</xliff:g>!' in rendered
    polish = render("values/strings.xml", ANDROID.encode(), identity, DocumentOptions(target="pl")).decode()
    for quantity in ("few", "many", "other"):
        assert f'        <item quantity="{quantity}">%d files</item>\n' in polish
    german = render("strings.xml", ANDROID.encode(), identity, DocumentOptions(target="de"))
    assert german == ANDROID.encode()


QUOTING = r"""<resources xmlns:xliff="urn:oasis:names:tc:xliff:document:1.2">
<string name="joiner">" and then "</string>
<string name="part">He said "good   morning"   to
 us.</string>
<string name="marked">"A driver's <b>car</b> is fast. "</string>
<string name="ask">\?</string>
<string name="data"><![CDATA[<p>He doesn\'t <a href="x.html">read</a> &amp; <b>sleep</b>.</p>]]></string>
<string name="tags">Read the &lt;b>terms&lt;/b> of <xliff:g id="a">%1$s</xliff:g></string>
<string name="space">
    It is <i>so</i>
</string>
<plurals name="g"><item quantity="one"><![CDATA[<b>A</b> file]]></item><item quantity="other">files</item></plurals>
</resources>"""


def test_android_quoting_is_preserved():
    rendered = check_laws("strings.xml", QUOTING.encode()).decode()
    assert r">\u0020AND THEN\u0020<" in rendered and r">\?<" in rendered
    assert r">hE SAID GOOD\u0020\u0020\u0020MORNING TO US.<" in rendered
    assert r">a DRIVER\'S <b>CAR</b> IS FAST.\u0020<" in rendered
    assert (
        r'<![CDATA[<p>hE DOESN\'T <a href="x.html">READ</a> &amp; <b>SLEEP</b>.</p>]]></string>' in rendered
    )
    assert 'rEAD THE &lt;b>TERMS&lt;/b> OF <xliff:g id="a">%1$s</xliff:g>' in rendered
    assert '">\n    iT IS <i>SO</i>\n</string>' in rendered
    options = DocumentOptions(target="pl")
    polish = render("strings.xml", QUOTING.encode(), swap_case, options).decode()
    assert '<item quantity="one"><![CDATA[<b>a</b> FILE]]></item><item quantity="few">FILES</item>' in polish


def test_android_arguments_are_numbered_if_reordered():
    text = b'<resources><string name="a">Copy %s to %d</string></resources>'
    [[_, first, _, second]] = texts("strings.xml", text)
    rendered = render("strings.xml", text, lambda inlines: [(second, " from ", first)])
    assert b">%2$d from %1$s<" in rendered
    assert b">COPY %s TO %d<" in render("strings.xml", text, swap_case).replace(b"cOPY", b"COPY")


@given(st.lists(st.text("ab'\"\\@? \n&<é", min_size=1, max_size=15), min_size=1, max_size=4))
def test_escaped_android_values_survive_a_round_trip(values):
    content = "<resources>{}</resources>".format("<string name='a'>word</string>" * len(values)).encode()
    remaining = iter(values)
    rendered = render("strings.xml", content, lambda inlines: [(f"x{next(remaining)}x",) for _ in inlines])
    assert texts("strings.xml", rendered) == [(f"x{text}x",) for text in values]


APPLE = '/* A "comment"; */\n"key one" = "It\\"s \\n here";\n// other\nbare.key = "Value %@";\n"self";\n'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
def test_apple_strings_are_translated_and_malformed_lines_rejected(encoding):
    rendered = check_laws("a.strings", APPLE.encode(encoding)).decode(encoding)
    assert rendered == APPLE.replace('It\\"s \\n here', 'iT\\"S \\n HERE').replace("Value %@", "vALUE %@")
    with pytest.raises(DataError, match="line 2"):
        texts("a.strings", b'"a" = "b";\n"c" "d";\n')


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_apple_property_list_is_translated_and_other_content_rejected(mark):
    text = (
        b'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" '
        b'"http://www.apple.com/DTDs/PropertyList-1.0.dtd">\n<plist version="1.0">\n<dict>\n\t<key>menu.open</key>\n'
        b"\t<string>Open &amp; read %@</string>\n\t<key>Empty</key>\n\t<string></string>\n</dict>\n</plist>\n"
    )
    rendered = check_laws("a.strings", mark + text)
    assert b"<string>oPEN &amp; READ %@</string>" in rendered and b"<key>menu.open</key>" in rendered
    with pytest.raises(DataError, match="not a property list"):
        texts("a.strings", b"<resources></resources>")
    with pytest.raises(DataError, match="plutil"):
        texts("a.strings", b"bplist00\xd1\x01")


def test_apple_arrays_and_cdata_are_translated():
    text = (
        b'<?xml version="1.0"?><plist version="1.0"><dict><key>one</key><array><string>first of it</string>'
        b"<string>second of it</string><dict><key>id</key><string>left alone</string></dict>"
        b"<string>third of it</string></array><key><![CDATA[other]]></key>"
        b"<string><![CDATA[Fish & 1 < 2 chips]]></string><key>else</key><string>left too</string></dict></plist>"
    )
    rendered = check_laws("a.stringsdict", text)
    assert texts("a.stringsdict", text) == [
        (text_,) for text_ in ("first of it", "second of it", "third of it", "Fish & 1 < 2 chips")
    ]
    assert b"<![CDATA[fISH & 1 < 2 CHIPS]]>" in rendered

    def with_cdata_end(inlines):
        return [("a ]]> b",) if "&" in inline[0] else inline for inline in inlines]

    split = render("a.stringsdict", text, with_cdata_end)
    assert texts("a.stringsdict", split)[3:] == [("a ]]",), ("> b",)]


def test_apple_plurals_are_translated():
    text = (
        b'<?xml version="1.0"?><plist version="1.0"><dict><key>files</key><dict>'
        b"<key>NSStringLocalizedFormatKey</key><string>%#@n@</string><key>n</key><dict>"
        b"<key>NSStringFormatSpecTypeKey</key><string>NSStringPluralRuleType</string>"
        b"<key>one</key><string>%d file</string><key>other</key><string>%d files</string></dict></dict></dict></plist>"
    )
    rendered = check_laws("a.stringsdict", text)
    assert (
        b"<string>%D FILES</string>" in rendered
        and b"NSStringPluralRuleType" in rendered
        and b"%#@n@" in rendered
    )


CELL = st.text("abc ,;\"'\né|\t", max_size=10)


@settings(deadline=None)
@given(
    st.lists(st.tuples(CELL, CELL, CELL), max_size=5),
    st.sampled_from([",", ";", "\t"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_only_selected_table_columns_are_translated(rows, separator, end):
    stream = io.StringIO()
    csv.writer(stream, delimiter=separator, lineterminator=end).writerows([("id", "title", "note"), *rows])
    content, options = stream.getvalue().encode(), DocumentOptions(columns=("title",))
    assert render("a.csv", content, identity, options) == content
    rendered = render("a.csv", content, swap_case, options).decode()
    parsed = list(csv.reader(io.StringIO(rendered, newline=""), delimiter=separator))
    assert parsed[1:] == [[a, b.translate(SWAP_CASE), c] for a, b, c in rows]


def test_invalid_tables_are_rejected():
    with pytest.raises(SettingsError, match="its columns are a, b"):
        texts("a.csv", b"a,b\n1,2\n", DocumentOptions(columns=("c",)))
    with pytest.raises(DataError, match="line 3 has 1 cells"):
        texts("a.csv", b"a,b\n1,x\n2\n", DocumentOptions(columns=("b",)))
    with pytest.raises(DataError, match="never closed"):
        texts("a.csv", b'a,b\n1,"x\n2,3\n', DocumentOptions(columns=("b",)))


def test_apple_variables_are_kept_and_reordered_arguments_numbered():
    text = b'"a" = "You have %#@files@ in %@.";\n"b" = "%#@n@";\n"c" = "Copy %@ (%@)";\n'
    assert len(texts("a.strings", text)) == 2

    def reverse(inlines):
        return [inline[::-1] for inline in inlines]

    rendered = render("a.strings", text, reverse).decode()
    assert '"a" = ".%2$@ in %1$#@files@You have ";' in rendered and '"b" = "%#@n@";' in rendered
    assert '"c" = ")%2$@ (%1$@Copy ";' in rendered
    assert render("a.strings", text, swap_case) == text.replace(b"You have", b"yOU HAVE").replace(
        b" in ", b" IN "
    ).replace(b"Copy", b"cOPY")


SENTENCES = ("The file {} already exists.", "{} men are playing in {}.", "I have {}, and you have {}.", "{}")
SYNTAXES = {
    COMMON_SYNTAX: ("%.1fs", "%(model)ss", "{x!r:>{w}}", "%<name>s", "{0,number}"),
    APPLICATION_SYNTAX: (":name", "@:menu.file", "<%= user.name %>", "$t(a.b)", ":first/:last", "{}"),
    CHROME_SYNTAX: ("$USER$", "$1", "$$5"),
    PO_SYNTAXES["qt"]: ("%1", "%L2", "%n"),
    PO_SYNTAXES["c"]: ("%s", "%d", "%<PRIu64>", "%.*f"),
    PO_SYNTAXES["boost"]: ("%1%", "%|2$5|"),
    PO_SYNTAXES["gcc-internal"]: ("%qE", "%q+D", "%wu", "%<%s%>"),
    PO_SYNTAXES["go"]: ("%v", "%[2]q", "%+v"),
    PO_SYNTAXES["lisp"]: ("~S", "~5d", "~:A"),
    ANY_SYNTAX: ("!user", "@site-name", "%title", ":url", "@host:@port", ":file-url"),
}


def test_placeholders_survive_translation():
    translator = uwaga.load()
    translate = inline_translator(translator, translator.prepare(Request("")))
    for syntax, placeholders in SYNTAXES.items():
        for number, sentence in enumerate(SENTENCES):
            first, second = placeholders[number % len(placeholders)], placeholders[-1]
            text = sentence.format(first, second)
            unit = message_unit(text, text, str, syntax)
            written = unit if isinstance(unit, str) else write_unit(unit, translate(unit.inlines))
            assert [written.count(name) for name in (first, second)] == [
                text.count(name) for name in (first, second)
            ], (text, written)


@pytest.mark.parametrize(
    ("message", "text", "marked"),
    [
        ("&Öffnen", "Öffnen", "&Datei"), ("Ö&ffnen", "Öffnen", "&Datei"), ("Фа_йл", "Файл", "_Datei"),
        ("E_xit", "Exit", "_Datei"), ("打开(&O)...", "打开...", "&Datei"), ("Quit (_T)", "Quit", "Da_tei"),
        ("R&D", "R&D", "Datei"), ("É&A", "É&A", "Datei"),
    ],
)  # fmt: skip
def test_access_keys_in_any_alphabet_are_marked_in_the_translation(message, text, marked):
    unit = message_unit(message, message, str, ANY_SYNTAX)
    assert unit.inlines == ((text,),)
    assert write_unit(unit, unit.inlines) == message
    assert unit.write([("Datei",)]) == marked
