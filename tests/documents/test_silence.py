# ruff: noqa: E501 (documents are shown as they are)
"""Every text of a document is translated, or copied and counted with a reason."""

from dataclasses import replace

import pytest
from document_laws import pieces, swap_case
from hypothesis import given
from hypothesis import strategies as st
from office_samples import A, W, write_zip

from uwaga.markup.units import untranslated_texts
from uwaga_documents import DOCUMENT_FORMATS, DocumentOptions, document_job, run_document_job

PARAGRAPH = "<w:p><w:r><w:t>{}</w:t></w:r></w:p>"
FIELD_CODES = "".join(
    f'<w:r><w:fldChar w:fldCharType="{kind}"/></w:r>' for kind in ("begin", "separate", "end")
)
TEXT_BOX = "<w:r><w:pict><w:txbxContent>{}</w:txbxContent></w:pict></w:r>"
DRAWING = "<a:p><a:r><a:t>{}</a:t></a:r></a:p>"
CHART = "<c:strCache><c:pt><c:v>{}</c:v></c:pt></c:strCache>", "<c:tx><c:v>{}</c:v></c:tx>", DRAWING
CHART_HEAD = f'<c:chartSpace {A} xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart">'
CORE_HEAD = '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" xmlns:dc="http://purl.org/dc/elements/1.1/">'
CORE = (
    CORE_HEAD,
    ("<dc:title>{}</dc:title>", "<dc:subject>{}</dc:subject>", "<cp:category>{}</cp:category>"),
    "</cp:coreProperties>",
)
TYPES = "<Types/>", (), ""
SHEET_HEAD = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
UNIT = '<trans-unit id="1"><source>{}</source>%s</trans-unit>'
UNIT_2 = '<unit id="1"><segment><source>{}</source>%s</segment></unit>'

