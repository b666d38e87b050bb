"""What Prometheus is told: requests, stages, batches. Never a text."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

if TYPE_CHECKING:
    from uwaga.translator.asynchronous import Outcome

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The variable by which workers add their figures up, which the supervisor sets."""
SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The figures of one worker; read together with those of the others where there are several."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._kinds: dict[tuple[str, str], tuple[Counter, Histogram]] = {}  # finding them takes a while
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
        """Count a request that was answered."""
        known = self._kinds.get((route, status))
        if known is None:
            known = self.requests.labels(route, status), self.latency.labels(route)
            self._kinds[route, status] = known
        requests, latency = known
        requests.inc()
        latency.observe(seconds)

    def of_model(self, model: str) -> ModelFigures:
        """What is to be told of a model's requests."""
        return ModelFigures(self, model)

    def answered(self, model: str, characters: int, tokens: int) -> None:
        """Count what was translated."""
        self.characters.inc(characters)
        self.tokens.labels(model).inc(tokens)

    def text(self) -> tuple[bytes, str]:
        """All figures as Prometheus reads them, of every worker, and their content type."""
        folder = os.environ.get(FOLDER)
        if not folder:
            return generate_latest(self.registry), CONTENT_TYPE_LATEST
        every = CollectorRegistry()
        MultiProcessCollector(every, path=folder)  # type: ignore[no-untyped-call]
        return generate_latest(every), CONTENT_TYPE_LATEST


class ModelFigures:
    """A model's queue, as :class:`uwaga.translator.asynchronous.Observer` is told of it.

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
        """One more."""
        self._queue.inc()

    def entered(self, client: str, waited: float) -> None:
        """One is worked on."""
        self._waited.observe(waited)

    def done(self, client: str, seconds: float, outcome: Outcome) -> None:
        """One is over."""
        self._queue.dec()
        self._answered.observe(seconds)

    def stepped(self, steps: int, rows: int, sentences: int) -> None:
        """What its batch has done from the beginning."""
        counted, self._counted = self._counted, (steps, rows, sentences)
        for counter, before, now in zip(self._batch, counted, self._counted, strict=True):
            counter.inc(max(0, now - before))


def forget_dead_workers() -> None:
    """Take the figures of now (not the counts) of workers that are gone out of the sums."""
    folder = os.environ.get(FOLDER)
    for path in Path(folder).glob("gauge_live*.db") if folder else ():
        pid = path.stem.rpartition("_")[2]
        if pid.isdecimal() and not Path(f"/proc/{pid}").exists():
            with contextlib.suppress(OSError):
                mark_process_dead(int(pid), folder)  # type: ignore[no-untyped-call]
