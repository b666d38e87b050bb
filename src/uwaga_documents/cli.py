"""``uwaga translate-file``: translate a document from file to file."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uwaga.cli import options
from uwaga.cli.lines import DEMONSTRATION
from uwaga.cli.loading import load_for_sample
from uwaga.cli.memory_counts import MemoryCounts, print_memory_note
from uwaga.cli.option_groups import Group, option_groups
from uwaga.errors import DataError, SettingsError
from uwaga.languages.detection import AUTO
from uwaga.search.options import SearchOptions, SearchOverrides
from uwaga.settings.load_options import LoadOptions
from uwaga.translator.request import Request

if TYPE_CHECKING:
    from uwaga_documents import DocumentReport

MAX_PRINTED_DOUBTS = 5
"""Maximum number of doubtful translations that are printed."""
SAMPLE_TEXTS = 200
"""Maximum number of texts used to detect the language of a document."""

Document = Annotated[Path, typer.Argument(help="The document to translate.")]
Target = Annotated[
    Path,
    typer.Argument(
        help="The translated document, written atomically. Rerun the same command to resume an interrupted "
        "run."
    ),
]
FormatName = Annotated[
    str | None,
    typer.Option("--format", help="The format, such as markdown.", show_default="by file name"),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="Encoding of a text file that doesn't declare one.", show_default="utf-8"),
]
Keys = Annotated[
    str | None,
    typer.Option(
        help="For messages in JSON or YAML: only these keys, comma-separated: title,menu.*.",
        show_default="all",
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(help="For CSV and TSV: the columns to translate, comma-separated: title,description."),
]
Retranslate = Annotated[
    bool,
    typer.Option(
        "--retranslate", help="For PO and XLIFF: also retranslate entries that already have a translation."
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        help="File for all doubtful translations, tab-separated: file, place, text, translation, reasons.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an output file that exists.")]

RequestValues = Annotated[
    dict[str, Any], Group(Request, without=("format", "prefix", "ignore_tags", "on_error"))
]
Search = Annotated[
    SearchOverrides,
    Group(
        SearchOptions,
        without=("nbest", "attention", "entropy", "alignment"),
        help={"coverage": "Report every omitted word, which takes 3 to 16 times as long, or none"},
        unset={"coverage": "those that are not clearly aligned"},
    ),
]
Load = Annotated[LoadOptions, Group(LoadOptions, help=options.LOAD_HELP)]


EXAMPLES = """
        uwaga translate-file README.md README.de.md

        uwaga translate-file report.docx bericht.docx --from en --to de

        uwaga translate-file messages.pot de.po --to de

        uwaga translate-file en.json de.json --keys title,menu.*

        uwaga translate-file manual.html anleitung.html --glossary terms.tsv

        uwaga translate-file manual.html handbuch.html --memory memory.uwm --threshold 85

        uwaga translate-file de.po complete.po --memory de.po    # consistent with its translated entries

        uwaga translate-file products.csv produkte.csv --columns title,description

        uwaga translate-file report.docx bericht.docx --report doubts.tsv
