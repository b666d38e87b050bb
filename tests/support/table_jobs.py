"""Jobs that translate small tables."""

import json
from dataclasses import replace
from pathlib import Path

from uwaga.settings.load_options import LoadOptions
from uwaga.translator import Translator
from uwaga_corpora.jobs.engine import run_job
from uwaga_corpora.jobs.table import batch_job
from uwaga_corpora.jobs.table_formats import Columns, TextColumn
from uwaga_corpora.jobs.translation import TranslationSpec
from uwaga_corpora.jobs.workers import Workers

GREEDY = TranslationSpec(("bundled",), LoadOptions(threads=1), {"beam": 1})
WORDS = ("a dog", "two men", "the girl", "an old woman", "some people", "a child")
VERBS = ("runs", "sleeps", "plays", "sings", "looks at a car", "sits on the grass")


def sentences(count: int) -> list[str]:
    """Return ``count`` different short sentences."""
    return [f"{WORDS[n % 6]} {VERBS[n // 6 % 6]} near house {n} .".capitalize() for n in range(count)]


def translate_texts(texts: list[str]) -> list[str]:
    """Translate texts with the model of the jobs."""
    return [translation.text for translation in Translator.load(threads=1).translate(texts, beam=1)]


class ProgressHook:
    """A progress display that calls a function after each output part."""

    def __init__(self, callback=None) -> None:
        self.rows = self.before = 0
        self.then = callback or (lambda rows: None)

    def start(self, rows: int, share: float, total: int | None) -> None:
        self.before = rows

    def finish_part(self, name: str, record, share: float) -> None:
        self.rows += record.rows
        self.then(self.rows)


def run(source, target, *, columns=(), part_rows=10, count=None, ray=None, watch=None, **shape):
    """Run a job and return its manifest."""
    table_columns = Columns(
        tuple(TextColumn.parse(column) for column in columns), shape.get("score", False), "alignment" in shape
    )
    spec = replace(GREEDY, alignment=table_columns.alignment)
    skip = shape.get("skip", False)
    job = batch_job(str(source), str(target), spec, table_columns, part_rows=part_rows, skip=skip)
    with Workers(count, ray) as workers:
        return run_job(job, workers, watch or ProgressHook())


def parts(folder: Path) -> list[Path]:
    """Return the parts of a job in order."""
    return sorted(folder.glob("part-*"))


def text_rows(folder: Path) -> list[str]:
    """Return all lines of parts of text."""
    return "".join(path.read_text(encoding="utf-8") for path in parts(folder)).splitlines()


def json_rows(folder: Path) -> list[dict]:
    """Return all rows of parts of JSON Lines."""
    return [json.loads(line) for line in text_rows(folder)]


def part_bytes(folder: Path) -> dict[str, bytes]:
    """Return the content of the parts by name."""
    return {path.name: path.read_bytes() for path in parts(folder)}
