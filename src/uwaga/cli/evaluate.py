"""``uwaga evaluate``: score translations with BLEU, chrF, TER and COMET."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from uwaga.cli import options
from uwaga.errors import DataError, SettingsError

if TYPE_CHECKING:
    from uwaga.evaluation import CometScores, Comparison, Report
    from uwaga.evaluation.test_sets import TestSet


def evaluate_links(hypotheses: Path, references: Sequence[Path], as_json: bool) -> None:
    """Print error rate, precision and recall of word alignments.

    Args:
        hypotheses: alignments in Moses format, one line per pair; ``-`` is standard input.
        references: a single file of gold alignments, for every pair or for numbered pairs.
        as_json: whether to print a JSON object.
    """
    from uwaga.evaluation.alignment_error import alignment_report, moses_links, read_gold, select_lines
    from uwaga.files.lines import decode_lines

    if not references:
        raise typer.BadParameter("--set has no alignments: give --reference")
    if len(references) != 1:
        raise SettingsError("--alignments takes a single file of gold alignments: give --reference once")
    gold = read_gold(references[0])
    if hypotheses == STANDARD_INPUT:
        alignments = moses_links(decode_lines(sys.stdin.buffer, "standard input"), "standard input")
    else:
        with hypotheses.open("rb") as file:
            alignments = moses_links(decode_lines(file, str(hypotheses)), str(hypotheses))
    covers_all_pairs = not any(alignment.checksum for alignment in gold)
    if covers_all_pairs and len(alignments) != len(gold):
        raise DataError(
            f"{hypotheses} has {len(alignments)} lines and {references[0]} {len(gold)}: they must "
            "align the same pairs"
        )
    report = alignment_report(select_lines(alignments, gold, str(hypotheses)), gold)
    if as_json:
        typer.echo(json.dumps({name: round(value, 6) for name, value in vars(report).items()}, indent=2))
        return
    for label, value in (("AER", report.error), ("precision", report.precision), ("recall", report.recall)):
        typer.echo(f"{label:<11}{value:.4f}")
    typer.echo(f"{'pairs':<11}{report.pairs}")


STANDARD_INPUT = Path("-")
LABELS = {"bleu": "BLEU", "chrf": "chrF", "chrf++": "chrF++", "ter": "TER", "comet": "COMET"}
COMET = "comet"
DECIMALS = {COMET: 4}
"""Decimal places of metrics whose scale is not 0 to 100."""
References = Sequence[Sequence[str]]

Hypotheses = Annotated[
    Path | None, typer.Argument(help="Translations, one per line; `-` reads standard input.")
]
SetName = Annotated[
    str | None,
    typer.Option(
        "--set",
        metavar="NAME:FROM-TO",
        help="Take references, and sources for comet, from a test set of sacreBLEU's catalogue.",
    ),
]
Echo = Annotated[
    Literal["source", "reference"] | None,
    typer.Option(help="Print the sources of --set, or the first reference of each, instead of scores."),
]
BaselineFiles = Annotated[
    Path | None,
    typer.Option(help="Another system's translations; test the difference with paired bootstrap resampling."),
]
Metrics = Annotated[
    str, typer.Option("--metric", "-m", help="Metrics, separated by commas: bleu, chrf, chrf++, ter, comet.")
]
Tokenize = Annotated[
    str | None,
    typer.Option(
        help="BLEU's tokeniser: 13a, intl, zh, char, none, ja-mecab or ko-mecab; default: 13a, or that of "
        "the target language of --set."
    ),
]
Lowercase = Annotated[bool, typer.Option("--lowercase", help="Ignore case in BLEU and chrF.")]
Samples = Annotated[int, typer.Option(min=1, help="Number of bootstrap samples.")]
Sentences = Annotated[
    bool, typer.Option("--sentences", help="Print one line per sentence, with scores separated by tabs.")
]
Source = Annotated[Path | None, typer.Option("--source", "-s", help="The source texts, for comet.")]
CometModel = Annotated[str, typer.Option(help="COMET's model.")]
Alignments = Annotated[
    bool,
    typer.Option(
        "--alignments",
        help="Score word alignments instead: HYPOTHESES and --reference contain links (0-0 1-2), one line "
        "per pair; possible links of the reference are written 1?1.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def evaluate(
    hypotheses: Hypotheses = None,
    reference: options.OptionalReferences = None,
    columns: options.Columns = "2-",
    test_set: SetName = None,
    echo: Echo = None,
    against: BaselineFiles = None,
    metric: Metrics = "bleu,chrf,ter",
    tokenize: Tokenize = None,
    lowercase: Lowercase = False,
    samples: Samples = 1000,
    sentences: Sentences = False,
    source: Source = None,
    comet_model: CometModel = "Unbabel/wmt22-comet-da",
    alignments: Alignments = False,
    as_json: AsJson = False,
) -> None:
    """Score translations with sacreBLEU, or word alignments by alignment error rate.

    The signature printed next to each score records how it was computed; report them together.

    **Examples**

        uwaga evaluate output.de --reference test.de

        uwaga evaluate output.de --reference test.tsv        # column 1 is the source

        uwaga translate < test.en | uwaga evaluate - -r test.de -m bleu,chrf

        uwaga evaluate new.de -r test.de --against old.de    # is it really better?

        uwaga evaluate output.de -r test.de --sentences | sort -k2,2n | head    # the worst sentences

        uwaga evaluate output.de -r test.de -m bleu,comet --source test.en    # pip install unbabel-comet

        uwaga evaluate --set wmt24:en-de --echo source | uwaga translate > wmt24.de

        uwaga evaluate wmt24.de --set wmt24:en-de    # downloaded once, to ~/.sacrebleu

        uwaga align test.en test.de | uwaga evaluate --alignments - -r test.gold
    """
    if echo is not None:
        _echo(test_set, echo)
        return
    if hypotheses is None:
        raise typer.BadParameter("give a file with translations, or `-` for standard input")
    if (test_set is None) == (not reference):
        raise typer.BadParameter("give either --reference or --set")
    if alignments:
        evaluate_links(hypotheses, reference or [], as_json)
        return
    from uwaga.evaluation.files import read_aligned

    metrics = [name.strip().lower() for name in metric.split(",") if name.strip()]
    reference_set = _read_set(test_set) if test_set else _read_files(reference or [], columns)
    lines = _translations(hypotheses, reference_set.name, len(reference_set.references))
    sources, comet_scores = reference_set.sources, None
    if source is not None:
        sources = read_aligned(source, str(hypotheses), len(lines))
    if COMET in metrics:
        comet_scores = _score_with_comet(sources, lines, reference_set.references, comet_model)
        metrics.remove(COMET)
    system = System(
        lines, reference_set.references, metrics, comet_scores, tokenize or reference_set.tokeniser, lowercase
    )
    if sentences:
        if against is not None:
            raise SettingsError("--sentences scores a single system: omit --against")
        _print_sentences(system.sentence_scores(), as_json)
        return
    comparisons: tuple[Comparison, ...] = ()
    if against is not None:
        baseline = read_aligned(against, reference_set.name, len(reference_set.references))
        comparisons = system.compare(baseline, samples)
    report = system.report()
    if as_json:
        comparison = {"comparison": [row.to_dict() for row in comparisons]} if comparisons else {}
        typer.echo(json.dumps(report.to_dict() | comparison, ensure_ascii=False, indent=2))
        return
    _print_report(report)
    if against is not None:
        _print_comparisons(comparisons, hypotheses.name, against.name)


@dataclass(frozen=True)
class System:
    """The translations of a system, their references, and the metrics by which they are scored.

    Attributes:
        lines: one translation per line.
        references: the references of each line.
        metrics: names of sacreBLEU's metrics.
        comet: the scores of COMET; None if they were not requested.
        tokenize: sacreBLEU's tokeniser.
        lowercase: whether BLEU and chrF ignore case; TER always does.
    """

    lines: Sequence[str]
    references: References
    metrics: Sequence[str]
    comet: CometScores | None
    tokenize: str
    lowercase: bool

    def report(self) -> Report:
        """Return the scores of all metrics, with COMET last."""
        from uwaga import evaluation

        report = evaluation.Report(len(self.lines), ())
        if self.metrics or self.comet is None:
            report = evaluation.evaluate(
                self.lines, self.references, self.metrics, tokenize=self.tokenize, lowercase=self.lowercase
            )
        if self.comet is not None:
            comet_score = evaluation.MetricScore(COMET, self.comet.value, self.comet.model)
            report = evaluation.Report(report.sentences, (*report.scores, comet_score))
        return report

    def sentence_scores(self) -> list[dict[str, float]]:
        """Return the scores of each line by metric."""
        from uwaga import evaluation

        rows: list[dict[str, float]] = [{} for _ in self.lines]
        if self.metrics or self.comet is None:
            rows = evaluation.evaluate_sentences(
                self.lines, self.references, self.metrics, tokenize=self.tokenize, lowercase=self.lowercase
            )
        if self.comet is not None:
            rows = [row | {COMET: value} for row, value in zip(rows, self.comet.sentences, strict=True)]
        return rows

    def compare(self, baseline: Sequence[str], samples: int) -> tuple[Comparison, ...]:
        """Return the comparison with another system's translations by paired bootstrap resampling."""
        from uwaga import evaluation

        return evaluation.compare(
            self.lines,
            baseline,
            self.references,
            self.metrics,
            tokenize=self.tokenize,
            lowercase=self.lowercase,
            samples=samples,
        )


