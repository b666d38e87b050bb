from pathlib import Path

import pytest
from office_samples import docx, pptx, read_zip, write_zip, xlsx

from uwaga.cli.main import main


def run(*arguments):
    with pytest.raises(SystemExit) as exit_info:
        main([str(argument) for argument in arguments])
    return exit_info.value.code or 0


def test_markdown_document_keeps_its_markup(tmp_path, capsys):
    source, target = tmp_path / "a.md", tmp_path / "b.md"
    source.write_text("# A dog\n\nTwo **men** run with `x = 1` here.\n\n    code\n")
    assert run("translate-file", source, target) == 0, capsys.readouterr().err
    translation = target.read_text()
    assert (
        translation.startswith("# ")
        and translation.count("**") == 2
        and "`x = 1`" in translation
        and translation.endswith("\n\n    code\n")
    )
    assert translation != source.read_text() and sorted(path.name for path in tmp_path.iterdir()) == [
        "a.md",
        "b.md",
    ]


def test_existing_output_is_replaced_only_with_force(tmp_path, capsys):
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("A dog sleeps.\n")
    target.write_text("kept")
    assert run("translate-file", source, target) == 1
    error = capsys.readouterr().err
    assert str(target) in error and "--force" in error and target.read_text() == "kept"
    assert run("translate-file", source, target, "--force") == 0
    assert "demonstration" in capsys.readouterr().err
    assert "Hund" in target.read_text()


def test_placeholders_are_escaped_in_a_translated_document(tmp_path):
    source, target = tmp_path / "a.html", tmp_path / "b.html"
    source.write_text("<p>Two men read <b>http://x.org/?a=1&amp;b=2</b> and {a&lt;b}.</p>\n")
    assert run("translate-file", source, target) == 0
    translation = target.read_text()
    assert "<b>http://x.org/?a=1&amp;b=2</b>" in translation and "&b" not in translation


def test_source_language_is_detected(tmp_path, capsys):
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("The weather is nice today, and we walk along the river.\n")
    assert run("translate-file", source, target, "--from", "auto") == 0
    assert "note: from en" in capsys.readouterr().err and target.exists()
    source.write_text("Das Wetter ist heute schön, und wir gehen am Fluss entlang.\n")
    assert run("translate-file", source, tmp_path / "c.txt", "--from", "auto") == 1
    assert "de" in capsys.readouterr().err and not (tmp_path / "c.txt").exists()


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.xyz", "x", (), "unknown file type"),
        ("a.csv", "a,b\n", (), "--columns"),
        ("a.json", "{", (), "line 1, column 2"),
        ("a.docx", "x", (), "zip archive"),
        ("a.txt", "x", ("--format", "doc"), "no document format is named"),
        ("a.txt", "x", ("--encoding", "klingon"), "encoding"),
    ],
)
def test_translate_file_errors_are_reported_without_a_traceback(
    tmp_path, capsys, name, content, options, message
):
    (tmp_path / name).write_text(content)
    assert run("translate-file", tmp_path / name, tmp_path / "out", *options) == 1
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_doubtful_texts_are_reported(tmp_path, capsys):
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    number = "It costs 1,250,000 dollars."
    omitted = "The meeting starts at 9:30 on Monday."
    source.write_text("\n\n".join(["I want to buy a car.", number, omitted, number]) + "\n")
    for options in ((), ("--force", "--coverage")):
        assert run("translate-file", source, target, *options) == 0
        report = capsys.readouterr().err
        assert "3 of 4" in report and "text 1" not in report
        assert "text 2" in report and "text 4" in report and "'1,250,000'" in report
        assert "text 3" in report and "'Monday'" in report
    assert run("translate-file", source, target, "--force", "--no-coverage") == 0
    report = capsys.readouterr().err
    assert "2 of 4" in report and "'1,250,000'" in report and "text 3" not in report


