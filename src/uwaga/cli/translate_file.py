"""``uwaga translate-file``: translate a document from file to file."""

from __future__ import annotations

import sys
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from uwaga.cli import options as the
from uwaga.cli.chosen import load_for_texts
from uwaga.cli.lines import DEMONSTRATION, report_language
from uwaga.cli.option_groups import Group, option_groups
from uwaga.errors import SettingsError
from uwaga.languages.detection import AUTO
from uwaga.search.options import SearchOptions, SearchOverrides
from uwaga.settings.load_options import LoadOptions

SAMPLE = 200
"""Number of texts from which the language of a document is detected."""

Document = Annotated[Path, typer.Argument(help="The document to translate.", show_default=False)]
Target = Annotated[
    Path,
    typer.Argument(
        help="The translated document, written atomically. Rerun the same command to resume an interrupted "
        "run.",
        show_default=False,
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
    typer.Option(
        help="For CSV and TSV: the columns to translate, comma-separated: title,description.",
        show_default=False,
    ),
]
Retranslate = Annotated[
    bool,
    typer.Option(
        "--retranslate", help="For PO and XLIFF: also retranslate entries that already have a translation."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an output file that exists.")]
Placeholders = Annotated[
    bool,
    typer.Option("--placeholders/--no-placeholders", help="Keep {names}, %s, URLs etc. unchanged."),
]

Search = Annotated[
    SearchOverrides, Group(SearchOptions, without=("nbest", "attention", "entropy", "alignment"))
]
Load = Annotated[LoadOptions, Group(LoadOptions, help=the.LOAD_HELP)]


EXAMPLES = """
        uwaga translate-file README.md README.de.md

        uwaga translate-file report.docx bericht.docx --from en --to de

        uwaga translate-file messages.pot de.po --to de

        uwaga translate-file en.json de.json --keys title,menu.*

        uwaga translate-file manual.html anleitung.html --glossary terms.tsv

        uwaga translate-file products.csv produkte.csv --columns title,description
"""


@option_groups
@the.examples(EXAMPLES)
def translate_file(
    document: Document,
    output: Target,
    format_: FormatName = None,
    encoding: Encoding = None,
    keys: Keys = None,
    columns: Columns = None,
    retranslate: Retranslate = False,
    force: Force = False,
    placeholders: Placeholders = True,
    model: the.Models = None,
    via: the.Via = None,
    glossary: the.Glossary = None,
    glossary_mode: the.GlossaryMode = the.GlossaryChoice.forced,
    split: the.Split = the.SplitChoice.auto,
    *,
    search: Search,
    load: Load,
) -> None:
    """Translate a document, preserving layout, markup and placeholders.

    txt, Markdown, HTML, SRT, VTT, PO, XLIFF, Android and Apple strings, JSON, ARB and YAML messages, CSV,
    docx, pptx, xlsx, OpenDocument and EPUB.
    """
    from uwaga.cli.meter import texts_meter
    from uwaga.documents import DocumentOptions, document_job, job_texts
    from uwaga.documents.translating import translate_file as run
    from uwaga.translator.request import Request

    # Errors of the document are reported before a model is loaded.
    source = load.source
    document_options = DocumentOptions(
        encoding, _listed(keys), _listed(columns), retranslate, source, load.target
    )
    job = document_job(document, output, format_, document_options)
    if output.exists() and not force:
        raise SettingsError(f"{output}: exists; add --force to replace it, or name another file")
    if source == AUTO:
        source = report_language(list(islice(job_texts(job), SAMPLE)))
        document_options = replace(document_options, source=source)
    translator, bundled = load_for_texts(model, replace(load, source=source), via)
    if bundled:
        typer.echo(DEMONSTRATION, err=True)
    request = Request(
        "",
        glossary=glossary,
        glossary_mode=glossary_mode.value,
        split=split.value,
        placeholders=placeholders,
        search=search,
    )
    with texts_meter(document.name) as progress:
        report = run(
            translator,
            document,
            output,
            format=format_,
            options=document_options,
            request=request,
            progress=progress,
        )
    resumed = f", {report.resumed} of them in an earlier run" if report.resumed else ""
    if sys.stderr.isatty() or resumed:
        typer.echo(f"{output}: {report.texts} texts{resumed}", err=True)


def _listed(names: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in (names or "").split(",") if name.strip())
