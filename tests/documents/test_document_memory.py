"""Reading a document takes at most twenty times the size of its unpacked text, or raises an error."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from uwaga.errors import DataError, UwagaError
from uwaga_documents import DocumentOptions, document_job, job_texts
from uwaga_documents.job import run_document_job

MIB = 1 << 20
TYPES = {"[Content_Types].xml": "<Types/>", "_rels/.rels": "<Relationships/>"}
WORD = '<w:document xmlns:w="w"><w:body>{}</w:body></w:document>'
ODT = '<o:d xmlns:o="o" xmlns:text="t">{}</o:d>'
MEMBERS = {
    ".docx": ("word/document.xml", WORD, TYPES),
    ".pptx": ("ppt/slides/slide1.xml", '<p:s xmlns:p="p" xmlns:a="a">{}</p:s>',
        {**TYPES, "ppt/presentation.xml": ""}),
    ".xlsx": ("xl/sharedStrings.xml", "<sst>{}</sst>", {**TYPES, "xl/workbook.xml": "<workbook/>"}),
    ".odt": ("content.xml", ODT, {"META-INF/manifest.xml": ""}),
    ".epub": ("a.xhtml", "<html><body>{}</body></html>", {"META-INF/container.xml": ""}),
    ".xlf": ("", '<xliff version="1.2"><file><body>{}</body></file></xliff>', {}),
    ".html": ("", "<body>{}", {}),
}  # fmt: skip
RUN = "<w:r><w:t>1</w:t></w:r>"
BOLD = "<w:r><w:rPr><w:b/></w:rPr><w:t>b </w:t></w:r>"
UNIT = "<trans-unit><source>{}</source></trans-unit>"
TEXTS = {
    "runs": (".docx", "<w:p>{}</w:p>", RUN),
    "runs of words": (".docx", "<w:p>{}</w:p>", RUN.replace("1", "a ")),
    "runs in two formats": (".docx", "<w:p>{}</w:p>", RUN.replace("1", "a ") + BOLD),
    "line breaks": (".docx", "<w:p>{}</w:p>", "<w:r><w:br/></w:r>" + RUN.replace("1", "a")),
    "links": (".docx", "<w:p>{}</w:p>", f"<w:hyperlink>{RUN}</w:hyperlink>"),
    "paragraphs": (".docx", "{}", "<w:p><w:r><w:t>a</w:t></w:r></w:p>"),
    "runs of a slide": (".pptx", "<a:p>{}</a:p>", "<a:r><a:t>1</a:t></a:r>"),
    "runs of a cell": (".xlsx", "<si>{}</si>", "<r><t>1</t></r>"),
    "cells": (".xlsx", "{}", "<si><t>a</t></si>"),
    "spans": (".odt", "<text:p>{}</text:p>", "<text:span>1</text:span>"),
    "spans of words": (".odt", "<text:p>{}</text:p>", "<text:span>a </text:span>"),
    "tags of a book": (".epub", "<p>{}</p>", "<b>1</b>"),
    "paragraphs of a book": (".epub", "{}", "<p>a</p>"),
    "tags": (".html", "<p>{}</p>", "<b>1</b>"),
    "empty tags": (".html", "<p>{}</p>", "<br>"),
    "untranslated tags": (".html", "<p>{}</p>", "<kbd>1</kbd>"),
    "cells of a table": (".html", "<table>{}</table>", "<td>1"),
    "languages": (".html", "<p lang=en>{}</p>", "<p lang=en>a"),
    "codes": (".xlf", UNIT, "<g>1</g>"),
    "units": (".xlf", "{}", UNIT.format("a")),
}


def write(folder: Path, suffix: str, text: str) -> Path:
    name, template, other_members = MEMBERS[suffix]
    path = folder / f"a{suffix}"
    if not name:
        path.write_text(template.format(text))
        return path
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in {**other_members, name: template.format(text)}.items():
            archive.writestr(member, content)
    return path


def read(path: Path) -> int:
    """Return the number of texts of a document."""
    options = DocumentOptions(source="en", target="de")
    return sum(1 for _ in job_texts(document_job(path, path.with_stem("b"), options=options)))


CHILD_PROGRAM = """
import gc, resource, sys
from pathlib import Path
from uwaga_documents import DocumentOptions, document_job, job_texts
from uwaga.errors import DataError

