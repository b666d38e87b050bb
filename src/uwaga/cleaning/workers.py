"""The rules at work: in this process or in several, with the same verdicts in the same order."""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import NamedTuple

import numpy as np

from uwaga.cleaning.blocks import FAULTS, LineBlock, RawBlock, Verdicts, read_block
from uwaga.cleaning.pairs import Keys
from uwaga.cleaning.rule import AnyOrderedRule, AnyRule, AnyScoredRule, OrderedRule, ScoredRule
from uwaga.cleaning.settings import CleaningSettings
from uwaga.errors import DataError

AHEAD = 3
"""Blocks sent ahead, for each process."""
FEW = 0.7
"""Share of a block below which the pairs that are left are copied out of it."""
FIRST_RULE = len(FAULTS) + 1

JudgedBlock = tuple[LineBlock, Verdicts]


class Stage(NamedTuple):
    """Rules that any process can ask, and one that then looks at keys in order."""

    rules: list[tuple[int, AnyRule]]
    ordered: tuple[int, AnyOrderedRule] | None


def split_stages(rules: list[AnyRule]) -> list[Stage]:
    """The rules but scored ones, cut after each ordered one; each with its verdict."""
    stages: list[Stage] = []
    plain: list[tuple[int, AnyRule]] = []
    for verdict, rule in enumerate(rules, start=FIRST_RULE):
        if isinstance(rule, OrderedRule):
            stages.append(Stage(plain, (verdict, rule)))
            plain = []
        elif not isinstance(rule, ScoredRule):
            plain.append((verdict, rule))
    return [*stages, Stage(plain, None)] if plain or not stages else stages


class RuleStages:
    """The stages in one process. Rules that look at order are prepared where the order is known."""

    def __init__(self, settings: CleaningSettings) -> None:
        self.languages = settings.languages
        self.rules = settings.make()
        self.stages = split_stages(self.rules)
        for stage in self.stages:
            for _, rule in stage.rules:
                rule.prepare()

    def judge(self, number: int, raw: RawBlock, before: Verdicts | None) -> tuple[Verdicts, Keys | None]:
        """Ask the rules of a stage about a block.

        Args:
            number: of the stage.
            raw: the block.
            before: (lines,) the verdicts of the stages before it, None of the first.

        Returns:
            (lines,) the verdicts so far, and the keys of what is left, where an ordered rule ends the stage.
        """
        pairs, verdicts = read_block(raw, self.languages)
        if before is not None:
            verdicts = before.copy()
        stage = self.stages[number]
        left = verdicts == 0  # (lines,)
        pairs = pairs.take(left)
        there = np.flatnonzero(left)  # (pairs,) the line of each
        alive = np.ones(len(there), np.bool_)  # (pairs,)
        for verdict, rule in stage.rules:
            # What is known of the pairs is lost when some are left out, so that waits until it pays.
            if alive.sum() < FEW * len(alive) or (rule.expensive and not alive.all()):
                pairs, there, alive = pairs.take(alive), there[alive], alive[alive]
            gone = rule.rejects(pairs) & alive
            verdicts[there[gone]] = verdict
            alive &= ~gone
        return verdicts, stage.ordered[1].keys(pairs)[alive] if stage.ordered else None


class RuleWorkers:
    """The stages in one or several processes; use it as a context manager.

    Args:
        settings: the rules.
        jobs: how many processes judge; with 1 it is this one.

    Raises:
        UwagaError: a rule cannot be prepared.
    """

    def __init__(self, settings: CleaningSettings, jobs: int) -> None:
        self._stages = RuleStages(settings)
        for stage in self._stages.stages:
            if stage.ordered:
                stage.ordered[1].prepare()
        self._jobs = jobs
        self._pool: ProcessPoolExecutor | None = None
        if jobs > 1:
            context = multiprocessing.get_context("spawn")  # threads of a progress bar must not be forked
            self._pool = ProcessPoolExecutor(jobs, context, _begin, (settings,))

    def __enter__(self) -> RuleWorkers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    @property
    def scored(self) -> AnyScoredRule | None:
        """The last rule, if it gives numbers; not prepared."""
        last = self._stages.rules[-1]
        return last if isinstance(last, ScoredRule) else None

    def judged(self, blocks: Iterator[LineBlock]) -> Iterator[JudgedBlock]:
        """The blocks in their order with their verdicts.

        Raises:
            DataError: a process has died.
        """
        stream: Iterator[tuple[LineBlock, Verdicts | None]] = ((block, None) for block in blocks)
        for number in range(len(self._stages.stages)):
            stream = self._through(stream, number)
        for block, verdicts in stream:
            assert verdicts is not None  # there is a stage
            yield block, verdicts

    def _through(
        self, stream: Iterator[tuple[LineBlock, Verdicts | None]], number: int
    ) -> Iterator[tuple[LineBlock, Verdicts | None]]:
        ordered = self._stages.stages[number].ordered
        for block, (verdicts, keys) in self._answers(stream, number):
            if ordered is not None and keys is not None:
                verdict, rule = ordered
                verdicts[np.flatnonzero(verdicts == 0)[rule.rejects_keys(keys)]] = verdict
            yield block, verdicts

    def _answers(
        self, stream: Iterator[tuple[LineBlock, Verdicts | None]], number: int
    ) -> Iterator[tuple[LineBlock, tuple[Verdicts, Keys | None]]]:
        """Each block with what :meth:`RuleStages.judge` says of it, in order, some blocks being judged
        ahead.
        """
        if self._pool is None:
            for block, before in stream:
                yield block, self._stages.judge(number, block.sent(), before)
            return
        waiting: deque[tuple[LineBlock, Future[tuple[Verdicts, Keys | None]]]] = deque()
        try:
            for block, before in stream:
                waiting.append((block, self._pool.submit(_judge, number, block.sent(), before)))
                if len(waiting) > AHEAD * self._jobs:
                    done, answer = waiting.popleft()
                    yield done, answer.result()
            while waiting:
                done, answer = waiting.popleft()
                yield done, answer.result()
        except BrokenProcessPool:
            raise DataError(
                "a process that judges has died, perhaps for lack of memory; try again with fewer --jobs"
            ) from None


_stages: RuleStages | None = None


def _begin(settings: CleaningSettings) -> None:
    """Prepare a process that judges; Ctrl-C is for the one that sends it work."""
    global _stages
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _stages = RuleStages(settings)


def _judge(number: int, raw: RawBlock, before: Verdicts | None) -> tuple[Verdicts, Keys | None]:
    assert _stages is not None
    return _stages.judge(number, raw, before)
