from pathlib import Path

import pytest
from document_laws import swapped, unchanged

from uwaga.documents import DocumentOptions, document_formats, document_job, find_format, run_document_job
from uwaga.errors import DataError, RunInUseError, SettingsError
from uwaga.files.resume import journal_path, open_journal

TEXT = "\n\n".join(f"Paragraph number {'abcdefghij'[at % 10]}{at} of many." for at in range(60)) + "\n"


class Stopping:
    """A model that is killed after so many texts."""

    def __init__(self, after):
        self.left, self.seen = after, 0

    def __call__(self, inlines):
        if self.left < len(inlines):
            raise KeyboardInterrupt
        self.left -= len(inlines)
        self.seen += len(inlines)
        return swapped(inlines)


def job(tmp_path, batch=7, **settings):
    one = document_job(tmp_path / "a.txt", tmp_path / "b.txt", settings=settings)
    return type(one)(one.source, one.target, one.format, one.options, one.settings, batch)


@pytest.fixture
def document(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    return tmp_path


@pytest.mark.parametrize("after", [0, 7, 20, 59])
def test_goes_on_where_it_stopped(document, after):
    stopping = Stopping(after)
    with pytest.raises(KeyboardInterrupt):
        run_document_job(job(document), stopping)
    assert not (document / "b.txt").exists()
    assert journal_path(document / "b.txt").exists() == (stopping.seen > 0)
    rest = Stopping(1000)
    report = run_document_job(job(document, batch=11), rest)
    assert report.texts == 60 and report.resumed == stopping.seen and rest.seen == 60 - stopping.seen
    assert (document / "b.txt").read_text() == TEXT.swapcase()
    assert sorted(one.name for one in document.iterdir()) == ["a.txt", "b.txt"]


def test_what_was_half_written_is_done_again(document):
    with pytest.raises(KeyboardInterrupt):
        run_document_job(job(document), Stopping(21))
    path = journal_path(document / "b.txt")
    whole = path.read_bytes()
    for cut in (1, 30, len(whole) // 2, len(whole) - 10):
        path.write_bytes(whole[:-cut])
        rest = Stopping(1000)
        run_document_job(job(document), rest)
        assert (document / "b.txt").read_text() == TEXT.swapcase() and rest.seen >= 46
        (document / "b.txt").unlink()


def test_another_input_or_other_settings_are_refused(document):
    with pytest.raises(KeyboardInterrupt):
        run_document_job(job(document, model="one"), Stopping(20))
    with pytest.raises(SettingsError, match="model = 'one', and is now asked for with 'two'"):
        run_document_job(job(document, model="two"), swapped)
    (document / "a.txt").write_text(TEXT + "More.\n")
    with pytest.raises(SettingsError, match=r"b\.txt: was started with input = "):
        run_document_job(job(document, model="one"), swapped)
    assert not (document / "b.txt").exists()


def test_a_failure_leaves_the_old_file(document):
    (document / "b.txt").write_text("old")

    def failing(inlines):
        raise DataError("no")

    with pytest.raises(DataError, match="no"):
        run_document_job(job(document), failing)
    assert (document / "b.txt").read_text() == "old"
    assert sorted(one.name for one in document.iterdir()) == ["a.txt", "b.txt"]


def test_one_process_at_a_time(document):
    with (
        open_journal(document / "b.txt", {"input": "x"}),
        pytest.raises(RunInUseError, match="another process"),
    ):
        run_document_job(job(document), swapped)


def test_progress_and_equal_texts_once(document):
    seen, told = [], []
    (document / "a.txt").write_text("Same.\n\nSame.\n\n12\n\nOther.\n")

    def model(inlines):
        seen.extend(inlines)
        return swapped(inlines)

    run_document_job(job(document), model, lambda done, total: told.append((done, total)))
    assert seen == [("Same.",), ("Other.",)] and told[-1] == (3, 3)
    assert (document / "b.txt").read_text() == "sAME.\n\nsAME.\n\n12\n\noTHER.\n"


def test_what_cannot_be_is_said_before_anything(document):
    with pytest.raises(SettingsError, match="is the document itself"):
        document_job(document / "a.txt", document / "a.txt")
    with pytest.raises(DataError, match="no such file"):
        document_job(document / "a.xyz", document / "b")
    (document / "a.xyz").write_text("a")
    with pytest.raises(SettingsError, match="unknown file type"):
        document_job(document / "a.xyz", document / "b")
    for name in ("b.pdf", "b.docx"):
        with pytest.raises(SettingsError, match=r"name it b\.txt"):
            document_job(document / "a.txt", document / name)
    with pytest.raises(SettingsError, match="unknown document format"):
        document_job(document / "a.txt", document / "b", "doc")
    with pytest.raises(DataError, match="no such file"):
        document_job(document / "none.txt", document / "b.txt")
    with pytest.raises(DataError, match="no folder"):
        document_job(document / "a.txt", document / "none" / "b.txt")
    (document / "a.csv").write_text("a\nb\n")
    with pytest.raises(SettingsError, match="--columns"):
        document_job(document / "a.csv", document / "b.csv")


def test_a_name_says_what_a_file_is():
    assert find_format(Path("values/strings.xml")).name == "android"
    assert find_format(Path("a.STRINGS")).name == "strings" and find_format(Path("b.pot")).name == "po"
    with pytest.raises(SettingsError, match="unknown file type"):
        find_format(Path("sharedStrings.xml"))
    assert len(document_formats()) == 19


def test_a_character_that_the_encoding_lacks_is_named(document):
    (document / "a.txt").write_bytes("Müll".encode("latin-1"))
    with pytest.raises(DataError, match="line 1, byte 2 of the file is not valid utf-8"):
        run_document_job(document_job(document / "a.txt", document / "b.txt"), unchanged)
    options = DocumentOptions(encoding="latin-1")
    with pytest.raises(DataError, match="'Ł', which"):
        run_document_job(
            document_job(document / "a.txt", document / "b.txt", options=options), lambda all_: [("Ł",)]
        )
    assert not (document / "b.txt").exists()
