"""Prometheus metrics of requests, processing stages and batches; they never contain texts."""

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
"""Environment variable for the folder in which workers share their metrics; the supervisor sets it."""
LATENCY_BUCKETS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the histogram buckets for latencies, in seconds."""


class Metrics:
    """Metrics of one worker process; :meth:`text` returns the metrics of all workers."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._labelled_metrics: dict[tuple[str, str], tuple[Counter, Histogram]] = {}  # labels() is slow
        registry = self.registry
        self.requests = Counter(
            "uwaga_requests", "Requests by route and status.", ["route", "status"], registry=registry
        )
        self.latency = Histogram(
            "uwaga_request_seconds",
            "Seconds from the first byte of a request to the last byte of its response.",
            ["route"],
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self.characters = Counter("uwaga_characters", "Characters of translated texts.", registry=registry)
        self.stage = Histogram(
            "uwaga_stage_seconds",
            "Seconds that a request waits for a model, and seconds until it is answered.",
            ["stage"],
            buckets=LATENCY_BUCKETS,
            registry=registry,
        )
        self.tokens = Counter("uwaga_tokens", "Generated target tokens.", ["model"], registry=registry)
        self.drafts = [
            Counter(f"uwaga_draft_{name}", description, ["model"], registry=registry)
            for name, description in (
                ("proposed_tokens", "Draft tokens that a model verified."),
                ("accepted_tokens", "Draft tokens that a model accepted; each saves a decoder pass."),
                ("passes", "Decoder passes for sentences with drafts."),
            )
        ]
        self.steps = Counter(
            "uwaga_batch_steps", "Decoding steps of a model's batch.", ["model"], registry=registry
        )
        self.rows = Counter(
            "uwaga_batch_rows",
            "Sum of batch rows (sentences times beams) over all steps; divided by the steps, this is the "
            "average batch size.",
            ["model"],
            registry=registry,
        )
        self.sentences = Counter(
            "uwaga_sentences", "Sentences whose translation was completed.", ["model"], registry=registry
        )
        self.running = Gauge(
            "uwaga_requests_running", "Requests in progress.", registry=registry, multiprocess_mode="livesum"
        )
        self.queue = Gauge(
            "uwaga_model_requests",
            "Requests that are waiting for a model or being processed by it.",
            ["model"],
            registry=registry,
            multiprocess_mode="livesum",
        )

    def request(self, route: str, status: str, seconds: float) -> None:
        """Record a request and its latency."""
        labelled_metrics = self._labelled_metrics.get((route, status))
        if labelled_metrics is None:
            labelled_metrics = self.requests.labels(route, status), self.latency.labels(route)
            self._labelled_metrics[route, status] = labelled_metrics
        requests, latency = labelled_metrics
        requests.inc()
        latency.observe(seconds)

    def model_observer(self, model: str) -> ModelMetrics:
        """Return an observer that records the requests and batches of a model."""
        return ModelMetrics(self, model)

    def count_translations(self, model: str, characters: int, translations: Sequence[Translation]) -> None:
        """Record the numbers of source characters, generated tokens and draft tokens of translations."""
        self.characters.inc(characters)
        self.tokens.labels(model).inc(sum(len(translation.tokens) for translation in translations))
        draft_use = DraftUse.total(translation.draft for translation in translations)
        if draft_use is not None:
            for counter, count in zip(self.drafts, draft_use, strict=True):
                counter.labels(model).inc(count)

    def text(self) -> tuple[bytes, str]:
        """Return the metrics of all workers in the Prometheus text format, and the content type."""
        folder = os.environ.get(FOLDER_VARIABLE)
        if not folder:
            return generate_latest(self.registry), CONTENT_TYPE_LATEST
        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]
        return generate_latest(registry), CONTENT_TYPE_LATEST


class ModelMetrics:
    """Observer that records the metrics of a model; see :class:`uwaga.translator.asynchronous.Observer`.

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
        """Record that a request was queued."""
        self._queue.inc()

    def on_started(self, client: str, wait_seconds: float) -> None:
        """Record how long a request waited."""
        self._wait_seconds.observe(wait_seconds)

    def on_finished(self, client: str, seconds: float, outcome: Outcome) -> None:
        """Record how long a request took."""
        self._queue.dec()
        self._answer_seconds.observe(seconds)

    def on_steps(self, steps: int, rows: int, sentences: int) -> None:
        """Update the counters of batch steps, rows and sentences to the given totals."""
        previous_totals, self._totals = self._totals, (steps, rows, sentences)
        for counter, old_total, new_total in zip(self._batch, previous_totals, self._totals, strict=True):
            counter.inc(max(0, new_total - old_total))


def forget_dead_workers() -> None:
    """Remove the gauges of worker processes that have ended; their counters are kept."""
    folder = os.environ.get(FOLDER_VARIABLE)
    for path in Path(folder).glob("gauge_live*.db") if folder else ():
        pid = path.stem.rpartition("_")[2]
        if pid.isdecimal() and not process_exists(int(pid)):
            with contextlib.suppress(OSError):
                mark_process_dead(int(pid), folder)  # type: ignore[no-untyped-call]
