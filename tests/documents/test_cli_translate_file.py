import pytest

from uwaga.cli.main import main


def run(*arguments):
    with pytest.raises(SystemExit) as exit_info:
        main([str(argument) for argument in arguments])
    return exit_info.value.code or 0


def test_markdown_document(tmp_path, capsys):
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


def test_force_replaces_output(tmp_path, capsys):
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
