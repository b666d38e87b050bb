# ruff: noqa: E501 (documents are shown as they are)
import zipfile

import pytest
from document_laws import SWAP_CASE, identity, reasons, run, swap_case, texts, with_tag_kinds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree
from office_samples import A, W, docx, epub, odt, pptx, read_zip, write_zip, xlsx

from uwaga.errors import DataError, UwagaError
from uwaga.markup import plain_text
from uwaga.markup.insert_tags import insert_tags
from uwaga.markup.strip_tags import strip_tags
from uwaga_documents import DocumentOptions, document_job, run_document_job

FORMATS = ["", "<w:rPr><w:b/></w:rPr>", '<w:rPr><w:i/><w:color w:val="FF0000"/></w:rPr>']
WORDS = st.text("abcXYZ &<é", min_size=1, max_size=10).map(
    lambda text: text.replace("&", "&amp;").replace("<", "&lt;")
)
RUN = st.tuples(st.sampled_from(FORMATS), WORDS).map(
    lambda run: f'<w:r w:rsidR="00A">{run[0]}<w:t xml:space="preserve">{run[1]}</w:t></w:r>'
)
OTHER_CONTENT = st.sampled_from(
    [
        "<w:r><w:tab/></w:r>",
        "<w:r><w:br/></w:r>",
        '<w:proofErr w:type="spellStart"/>',
        '<w:bookmarkStart w:id="0" w:name="x"/>',
        '<w:hyperlink r:id="rId1" xmlns:r="r"><w:r><w:t>link</w:t></w:r></w:hyperlink>',
        '<w:hyperlink r:id="rId1" xmlns:r="r"><w:r><w:t>two</w:t><w:br/><w:t>lines</w:t></w:r></w:hyperlink>',
        '<w:r><w:footnoteReference w:id="2"/></w:r>',
        "<w:r><w:drawing><w:txbxContent><w:p><w:r><w:t>in a box</w:t></w:r></w:p></w:txbxContent></w:drawing></w:r>",
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>HYPERLINK "x"</w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>a field</w:t></w:r>'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>',
    ]
)
PARAGRAPH = st.lists(st.one_of(RUN, OTHER_CONTENT), max_size=6).map(
    lambda runs: f'<w:p w:rsidR="1"><w:pPr><w:jc w:val="left"/></w:pPr>{"".join(runs)}</w:p>'
)


def all_text(content, member, name):
    """Return the texts of all elements with the given name in an archive member."""
    tree = etree.fromstring(read_zip(content)[member])
    return "".join(element.text or "" for element in tree.iter() if etree.QName(element).localname == name)


def check_archive(tmp_path, name, content):
    copy = run(tmp_path, name, content, identity)
    assert read_zip(copy) == read_zip(content)
    with (
        zipfile.ZipFile(tmp_path / f"translated-{name}") as copied,
        zipfile.ZipFile(tmp_path / name) as original,
    ):
        for member, original_member in zip(copied.infolist(), original.infolist(), strict=True):
            assert (member.filename, member.date_time, member.compress_type) == (
                original_member.filename,
                original_member.date_time,
                original_member.compress_type,
            )
    changed = run(tmp_path, name, content, swap_case)
    after = texts(tmp_path / f"translated-{name}")
    assert with_tag_kinds(after) == with_tag_kinds(swap_case(texts(tmp_path / name)))
    return changed


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PARAGRAPH, max_size=4))
def test_word_documents_keep_their_structure(tmp_path, body):
    content = docx("".join(body))
    changed = check_archive(tmp_path, "a.docx", content)
    document = "word/document.xml"
    assert all_text(changed, document, "t") == all_text(content, document, "t").translate(SWAP_CASE)
    before, after = read_zip(content), read_zip(changed)
    for tag in (
        b"<w:tab/>",
        b"<w:br/>",
        b"w:bookmarkStart",
        b"w:footnoteReference",
        b"instrText>",
        b"<w:jc ",
    ):
        assert before[document].count(tag) == after[document].count(tag)
    assert before["word/media/a.png"] == after["word/media/a.png"]


