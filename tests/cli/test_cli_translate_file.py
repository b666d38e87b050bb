import pytest

from uwaga.cli.main import main


def uwaga(*arguments):
    with pytest.raises(SystemExit) as left:
        main([str(one) for one in arguments])
    return left.value.code or 0


def test_a_document_in_another_language(tmp_path, capsys):
    source, target = tmp_path / "a.md", tmp_path / "b.md"
    source.write_text("# A dog\n\nTwo **men** run with `x = 1` here.\n\n    code\n")
    assert uwaga("translate-file", source, target) == 0, capsys.readouterr().err
    made = target.read_text()
    assert (
        made.startswith("# ")
        and made.count("**") == 2
        and "`x = 1`" in made
        and made.endswith("\n\n    code\n")
    )
    assert made != source.read_text() and sorted(one.name for one in tmp_path.iterdir()) == ["a.md", "b.md"]


def test_an_existing_file_is_replaced_only_with_force(tmp_path, capsys):
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("A dog sleeps.\n")
    target.write_text("kept")
    assert uwaga("translate-file", source, target) == 1
    error = capsys.readouterr().err
    assert str(target) in error and "--force" in error and target.read_text() == "kept"
    assert uwaga("translate-file", source, target, "--force") == 0
    assert "demonstration" in capsys.readouterr().err
    assert "Hund" in target.read_text()


def test_placeholders_are_written_as_the_format_writes_text(tmp_path):
    source, target = tmp_path / "a.html", tmp_path / "b.html"
    source.write_text("<p>Two men read <b>http://x.org/?a=1&amp;b=2</b> and {a&lt;b}.</p>\n")
    assert uwaga("translate-file", source, target) == 0
    made = target.read_text()
    assert "<b>http://x.org/?a=1&amp;b=2</b>" in made and "&b" not in made


def test_languages_are_told(tmp_path, capsys):
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("The weather is nice today, and we walk along the river.\n")
    assert uwaga("translate-file", source, target, "--from", "auto") == 0
    assert "note: from en" in capsys.readouterr().err and target.exists()
    source.write_text("Das Wetter ist heute schön, und wir gehen am Fluss entlang.\n")
    assert uwaga("translate-file", source, tmp_path / "c.txt", "--from", "auto") == 1
    assert "de" in capsys.readouterr().err and not (tmp_path / "c.txt").exists()


@pytest.mark.parametrize(
    ("name", "content", "options", "says"),
    [
        ("a.xyz", "x", (), "unknown file type"),
        ("a.csv", "a,b\n", (), "--columns"),
        ("a.json", "{", (), "line 1, column 2"),
        ("a.docx", "x", (), "zip archive"),
        ("a.txt", "x", ("--format", "doc"), "unknown document format"),
        ("a.txt", "x", ("--encoding", "klingon"), "encoding"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(tmp_path, capsys, name, content, options, says):
    (tmp_path / name).write_text(content)
    assert uwaga("translate-file", tmp_path / name, tmp_path / "out", *options) == 1
    error = capsys.readouterr().err
    assert says in error and "Traceback" not in error
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_doubtful_texts_are_reported_with_their_numbers(tmp_path, capsys):
    source, target = tmp_path / "a.txt", tmp_path / "b.txt"
    number = "A man wearing jersey number 39 is playing hockey."
    lost = "The meeting starts at 9:30 on Monday."
    source.write_text("\n\n".join(["I want to buy a car.", number, lost, number]) + "\n")
    for options in ((), ("--force", "--coverage")):
        assert uwaga("translate-file", source, target, *options) == 0
        report = capsys.readouterr().err
        assert "3 of 4" in report and "text 1" not in report
        assert "text 2" in report and "text 4" in report and "'39'" in report
        assert "text 3" in report and "'Monday'" in report
    assert uwaga("translate-file", source, target, "--force", "--no-coverage") == 0
    report = capsys.readouterr().err
    assert "2 of 4" in report and "'39'" in report and "text 3" not in report
