"""Metrics for Prometheus: requests, stages, batches; never a text."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from uwaga.files.lock import process_exists
from uwaga.results.translation import DraftUse

if TYPE_CHECKING:
    from uwaga.results.translation import Translation
    from uwaga.translator.asynchronous import Outcome

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable of the folder in which workers share their metrics, set by the supervisor."""
SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """Metrics of one worker, reported together with those of the others."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._kinds: dict[tuple[str, str], tuple[Counter, Histogram]] = {}  # labels() is slow
        r = self.registry
        self.requests = Counter(
            "uwaga_requests", "Requests by route and status.", ["route", "status"], registry=r
        )
        self.latency = Histogram(
            "uwaga_request_seconds",
            "From the first byte to the last.",
            ["route"],
            buckets=SECONDS,
            registry=r,
        )
        self.characters = Counter("uwaga_characters", "Characters that were translated.", registry=r)
        self.stage = Histogram(
            "uwaga_stage_seconds",
            "From taking a request on until a model works on it, and until it is answered.",
            ["stage"],
            buckets=SECONDS,
            registry=r,
        )
        self.tokens = Counter("uwaga_tokens", "Target tokens that were made.", ["model"], registry=r)
        self.drafts = [
            Counter(f"uwaga_draft_{name}", what, ["model"], registry=r)
            for name, what in (
                ("proposed_tokens", "Tokens of drafts that a model checked."),
                ("accepted_tokens", "Tokens of drafts that a model accepted; each saves a pass."),
                ("passes", "Passes of a model over sentences with drafts."),
            )
        ]
        self.steps = Counter("uwaga_batch_steps", "Steps of a model's running batch.", ["model"], registry=r)
        self.rows = Counter(
            "uwaga_batch_rows",
            "Rows (sentences times beams) of these steps; by the steps, how full a batch is.",
            ["model"],
            registry=r,
        )
        self.sentences = Counter(
            "uwaga_sentences", "Sentences that were searched to their end.", ["model"], registry=r
        )
        self.running = Gauge(
            "uwaga_requests_running", "Requests being answered.", registry=r, multiprocess_mode="livesum"
        )
        self.queue = Gauge(
            "uwaga_model_requests",
            "Requests of a model that wait or are worked on.",
            ["model"],
            registry=r,
            multiprocess_mode="livesum",
        )

    def request(self, route: str, status: str, seconds: float) -> None:
        """Count a request and its latency."""
        known = self._kinds.get((route, status))
        if known is None:
            known = self.requests.labels(route, status), self.latency.labels(route)
            self._kinds[route, status] = known
        requests, latency = known
        requests.inc()
        latency.observe(seconds)

    def of_model(self, model: str) -> ModelFigures:
        """Return the observer of a model's requests."""
        return ModelFigures(self, model)

    def answered(self, model: str, characters: int, translations: Sequence[Translation]) -> None:
        """Count the characters of texts, the tokens of their translations, and what became of drafts."""
        self.characters.inc(characters)
        self.tokens.labels(model).inc(sum(len(one.tokens) for one in translations))
        used = DraftUse.total(one.draft for one in translations)
        if used is not None:
            for counter, number in zip(self.drafts, used, strict=True):
                counter.labels(model).inc(number)

    def text(self) -> tuple[bytes, str]:
        """Return the metrics of all workers in Prometheus's format, and their content type."""
        folder = os.environ.get(FOLDER)
        if not folder:
            return generate_latest(self.registry), CONTENT_TYPE_LATEST
        every = CollectorRegistry()
        MultiProcessCollector(every, path=folder)  # type: ignore[no-untyped-call]
        return generate_latest(every), CONTENT_TYPE_LATEST


class ModelFigures:
    """Metrics of a model's queue; see :class:`uwaga.translator.asynchronous.Observer`.

    Args:
        metrics: where the figures go.
        model: its name.
    """

    def __init__(self, metrics: Metrics, model: str) -> None:
        self._queue = metrics.queue.labels(model)
        self._waited, self._answered = metrics.stage.labels("waiting"), metrics.stage.labels("answered")
        self._batch = [one.labels(model) for one in (metrics.steps, metrics.rows, metrics.sentences)]
        self._counted = (0, 0, 0)

    def queued(self, client: str) -> None:
        """Count a request that waits."""
        self._queue.inc()

    def entered(self, client: str, waited: float) -> None:
        """Observe how long a request waited."""
        self._waited.observe(waited)

    def done(self, client: str, seconds: float, outcome: Outcome) -> None:
        """Observe how long a request took."""
        self._queue.dec()
        self._answered.observe(seconds)

    def stepped(self, steps: int, rows: int, sentences: int) -> None:
        """Count the batch's steps, rows and sentences, given as totals."""
        counted, self._counted = self._counted, (steps, rows, sentences)
        for counter, before, now in zip(self._batch, counted, self._counted, strict=True):
            counter.inc(max(0, now - before))


def forget_dead_workers() -> None:
    """Remove the gauges of ended workers; their counters stay."""
    folder = os.environ.get(FOLDER)
    for path in Path(folder).glob("gauge_live*.db") if folder else ():
        pid = path.stem.rpartition("_")[2]
        if pid.isdecimal() and not process_exists(int(pid)):
            with contextlib.suppress(OSError):
                mark_process_dead(int(pid), folder)  # type: ignore[no-untyped-call]