def test_text_runs_with_equal_formatting_are_joined(tmp_path):
    write_run = "<w:r{}>{}<w:t>{}</w:t></w:r>".format
    body = (
        "<w:p>"
        + write_run(' w:rsidR="1"', "", "One sen")
        + '<w:proofErr w:type="x"/>'
        + write_run(' w:rsidR="2"', '<w:rPr><w:lang w:val="en-US"/></w:rPr>', "tence with ")
        + write_run("", "<w:rPr><w:b/></w:rPr>", "bold")
        + write_run("", "", " words.")
        + "</w:p>"
    )
    path = tmp_path / "a.docx"
    path.write_bytes(docx(body))
    assert with_tag_kinds(texts(path)) == [("One sentence with ", ("open",), "bold", ("close",), " words.")]


def test_text_runs_of_slides_are_joined_and_translated(tmp_path):
    write_run = '<a:r><a:rPr lang="en-US" {}/><a:t>{}</a:t></a:r>'.format
    content = pptx(
        "<a:p>"
        + write_run("", "A title ")
        + write_run('dirty="0"', "in parts")
        + write_run('b="1"', " bold")
        + "<a:br/><a:endParaRPr/></a:p>"
    )
    changed = check_archive(tmp_path, "a.pptx", content)
    assert with_tag_kinds(texts(tmp_path / "a.pptx")) == [
        ("A title in parts", ("open",), " bold", ("close",))
    ]
    assert b"<a:t>a TITLE IN PARTS</a:t>" in read_zip(changed)["ppt/slides/slide1.xml"]


def test_names_of_table_columns_are_unchanged(tmp_path):
    content = xlsx(
        '<si><t>Name</t></si><si><t xml:space="preserve">Some text </t></si>'
        "<si><r><t>rich </t></r><r><rPr><b/></rPr><t>text</t></r></si><si><t>12</t></si>",
        '<tableColumn id="1" name="Name"/>',
    )
    changed = read_zip(check_archive(tmp_path, "a.xlsx", content))["xl/sharedStrings.xml"]
    assert b"<t>Name</t>" in changed and b">sOME TEXT </t>" in changed and b"<rPr><b/></rPr>" in changed


def test_opendocument_texts_and_notes_are_translated(tmp_path):
    content = odt(
        '<text:h>A head</text:h><text:p>Some <text:span text:style-name="T1">bold</text:span> text<text:note>'
        "<text:note-body><text:p>A note</text:p></text:note-body></text:note> here<text:s text:c='2'/></text:p>"
        "<text:tracked-changes><text:p>gone</text:p></text:tracked-changes>"
    )
    changed = read_zip(check_archive(tmp_path, "a.odt", content))["content.xml"]
    assert b"<text:p>a NOTE</text:p>" in changed and b">gone<" in changed
    assert b'sOME <text:span text:style-name="T1">BOLD</text:span> TEXT' in changed


def test_epub_books_are_translated(tmp_path):
    content = epub("<h1>One</h1><p>Some <em>text</em>.</p>")
    changed = read_zip(check_archive(tmp_path, "a.epub", content))
    assert b"<p>sOME <em>TEXT</em>.</p>" in changed["one.xhtml"] and b"tHE BOOK" in changed["book.opf"]
    assert b"cHAPTER ONE" in changed["toc.ncx"] and changed["a.css"] == b"p { color: red }"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        *(
            (
                "a.docx",
                docx(
                    "<w:p><w:r><w:rPr><w:b/></w:rPr><w:t>Meu endereço</w:t>"
                    f"{line_break}<w:t>Segunda</w:t></w:r><w:r><w:t> linha longa</w:t></w:r></w:p>"
                ),
            )
            for line_break in ("<w:br/>", "<w:br></w:br>", "<w:cr/>", '<w:br w:type="page"/>')
        ),
        (
            "a.pptx",
            pptx(
                '<a:p><a:r><a:rPr b="1"/><a:t>Meu endereço</a:t></a:r><a:br><a:rPr/></a:br>'
                '<a:r><a:rPr b="1"/><a:t>Segunda</a:t></a:r><a:r><a:t> linha longa</a:t></a:r></a:p>'
            ),
        ),
        (
            "a.odt",
            odt(
                "<text:p><text:span>Meu endereço</text:span><text:line-break/>"
                "<text:span>Segunda</text:span> linha longa</text:p>"
            ),
        ),
    ],
)
def test_line_break_in_an_office_document_ends_a_segment(tmp_path, name, content):
    check_archive(tmp_path, name, content)
    lines = ["".join(part for part in line if isinstance(part, str)) for line in texts(tmp_path / name)]
    assert lines == ["Meu endereço", "Segunda linha longa"]


