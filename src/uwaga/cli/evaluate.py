"""``uwaga evaluate``: BLEU, chrF and TER of a file of translations."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from uwaga.evaluation import Comparison, Report

STANDARD_INPUT = Path("-")
LABELS = {"bleu": "BLEU", "chrf": "chrF", "chrf++": "chrF++", "ter": "TER"}


def evaluate(
    hypotheses: Annotated[
        Path, typer.Argument(help="Translations, one per line; `-` reads standard input.", show_default=False)
    ],
    reference: Annotated[
        list[Path],
        typer.Option(
            "--reference",
            "-r",
            help="References: one per line, or a .tsv file with several per line. Give it again for more.",
            show_default=False,
        ),
    ],
    columns: Annotated[
        str,
        typer.Option(help="Columns of a .tsv that hold references, such as `2`, `2,4` or `2-`."),
    ] = "2-",
    against: Annotated[
        Path | None,
        typer.Option(help="Another system's translations: test the difference by paired bootstrap."),
    ] = None,
    metric: Annotated[
        str, typer.Option("--metric", "-m", help="Any of bleu, chrf, chrf++, ter, with commas between.")
    ] = "bleu,chrf,ter",
    tokenize: Annotated[
        str, typer.Option(help="BLEU's tokeniser: 13a, intl, zh, char, none, ja-mecab or ko-mecab.")
    ] = "13a",
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="BLEU and chrF without regard to case.")
    ] = False,
    samples: Annotated[int, typer.Option(min=1, help="Test sets that the bootstrap draws.")] = 1000,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Score translations with sacreBLEU.

    The signature printed beside a score says how it was computed: report them together.

    **Examples**

        uwaga evaluate output.de --reference test.de

        uwaga evaluate output.de --reference test.tsv        # column 1 is the source

        uwaga translate < test.en | uwaga evaluate - -r test.de -m bleu,chrf

        uwaga evaluate new.de -r test.de --against old.de    # is it really better?
    """
    from uwaga.evaluation import compare
    from uwaga.evaluation import evaluate as score
    from uwaga.evaluation.files import check_aligned, read_lines, read_references

    metrics = [name.strip().lower() for name in metric.split(",") if name.strip()]
    references = read_references(reference, columns)
    lines = _translations(hypotheses)
    check_aligned(str(hypotheses), len(lines), str(reference[0]), len(references))
    comparisons: tuple[Comparison, ...] = ()
    if against is not None:
        others = read_lines(against)
        check_aligned(str(against), len(others), str(reference[0]), len(references))
        comparisons = compare(
            lines, others, references, metrics, tokenize=tokenize, lowercase=lowercase, samples=samples
        )
    report = score(lines, references, metrics, tokenize=tokenize, lowercase=lowercase)
    if as_json:
        typer.echo(_json(report, comparisons))
        return
    _print_report(report)
    if comparisons:
        _print_comparisons(comparisons, hypotheses.name, Path(str(against)).name)


def _translations(path: Path) -> list[str]:
    from uwaga.evaluation.files import decode_lines, read_lines

    if path == STANDARD_INPUT:
        return decode_lines(sys.stdin.buffer, "standard input")
    return read_lines(path)


def _json(report: Report, comparisons: Sequence[Comparison]) -> str:
    document: dict[str, object] = {
        "sentences": report.sentences,
        "scores": [asdict(score) for score in report.scores],
    }
    if comparisons:
        document["comparison"] = [asdict(row) | {"difference": row.difference} for row in comparisons]
    return json.dumps(document, ensure_ascii=False, indent=2)


def _print_report(report: Report) -> None:
    for score in report.scores:
        typer.echo(f"{LABELS[score.metric]:<7}{score.value:6.2f}  {score.signature}")
        if score.detail:
            typer.echo(f"{'':15}{score.detail}")


def _print_comparisons(comparisons: Sequence[Comparison], system: str, baseline: str) -> None:
    typer.echo("")
    typer.echo(
        f"{system} against {baseline}, paired bootstrap (mean ± half of the 95% interval, * p < 0.05):"
    )
    for row in comparisons:
        typer.echo(
            f"{LABELS[row.metric]:<7}{row.mean:6.2f} ± {row.interval:.2f}"
            f"  against {row.baseline_mean:6.2f} ± {row.baseline_interval:.2f}"
            f"  difference {row.difference:+.2f}  p = {row.p_value:.4f}{' *' if row.p_value < 0.05 else ''}"
        )
