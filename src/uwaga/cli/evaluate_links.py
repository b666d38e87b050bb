"""``uwaga evaluate --alignments``: word links against those that a person has made."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from uwaga.errors import DataError, SettingsError

STANDARD_INPUT = Path("-")


def evaluate_links(hypotheses: Path, references: Sequence[Path], as_json: bool) -> None:
    """Print error, precision and recall.

    Args:
        hypotheses: links as Moses writes them, a line each pair; ``-`` is standard input.
        references: one file of links made by hand: as many lines, or of chosen pairs that it numbers.
        as_json: as one JSON object.

    Raises:
        SettingsError: there are several references.
        DataError: a file cannot be read, or they are not of the same pairs.
    """
    from uwaga.evaluation.alignment_error import alignment_report, chosen_lines, moses_links, read_gold
    from uwaga.files.lines import decoded

    if len(references) != 1:
        raise SettingsError("--alignments compares with one file of links: give --reference once")
    gold = read_gold(references[0])
    if hypotheses == STANDARD_INPUT:
        found = moses_links(decoded(sys.stdin.buffer, "standard input"), "standard input")
    else:
        with hypotheses.open("rb") as file:
            found = moses_links(decoded(file, str(hypotheses)), str(hypotheses))
    plain = not any(one.checksum for one in gold)
    if plain and len(found) != len(gold):
        raise DataError(
            f"{hypotheses} has {len(found)} lines and {references[0]} {len(gold)}: they must be of "
            "the same pairs"
        )
    report = alignment_report(chosen_lines(found, gold, str(hypotheses)), gold)
    if as_json:
        typer.echo(json.dumps({name: round(value, 6) for name, value in vars(report).items()}, indent=2))
        return
    for label, value in (("AER", report.error), ("precision", report.precision), ("recall", report.recall)):
        typer.echo(f"{label:<11}{value:.4f}")
    typer.echo(f"{'pairs':<11}{report.pairs}")