def _score_with_comet(
    sources: Sequence[str] | None, lines: Sequence[str], references: References, model: str
) -> CometScores:
    from uwaga import evaluation

    if sources is None:
        raise SettingsError("comet needs the source texts: add --source")
    return evaluation.comet(sources, lines, references, model)


def _read_set(name: str) -> TestSet:
    from uwaga.evaluation.test_sets import read_catalogue_set

    return read_catalogue_set(name, lambda text: typer.echo(text, err=True))


def _read_files(paths: Sequence[Path], columns: str) -> TestSet:
    from uwaga.evaluation.files import read_references
    from uwaga.evaluation.test_sets import TestSet

    return TestSet(str(paths[0]), read_references(paths, columns), None, "13a")


def _echo(name: str | None, echo: Literal["source", "reference"]) -> None:
    if name is None:
        raise typer.BadParameter("--echo prints texts of a test set: add --set")
    texts = _read_set(name)
    for source, references in zip(texts.sources or (), texts.references, strict=True):
        typer.echo(source if echo == "source" else references[0])


def _print_sentences(rows: Sequence[dict[str, float]], as_json: bool) -> None:
    """Print a header and one line per sentence, which has the sentence's number (from 1) and scores."""
    if as_json:
        for number, row in enumerate(rows, start=1):
            typer.echo(json.dumps({"line": number} | row))
        return
    typer.echo("\t".join(["line", *rows[0]]))
    for number, row in enumerate(rows, start=1):
        typer.echo("\t".join([str(number), *(f"{row[name]:.{DECIMALS.get(name, 2)}f}" for name in row)]))


def _translations(path: Path, reference: str, count: int) -> list[str]:
    from uwaga.evaluation.files import check_aligned, read_aligned
    from uwaga.files.lines import decode_lines

    if path != STANDARD_INPUT:
        return read_aligned(path, reference, count)
    lines = list(decode_lines(sys.stdin.buffer, "standard input"))
    check_aligned(str(path), len(lines), reference, count)
    return lines


def _print_report(report: Report) -> None:
    for score in report.scores:
        typer.echo(
            f"{LABELS[score.metric]:<7}{score.value:6.{DECIMALS.get(score.metric, 2)}f}  {score.signature}"
        )
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