FILES = {
    "txt": ("", ("{}.\n\n", "- {}\n", "    {} text\n\n"), ""),
    "markdown": (
        "",
        (
            *("{} text\n\n", "# {} {{#id}}\n\n", "- {}\n\n", "> [!NOTE]\n> {}\n\n", '!!! note "{}"\n\n    - item\n\n'),
            *("!!! note\n    {}\n\n", ":::tip {}\n:::\n\n", "```\n{}\n```\n\n", "<div>{}</div>\n\n", "> <div>{}</div>\n\n"),
            *("![{}](a)\n\n", "[1](a '{}')\n\n", '{{{{< figure title="{} x" >}}}}\n\n', "| {} |\n|---|\n\n", "`{}`\n\n"),
            *("Term\n: {}\n\n", "1. a\n\n    {}\n\n", "{{% if x %}}\n{}\n{{% endif %}}\n\n", "[^1]: {}\n\n"),
        ),
        "",
    ),
    "html": (
        "<body>",
        (
            *("<p>{}</p>", "<title>{}</title>", '<img alt="{}">', "<pre>{}</pre>", '<p translate="no">{}</p>', "<p><code>{}</code></p>"),
            *('<meta name="description" content="{}">', "<textarea>{}</textarea>", "<p>1<br>{}<br>2</p>", "<svg><text>{}</text></svg><hr>"),
            *("<template><p>{}</p></template>", "<li>{}", "<option>{}", "<ruby>{}<rt>1</rt></ruby><hr>"),
        ),
        "</body>",
    ),
    "srt": ("", ("1\n00:00:01,000 --> 00:00:02,000\n{}.\n\n", "1\n00:00:01,000 --> 00:00:02,000\n\n<i>{}.</i>\n\n", "1\n00:00:01,000 --> 00:00:02,000\n12.\n\n{}.\n\n"), ""),
    "vtt": ("WEBVTT\n\n", ("00:01.000 --> 00:02.000\n{}.\n\n", "00:01.000 --> 00:02.000\n<v Ann>{}.\n\n", "00:01.000 --> 00:02.000\n- 1\n- {}.\n\n"), ""),
    "po": (
        "",
        (
            *('msgid "{}"\nmsgstr ""\n\n', 'msgid "{}"\nmsgstr "x"\n\n', '#, fuzzy\nmsgid "{}"\nmsgstr "x"\n\n'),
            '#, c-format\nmsgid "50% off {}"\nmsgstr ""\n\n',
            '#, c-format\nmsgid "%s of %d {}"\nmsgstr ""\n\n',
            '#, java-format\nmsgid "{{0}} isn\'t {{1}} {}"\nmsgstr ""\n\n',
            '#, java-format\nmsgid "{{0}} \'\'is\'\' {}"\nmsgstr ""\n\n',
            '#, c-format\nmsgid "%s {}"\nmsgid_plural "x"\nmsgstr[0] ""\nmsgstr[1] ""\n\n',
            'msgid "1"\nmsgid_plural "{}"\nmsgstr[0] ""\nmsgstr[1] ""\n\n',
            'msgid "{} &amp; <b>x</b>"\nmsgstr ""\n\n',
        ),
        "",
    ),
    "xliff": (
        '<xliff version="1.2" xmlns:mq="m"><file source-language="en"><body>',
        (
            *(UNIT % "", UNIT % "<target>x</target>", UNIT.replace("id=", 'translate="no" id=') % "", UNIT.replace("id=", 'mq:locked="locked" id=') % ""),
            UNIT % "<alt-trans><target>1</target></alt-trans>",
            '<trans-unit id="1"><source>1</source><seg-source><mrk mtype="seg" mid="1">{}</mrk></seg-source><target><mrk mtype="seg" mid="1"/></target></trans-unit>',
            '<trans-unit id="1"><source>1</source><seg-source><mrk mtype="seg" mid="1">x</mrk></seg-source><target><mrk mtype="seg" mid="1">{}</mrk></target></trans-unit>',
            '<trans-unit id="1"><source>1</source><seg-source>{}<mrk mtype="seg" mid="1">x</mrk></seg-source></trans-unit>',
            '<trans-unit id="1"><source>1</source><seg-source><mrk mtype="seg" mid="1">1</mrk> {}</seg-source></trans-unit>',
            '<trans-unit id="1"><source><mrk mtype="protected">{}</mrk></source></trans-unit>',
            '<group translate="no"><trans-unit id="1"><source>{}</source></trans-unit></group>',
        ),
        "</body></file></xliff>",
    ),
    "xliff of version 2": (
        '<xliff version="2.0" srcLang="en"><file id="f">',
        (
            *(UNIT_2 % "", UNIT_2 % "<target>x</target>", UNIT_2.replace("id=", 'translate="no" id=') % ""),
            '<unit id="1"><segment><source>1</source></segment><segment><source>{}</source></segment></unit>',
            '<unit id="1"><ignorable><source>{}</source></ignorable><segment><source>1</source></segment></unit>',
            '<unit id="1"><segment state="final"><source>{}</source><target>x</target></segment></unit>',
            '<unit id="1"><segment><source>1 <mrk id="m" translate="no">{}</mrk></source></segment></unit>',
            '<group id="g" translate="no"><unit id="1"><segment><source>{}</source></segment></unit></group>',
        ),
        "</file></xliff>",
    ),
    "android": (
        "<resources>",
        (
            *('<string name="a">{}</string>', '<string name="a" translatable="false">{}</string>', '<string-array name="a"><item>{}</item></string-array>'),
            '<plurals name="a"><item quantity="other">{}</item></plurals>',
        ),
        "</resources>",
    ),
    "strings": ("", ('"k" = "{}";\n', "/* c */ k = \"{}\";\n"), ""),
    "strings as a property list": ("<plist><dict>", ("<key>k</key><string>{}</string>", "<key>k</key><array><string>{}</string></array>"), "</dict></plist>"),
    "stringsdict": ("<plist><dict>", ("<key>other</key><string>{}</string>", "<key>one</key><string><![CDATA[{}]]></string>"), "</dict></plist>"),
    "json": ('{{"k": "1"', (', "k": "{}"', ', "x": "{}"', ', "o": {{"k": "{}"}}', ', "o": ["{}"]'), "}}"),
    "json of Chrome": ('{{"k": {{"message": "1"}}',
        (', "k": {{"message": "{}"}}', ', "k": {{"message": "1", "description": "{}"}}'), "}}"),
    "json of messages": (
        '{{"k": "1"',
        (
            *(', "k": "car | {}"', ', "k": "{{n, plural, one {{{} a}} other {{# b}}}}"', ', "k": "<b>{}</b> x"'),
            *(', "k_one": "{}", "k_other": "x"', ', "k": "{{{{n}}}} {}"', ', "k": ":name {}"'),
        ),
        "}}",
    ),
    "arb": ('{{"@@locale": "1"', (', "k": "{}"', ', "x": "{}"'), "}}"),
    "yaml": ("a: 1\n", ('k: "{}"\n', "x: {}\n", "o:\n  k: '{}'\n", "o:\n  - {}\n"), ""),
    "csv": ("k,x\n", ("{},1\n", "1,{}\n", '"{}",2\n'), ""),
}  # fmt: skip
"""For each kind of file: the start of a file, templates that each contain a text, and the end."""
ARCHIVES = {
    "docx": {
        "word/document.xml": (
            f"<w:document {W}><w:body>",
            (
                *(PARAGRAPH, f"<w:tbl><w:tr><w:tc>{PARAGRAPH}</w:tc></w:tr></w:tbl>", f"<w:sdt><w:sdtContent>{PARAGRAPH}</w:sdtContent></w:sdt>"),
                f"<w:p><w:r><w:t>1</w:t></w:r>{TEXT_BOX.format(PARAGRAPH)}</w:p>",
                f"<w:p>{TEXT_BOX.format(f'<w:p><w:r><w:t>{{}}</w:t></w:r>{FIELD_CODES}</w:p>')}</w:p>",
                f"<w:p>{TEXT_BOX.format(f'<w:p>{FIELD_CODES}</w:p>')}<w:r><w:t>{{}}</w:t></w:r></w:p>",
                *("<w:p><w:del><w:r><w:delText>{}</w:delText></w:r></w:del></w:p>", "<w:p><w:moveFrom><w:r><w:t>{}</w:t></w:r></w:moveFrom></w:p>"),
                *('<w:p><w:r><w:drawing><wp:docPr descr="{}"/></w:drawing></w:r></w:p>', '<w:sdt><w:sdtPr><w:listItem w:displayText="{}"/></w:sdtPr></w:sdt>'),
                "<w:p><w:hyperlink><w:r><w:t>{}</w:t></w:r></w:hyperlink></w:p>",
                "<w:p><w:r><w:ruby><w:rubyBase><w:r><w:t>{}</w:t></w:r></w:rubyBase></w:ruby></w:r></w:p>",
            ),
            "</w:body></w:document>",
        ),
        "word/header1.xml": (f"<w:hdr {W}>", (PARAGRAPH,), "</w:hdr>"),
        "word/charts/chart1.xml": (CHART_HEAD, CHART, "</c:chartSpace>"),
        "docProps/core.xml": CORE,
    },
    "pptx": {
        "ppt/slides/slide1.xml": (f"<p:sld {A}>", (DRAWING, '<p:cNvPr title="{}"/>'), "</p:sld>"),
        "ppt/notesSlides/notesSlide1.xml": (f"<p:notes {A}>", (DRAWING,), "</p:notes>"),
        "ppt/slideMasters/slideMaster1.xml": (f"<p:sldMaster {A}>", (f"<p:sp>{DRAWING}</p:sp>",), "</p:sldMaster>"),
        "ppt/charts/chart1.xml": (CHART_HEAD, CHART, "</c:chartSpace>"),
        "docProps/core.xml": CORE,
        "ppt/presentation.xml": TYPES,
    },
    "xlsx": {
        "xl/workbook.xml": ("<workbook><sheets>", ('<sheet name="{}"/>',), "</sheets></workbook>"),
        "xl/sharedStrings.xml": ("<sst>", ("<si><t>{}</t></si>", "<si><r><t>{}</t></r><r><rPr><b/></rPr><t> 1</t></r></si>", "<si><t>{} &amp;</t></si>"), "</sst>"),
        "xl/worksheets/sheet1.xml": (
            SHEET_HEAD,
            (
                *('<c t="inlineStr"><is><t>{}</t></is></c>', '<c t="str"><f>A1</f><v>{}</v></c>', '<dataValidation prompt="{}"/>'),
                *("<headerFooter><oddHeader>&amp;L{}</oddHeader></headerFooter>", '<dataValidation><formula1>"{}"</formula1></dataValidation>'),
            ),
            "</worksheet>",
        ),
        "xl/comments1.xml": ("<comments>", ("<text><t>{}</t></text>",), "</comments>"),
        "xl/drawings/drawing1.xml": (f"<xdr:wsDr {A}>", (DRAWING, '<xdr:cNvPr descr="{}"/>'), "</xdr:wsDr>"),
        "xl/charts/chart1.xml": (CHART_HEAD, CHART, "</c:chartSpace>"),
        "docProps/core.xml": CORE,
    },
    "odt": {
        "content.xml": (
            "<office:text>",
            (
                *("<text:p>{}</text:p>", "<text:h>{}</text:h>", "<text:p>1<text:note><text:p>{}</text:p></text:note></text:p>"),
                *("<draw:frame><svg:desc>{}</svg:desc></draw:frame>", "<text:tracked-changes><text:p>{}</text:p></text:tracked-changes>"),
                "<text:p>1<draw:frame><svg:title>{}</svg:title></draw:frame></text:p>",
            ),
            "</office:text>",
        ),
        "styles.xml": ("<s>", ("<style:header><text:p>{}</text:p></style:header>",), "</s>"),
        "Object 1/content.xml": ("<s>", ("<table:table-cell><text:p>{}</text:p></table:table-cell>",), "</s>"),
        "meta.xml": ("<m>", ("<dc:title>{}</dc:title>",), "</m>"),
        "META-INF/manifest.xml": ("<manifest/>", (), ""),
    },
    "epub": {
        "a.xhtml": ("<html><body>", ("<p>{}</p>", "<pre>{}</pre>"), "</body></html>"),
        "a.opf": ("<package>", ("<dc:title>{}</dc:title>", "<dc:description>{}</dc:description>"), "</package>"),
        "toc.ncx": ("<ncx>", ("<navLabel><text>{}</text></navLabel>",), "</ncx>"),
        "META-INF/container.xml": ("<container/>", (), ""),
    },
}  # fmt: skip
"""For each kind of archive: the start, templates and end of each of its members."""
SUFFIXES = {"markdown": ".md", "xliff": ".xlf", "yaml": ".yml"}
OPTIONS = DocumentOptions(keys=("k",), columns=("k",))
NUMBERS = st.lists(st.integers(0, 1000), min_size=1, max_size=8)