for path in map(Path, sys.argv[1:]):
    job = document_job(path, path.with_stem("b"), options=DocumentOptions(source="en", target="de"))
    try:
        answer = sum(1 for _ in job_texts(job))
    except DataError as error:
        assert str(error).startswith(str(path)) and "divide" in str(error), error
        answer = "refused"
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(path.parent.name, answer, peak, sep=",")
"""
MODULE_MEMORY_MIB = 8
"""Memory use in MiB of the imported modules."""


@pytest.mark.release
def test_memory_use_for_long_texts_is_limited(tmp_path):
    paths = []
    for name, (suffix, template, repeated) in {"nothing": (".html", "{}", "a"), **TEXTS}.items():
        (folder := tmp_path / name).mkdir()
        size = MIB // 2 if paths else 1
        paths.append(str(write(folder, suffix, template.format(repeated * (size // len(repeated))))))
    process = subprocess.run(
        [sys.executable, "-c", CHILD_PROGRAM, *paths], capture_output=True, text=True, check=True
    )
    baseline, *results = [line.split(",") for line in process.stdout.splitlines()]
    assert len(results) == len(TEXTS)
    baseline_memory = int(baseline[-1])
    excessive = [line for line in results if int(line[-1]) - baseline_memory > 10 + MODULE_MEMORY_MIB]
    assert not excessive, (baseline_memory, excessive)


@pytest.mark.parametrize(
    ("suffix", "before", "after"),
    [
        (".docx", "<w:p><w:r><w:t>a</w:t></w:r><w:r><w:pict>", "</w:pict></w:r></w:p>"),
        (".odt", "<text:p>a<text:note>", "</text:note></text:p>"),
    ],
)
def test_depth_of_nested_paragraphs_is_limited(tmp_path, suffix, before, after):
    assert read(write(tmp_path, suffix, before * 5 + after * 5)) == 5
    path = write(tmp_path, suffix, before * 60 + after * 60)
    with pytest.raises(DataError, match="nested paragraphs") as error:
        read(path)
    assert str(path) in str(error.value)


def test_archive_with_a_high_compression_ratio_is_rejected(tmp_path):
    path = write(tmp_path, ".docx", f"<w:p>{RUN * (24 * MIB // len(RUN))}</w:p>")
    with pytest.raises(DataError, match=r"'word/document.xml' would unpack from \d+ to \d+ bytes"):
        read(path)


def test_size_of_archive_members_is_limited(tmp_path):
    path = write(tmp_path, ".docx", "<w:p><w:r><w:t>Some words</w:t></w:r></w:p>")
    job = document_job(path, tmp_path / "b.docx", options=DocumentOptions(max_member_bytes=50))
    with pytest.raises(UwagaError, match=r"'word/document.xml' has \d+ bytes, more than 50; divide"):
        list(job_texts(job))


@pytest.mark.slow
def test_document_with_many_text_runs_is_translated(tmp_path):
    paragraph = "<w:p>" + "".join(f"<w:r><w:t>word {number} </w:t></w:r>" for number in range(50)) + "</w:p>"
    path = write(tmp_path, ".docx", paragraph * 500)
    job = document_job(path, tmp_path / "b.docx", options=DocumentOptions(max_member_bytes=1 << 24))
    report = run_document_job(job, lambda texts: [(str(text[0]).upper(),) for text in texts])
    assert report.texts == 500


def test_paragraph_with_many_lines_is_read(tmp_path: Path):
    lines = "".join(f"Line {number}.<br>" for number in range(26_000))
    assert read(write(tmp_path, ".html", f"<p>{lines}</p>")) > 0


def test_paragraph_with_many_text_boxes_is_read(tmp_path: Path):
    run = "<w:r><w:rPr><w:b/><w:i/><w:sz w:val='20'/></w:rPr><w:t>word {} </w:t></w:r>"

    def anchor(number: int) -> str:
        box = f"<w:txbxContent><w:p>{run.format(number) * 50}</w:p></w:txbxContent>"
        choices = f"<mc:Choice>{box}</mc:Choice><mc:Fallback>{box}</mc:Fallback>"
        return f"<w:r><mc:AlternateContent>{choices}</mc:AlternateContent></w:r>"

    boxes = "".join(map(anchor, range(60)))
    assert read(write(tmp_path, ".docx", f"<w:p>{boxes}{run}</w:p>")) > 60
