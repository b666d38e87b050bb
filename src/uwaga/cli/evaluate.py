"""``uwaga evaluate``: BLEU, chrF and TER of a file of translations."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli import options as the

if TYPE_CHECKING:
    from uwaga.evaluation import Comparison, Report

STANDARD_INPUT = Path("-")
LABELS = {"bleu": "BLEU", "chrf": "chrF", "chrf++": "chrF++", "ter": "TER"}

Hypotheses = Annotated[
    Path, typer.Argument(help="Translations, one per line; `-` reads standard input.", show_default=False)
]
Against = Annotated[
    Path | None,
    typer.Option(help="Another system's translations: test the difference by paired bootstrap."),
]
Metrics = Annotated[
    str, typer.Option("--metric", "-m", help="Any of bleu, chrf, chrf++, ter, with commas between.")
]
Tokenize = Annotated[
    str, typer.Option(help="BLEU's tokeniser: 13a, intl, zh, char, none, ja-mecab or ko-mecab.")
]
Lowercase = Annotated[bool, typer.Option("--lowercase", help="BLEU and chrF without regard to case.")]
Samples = Annotated[int, typer.Option(min=1, help="Test sets that the bootstrap draws.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def evaluate(
    hypotheses: Hypotheses,
    reference: the.References,
    columns: the.Columns = "2-",
    against: Against = None,
    metric: Metrics = "bleu,chrf,ter",
    tokenize: Tokenize = "13a",
    lowercase: Lowercase = False,
    samples: Samples = 1000,
    as_json: AsJson = False,
) -> None:
    """Score translations with sacreBLEU.

    The signature printed beside a score says how it was computed: report them together.

    **Examples**

        uwaga evaluate output.de --reference test.de

        uwaga evaluate output.de --reference test.tsv        # column 1 is the source

        uwaga translate < test.en | uwaga evaluate - -r test.de -m bleu,chrf

        uwaga evaluate new.de -r test.de --against old.de    # is it really better?
    """
    from uwaga import evaluation
    from uwaga.evaluation import files

    metrics = [name.strip().lower() for name in metric.split(",") if name.strip()]
    references = files.read_references(reference, columns)
    lines = _translations(hypotheses, str(reference[0]), len(references))
    rows: tuple[Comparison, ...] = ()
    if against is not None:
        others = files.read_aligned(against, str(reference[0]), len(references))
        rows = evaluation.compare(
            lines, others, references, metrics, tokenize=tokenize, lowercase=lowercase, samples=samples
        )
    report = evaluation.evaluate(lines, references, metrics, tokenize=tokenize, lowercase=lowercase)
    if as_json:
        compared = {"comparison": [row.to_dict() for row in rows]} if rows else {}
        typer.echo(json.dumps(report.to_dict() | compared, ensure_ascii=False, indent=2))
        return
    _print_report(report)
    if against is not None:
        _print_comparisons(rows, hypotheses.name, against.name)


def _translations(path: Path, reference: str, count: int) -> list[str]:
    from uwaga.data.lines import decoded
    from uwaga.evaluation.files import check_aligned, read_aligned

    if path != STANDARD_INPUT:
        return read_aligned(path, reference, count)
    lines = list(decoded(sys.stdin.buffer, "standard input"))
    check_aligned(str(path), len(lines), reference, count)
    return lines


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