def zip_bomb():
    return write_zip({"[Content_Types].xml": "", "word/document.xml": b"<w:p>" + b" " * (1 << 24)})


HOSTILE_ARCHIVES = [
    ("a.docx", b"PK\x03\x04 nothing", "not a complete zip archive"),
    ("a.docx", docx("<w:p>")[:-40], "not a complete zip archive"),
    ("a.docx", docx("<w:p>"), "not well-formed XML"),
    ("a.docx", zip_bomb(), "would unpack from"),
    ("a.docx", write_zip({"a.txt": "x"}), "not a Word document"),
    ("a.odt", write_zip({"a.txt": "x"}), "not an OpenDocument"),
    ("a.epub", write_zip({"a.txt": "x"}), "not an EPUB"),
    ("a.epub", write_zip({"META-INF/container.xml": "x", "../evil.xhtml": "x"}), "not a valid member name"),
    ("a.epub",
     write_zip({"META-INF/container.xml": "x", "a.xhtml": '<!DOCTYPE h [<!ENTITY a "b">]><p>x</p>'}),
     "entities"),
    ("a.docx", docx("<!DOCTYPE a><w:p/>"), "not well-formed XML"),
    ("a.pptx", docx("<w:p/>"), "not a presentation"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), HOSTILE_ARCHIVES)
def test_hostile_office_archives_are_rejected(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        run_document_job(document_job(tmp_path / name, tmp_path / f"out-{name}"), identity)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 3000), st.binary(min_size=1, max_size=4))
def test_damaged_office_archives_are_read_or_rejected(tmp_path, offset, change):
    content = bytearray(docx("<w:p><w:r><w:t>Some words</w:t></w:r></w:p>"))
    offset %= len(content)
    content[offset : offset + len(change)] = change
    try:
        run(tmp_path, "a.docx", bytes(content), swap_case)
    except UwagaError:
        (tmp_path / "a.docx").unlink()
        assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    "declared", ["<dc:language>en</dc:language>", '<d:language id="l">\n en-US </d:language>']
)
def test_book_language_is_set_to_the_target_language(tmp_path, declared):
    members = read_zip(epub("<p>One</p>"))
    members["book.opf"] = members["book.opf"].replace(b"<dc:title>", declared.encode() + b"<dc:title>")
    members["book.opf"] = members["book.opf"].replace(b"xmlns:dc", b'xmlns:d="x" xmlns:dc')
    options = DocumentOptions(source="en", target="de")
    changed = read_zip(run(tmp_path, "a.epub", write_zip(members), swap_case, options))
    expected = declared.replace("en-US", "de").replace(">en<", ">de<")
    assert expected in changed["book.opf"].decode()


SPREADSHEET_NAMESPACE = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
CHART_NAMESPACE = "http://schemas.openxmlformats.org/drawingml/2006/chart"
TYPE = "application/vnd.openxmlformats-officedocument."


def office_archive(main, parts, types=None):
    """Return an Office archive with the given parts and declared content types."""
    declared = "".join(
        f'<Override PartName="/{name}" ContentType="{TYPE}{kind}+xml"/>'
        for name, kind in (types or {}).items()
    )
    head = '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    return write_zip({"[Content_Types].xml": f"{head}{declared}</Types>", main: "<w/>", **parts})