def word(number: int) -> str:
    return f"W{'abcdefghij'[number // 10 % 10]}{'abcdefghij'[number % 10]}word"


def document(name: str, numbers: list[int]) -> tuple[bytes, list[str]]:
    """Return a document with a word in each selected template, and the words that it contains."""
    words: list[str] = []

    def filled(template: str) -> str:
        words.append(word(len(words)))
        return template.format(words[-1])

    if name in FILES:
        start, templates, end = FILES[name]
        body = "".join(filled(templates[number % len(templates)]) for number in numbers)
        if base_format(name) in ("json", "arb"):
            start, end = start.format(), end.format()
        if name == "yaml":
            body = "".join(filled_mappings(templates, numbers, words))
        return (start + body + end).encode(), words
    parts = ARCHIVES[name]
    member_templates = [
        (member, template) for member, (_, templates, _) in parts.items() for template in templates
    ]
    selected = [member_templates[number % len(member_templates)] for number in numbers]
    members = {"[Content_Types].xml": "<Types/>"}
    for member, (start, _, end) in parts.items():
        members[member] = (
            start + "".join(filled(template) for other, template in selected if other == member) + end
        )
    return write_zip(members), words


def filled_mappings(templates: tuple[str, ...], numbers: list[int], words: list[str]) -> list[str]:
    """Return a YAML mapping for each placeholder in a template, since keys must not be repeated."""
    words.clear()
    mappings: list[str] = []
    for index, number in enumerate(numbers):
        words.append(word(index))
        lines = templates[number % len(templates)].format(words[-1]).rstrip("\n").split("\n")
        mappings.append(f"m{index}:\n" + "".join(f"  {line}\n" for line in lines))
    return mappings


