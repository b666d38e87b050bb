"""Cleaning a corpus: lines in, the same lines without the bad ones out, and a report."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import compress
from pathlib import Path
from typing import IO

import numpy as np

from uwaga.cleaning.blocks import FAULTS, LineBlock, Lines, Verdicts, read_block
from uwaga.cleaning.report import CleaningReport, Collector
from uwaga.cleaning.rule import AnyScoredRule
from uwaga.cleaning.settings import CleaningSettings
from uwaga.cleaning.spool import Scores, Spool
from uwaga.cleaning.workers import FIRST_RULE, JudgedBlock, RuleWorkers
from uwaga.errors import DataError, SettingsError
from uwaga.files.atomic import new_file
from uwaga.files.lines import check_compression, compressed

Progress = Callable[[int, int], None]
"""Called with how many bytes and how many lines are done."""
PACKED = (".gz", ".zst", ".xz")


def clean(
    inputs: Sequence[Path | str],
    outputs: Sequence[Path],
    settings: CleaningSettings,
    jobs: int = 1,
    rejected: Path | None = None,
    progress: Progress | None = None,
) -> CleaningReport:
    """Write the pairs of a corpus that no rule rejects, as they are and in their order.

    The files appear when all is written, or not at all. What is written does not depend on ``jobs``.
    Memory does not grow with the corpus, but for the keys of ``duplicates``, up to the limit in its settings.

    Args:
        inputs: TSV (source TAB target, more columns are kept), two aligned files, one Moses prefix, or TMX,
            Parquet or JSON Lines by the ends of their names; plain or compressed, paths or URLs.
        outputs: two of two files; of a Moses prefix one prefix or two files; of all others one TSV.
            Compressed if called .gz, .zst or .xz.
        settings: the rules.
        jobs: processes that ask the rules. More than 1 start this program's main module anew, which must
            then be importable.
        rejected: a TSV for what goes: the rule, the number of the line, and the line.
        progress: called after each block.

    Raises:
        DataError: bad input as ``read_pairs`` tells it; no pair in it, or none left; a file
            cannot be written.
        SettingsError: the outputs do not fit the inputs, or a rule cannot be asked.
        MissingExtraError: a rule, or a compressed file, needs a library that is not installed.
    """
    if jobs < 1:
        raise SettingsError(f"jobs must be at least 1, not {jobs}")
    begun = time.perf_counter()
    corpus = Lines(inputs, _moses_languages(settings))
    places = _places(corpus, inputs, outputs, settings, rejected)
    collector = Collector(corpus.name, settings.to_dict(), list(settings.rules))
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(_output(path)) for path in places]
        apart = stack.enter_context(_output(rejected)) if rejected else None
        judges = stack.enter_context(RuleWorkers(settings, jobs))
        done = 0
        for block, verdicts in _scored(judges, corpus.blocks(), settings):
            collector.add(block, verdicts)
            _write(files, block, verdicts)
            if apart:
                _write_rejected(apart, block, verdicts, [*FAULTS, *settings.rules])
            done += sum(map(len, (line for column in block.columns for line in column))) + len(block)
            if progress:
                progress(done, collector.report.read)
        report = collector.finish(time.perf_counter() - begun)
        _check_some_left(report)
    report.seconds = time.perf_counter() - begun
    return report


def _scored(
    judges: RuleWorkers, blocks: Iterator[LineBlock], settings: CleaningSettings
) -> Iterator[JudgedBlock]:
    """The judged blocks, after the rule that scores too, where there is one."""
    stream = judges.judged(blocks)
    rule = judges.scored
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
        for block, verdicts, gone in spool.best(rule.share):
            verdicts[np.flatnonzero(verdicts == 0)[gone]] = verdict
            yield block, verdicts


def _reject_by_score(
    block: LineBlock,
    verdicts: Verdicts,
    rule: AnyScoredRule,
    verdict: int,
) -> Scores:
    """Score what is left of a block, write the verdict on what is over the limit; the scores of the rest."""
    pairs, _ = read_block(block.sent(), rule.languages)
    pairs = pairs.take(verdicts == 0)
    scores = rule.scores(pairs) if len(pairs) else np.zeros(0, np.float32)
    gone = rule.beyond(scores)
    verdicts[np.flatnonzero(verdicts == 0)[gone]] = verdict
    return scores[~gone]


def _moses_languages(settings: CleaningSettings) -> tuple[str, str]:
    return settings.languages if all(settings.languages) else ("src", "tgt")


def _places(
    corpus: Lines,
    inputs: Sequence[Path | str],
    outputs: Sequence[Path],
    settings: CleaningSettings,
    rejected: Path | None,
) -> list[Path]:
    """The files to write.

    Raises:
        SettingsError: they do not fit the input, or would write over it or each other.
    """
    places = list(outputs)
    if corpus.aligned and len(inputs) == 1 and len(outputs) == 1:
        endings = [
            f".{language}{path.suffix if path.suffix in PACKED else ''}"
            for language, path in zip(_moses_languages(settings), map(Path, corpus.files), strict=True)
        ]
        places = [outputs[0].with_name(outputs[0].name + end) for end in endings]
    if len(places) != 1 + corpus.aligned:
        wanted = "an output for each of the two files" if corpus.aligned else "one output, a TSV"
        raise SettingsError(f"{corpus.name}: give {wanted}, not {len(places)}")
    written = [path.resolve() for path in (*places, *([rejected] if rejected else []))]
    for number, path in enumerate(written):
        if path in [Path(one).resolve() for one in corpus.files]:
            raise SettingsError(f"{path} is the input: name another file for the output")
        if path in written[:number]:
            raise SettingsError(f"{path} is named twice: each output needs a file of its own")
    for path in written:
        check_compression(path)
        if not path.parent.is_dir():
            raise DataError(f"{path}: cannot be written: there is no folder {path.parent}")
    return places


@contextlib.contextmanager
def _output(path: Path) -> Iterator[IO[bytes]]:
    with new_file(path) as file, compressed(path, file) as packed:
        yield packed


def _write(files: list[IO[bytes]], block: LineBlock, verdicts: Verdicts) -> None:
    kept = (verdicts == 0).tolist()
    for file, column in zip(files, block.columns, strict=True):
        lines = list(compress(column, kept))
        if lines:
            file.write(b"\n".join([*lines, b""]))


def _write_rejected(file: IO[bytes], block: LineBlock, verdicts: Verdicts, names: list[str]) -> None:
    for index in np.flatnonzero(verdicts).tolist():
        name = names[int(verdicts[index]) - 1]
        file.write(f"{name}\t{block.first + index}\t".encode() + block.line(index) + b"\n")


def _check_some_left(report: CleaningReport) -> None:
    """Refuse to write nothing.

    Raises:
        DataError: no pair was read, or none is left; names what took most.
    """
    if report.kept:
        return
    if not report.read:
        raise DataError(f"{report.name}: no sentence pair in it")
    most = max(report.counts, key=lambda count: count.pairs)
    raise DataError(
        f"{report.name}: none of {report.read} lines is left; {most.name!r} took {most.pairs} of them, "
        f"for example "
        f"line {most.examples[0].line}; nothing was written"
    )
