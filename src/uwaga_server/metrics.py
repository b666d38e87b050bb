"""Metrics for Prometheus: requests, stages, batches; they never contain texts."""

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

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable of the folder in which workers share their metrics, set by the supervisor."""
LATENCY_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """Metrics of one worker, reported together with those of the others."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._labelled_metrics: dict[tuple[str, str], tuple[Counter, Histogram]] = {}  # labels() is slow
        r = self.registry
        self.requests = Counter(
            "uwaga_requests", "Requests by route and status.", ["route", "status"], registry=r
        )
        self.latency = Histogram(
            "uwaga_request_seconds",
            "From the first byte to the last.",
            ["route"],
            buckets=LATENCY_BUCKETS,
            registry=r,
        )
        self.characters = Counter("uwaga_characters", "Characters that were translated.", registry=r)
        self.stage = Histogram(
            "uwaga_stage_seconds",
            "From taking a request on until a model works on it, and until it is answered.",
            ["stage"],
            buckets=LATENCY_BUCKETS,
            registry=r,
        )
        self.tokens = Counter("uwaga_tokens", "Target tokens that were made.", ["model"], registry=r)
        self.drafts = [
            Counter(f"uwaga_draft_{name}", description, ["model"], registry=r)
            for name, description in (
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
        labelled_metrics = self._labelled_metrics.get((route, status))
        if labelled_metrics is None:
            labelled_metrics = self.requests.labels(route, status), self.latency.labels(route)
            self._labelled_metrics[route, status] = labelled_metrics
        requests, latency = labelled_metrics
        requests.inc()
        latency.observe(seconds)

    def model_observer(self, model: str) -> ModelMetrics:
        """Return an observer that records a model's requests."""
        return ModelMetrics(self, model)

    def count_translations(self, model: str, characters: int, translations: Sequence[Translation]) -> None:
        """Count the characters of texts, the tokens of their translations, and the use of drafts."""
        self.characters.inc(characters)
        self.tokens.labels(model).inc(sum(len(translation.tokens) for translation in translations))
        used = DraftUse.total(translation.draft for translation in translations)
        if used is not None:
            for counter, number in zip(self.drafts, used, strict=True):
                counter.labels(model).inc(number)

    def text(self) -> tuple[bytes, str]:
        """Return the metrics of all workers in Prometheus's format, and their content type."""
        folder = os.environ.get(FOLDER_VARIABLE)
        if not folder:
            return generate_latest(self.registry), CONTENT_TYPE_LATEST
        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]
        return generate_latest(registry), CONTENT_TYPE_LATEST


class ModelMetrics:
    """Metrics of a model's queue; see :class:`uwaga.translator.asynchronous.Observer`.

    Args:
        metrics: the metrics to update.
        model: the name of the model.
    """

    def __init__(self, metrics: Metrics, model: str) -> None:
        self._queue = metrics.queue.labels(model)
        self._wait_seconds, self._answer_seconds = (
            metrics.stage.labels("waiting"),
            metrics.stage.labels("answered"),
        )
        self._batch = [counter.labels(model) for counter in (metrics.steps, metrics.rows, metrics.sentences)]
        self._totals = (0, 0, 0)

    def on_queued(self, client: str) -> None:
        """Count a queued request."""
        self._queue.inc()

    def on_started(self, client: str, wait_seconds: float) -> None:
        """Observe how long a request waited."""
        self._wait_seconds.observe(wait_seconds)

    def on_finished(self, client: str, seconds: float, outcome: Outcome) -> None:
        """Observe how long a request took."""
        self._queue.dec()
        self._answer_seconds.observe(seconds)

    def on_steps(self, steps: int, rows: int, sentences: int) -> None:
        """Update the counts of the batch's steps, rows and sentences to these totals."""
        previous, self._totals = self._totals, (steps, rows, sentences)
        for counter, old, new in zip(self._batch, previous, self._totals, strict=True):
            counter.inc(max(0, new - old))


def forget_dead_workers() -> None:
    """Remove the gauges of workers that have ended; their counters remain."""
    folder = os.environ.get(FOLDER_VARIABLE)
    for path in Path(folder).glob("gauge_live*.db") if folder else ():
        pid = path.stem.rpartition("_")[2]
        if pid.isdecimal() and not process_exists(int(pid)):
            with contextlib.suppress(OSError):
                mark_process_dead(int(pid), folder)  # type: ignore[no-untyped-call]
