# ruff: noqa: E501 (documents are shown as they are)
import zipfile

import pytest
from document_laws import SWAP_CASE, identity, run, swap_case, texts, with_tag_kinds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lxml import etree
from office_samples import docx, epub, odt, pptx, read_zip, write_zip, xlsx

from uwaga.errors import DataError, UwagaError
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
    """Return the texts of a member's elements with this name."""
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
def test_word(tmp_path, body):
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


def test_runs_of_equal_format_are_joined(tmp_path):
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


def test_slides(tmp_path):
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


def test_table_names_are_unchanged(tmp_path):
    content = xlsx(
        '<si><t>Name</t></si><si><t xml:space="preserve">Some text </t></si>'
        "<si><r><t>rich </t></r><r><rPr><b/></rPr><t>text</t></r></si><si><t>12</t></si>",
        '<tableColumn id="1" name="Name"/>',
    )
    changed = read_zip(check_archive(tmp_path, "a.xlsx", content))["xl/sharedStrings.xml"]
    assert b"<t>Name</t>" in changed and b">sOME TEXT </t>" in changed and b"<rPr><b/></rPr>" in changed


def test_open_document(tmp_path):
    content = odt(
        '<text:h>A head</text:h><text:p>Some <text:span text:style-name="T1">bold</text:span> text<text:note>'
        "<text:note-body><text:p>A note</text:p></text:note-body></text:note> here<text:s text:c='2'/></text:p>"
        "<text:tracked-changes><text:p>gone</text:p></text:tracked-changes>"
    )
    changed = read_zip(check_archive(tmp_path, "a.odt", content))["content.xml"]
    assert b"<text:p>a NOTE</text:p>" in changed and b">gone<" in changed
    assert b'sOME <text:span text:style-name="T1">BOLD</text:span> TEXT' in changed


def test_books(tmp_path):
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
def test_line_break_ends_segment(tmp_path, name, content):
    check_archive(tmp_path, name, content)
    lines = ["".join(part for part in line if isinstance(part, str)) for line in texts(tmp_path / name)]
    assert lines == ["Meu endereço", "Segunda linha longa"]


def zip_bomb():
    return write_zip({"[Content_Types].xml": "", "word/document.xml": b"<w:p>" + b" " * (1 << 26)})


HOSTILE_ARCHIVES = [
    ("a.docx", b"PK\x03\x04 nothing", "not a complete zip archive"),
    ("a.docx", docx("<w:p>")[:-40], "not a complete zip archive"),
    ("a.docx", docx("<w:p>"), "not well-formed XML"),
    ("a.docx", zip_bomb(), "would unpack from"),
    ("a.docx", write_zip({"a.txt": "x"}), "not a Word document"),
    ("a.odt", write_zip({"a.txt": "x"}), "not an OpenDocument"),
    ("a.epub", write_zip({"a.txt": "x"}), "not an EPUB"),
    ("a.epub", write_zip({"META-INF/container.xml": "x", "../evil.xhtml": "x"}), "not a valid member name"),
    (
        "a.epub",
        write_zip({"META-INF/container.xml": "x", "a.xhtml": '<!DOCTYPE h [<!ENTITY a "b">]><p>x</p>'}),
        "entities",
    ),
    ("a.docx", docx("<!DOCTYPE a><w:p/>"), "not well-formed XML"),
    ("a.pptx", docx("<w:p/>"), "not a presentation"),
]


@pytest.mark.parametrize(("name", "content", "message"), HOSTILE_ARCHIVES)
def test_hostile_archives_are_rejected(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        run_document_job(document_job(tmp_path / name, tmp_path / f"out-{name}"), identity)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 3000), st.binary(min_size=1, max_size=4))
def test_damaged_archives_are_read_or_rejected(tmp_path, offset, change):
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
def test_language_of_a_book_becomes_the_target_language(tmp_path, declared):
    members = read_zip(epub("<p>One</p>"))
    members["book.opf"] = members["book.opf"].replace(b"<dc:title>", declared.encode() + b"<dc:title>")
    members["book.opf"] = members["book.opf"].replace(b"xmlns:dc", b'xmlns:d="x" xmlns:dc')
    options = DocumentOptions(source="en", target="de")
    changed = read_zip(run(tmp_path, "a.epub", write_zip(members), swap_case, options))
    expected = declared.replace("en-US", "de").replace(">en<", ">de<")
    assert expected in changed["book.opf"].decode()
