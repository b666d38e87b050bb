from pathlib import Path

import pytest
from document_laws import identity, swap_case

from uwaga.errors import DataError, RunInUseError, SettingsError
from uwaga.files.resume import journal_path, open_journal
from uwaga_documents import DocumentOptions, document_job, find_format, run_document_job

TEXT = (
    "\n\n".join(f"Paragraph number {'abcdefghij'[index % 10]}{index} of many." for index in range(60)) + "\n"
)


class InterruptedModel:
    """A model that is interrupted after a number of texts."""

    def __init__(self, limit):
        self.remaining, self.translated = limit, 0

    def __call__(self, inlines):
        if self.remaining < len(inlines):
            raise KeyboardInterrupt
        self.remaining -= len(inlines)
        self.translated += len(inlines)
        return swap_case(inlines)


def job(tmp_path, batch=7, **settings):
    default = document_job(tmp_path / "a.txt", tmp_path / "b.txt", settings=settings)
    return type(default)(
        default.source, default.target, default.format, default.options, default.settings, batch
    )


@pytest.fixture
def document(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    return tmp_path


@pytest.mark.parametrize("limit", [0, 7, 20, 59])
def test_interrupted_job_resumes_without_repeating_texts(document, limit):
    interrupted = InterruptedModel(limit)
    with pytest.raises(KeyboardInterrupt):
        run_document_job(job(document), interrupted)
    assert not (document / "b.txt").exists()
    assert journal_path(document / "b.txt").exists() == (interrupted.translated > 0)
    resumed = InterruptedModel(1000)
    report = run_document_job(job(document, batch=11), resumed)
    assert (
        report.texts == 60
        and report.resumed == interrupted.translated
        and resumed.translated == 60 - interrupted.translated
    )
    assert (document / "b.txt").read_text() == TEXT.swapcase()
    assert sorted(path.name for path in document.iterdir()) == ["a.txt", "b.txt"]


def test_texts_missing_from_a_truncated_journal_are_translated_again(document):
    with pytest.raises(KeyboardInterrupt):
        run_document_job(job(document), InterruptedModel(21))
    path = journal_path(document / "b.txt")
    content = path.read_bytes()
    for cut in (1, 30, len(content) // 2, len(content) - 10):
        path.write_bytes(content[:-cut])
        resumed = InterruptedModel(1000)
        run_document_job(job(document), resumed)
        assert (document / "b.txt").read_text() == TEXT.swapcase() and resumed.translated >= 46
        (document / "b.txt").unlink()


def test_resuming_with_changed_input_or_settings_is_rejected(document):
    with pytest.raises(KeyboardInterrupt):
        run_document_job(job(document, model="one"), InterruptedModel(20))
    with pytest.raises(SettingsError, match="model = 'one', but is now requested with 'two'"):
        run_document_job(job(document, model="two"), swap_case)
    (document / "a.txt").write_text(TEXT + "More.\n")
    with pytest.raises(SettingsError, match=r"b\.txt: the job was started with input = "):
        run_document_job(job(document, model="one"), swap_case)
    assert not (document / "b.txt").exists()


def test_failed_translation_preserves_the_existing_output_file(document):
    (document / "b.txt").write_text("old")

    def failing(inlines):
        raise DataError("no")

    with pytest.raises(DataError, match="no"):
        run_document_job(job(document), failing)
    assert (document / "b.txt").read_text() == "old"
    assert sorted(path.name for path in document.iterdir()) == ["a.txt", "b.txt"]


def test_concurrent_translation_of_the_same_document_is_rejected(document):
    with (
        open_journal(document / "b.txt", {"input": "x"}),
        pytest.raises(RunInUseError, match="another process"),
    ):
        run_document_job(job(document), swap_case)


def test_repeated_texts_are_translated_once_and_counted(document):
    translated, reports = [], []
    (document / "a.txt").write_text("Same.\n\nSame.\n\n12\n\nOther.\n")

    def model(inlines):
        translated.extend(inlines)
        return swap_case(inlines)

    run_document_job(job(document), model, lambda completed, total: reports.append((completed, total)))
    assert translated == [("Same.",), ("Other.",)] and reports[-1] == (3, 3)
    assert (document / "b.txt").read_text() == "sAME.\n\nsAME.\n\n12\n\noTHER.\n"


def test_invalid_arguments_are_rejected_early(document):
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
    with pytest.raises(SettingsError, match="no document format is named"):
        document_job(document / "a.txt", document / "b", DocumentOptions(format="doc"))
    with pytest.raises(DataError, match="no such file"):
        document_job(document / "none.txt", document / "b.txt")
    with pytest.raises(DataError, match="no folder"):
        document_job(document / "a.txt", document / "none" / "b.txt")
    (document / "a.csv").write_text("a\nb\n")
    with pytest.raises(SettingsError, match="--columns"):
        document_job(document / "a.csv", document / "b.csv")


def test_file_name_determines_the_format():
    assert find_format(Path("values/strings.xml")).name == "android"
    assert find_format(Path("a.STRINGS")).name == "strings" and find_format(Path("b.pot")).name == "po"
    with pytest.raises(SettingsError, match="unknown file type"):
        find_format(Path("sharedStrings.xml"))


def test_undecodable_bytes_and_unencodable_characters_are_reported(document):
    (document / "a.txt").write_bytes("Müll".encode("latin-1"))
    with pytest.raises(DataError, match="line 1, byte 2 of the file is not valid utf-8"):
        run_document_job(document_job(document / "a.txt", document / "b.txt"), identity)
    options = DocumentOptions(encoding="latin-1")
    with pytest.raises(DataError, match="'Ł', which"):
        run_document_job(
            document_job(document / "a.txt", document / "b.txt", options=options), lambda all_: [("Ł",)]
        )
    assert not (document / "b.txt").exists()
