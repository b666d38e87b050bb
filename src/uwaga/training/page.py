"""The report of a training run as one HTML file: curves, samples, BLEU by length, skipped data."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from uwaga.errors import DataError
from uwaga.results.html import Series, chart, details, heading, page, paragraph, preformatted, table

METRICS_FILE = "metrics.jsonl"
"""Name of the file with averages over updates, and with results of validations."""
SAMPLES_FILE = "samples.jsonl"
"""Name of the file with sample translations and BLEU by source length for each validation."""
REPORT_FILE = "report.html"
MAX_NUMBER = 1 << 63
"""Limit on integers in records: steps and counts of a run are always smaller."""


def read_records(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return each line of a file of records with its parsed values, or an empty list if there is no file.

    A record has an integer ``step`` and a string ``part``. Other lines are skipped, because a full disk or a
    power cut may have truncated a line.
    """
    if not path.is_file():
        return []
    records = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            values = json.loads(line)
            is_valid_step = type(values["step"]) is int and abs(values["step"]) < MAX_NUMBER
            if not is_valid_step or not isinstance(values["part"], str):
                continue
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        records.append((line + "\n", values))
    return records


Records = Sequence[Mapping[str, Any]]

SAMPLED_VALIDATIONS = 8
"""Number of validations whose samples are shown, including the first and the last."""
SETTINGS_FILE = "settings.yaml"
STORE_PATTERN = "data/*/store.json"


def format_run_report(run: Path) -> str:
    """Return the HTML report of a finished or unfinished run."""
    if not run.is_dir():
        raise DataError(f"{run}: no such folder; give the folder of a training run (`run` in its settings)")
    records = [values for _, values in read_records(run / METRICS_FILE)]
    if not records:
        raise DataError(
            f"{run}: nothing is logged in {METRICS_FILE}: this is not the folder of a training run, or the "
            "run has just started"
        )
    samples = [values for _, values in read_records(run / SAMPLES_FILE)]
    parts = [
        *_format_summary(records),
        *_format_curves(records),
        *_format_length_scores(samples),
        *_format_samples(samples),
    ]
    return page(f"Training of {run.name or run}", [*parts, *_format_data(run), *_format_settings(run)])


def _format_summary(records: Records) -> list[str]:
    text = f"{max(int(record['step']) for record in records):,} updates"
    rows = []
    for part in ("dev", "mean", "final"):
        validations = [record for record in records if record["part"] == part]
        if validations:
            best_validation = min(validations, key=_loss_or_infinity)
            name = {"dev": "best dev loss", "mean": "mean of checkpoints", "final": "finished model"}[part]
            rows.append(
                [
                    name,
                    int(best_validation["step"]),
                    *(_format_cell(best_validation.get(key)) for key in ("loss", "bleu", "chrf")),
                ]
            )
    return [paragraph(f"{text}."), table(["", "step", "dev loss", "BLEU", "chrF"], rows) if rows else ""]


def _format_curves(records: Records) -> list[str]:
    def make_series(name: str, part: str, key: str) -> Series:
        points = [
            (float(record["step"]), float(record[key]))
            for record in records
            if record["part"] == part and _is_number(record.get(key))
        ]
        return Series(name, points)

    return [
        heading("Curves"),
        chart(
            "Loss per target token",
            [make_series("train", "train", "loss"), make_series("dev", "dev", "loss")],
        ),
        chart("Dev scores", [make_series("BLEU", "dev", "bleu"), make_series("chrF", "dev", "chrf")]),
        chart("Learning rate", [make_series("rate", "train", "learning_rate")]),
        chart("Throughput", [make_series("target tokens per second", "train", "tokens_per_second")]),
        chart("Gradient norm", [make_series("norm", "train", "gradient_norm")]),
    ]


def _format_length_scores(samples: Records) -> list[str]:
    validations = [sample for sample in samples if _get_rows(sample, "by_length")]
    if not validations:
        return []
    last_validation = validations[-1]
    rows = [
        (
            f"{row.get('least')}–{row.get('most')}" if row.get("most") else f"{row.get('least')} or more",
            _format_cell(row.get("sentences")),
            _format_cell(row.get("bleu")),
        )
        for row in _get_rows(last_validation, "by_length")
    ]
    return [
        heading("BLEU by length"),
        paragraph(f"Dev sentences by the number of source words, at step {int(last_validation['step']):,}."),
        table(["words", "sentences", "BLEU"], rows),
    ]


def _format_samples(samples: Records) -> list[str]:
    validations = [sample for sample in samples if _get_rows(sample, "samples")]
    if not validations:
        return []
    indices = sorted(
        {round(i * (len(validations) - 1) / (SAMPLED_VALIDATIONS - 1)) for i in range(SAMPLED_VALIDATIONS)}
    )
    parts = [heading("Translations over time")]
    for sample_index, sample in enumerate(_get_rows(validations[-1], "samples")):
        rows: list[tuple[object, object]] = [("source", sample.get("source"))]
        for index in indices:
            translations = _get_rows(validations[index], "samples")
            if sample_index < len(translations):
                rows.append(
                    (
                        f"step {int(validations[index]['step']):,}",
                        translations[sample_index].get("translation"),
                    )
                )
        rows.append(("reference", sample.get("reference")))
        parts.append(table(["", f"sentence {sample_index + 1}"], rows))
    return parts


def _format_data(run: Path) -> list[str]:
    """Return HTML with the numbers of lines read and skipped in each corpus."""
    rows: list[tuple[object, ...]] = []
    stores = sorted(run.glob(STORE_PATTERN), key=lambda path: (path.parent.name.startswith("dev"), path))
    for name, report in ((path.parent.name, read_json(path).get("report")) for path in stores):
        if isinstance(report, dict):
            rows.append((name, "lines read", _format_cell(report.get("read")), ""))
            rows.append((name, "pairs kept", _format_cell(report.get("kept")), ""))
            faults, lines = report.get("faults"), report.get("lines")
            for fault, count in faults.items() if isinstance(faults, dict) else ():
                first_lines = lines.get(fault, []) if isinstance(lines, dict) else []
                rows.append((name, fault, _format_cell(count), ", ".join(map(str, first_lines))))
    if not rows:
        return []
    return [heading("Data"), table(["corpus", "result", "lines", "first lines"], rows)]


def _format_settings(run: Path) -> list[str]:
    try:
        path = run / SETTINGS_FILE
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError:
        return []
    if not text:
        return []
    return [heading("Settings"), details(SETTINGS_FILE, preformatted(text))]


def _get_rows(record: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = record.get(key)
    rows: Iterable[Any] = value if isinstance(value, list) else []
    return [row for row in rows if isinstance(row, Mapping)]


def read_json(path: Path) -> Mapping[str, Any]:
    """Return the object in a JSON file, or an empty mapping if there is no such file or no object in it."""
    try:
        values = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}


def _loss_or_infinity(record: Mapping[str, Any]) -> float:
    value = record.get("loss")
    return float(value) if _is_number(value) and value == value else math.inf


def _is_number(value: object) -> TypeGuard[int | float]:
    """Return True for numbers that fit a float; an integer in a file may have hundreds of digits."""
    if isinstance(value, bool):
        return False
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < MAX_NUMBER)


def _format_cell(value: object) -> object:
    return value if _is_number(value) else "–" if value is None else str(value)