def base_format(name: str) -> str:
    """Return the document format of a kind of file."""
    return name.split(" ")[0]


def test_samples_cover_every_document_format() -> None:
    assert {*map(base_format, FILES), *ARCHIVES} == set(DOCUMENT_FORMATS)


@pytest.mark.parametrize("name", [*FILES, *ARCHIVES])
@given(numbers=NUMBERS)
def test_every_text_is_translated_or_copied_with_a_reason(name, numbers, tmp_path_factory) -> None:
    content, words = document(name, numbers)
    folder = tmp_path_factory.mktemp("silence")
    document_format = base_format(name)
    path = folder / f"a{SUFFIXES.get(document_format, f'.{document_format}')}"
    path.write_bytes(content)
    options = OPTIONS if name != "json of Chrome" else replace(OPTIONS, keys=())
    job = document_job(path, folder / f"b{path.suffix}", replace(options, format=document_format))
    received: list[str] = []

    def translate(inlines):
        received.extend(part for inline in inlines for part in inline if isinstance(part, str))
        return swap_case(inlines)

    report = run_document_job(job, translate)
    copied = list(untranslated_texts(pieces(path, None, options, document_format)))
    assert sum(report.untranslated.values()) == len(copied)
    for text in words:
        translated = sum(text in stretch for stretch in received)
        copies = sum(text in copy for copy in copied)
        assert translated + copies == 1, (text, received, [str(copy) for copy in copied], content)
    assert all(reason for reason in report.untranslated)
