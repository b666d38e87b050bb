import pytest
from office_samples import pptx

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


def test_force_option_replaces_output(tmp_path, capsys):
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("A dog sleeps.\n")
    target.write_text("kept")
    assert run("translate-file", source, target) == 1
    error = capsys.readouterr().err
    assert str(target) in error and "--force" in error and target.read_text() == "kept"
    assert run("translate-file", source, target, "--force") == 0
    assert "demonstration" in capsys.readouterr().err
    assert "Hund" in target.read_text()


def test_placeholders_are_escaped(tmp_path):
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
    ("name", "content", "options", "says"),
    [
        ("a.xyz", "x", (), "unknown file type"),
        ("a.csv", "a,b\n", (), "--columns"),
        ("a.json", "{", (), "line 1, column 2"),
        ("a.docx", "x", (), "zip archive"),
        ("a.txt", "x", ("--format", "doc"), "no document format is named"),
        ("a.txt", "x", ("--encoding", "klingon"), "encoding"),
    ],
)
def test_errors_are_reported(tmp_path, capsys, name, content, options, says):
    (tmp_path / name).write_text(content)
    assert run("translate-file", tmp_path / name, tmp_path / "out", *options) == 1
    error = capsys.readouterr().err
    assert says in error and "Traceback" not in error
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_doubtful_texts_are_reported(tmp_path, capsys):
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    number = "A man wearing jersey number 39 is playing hockey."
    omitted = "The meeting starts at 9:30 on Monday."
    source.write_text("\n\n".join(["I want to buy a car.", number, omitted, number]) + "\n")
    for options in ((), ("--force", "--coverage")):
        assert run("translate-file", source, target, *options) == 0
        report = capsys.readouterr().err
        assert "3 of 4" in report and "text 1" not in report
        assert "text 2" in report and "text 4" in report and "'39'" in report
        assert "text 3" in report and "'Monday'" in report
    assert run("translate-file", source, target, "--force", "--no-coverage") == 0
    report = capsys.readouterr().err
    assert "2 of 4" in report and "'39'" in report and "text 3" not in report


def test_report_lists_doubtful_texts_with_their_positions(tmp_path, capsys):
    source, target, report = (tmp_path / name for name in ("a.txt", "b.txt", "doubts.tsv"))
    number = "A man wearing jersey number 39 is playing hockey."
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
        assert text == number and "'39'" in reasons
    assert run("translate-file", source, target, "--force", "--report", target) == 1
    assert run("translate-file", source, tmp_path / "c.txt", "--report", report) == 1
    assert run("translate-file", source, tmp_path / "c.txt", "--report", tmp_path / "no" / "x") == 1
    assert run("translate-file", source, tmp_path / "c.txt", "--report", tmp_path) == 1


def test_doubtful_texts_in_archives_name_the_member_or_slide(tmp_path):
    number = "A man wearing jersey number 39 is playing hockey."
    source, target, report = (tmp_path / name for name in ("a.pptx", "b.pptx", "doubts.tsv"))
    source.write_bytes(pptx(f"<a:p><a:r><a:t>{number}</a:t></a:r></a:p>"))
    assert run("translate-file", source, target, "--report", report) == 0
    places = [line.split("\t")[1] for line in report.read_text().splitlines()]
    assert places == ["place", "slide 1"]


def test_untranslated_texts_are_reported(tmp_path, capsys):
    source = tmp_path / "a.html"
    source.write_text("<p>Two men run.</p><pre>code</pre><pre>more code</pre><p translate=no>Acme</p>")
    assert run("translate-file", source, tmp_path / "b.html") == 0
    expected = "3 texts left as in the document: 2 code and forms, 1 marked as untranslated"
    assert expected in capsys.readouterr().err
    source.write_text("<pre>code</pre>")
    assert run("translate-file", source, tmp_path / "c.html") == 0
    error = capsys.readouterr().err
    assert "there is no text to translate" in error and "1 text left as in the document" in error