def test_report_lists_doubtful_texts_with_their_positions(tmp_path, capsys):
    source, target, report = (tmp_path / name for name in ("a.txt", "b.txt", "doubts.tsv"))
    number = "It costs 1,250,000 dollars."
    source.write_text("\n\n".join(["I want to buy a car.", *[number] * 7]) + "\n")
    assert run("translate-file", source, target, "--report", report) == 0
    printed = capsys.readouterr().err
    header, *rows = [line.split("\t") for line in report.read_text().splitlines()]
    assert header == ["file", "place", "text", "translation", "reasons"]
    assert "and 2 more; --report" in printed
    assert [place for _, place, *_ in rows] == [f"line {line}" for line in range(3, 16, 2)]
    lines = target.read_text().splitlines()
    for file, place, text, translation, reasons in rows:
        assert file == str(target) and lines[int(place.removeprefix("line ")) - 1] == translation
        assert text == number and "'1,250,000'" in reasons
    assert run("translate-file", source, target, "--force", "--report", target) == 1
    assert run("translate-file", source, tmp_path / "c.txt", "--report", report) == 1
    assert run("translate-file", source, tmp_path / "c.txt", "--report", tmp_path / "no" / "x") == 1
    assert run("translate-file", source, tmp_path / "c.txt", "--report", tmp_path) == 1


SHEET = (
    '<worksheet xmlns="{ns}"><sheetData><row r="1"><c r="A1"><v>5</v></c><c r="C1" t="s"><v>1</v></c></row>'
    '<row r="2"><c r="B2" t="inlineStr"><is><t>{text}</t></is></c></row></sheetData></worksheet>'
)


def workbook(text: str) -> bytes:
    namespace = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    relation = '<Relationship Id="rId7" Target="worksheets/sheet1.xml"/>'
    members = read_zip(xlsx(f"<si><t>Hello</t></si><si><t>{text}</t></si>"))
    members["xl/workbook.xml"] = '<workbook><sheet name="A &amp; B" r:id="rId7"/></workbook>'
    members["xl/_rels/workbook.xml.rels"] = f"<Relationships>{relation}</Relationships>"
    members["xl/worksheets/sheet1.xml"] = SHEET.format(ns=namespace, text=text)
    return write_zip(members)


PARAGRAPH = "<w:p><w:r><w:t>{}</w:t></w:r></w:p>"


@pytest.mark.parametrize(
    ("name", "build", "expected"),
    [
        ("a.pptx", lambda text: pptx(f"<a:p/><a:p><a:r><a:t>{text}</a:t></a:r></a:p>"),
         {"slide 1, paragraph 2"}),
        ("a.docx", lambda text: docx(f"{PARAGRAPH.format('A dog.')}<w:p/>{PARAGRAPH.format(text)}"),
         {"word/document.xml, paragraph 3"}),
        ("a.xlsx", workbook, {"A & B!C1", "A & B!B2"}),
        ("a.html", lambda text: f"<p>A dog.</p>\n\n<p>{text}</p>".encode(), {"line 3"}),
    ],
)  # fmt: skip
def test_report_locates_doubtful_texts_by_paragraph_or_cell(tmp_path, name, build, expected):
    source, target, report = (tmp_path / file for file in (name, f"b{Path(name).suffix}", "doubts.tsv"))
    source.write_bytes(build("A man wearing jersey number 39 is playing hockey."))
    assert run("translate-file", source, target, "--report", report) == 0
    places = [line.split("\t")[1] for line in report.read_text().splitlines()]
    assert places[0] == "place" and set(places[1:]) == expected


def test_texts_left_untranslated_are_counted_by_reason(tmp_path, capsys):
    source = tmp_path / "a.html"
    source.write_text("<p>Two men run.</p><pre>code</pre><pre>more code</pre><p translate=no>Acme</p>")
    assert run("translate-file", source, tmp_path / "b.html") == 0
    expected = "3 texts left as in the document: 2 code and forms, 1 marked as not to be translated"
    assert expected in capsys.readouterr().err
    source.write_text("<pre>code</pre>")
    assert run("translate-file", source, tmp_path / "c.html") == 0
    error = capsys.readouterr().err
    assert "there is no text to translate" in error and "1 text left as in the document" in error
