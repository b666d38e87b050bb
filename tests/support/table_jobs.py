"""Small tables, and jobs over them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from uwaga.jobs.engine import run_job
from uwaga.jobs.table import batch_job
from uwaga.jobs.table_formats import Columns, TextColumn
from uwaga.jobs.translation import TranslationSpec
from uwaga.jobs.workers import Workers
from uwaga.settings.load_options import LoadOptions
from uwaga.translator import Translator

GREEDY = TranslationSpec(("bundled",), LoadOptions(threads=1), {"beam": 1})
WORDS = ("a dog", "two men", "the girl", "an old woman", "some people", "a child")
VERBS = ("runs", "sleeps", "plays", "sings", "looks at a car", "sits on the grass")


def sentences(count: int) -> list[str]:
    """So many short sentences, all others."""
    return [f"{WORDS[n % 6]} {VERBS[n // 6 % 6]} near house {n} .".capitalize() for n in range(count)]


def translated(texts: list[str]) -> list[str]:
    """What the model that the jobs use makes of texts."""
    return [one.text for one in Translator.load(threads=1).translate(texts, beam=1)]


class Watch:
    """A progress that does something after each part."""

    def __init__(self, then=None) -> None:
        self.rows = self.before = 0
        self.then = then or (lambda rows: None)

    def begin(self, rows: int, share: float, total: int | None) -> None:
        self.before = rows

    def finish_part(self, name: str, record, share: float) -> None:
        self.rows += record.rows
        self.then(self.rows)


def run(source, target, *, columns=(), part_rows=10, count=None, ray=None, watch=None, **shape):
    """Run a job and return its manifest."""
    chosen = Columns(
        tuple(TextColumn.parse(one) for one in columns), shape.get("score", False), "alignment" in shape
    )
    spec = replace(GREEDY, alignment=chosen.alignment)
    skip = shape.get("skip", False)
    job = batch_job(str(source), str(target), spec, chosen, part_rows=part_rows, skip=skip)
    with Workers(count, ray) as workers:
        return run_job(job, workers, watch or Watch())


def parts(folder: Path) -> list[Path]:
    """The parts of a job, in order."""
    return sorted(folder.glob("part-*"))


def text_out(folder: Path) -> list[str]:
    """All lines of parts of text."""
    return "".join(one.read_text(encoding="utf-8") for one in parts(folder)).splitlines()


def json_out(folder: Path) -> list[dict]:
    """All rows of parts of JSON Lines."""
    return [json.loads(line) for line in text_out(folder)]


def bytes_out(folder: Path) -> dict[str, bytes]:
    """The parts by name."""
    return {one.name: one.read_bytes() for one in parts(folder)}
