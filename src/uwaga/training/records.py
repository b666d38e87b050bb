"""The files in which a run tells how it goes: JSON, a line for each record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

METRICS = "metrics.jsonl"
"""Averages over updates, and what validations found."""
SAMPLES = "samples.jsonl"
"""Of each validation: some translations, and BLEU by length."""
REPORT = "report.html"
LARGEST = 1 << 63
"""Beyond all steps and counts of a run."""


def read_records(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """The lines of a file with what each holds; none of a file that is not there.

    A record has a whole number ``step`` and a ``part``. What has not is left out: a full disk or a power
    cut may have cut a line short.
    """
    if not path.is_file():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            values = json.loads(line)
            whole = type(values["step"]) is int and abs(values["step"]) < LARGEST
            if not whole or not isinstance(values["part"], str):
                continue
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        found.append((line + "\n", values))
    return found
