"""``uwaga clean``: filter a parallel corpus."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uwaga.errors import SettingsError

if TYPE_CHECKING:
    from uwaga_corpora.cleaning.report import CleaningReport
    from uwaga_corpora.cleaning.settings import CleaningSettings

MAX_CELL_WIDTH = 60

Inputs = Annotated[
    list[str] | None,
    typer.Argument(
        help="A TSV (source, tab, target), two aligned files, a Moses prefix, or TMX, Parquet or JSON Lines; "
        "plain or compressed, paths or URLs."
    ),
]
Outputs = Annotated[
    list[Path] | None,
    typer.Option(
        "--output",
        "-o",
        help="Output TSV, or a prefix if the input is a prefix. Repeat for two aligned files. Written "
        "atomically.",
    ),
]
Source = Annotated[str | None, typer.Option("--from", help="Code of the source language, such as en.")]
Target = Annotated[str | None, typer.Option("--to", help="Code of the target language.")]
File = Annotated[
    Path | None,
    typer.Option("--settings", help="YAML file with languages and rules."),
]
Rules = Annotated[
    str | None,
    typer.Option(
        help="Rules to apply, in this order, separated by commas; --explain lists them all.",
        show_default="all but markup and score",
    ),
]
SkippedRules = Annotated[str | None, typer.Option(help="Rules to skip, separated by commas.")]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="RULE.KEY=VALUE",
        help="Change one setting and enable its rule, such as `length.max_words=80`. Repeatable.",
    ),
]
Rejected = Annotated[
    Path | None,
    typer.Option(help="Write rejected pairs to this TSV: rule, line number, line."),
]
Reports = Annotated[
    list[Path] | None,
    typer.Option("--report", help="Write a report as .json or .html. Repeatable."),
]
Jobs = Annotated[int, typer.Option(min=0, help="Worker processes; 0 is one per core.")]
ExplainRules = Annotated[
    bool,
    typer.Option("--explain", help="Print a settings file that describes every rule, and exit."),
]


def clean(
    inputs: Inputs = None,
    output: Outputs = None,
    source: Source = None,
    target: Target = None,
    settings: File = None,
    rules: Rules = None,
    without: SkippedRules = None,
    set_: Changes = None,
    rejected: Rejected = None,
    report: Reports = None,
    jobs: Jobs = 0,
    explain: ExplainRules = False,
) -> None:
    r"""Filter bad sentence pairs out of a parallel corpus.

    Rules check lengths, scripts, languages, numbers, duplicates and more, cheap ones first; a pair is dropped
    by the first rule that rejects it. Remaining pairs are unchanged and in order. A table shows what each
    rule removed, with an example.

    **Examples**

        uwaga clean crawl.tsv.gz -o clean.tsv.gz --from en --to de

        uwaga clean crawl.en crawl.de -o clean.en -o clean.de --from en --to de --report report.html

        uwaga clean crawl.tsv -o clean.tsv --from en --to de --without language --set length.max_words=80

        uwaga clean crawl.tsv -o clean.tsv --rules duplicates --set duplicates.normalise=true

    Keep the half that models of both directions find most probable:

        uwaga clean crawl.tsv -o best.tsv --rules score --set score.forward=ende --set score.backward=deen \
            --set score.share=0.5

    Settings in a file:

        uwaga clean --explain --from en --to de > clean.yaml

        uwaga clean crawl.tsv -o clean.tsv --settings clean.yaml --rejected rejected.tsv
    """
    from uwaga.cli.meter import file_meter
    from uwaga.engine.cpu import usable_cores
    from uwaga_corpora.cleaning.clean import clean as clean_corpus
    from uwaga_corpora.cleaning.settings import settings_template

    cleaning = _settings(settings, (source, target), rules, without, set_ or [])
    if explain:
        typer.echo(settings_template(cleaning), nl=False)
        return
    if not inputs or not output:
        raise SettingsError("give the corpus and --output (or --explain)")
    _check_reports(report or [], [*map(Path, inputs), *output, *([rejected] if rejected else [])])
    _note_languages(cleaning)
    with file_meter([Path(name) for name in inputs], "cleaning") as progress:
        result = clean_corpus(inputs, output, cleaning, jobs or usable_cores(), rejected, progress)
    for path in report or []:
        _write_report(path, result)
    _print(result)


def _settings(
    path: Path | None,
    languages: tuple[str | None, str | None],
    rules: str | None,
    without: str | None,
    changes: list[str],
) -> CleaningSettings:
    """Return the settings of the file, overridden by the options."""
    from uwaga.settings import change_setting
    from uwaga_corpora.cleaning.settings import (
        CleaningSettings,
        check_rule_names,
        default_rules,
        load_cleaning,
    )

    values: dict[str, Any] = dict(load_cleaning(path)) if path else {}
    if any(languages):
        configured = values.get("languages") or ("", "")
        values["languages"] = [
            option or setting for option, setting in zip(languages, configured, strict=True)
        ]
    selected_rules = values.get("rules")
    if rules is not None:
        selected_rules = _names(rules)
    elif selected_rules is None:
        codes = values.get("languages") or ("", "")
        selected_rules = default_rules((str(codes[0]), str(codes[1])))
    rule_settings: dict[str, Any] = (
        dict.fromkeys(selected_rules) if isinstance(selected_rules, list) else dict(selected_rules)
    )
    check_rule_names(_names(without or ""), "--without")
    for name in _names(without or ""):
        rule_settings.pop(name, None)
    for change in changes:
        settings = {name: dict(group) for name, group in rule_settings.items() if group}
        try:
            change_setting(settings, change, "length.max_words=80")
        except SettingsError as error:
            raise SettingsError(f"--set {error}") from None
        rule_settings |= settings
    if "score" in rule_settings:
        rule_settings["score"] = rule_settings.pop("score")  # the score rule runs last
    return CleaningSettings.read({**values, "rules": rule_settings}, str(path or "clean"))


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _note_languages(settings: CleaningSettings) -> None:
    if not all(settings.languages):
        typer.echo("no languages given (--from, --to): scripts and languages are not checked", err=True)


def _check_reports(paths: list[Path], used_paths: list[Path]) -> None:
    for path in paths:
        if path.suffix not in (".json", ".html"):
            raise SettingsError(f"--report {path}: expected a .json or .html file")
        if path.resolve() in {used_path.resolve() for used_path in used_paths}:
            raise SettingsError(f"--report {path}: this is an input or output file; choose another name")
        if not path.parent.is_dir():
            raise SettingsError(f"--report {path}: there is no folder {path.parent}")


def _write_report(path: Path, report: CleaningReport) -> None:
    import json

    from uwaga.cli.lines import open_output
    from uwaga_corpora.cleaning.report import report_page

    with open_output(path) as write:
        if path.suffix == ".html":
            write(report_page(report))
        else:
            write(json.dumps(report.to_dict(), ensure_ascii=False, indent=1) + "\n")


def _print(report: CleaningReport) -> None:
    """Print a table of the counts and the totals on standard error."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = Table(box=None, header_style="bold", pad_edge=False)
    rows.add_column("rule")
    rows.add_column("pairs", justify="right")
    rows.add_column("%", justify="right")
    rows.add_column("for example", ratio=1)
    for count in report.counts:
        example = count.examples[0] if count.examples else None
        text = f"{example.line}: {_shorten(example.source)} | {_shorten(example.target)}" if example else ""
        percent = 100 * count.pairs / max(1, report.read)
        rows.add_row(count.name, f"{count.pairs:,}", f"{percent:.2f}", Text(text))
    Console(stderr=True).print(rows)
    share = 100 * report.kept / max(1, report.read)
    typer.echo(
        f"{report.read:,} lines read, {report.kept:,} pairs kept ({share:.2f}%) in {report.seconds:.1f} s, "
        f"{report.speed:,.0f} pairs/s",
        err=True,
    )
    for warning in report.warnings:
        typer.echo(f"warning: {warning}", err=True)


def _shorten(text: str) -> str:
    printable = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return printable if len(printable) <= MAX_CELL_WIDTH else printable[:MAX_CELL_WIDTH] + "…"