def model_texts(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    return [plain_text(text) for text in texts(path)]


def copied_reasons(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    return reasons(tmp_path / name)


def test_unusual_part_names_and_namespaces_are_read(tmp_path):
    sheet = f'<x:worksheet xmlns:x="{SPREADSHEET_NAMESPACE}"><x:sheetData><x:c t="inlineStr"><x:is><x:t>A man</x:t></x:is></x:c></x:sheetData></x:worksheet>'
    strings = f'<x:sst xmlns:x="{SPREADSHEET_NAMESPACE}"><x:si><x:r><x:rPr><x:b/></x:rPr><x:t>Unit</x:t></x:r><x:r><x:t> two</x:t></x:r></x:si></x:sst>'
    content = office_archive(
        "xl/workbook.xml",
        {"xl/worksheets/sheet.xml": sheet, "xl/strings.xml": strings},
        {
            "xl/worksheets/sheet.xml": "spreadsheetml.worksheet",
            "xl/strings.xml": "spreadsheetml.sharedStrings",
        },
    )
    assert model_texts(tmp_path, "a.xlsx", content) == ["A man", "Unit two"]
    changed = read_zip(run(tmp_path, "a.xlsx", content, swap_case))
    assert (
        b"<x:t>a MAN</x:t>" in changed["xl/worksheets/sheet.xml"]
        and b"</x:r><x:r><x:t" in changed["xl/strings.xml"]
    )
    word = W.replace("xmlns:w", "xmlns:ns0")
    body = "<ns0:document {}><ns0:p><ns0:r><ns0:t>Some </ns0:t></ns0:r><ns0:r><ns0:rPr><ns0:b/></ns0:rPr><ns0:t>text</ns0:t></ns0:r></ns0:p></ns0:document>"
    content = office_archive(
        "word/main.xml",
        {"word/main.xml": body.format(word)},
        {"word/main.xml": "wordprocessingml.document.main"},
    )
    content = write_zip({**read_zip(content), "word/document.xml": "<x/>"})
    assert model_texts(tmp_path, "a.docx", content) == ["Some text"]
    assert (
        b"<ns0:b/></ns0:rPr><ns0:t xml:space"
        in read_zip(run(tmp_path, "a.docx", content, swap_case))["word/main.xml"]
    )


def workbook(sheet, strings):
    cells = "".join(f"<si><t>{words}</t></si>" for words in strings)
    return office_archive(
        "xl/workbook.xml",
        {
            "xl/workbook.xml": f'<workbook xmlns="{SPREADSHEET_NAMESPACE}"><sheets><sheet name="Stock" sheetId="1"/></sheets></workbook>',
            "xl/sharedStrings.xml": f'<sst xmlns="{SPREADSHEET_NAMESPACE}">{cells}</sst>',
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{SPREADSHEET_NAMESPACE}">{sheet}</worksheet>',
        },
    )


@pytest.mark.parametrize(
    ("sheet", "copied"),
    [
        ('<dataValidation type="list"><formula1>"Open, Closed"</formula1></dataValidation>', ["Open", "Closed"]),
        ("<c><f>VLOOKUP(&quot;red shoes&quot;,A1:B9,2)</f></c>", ["Red shoes"]),
        ('<c><f>COUNTIF(A:A,"&lt;&gt;Open")+COUNTIF(A:A,"*shoe*")</f></c>', ["Open", "Red shoes"]),
        ('<filterColumn><filters><filter val="Closed"/></filters></filterColumn>', ["Closed"]),
        ('<cfRule type="cellIs"><formula>"Open"</formula></cfRule>', ["Open"]),
        ("<c><v>1</v></c>", []),
    ],
)  # fmt: skip
def test_cell_texts_referenced_by_formulas_lists_or_filters_are_copied(tmp_path, sheet, copied):
    strings = ["Open", "Closed", "Red shoes", "Other"]
    content = workbook(sheet, strings)
    assert model_texts(tmp_path, "a.xlsx", content) == [words for words in strings if words not in copied]
    counts = copied_reasons(tmp_path, "a.xlsx", content)
    assert counts.pop("names of sheets") == 1
    lists = 1 if "dataValidation" in sheet else 0
    assert counts == ({"named by a formula, list or filter": len(copied) + lists} if copied else {})
    assert run(tmp_path, "a.xlsx", content, identity) == content


def test_formula_results_and_headers_are_counted_as_untranslated(tmp_path):
    sheet = '<c t="str"><f>A1</f><v>Hello</v></c><headerFooter><oddHeader>&amp;LReport &amp;P</oddHeader></headerFooter>'
    sheet += '<dataValidation prompt="Choose one" error="Wrong"><formula1>1</formula1></dataValidation>'
    content = workbook(sheet, ["One"])
    assert model_texts(tmp_path, "a.xlsx", content) == ["One", "Choose one", "Wrong"]
    assert copied_reasons(tmp_path, "a.xlsx", content) == {
        "names of sheets": 1, "results of formulas": 1, "headers and footers of sheets": 1,
    }  # fmt: skip


CHART = (
    f'<c:chartSpace {A} xmlns:c="{CHART_NAMESPACE}"><c:title><a:p><a:r><a:t>Sales</a:t></a:r></a:p></c:title><c:ser><c:tx><c:strRef><c:f>Sheet1!B1</c:f>'
    "<c:strCache><c:pt><c:v>Series one</c:v></c:pt></c:strCache></c:strRef></c:tx><c:cat><c:multiLvlStrRef><c:multiLvlStrCache><c:lvl>"
    "<c:pt><c:v>First quarter</c:v></c:pt></c:lvl></c:multiLvlStrCache></c:multiLvlStrRef></c:cat><c:val><c:numRef><c:numCache>"
    '<c:pt><c:v>1.5E7</c:v></c:pt></c:numCache></c:numRef></c:val></c:ser><c:externalData r:id="rId1" xmlns:r="r"/></c:chartSpace>'
)


@pytest.mark.parametrize(
    ("name", "main"), [("a.docx", "word/document.xml"), ("a.pptx", "ppt/presentation.xml")]
)
def test_categories_and_series_of_charts_are_translated(tmp_path, name, main):
    content = office_archive(main, {f"{main.partition('/')[0]}/charts/chart1.xml": CHART})
    assert model_texts(tmp_path, name, content) == ["Sales", "Series one", "First quarter"]
    assert copied_reasons(tmp_path, name, content) == {"in the workbooks of charts": 1}
    changed = read_zip(run(tmp_path, name, content, swap_case))
    chart = next(part for part in changed if "chart1" in part)
    assert b"<c:v>sERIES ONE</c:v>" in changed[chart] and b"<c:v>1.5E7</c:v>" in changed[chart]


def test_content_controls_contain_their_translation(tmp_path):
    control = (
        '<w:sdt><w:sdtPr><w:dataBinding w:xpath="{}" w:storeItemID="x"/></w:sdtPr><w:sdtContent><w:p><w:r><w:t>{}</w:t></w:r></w:p>'
        "</w:sdtContent></w:sdt>"
    )
    body = control.format("/ns1:coreProperties[1]/ns0:title[1]", "My title") + control.format(
        "/root[1]/a[1]", "Abstract"
    )
    core = '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>My title</dc:title><dc:creator>Ann</dc:creator></cp:coreProperties>'
    content = docx(body, **{"docProps/core.xml": core})
    changed = read_zip(run(tmp_path, "a.docx", content, swap_case))
    assert (
        changed["word/document.xml"].count(b"dataBinding") == 1
        and b"aBSTRACT" in changed["word/document.xml"]
    )
    assert b"<dc:title>mY TITLE</dc:title><dc:creator>Ann<" in changed["docProps/core.xml"]


def test_alternative_texts_and_ruby_bases_in_word_are_translated(tmp_path):
    picture = '<w:r><w:drawing><wp:docPr xmlns:wp="p" id="1" name="Picture 1" descr="A &quot;red&quot; car" title="Car"/></w:drawing></w:r>'
    ruby = "<w:r><w:ruby><w:rt><w:r><w:t>dry</w:t></w:r></w:rt><w:rubyBase><w:r><w:t>driver</w:t></w:r></w:rubyBase></w:ruby></w:r>"
    body = f"<w:p>{picture}</w:p><w:p><w:r><w:t>The </w:t></w:r>{ruby}<w:r><w:t> is here</w:t></w:r>{picture}</w:p>"
    content = docx(body)
    assert model_texts(tmp_path, "a.docx", content) == [
        'A "red" car', "Car", "The driver is here", 'A "red" car', "Car",
    ]  # fmt: skip
    document = read_zip(run(tmp_path, "a.docx", content, swap_case))["word/document.xml"]
    assert document.count(b'descr="a &quot;RED&quot; CAR" title="cAR"') == 2 and b"<w:t>dry</w:t>" in document
    assert b"DRIVER</w:t></w:r></w:rubyBase></w:ruby></w:r>" in document
    assert run(tmp_path, "a.docx", content, identity) == content


def test_subscripts_inside_words_keep_their_position(tmp_path):
    raised = '<w:rPr><w:vertAlign w:val="subscript"/></w:rPr>'
    body = f"<w:p><w:r><w:t>It is H</w:t></w:r><w:r>{raised}<w:t>2</w:t></w:r><w:r><w:t>O</w:t></w:r></w:p>"
    (tmp_path / "a.docx").write_bytes(docx(body))
    [text] = texts(tmp_path / "a.docx")
    translated = insert_tags(strip_tags(text), "Es ist H2O", None)
    assert [part if isinstance(part, str) else "|" for part in translated] == ["Es ist H", "|", "2", "|", "O"]


def test_only_fixed_texts_of_slide_masters_are_translated(tmp_path):
    shape = "<p:sp>{}<p:txBody><a:p><a:r><a:t>{}</a:t></a:r></a:p></p:txBody></p:sp>"
    master = f'<p:sldMaster {A} xmlns:p="p">{shape.format("<p:ph/>", "Click here")}{shape.format("", "Confidential")}</p:sldMaster>'
    content = office_archive("ppt/presentation.xml", {"ppt/slideMasters/slideMaster1.xml": master})
    assert model_texts(tmp_path, "a.pptx", content) == ["Confidential"]


def test_cells_and_frames_of_opendocument_spreadsheets_are_translated(tmp_path):
    cell = "<table:table-cell{}><text:p>{}</text:p></table:table-cell>"
    body = (
        cell.format("", "Open")
        + cell.format(' table:formula="of:=IF([.A1]=&quot;open&quot;;1;2)"', "2")
        + cell.format("", "Other")
        + cell.format(
            ' table:formula="of:=[.A2]"',
            "Result</text:p><office:annotation><text:p>A note</text:p></office:annotation><text:p>2",
        )
    )
    body += "<text:p>See <draw:frame><svg:title>A car</svg:title><svg:desc>It is red</svg:desc></draw:frame></text:p>"
    body += "<text:tracked-changes><text:p>Gone</text:p></text:tracked-changes>"
    members = read_zip(odt(body))
    members["content.xml"] = members["content.xml"].replace(
        b"xmlns:fo", b'xmlns:table="x" xmlns:svg="s" xmlns:fo'
    )
    members["Object 1/content.xml"] = b'<o xmlns:text="t"><text:p>A category</text:p></o>'
    members["meta.xml"] = b'<m xmlns:dc="d"><dc:title>My title</dc:title></m>'
    content = write_zip(members, stored=("mimetype",))
    assert model_texts(tmp_path, "a.ods", content) == [
        "Other", "A note", "See", "A car", "It is red", "A category", "My title",
    ]  # fmt: skip
    assert copied_reasons(tmp_path, "a.ods", content) == {
        "named by a formula, list or filter": 1,
        "results of formulas": 1,
        "tracked deletions": 1,
    }
    changed = read_zip(run(tmp_path, "a.ods", content, swap_case))
    assert b"<svg:title>a CAR</svg:title>" in changed["content.xml"]


def test_tracked_deletions_in_translated_paragraphs_are_counted(tmp_path):
    deleted = "<w:del><w:r><w:delText>very</w:delText></w:r></w:del>"
    words = "<w:r><w:t xml:space='preserve'>A {} </w:t></w:r>"
    content = docx(f"<w:p>{words.format('red')}{deleted}{words.format('car')}</w:p>")
    assert model_texts(tmp_path, "a.docx", content) == ["A red A car"]
    assert copied_reasons(tmp_path, "a.docx", content) == {"tracked deletions": 1}


def test_escaped_characters_of_cells_are_not_translated(tmp_path):
    strings = (
        "A man._x000D_\nTwo dogs.", "The car_x0020_is red.", "A user_x005F_x0041_name.", "It is_xD83D_.",
    )  # fmt: skip
    content = xlsx("".join(f"<si><t>{text}</t></si>" for text in strings))
    assert model_texts(tmp_path, "a.xlsx", content) == [
        "A man.", "Two dogs.", "The car is red.", "A user_x0041_name.", "It is .",
    ]  # fmt: skip
    changed = read_zip(run(tmp_path, "a.xlsx", content, swap_case))["xl/sharedStrings.xml"].decode()
    assert all(
        changed.count(escaped) == sum(text.count(escaped) for text in strings)
        for escaped in ("_x000D_\n", "_x0020_", "_x005F_", "_xD83D_")
    )
