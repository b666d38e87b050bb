# ruff: noqa: E501, SIM905 (documents and lists are shown as they are)
"""Documents and archives that earlier versions damaged."""

import json

import pytest
from document_laws import identity, run, swap_case
from office_samples import docx, epub, odt, pptx, read_zip

import uwaga
from uwaga_documents import DocumentOptions, translate_file

PO_HEADER = (
    'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n"Language: de\\n"\n'
    '"Plural-Forms: nplurals=2; plural=(n != 1);\\n"\n\n'
)

CASES = {
    "an empty cue": (
        "a.srt",
        "1\n00:00:01,000 --> 00:00:02,000\nOne.\n\n2\n00:00:02,000 --> 00:00:03,000\n\n\n3\n00:00:03,000 --> 00:00:04,000\nTwo.\n",
        "1\n00:00:01,000 --> 00:00:02,000\noNE.\n\n2\n00:00:02,000 --> 00:00:03,000\n\n\n3\n00:00:03,000 --> 00:00:04,000\ntWO.\n",
    ),
    "an empty cue of WebVTT": ("a.vtt",
        "WEBVTT\n\n00:01.000 --> 00:02.000\n\n00:02.000 --> 00:03.000\nOne.\n",
        "WEBVTT\n\n00:01.000 --> 00:02.000\n\n00:02.000 --> 00:03.000\noNE.\n"),
    "breaks in cues": (
        "a.srt",
        "1\n00:00:01,000 --> 00:00:02,000\nA long line here<br>and another one\n\n2\n00:00:03,000 --> 00:00:04,000\n- Who is it?\\N- Me.\n",
        "1\n00:00:01,000 --> 00:00:02,000\na LONG LINE HERE<br>AND ANOTHER ONE\n\n2\n00:00:03,000 --> 00:00:04,000\n- wHO IS IT?\\N- mE.\n",
    ),
    "breaks in cues of WebVTT": ("a.vtt",
        "WEBVTT\n\n00:01.000 --> 00:02.000\nA long line here<br/>and <i>another</i> &amp; one\n",
        "WEBVTT\n\n00:01.000 --> 00:02.000\na LONG LINE HERE<br/>AND <i>ANOTHER</i> &amp; ONE\n"),
    "links side by side": ("a.html",
        '<p><a href="x">One</a><a href="y">Two</a></p><p>See <a href="x">one</a> <a href="y">two</a></p>',
        '<p><a href="x">oNE</a><a href="y">tWO</a></p><p>sEE <a href="x">ONE</a> <a href="y">TWO</a></p>'),
    "links side by side in Markdown": ("a.md", "[One](x) [Two](y)\n", "[oNE](x) [tWO](y)\n"),
    "extensions of Markdown": (
        "a.md",
        "Text[^1] with $x_1$ and $$y = 3$$ :smile:\n\n$$\n\\sum x_i\n$$\n\n[^1]: The note\n\nTerm\n: The meaning\n",
        "tEXT[^1] WITH $x_1$ AND $$y = 3$$ :smile:\n\n$$\n\\sum x_i\n$$\n\n[^1]: tHE NOTE\n\ntERM\n: tHE MEANING\n",
    ),
    "values with tags": (
        "a.json",
        '{"a": "<b>Bold</b> &amp; more", "b": "<p>One</p><p>Two<br/>three</p>", "c": "R&D <0>link</0>", "d": "x < y & z", "e": "cmd <file> now"}',
        '{"a": "<b>bOLD</b> &amp; MORE", "b": "<p>oNE</p><p>tWO<br/>THREE</p>", "c": "r&d <0>LINK</0>", "d": "X < Y & Z", "e": "CMD <file> NOW"}',
    ),
    "values with tags in YAML": ("a.yml",
        "a: <strong>Bold</strong> text\nb: |\n  One <i>line</i>\n  and another\n",
        "a: '<strong>bOLD</strong> TEXT'\nb: |\n  oNE <i>LINE</i>\n  AND ANOTHER\n"),
    "values with tags in strings":
        ("a.strings", '"a" = "<b>Bold</b> text";\n', '"a" = "<b>bOLD</b> TEXT";\n'),
    "tags and accelerators in PO": (
        "a.po",
        PO_HEADER
        + "".join(
            f'msgid "{text}"\nmsgstr ""\n\n' for text in ("<b>Bold</b> text", "&File", "E_xit", "_Cut", "R&D")
        ),
        PO_HEADER
        + "".join(
            f'msgid "{text}"\nmsgstr "{translated}"\n\n'
            for text, translated in (
                ("<b>Bold</b> text", "<b>bOLD</b> TEXT"), ("&File", "&fILE"), ("E_xit", "e_XIT"),
                ("_Cut", "_cUT"), ("R&D", "r&d"),
            )
        ),
    ),
    "blanks before tags in XLIFF": (
        "a.xlf",
        '<xliff version="1.2"><file source-language="en"><body><trans-unit id="1"><source> One <g id="1">two</g> <x id="2"/></source></trans-unit><trans-unit id="2"><source>Save &amp;As &lt;b&gt;x&lt;/b&gt;</source></trans-unit></body></file></xliff>',
        '<xliff version="1.2"><file source-language="en" target-language="de"><body><trans-unit id="1"><source> One <g id="1">two</g> <x id="2"/></source><target> oNE <g id="1">TWO</g> <x id="2"/></target></trans-unit><trans-unit id="2"><source>Save &amp;As &lt;b&gt;x&lt;/b&gt;</source><target>sAVE &amp;aS &lt;b&gt;X&lt;/b&gt;</target></trans-unit></body></file></xliff>',
    ),
    "languages of HTML": (
        "a.html",
        '<!DOCTYPE html><html lang="en-US" xml:lang=en><meta property="og:locale" content="en_US"><p lang="fr">Un</p><pre> lang="en"</pre>',
        '<!DOCTYPE html><html lang="de" xml:lang=de><meta property="og:locale" content="de"><p lang="fr">uN</p><pre> lang="en"</pre>',
    ),
    "the root of Rails": ("a.yml", 'en:\n  a: "One"\n', 'de:\n  a: "oNE"\n'),
    "the root of i18n-js": ("a.json", '{\n  "en-US": {"a": "One"}}', '{\n  "de": {"a": "oNE"}}'),
    "other roots of JSON": ("a.json", '{"en": {"a": "b"}, "fr": {}}', '{"en": {"a": "B"}, "fr": {}}'),
    "a key that is a language": ("a.json", '{"en": "English"}', '{"en": "eNGLISH"}'),
    "other roots": ("a.yml", "en: One\nfr: Two\n", "en: oNE\nfr: tWO\n"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_documents_of_the_test_corpus_are_translated_as_expected(tmp_path, case):
    name, content, expected = CASES[case]
    options = DocumentOptions(source="en", target="de")
    assert run(tmp_path, name, content.encode(), swap_case, options).decode() == expected
    if name.endswith((".po", ".xlf")):
        return
    assert run(tmp_path, name, content.encode(), identity).decode() == content


format_run = '<w:r><w:t xml:space="preserve">{}</w:t></w:r>'.format
ARCHIVES = [
    (
        "a.docx",
        docx(
            f"<w:p>{format_run('One')}<w:r><w:tab/></w:r>{format_run('two')}<w:r><w:br/></w:r>{format_run('three')}</w:p>"
        ),
        "word/document.xml",
        ["oNE", "<w:tab/>", "TWO", "<w:br/>", "THREE"],
    ),
    (
        "a.docx",
        docx(
            f'<w:p><w:hyperlink r:id="1" xmlns:r="r">{format_run("One")}</w:hyperlink><w:hyperlink r:id="2" xmlns:r="r">'
            f'{format_run("Two")}</w:hyperlink></w:p><w:p><w:r><w:rPr><w:b/><w:lang w:val="en-GB"/></w:rPr><w:t>x</w:t></w:r></w:p>'
        ),
        "word/document.xml",
        ["oNE", "</w:hyperlink>", "tWO", "</w:hyperlink>", '<w:lang w:val="de"/>'],
    ),
    ("a.pptx", pptx('<a:p><a:r><a:rPr lang="en-US" b="1"/><a:t>One\ttwo</a:t></a:r></a:p>'),
     "ppt/slides/slide1.xml", ['lang="de"', "oNE", "<a:t>\t</a:t>", "TWO"]),
    ("a.odt", odt("<text:p>One<text:tab/>two<text:line-break/>three</text:p>"), "content.xml",
     ["oNE<text:tab/>TWO<text:line-break/>THREE"]),
    ("a.odt",
     odt('<x fo:language="en" fo:country="US"/><x fo:country="BR" fo:language="pt"/><text:p>One</text:p>'),
     "content.xml",
     ['<x fo:language="de" fo:country="none"/>', '<x fo:country="BR" fo:language="pt"/>', "oNE"]),
    ("a.epub", epub("<p xml:lang='en'>One</p>"), "one.xhtml", ["<p xml:lang='de'>oNE</p>"]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "member", "parts"), ARCHIVES)
def test_archives_of_the_test_corpus_are_translated_as_expected(tmp_path, name, content, member, parts):
    translated = run(tmp_path, name, content, swap_case, DocumentOptions(source="en", target="de"))
    text, position = read_zip(translated)[member].decode(), 0
    for part in parts:
        assert part in text[position:]
        position = text.index(part, position) + len(part)


PLACEHOLDERS = (
    "#ff00aa #fff user.name.first MAX_LENGTH user_id getName get_user() com.example.Main example.com --verbose Ctrl+C "
    "192.168.0.1 10.0.0.1:8080 fe80::1 00:1B:44:11:3A:B7 1.2.3-beta 2024-05-17 0800-123-4567 978-3-16-148410-0 "
    "3f2504e0-4f89-11d3-9a0c-0305e82c3301 d41d8cd98f00b204e9800998ecf8427e 0.4_kg +49_30_1234567 +1_(555)_123-4567 "
    "(030)_1234567 https://example.com/a?b=1 bob@example.co.uk {name} {{x}} %s %(count)d %1$s %m @alice #topic"
).split()
PLACEHOLDER_TEXTS = ["1,000,000", "user.name", "%d.%m.%Y", "{a}, {b} - {c}", "42"]


def test_placeholders_of_the_test_corpus_are_copied(tmp_path):
    placeholders = [
        placeholder.replace("_", " ") if placeholder[0] in "0+(" else placeholder
        for placeholder in PLACEHOLDERS
    ]
    messages = {
        "sentences": [f"The man sees {placeholder} today." for placeholder in placeholders],
        "alone": [*placeholders, *PLACEHOLDER_TEXTS],
    }
    (tmp_path / "a.json").write_text(json.dumps(messages))
    translate_file(uwaga.Translator.load(), tmp_path / "a.json", tmp_path / "b.json")
    translated = json.loads((tmp_path / "b.json").read_text())
    assert translated["alone"] == messages["alone"]
    assert [
        placeholder
        for placeholder, text in zip(placeholders, translated["sentences"], strict=True)
        if placeholder not in text
    ] == []


@pytest.mark.parametrize(
    "text", ["  {name} sleeps. ", "The man sees {x}\t", " 5 kg ", "{a}\n The man \n{b}  ", " https://a.b/c "]
)
def test_placeholders_do_not_affect_surrounding_white_space(text):
    with_placeholders, without = (
        uwaga.Translator.load().translate(text, placeholders=option).text for option in (True, False)
    )
    assert with_placeholders and with_placeholders == with_placeholders.strip() and without == without.strip()
    assert with_placeholders.count("\n") == without.count("\n")