"""


@option_groups
@options.examples(EXAMPLES)
def translate_file(
    document: Document,
    output: Target,
    format_: FormatName = None,
    encoding: Encoding = None,
    keys: Keys = None,
    columns: Columns = None,
    retranslate: Retranslate = False,
    report: Report = None,
    force: Force = False,
    model: options.Models = None,
    via: options.Via = None,
    *,
    request: RequestValues,
    search: Search,
    load: Load,
) -> None:
    """Translate a document, preserving layout, markup and placeholders.

    txt, Markdown, HTML, SRT, VTT, PO, XLIFF, Android and Apple strings, JSON, ARB and YAML messages, CSV,
    docx, pptx, xlsx, OpenDocument and EPUB.
    """
    from uwaga.cli.meter import texts_meter
    from uwaga_documents import DocumentOptions, document_job, job_texts
    from uwaga_documents.translating import translate_file as run

    # Errors of the document are reported before a model is loaded.
    source = load.source
    document_options = DocumentOptions(
        encoding, _split_names(keys), _split_names(columns), retranslate, source, load.target, format_
    )
    job = document_job(document, output, document_options)
    for path in (output, report):
        if path is not None and path.exists() and not force:
            raise SettingsError(f"{path}: already exists; add --force to replace it, or name another file")
    if report is not None:
        _check_report(report, document, output)
    sample: list[str] = []
    if source == AUTO:
        sample = list(islice(job_texts(job), SAMPLE_TEXTS))
        document_options = replace(document_options, source=None)
    translator, is_bundled = load_for_sample(model, load, via, sample, is_document=True)
    if is_bundled:
        typer.echo(DEMONSTRATION, err=True)
    search.setdefault("coverage", "unaligned")
    template = translator.prepare(Request("", search=search, **request))
    print_memory_note(template.memory)
    with texts_meter(document.name) as progress:
        result = run(
            translator,
            document,
            output,
            options=document_options,
            request=template,
            progress=progress,
        )
    _report_doubts(result)
    if report is not None:
        _write_report(report, output, result)
    _report_untranslated(result)
    if request.get("memory") is not None:
        memory = MemoryCounts()
        memory.add(result.memory)
        typer.echo(memory.line(result.texts - result.resumed), err=True)
    resumed = f", {result.resumed} of them in an earlier run" if result.resumed else ""
    if sys.stderr.isatty() or resumed:
        typer.echo(f"{output}: {result.texts} texts{resumed}", err=True)


def _check_report(report: Path, document: Path, output: Path) -> None:
    """Check that the report can be written, before the document is translated."""
    if report.resolve() in (document.resolve(), output.resolve()):
        raise SettingsError(
            f"{report}: is the document or its translation; choose another file for the report"
        )
    if report.is_dir():
        raise DataError(f"{report}: cannot be written: it is a folder")
    if not report.resolve().parent.is_dir():
        raise DataError(f"{report}: cannot be written: there is no folder {report.resolve().parent}")


def _write_report(path: Path, output: Path, result: DocumentReport) -> None:
    """Write all doubtful translations to a tab-separated file."""
    from uwaga.files.atomic import new_file

    rows = [("file", "place", "text", "translation", "reasons")]
    rows += [
        (str(output), doubt.location, doubt.text, doubt.translation, "; ".join(doubt.reasons))
        for doubt in result.doubtful
    ]
    with new_file(path) as file:
        for row in rows:
            file.write(("\t".join(" ".join(field.split()) for field in row) + "\n").encode())
    if result.resumed:
        typer.echo(f"note: {path}: does not cover the {result.resumed} texts of an earlier run", err=True)


def _report_doubts(report: DocumentReport) -> None:
    """Print the number of doubtful translations, and the first few of them with the reasons."""
    from uwaga.results.translation import shorten

    if not report.doubtful:
        return
    count, unlisted_count = len(report.doubtful), len(report.doubtful) - MAX_PRINTED_DOUBTS
    typer.echo(f"warning: {count} of {report.texts} translations may be wrong:", err=True)
    for doubt in report.doubtful[:MAX_PRINTED_DOUBTS]:
        location = f"text {doubt.number}, {doubt.location}"
        typer.echo(f"  {location}, {shorten(doubt.text)!r}: {'; '.join(doubt.reasons)}", err=True)
    if unlisted_count > 0:
        typer.echo(f"  and {unlisted_count} more; --report FILE writes all of them", err=True)


def _report_untranslated(report: DocumentReport) -> None:
    """Print the number of texts that were not translated, with the reasons."""
    if not report.texts:
        typer.echo("warning: there is no text to translate", err=True)
    if report.untranslated:
        reasons = ", ".join(f"{count} {reason}" for reason, count in report.untranslated.items())
        count = sum(report.untranslated.values())
        typer.echo(f"{count} text{'s' if count > 1 else ''} left as in the document: {reasons}", err=True)


def _split_names(names: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (names or "").split(",") if name.strip())
