"""Cleaning of a corpus: lines that no rule rejects are copied, and rejected lines are reported."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import IO

import numpy as np

from uwaga.data.checks import CorpusChecks
from uwaga.errors import DataError, SettingsError
from uwaga.files.atomic import new_file
from uwaga.files.lines import check_compression, open_compressed
from uwaga_corpora.cleaning.blocks import FAULTS, CorpusLines, LineBlock, Verdicts, read_block
from uwaga_corpora.cleaning.report import CleaningReport, Collector
from uwaga_corpora.cleaning.rule import AnyScoredRule
from uwaga_corpora.cleaning.settings import CleaningSettings
from uwaga_corpora.cleaning.spool import Scores, Spool
from uwaga_corpora.cleaning.workers import FIRST_RULE, JudgedBlock, RuleWorkers

Progress = Callable[[int, int], None]
"""A function that receives the numbers of bytes and lines read so far."""
COMPRESSION_SUFFIXES = (".gz", ".zst", ".xz")


def clean(
    inputs: Sequence[Path | str],
    outputs: Sequence[Path],
    settings: CleaningSettings,
    jobs: int = 1,
    rejected: Path | None = None,
    progress: Progress | None = None,
) -> CleaningReport:
    """Copy the pairs of a corpus that no rule rejects, unchanged and in order.

    The files are written atomically, and their content does not depend on ``jobs``. Memory does not grow with
    the corpus, except for the keys of ``duplicates``, up to the limit in its settings.

    Args:
        inputs: TSV (source TAB target; further columns are kept), two aligned files, a Moses prefix, or TMX,
            Parquet or JSON Lines, recognised by their suffixes; plain or compressed, paths or URLs.
        outputs: two files for two input files; a prefix or two files for a Moses prefix; one TSV for other
            inputs. Files with the suffixes .gz, .zst and .xz are compressed.
        settings: the rules.
        jobs: number of processes. If more than 1, the processes import the main module of the program.
        rejected: a TSV for the rejected pairs: the rule, the line number, and the line.
        progress: called after each block.

    Raises:
        DataError: the input is damaged or has no pairs, all pairs are rejected, or a file cannot be written.
        SettingsError: the outputs do not match the inputs, or a rule cannot be applied.
        MissingExtraError: a rule or a compressed file needs a library that is not installed.
    """
    if jobs < 1:
        raise SettingsError(f"jobs must be at least 1, not {jobs}")
    start = time.perf_counter()
    corpus = CorpusLines(inputs, _moses_languages(settings))
    paths = _output_paths(corpus, inputs, outputs, settings, rejected)
    checks = CorpusChecks(corpus.files, settings.languages)
    collector = Collector(corpus.name, settings.to_dict(), list(settings.rules))
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(_output(path)) for path in paths]
        rejected_file = stack.enter_context(_output(rejected)) if rejected else None
        workers = stack.enter_context(RuleWorkers(settings, jobs))
        bytes_read = 0
        for block, verdicts in _judge_blocks(workers, corpus.blocks(), settings):
            collector.add(block, verdicts)
            checks.add(range(block.first, block.first + len(block)), *block.sides())
            _write(files, block, verdicts)
            if rejected_file:
                _write_rejected(rejected_file, block, verdicts, [*FAULTS, *settings.rules])
            bytes_read += sum(map(len, (line for column in block.columns for line in column))) + len(block)
            if progress:
                progress(bytes_read, collector.report.read)
        report = collector.finish(time.perf_counter() - start, checks.warnings())
        _check_not_empty(report)
    report.seconds = time.perf_counter() - start
    return report


def _judge_blocks(
    workers: RuleWorkers, blocks: Iterator[LineBlock], settings: CleaningSettings
) -> Iterator[JudgedBlock]:
    """Yield the blocks with the verdicts of all rules, including the scored rule, if there is one."""
    stream = workers.judge(blocks)
    rule = workers.scored_rule
    if rule is None:
        yield from stream
        return
    rule.prepare()
    verdict = FIRST_RULE + len(settings.rules) - 1
    if rule.share is None:
        for block, verdicts in stream:
            _reject_by_score(block, verdicts, rule, verdict)
            yield block, verdicts
        return
    with Spool() as spool:
        for block, verdicts in stream:
            spool.add(block, verdicts, _reject_by_score(block, verdicts, rule, verdict))
        for block, verdicts, is_rejected in spool.best(rule.share):
            verdicts[np.flatnonzero(verdicts == 0)[is_rejected]] = verdict
            yield block, verdicts


def _reject_by_score(
    block: LineBlock,
    verdicts: Verdicts,
    rule: AnyScoredRule,
    verdict: int,
) -> Scores:
    """Score the remaining pairs of a block, and reject those above the limit.

    Return the scores of the pairs that are not rejected.
    """
    pairs, _ = read_block(block.pack(), rule.languages)
    pairs = pairs.select(verdicts == 0)
    scores = rule.scores(pairs) if len(pairs) else np.zeros(0, np.float32)
    is_rejected = rule.above_limit(scores)
    verdicts[np.flatnonzero(verdicts == 0)[is_rejected]] = verdict
    return scores[~is_rejected]


def _moses_languages(settings: CleaningSettings) -> tuple[str, str]:
    return settings.languages if all(settings.languages) else ("src", "tgt")


def _output_paths(
    corpus: CorpusLines,
    inputs: Sequence[Path | str],
    outputs: Sequence[Path],
    settings: CleaningSettings,
    rejected: Path | None,
) -> list[Path]:
    """Return the files to write."""
    paths = list(outputs)
    if corpus.aligned and len(inputs) == 1 and len(outputs) == 1:
        suffixes = [
            f".{language}{path.suffix if path.suffix in COMPRESSION_SUFFIXES else ''}"
            for language, path in zip(_moses_languages(settings), map(Path, corpus.files), strict=True)
        ]
        paths = [outputs[0].with_name(outputs[0].name + suffix) for suffix in suffixes]
    if len(paths) != 1 + corpus.aligned:
        expected_outputs = "an output for each of the two files" if corpus.aligned else "one output, a TSV"
        raise SettingsError(f"{corpus.name}: give {expected_outputs}, not {len(paths)}")
    resolved_paths = [path.resolve() for path in (*paths, *([rejected] if rejected else []))]
    for index, path in enumerate(resolved_paths):
        if path in [Path(file).resolve() for file in corpus.files]:
            raise SettingsError(f"{path} is the input: choose another file for the output")
        if path in resolved_paths[:index]:
            raise SettingsError(f"{path} is named twice: each output needs a separate file")
    for path in resolved_paths:
        check_compression(path)
        if not path.parent.is_dir():
            raise DataError(f"{path}: cannot be written: there is no folder {path.parent}")
    return paths


@contextlib.contextmanager
def _output(path: Path) -> Iterator[IO[bytes]]:
    with new_file(path) as file, open_compressed(path, file) as stream:
        yield stream


def _write(files: list[IO[bytes]], block: LineBlock, verdicts: Verdicts) -> None:
    is_accepted = (verdicts == 0).tolist()
    for file, column in zip(files, block.columns, strict=True):
        lines = list(compress(column, is_accepted))
        if lines:
            file.write(b"\n".join([*lines, b""]))


def _write_rejected(file: IO[bytes], block: LineBlock, verdicts: Verdicts, names: list[str]) -> None:
    for index in np.flatnonzero(verdicts).tolist():
        name = names[int(verdicts[index]) - 1]
        file.write(f"{name}\t{block.first + index}\t".encode() + block.line(index) + b"\n")


def _check_not_empty(report: CleaningReport) -> None:
    """Raise DataError if no pairs were kept."""
    if report.kept:
        return
    if not report.read:
        raise DataError(f"{report.name}: the corpus contains no sentence pairs")
    largest = max(report.counts, key=lambda rule: rule.pairs)
    raise DataError(
        f"{report.name}: all {report.read} lines were rejected, {largest.pairs} of them by {largest.name!r}, "
        f"for example line {largest.examples[0].line}; nothing was written"
        + "".join(f". {warning}" for warning in report.warnings)
    )
