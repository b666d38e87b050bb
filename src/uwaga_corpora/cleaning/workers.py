"""Application of the rules in one or more processes, with the same verdicts in the same order."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import NamedTuple

import numpy as np

from uwaga.child_processes import safe_import_path
from uwaga.errors import DataError
from uwaga_corpora.cleaning.blocks import FAULTS, LineBlock, RawBlock, Verdicts, read_block
from uwaga_corpora.cleaning.pairs import Keys
from uwaga_corpora.cleaning.rule import AnyOrderedRule, AnyRule, AnyScoredRule, OrderedRule, ScoredRule
from uwaga_corpora.cleaning.settings import CleaningSettings

BLOCKS_AHEAD = 3
"""Maximum number of blocks submitted in advance, per process."""
COMPACT_THRESHOLD = 0.7
"""Share of the pairs of a block that must remain; if fewer remain, they are copied to a smaller block."""
FIRST_RULE = len(FAULTS) + 1

JudgedBlock = tuple[LineBlock, Verdicts]


class Stage(NamedTuple):
    """Rules that any process can apply, and then an optional rule that checks keys in order."""

    rules: list[tuple[int, AnyRule]]
    ordered: tuple[int, AnyOrderedRule] | None


def split_stages(rules: list[AnyRule]) -> list[Stage]:
    """Return the rules, except scored rules, in stages; each stage except the last ends with an ordered rule.

    Each rule is paired with the verdict of the pairs that it rejects.
    """
    stages: list[Stage] = []
    unordered_rules: list[tuple[int, AnyRule]] = []
    for verdict, rule in enumerate(rules, start=FIRST_RULE):
        if isinstance(rule, OrderedRule):
            stages.append(Stage(unordered_rules, (verdict, rule)))
            unordered_rules = []
        elif not isinstance(rule, ScoredRule):
            unordered_rules.append((verdict, rule))
    return [*stages, Stage(unordered_rules, None)] if unordered_rules or not stages else stages


class RuleStages:
    """The stages of rules in one process; ordered rules are prepared in the main process only."""

    def __init__(self, settings: CleaningSettings) -> None:
        self.languages = settings.languages
        self.rules = settings.create_rules()
        self.stages = split_stages(self.rules)
        for stage in self.stages:
            for _, rule in stage.rules:
                rule.prepare()

    def apply(
        self, stage_index: int, raw_block: RawBlock, previous_verdicts: Verdicts | None
    ) -> tuple[Verdicts, Keys | None]:
        """Apply the rules of a stage to a block.

        Args:
            stage_index: the index of the stage.
            raw_block: the block.
            previous_verdicts: (lines,) the verdicts of the earlier stages; None for the first stage.

        Returns:
            (lines,) the verdicts so far, and the keys of the remaining pairs if an ordered rule ends the
            stage.
        """
        pairs, verdicts = read_block(raw_block, self.languages)
        if previous_verdicts is not None:
            verdicts = previous_verdicts.copy()
        stage = self.stages[stage_index]
        remaining_lines = verdicts == 0  # (lines,)
        pairs = pairs.select(remaining_lines)
        lines = np.flatnonzero(remaining_lines)  # (pairs,) the line of each
        is_accepted = np.ones(len(lines), np.bool_)  # (pairs,)
        for verdict, rule in stage.rules:
            # Copying pairs discards their cached properties, so copy them only if many were rejected.
            if is_accepted.sum() < COMPACT_THRESHOLD * len(is_accepted) or (
                rule.expensive and not is_accepted.all()
            ):
                pairs, lines, is_accepted = (
                    pairs.select(is_accepted),
                    lines[is_accepted],
                    is_accepted[is_accepted],
                )
            is_rejected = rule.rejects(pairs) & is_accepted
            verdicts[lines[is_rejected]] = verdict
            is_accepted &= ~is_rejected
        return verdicts, stage.ordered[1].keys(pairs)[is_accepted] if stage.ordered else None


class RuleWorkers:
    """A context manager that applies the stages in one or more processes.

    Args:
        settings: the rules.
        jobs: number of processes; 1 for this process only.
    """

    def __init__(self, settings: CleaningSettings, jobs: int) -> None:
        self._stages = RuleStages(settings)
        for stage in self._stages.stages:
            if stage.ordered:
                stage.ordered[1].prepare()
        self._jobs = jobs
        self._pool: ProcessPoolExecutor | None = None
        self._safe_path = contextlib.ExitStack()
        if jobs > 1:
            self._safe_path.enter_context(safe_import_path())  # until the end: the pool starts processes late
            context = multiprocessing.get_context("spawn")  # threads of a progress bar must not be forked
            self._pool = ProcessPoolExecutor(jobs, context, _prepare_worker, (settings,))

    def __enter__(self) -> RuleWorkers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._safe_path:
            if self._pool is not None:
                self._pool.shutdown(wait=True, cancel_futures=True)

    @property
    def scored_rule(self) -> AnyScoredRule | None:
        """The last rule if it is a scored rule; it is not prepared."""
        last_rule = self._stages.rules[-1]
        return last_rule if isinstance(last_rule, ScoredRule) else None

    def judge(self, blocks: Iterator[LineBlock]) -> Iterator[JudgedBlock]:
        """Yield the blocks in order with their verdicts."""
        stream: Iterator[tuple[LineBlock, Verdicts | None]] = ((block, None) for block in blocks)
        for stage_index in range(len(self._stages.stages)):
            stream = self._judge_stage(stream, stage_index)
        for block, verdicts in stream:
            assert verdicts is not None  # there is a stage
            yield block, verdicts

    def _judge_stage(
        self, stream: Iterator[tuple[LineBlock, Verdicts | None]], stage_index: int
    ) -> Iterator[tuple[LineBlock, Verdicts | None]]:
        ordered_rule = self._stages.stages[stage_index].ordered
        for block, (verdicts, keys) in self._results(stream, stage_index):
            if ordered_rule is not None and keys is not None:
                verdict, rule = ordered_rule
                verdicts[np.flatnonzero(verdicts == 0)[rule.rejects_keys(keys)]] = verdict
            yield block, verdicts

    def _results(
        self, stream: Iterator[tuple[LineBlock, Verdicts | None]], stage_index: int
    ) -> Iterator[tuple[LineBlock, tuple[Verdicts, Keys | None]]]:
        """Yield the blocks in order, with the results of :meth:`RuleStages.apply`.

        A limited number of blocks is submitted ahead, to keep the workers busy.
        """
        if self._pool is None:
            for block, previous_verdicts in stream:
                yield block, self._stages.apply(stage_index, block.pack(), previous_verdicts)
            return
        pending_blocks: deque[tuple[LineBlock, Future[tuple[Verdicts, Keys | None]]]] = deque()
        try:
            for block, previous_verdicts in stream:
                pending_blocks.append(
                    (block, self._pool.submit(_apply, stage_index, block.pack(), previous_verdicts))
                )
                if len(pending_blocks) > BLOCKS_AHEAD * self._jobs:
                    finished_block, future = pending_blocks.popleft()
                    yield finished_block, future.result()
            while pending_blocks:
                finished_block, future = pending_blocks.popleft()
                yield finished_block, future.result()
        except BrokenProcessPool:
            raise DataError(
                "a worker process died, perhaps for lack of memory; try again with fewer --jobs"
            ) from None


_stages: RuleStages | None = None


def _prepare_worker(settings: CleaningSettings) -> None:
    """Prepare a worker process; Ctrl-C is handled by the main process."""
    global _stages
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _stages = RuleStages(settings)


def _apply(
    stage_index: int, raw_block: RawBlock, previous_verdicts: Verdicts | None
) -> tuple[Verdicts, Keys | None]:
    assert _stages is not None
    return _stages.apply(stage_index, raw_block, previous_verdicts)
