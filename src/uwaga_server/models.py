"""A pool of models, which are loaded at startup or at first use, and unloaded to limit memory use."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, cast

from uwaga.errors import ModelError, SettingsError, UwagaError
from uwaga.library.routes import RouteStep
from uwaga.loading import load
from uwaga.translator import Translator
from uwaga.translator.asynchronous import AsyncTranslator, Observer
from uwaga_server.api_errors import MODEL_UNAVAILABLE, ApiError, run_in_thread
from uwaga_server.served_models import ModelRoute, ServedModel

LOG = logging.getLogger("uwaga_server")
RETRY_INTERVAL = 30.0
"""Seconds after a failure until loading a model is attempted again."""
MEBIBYTE = 1 << 20
MAX_CONCURRENT_REQUESTS = 64
"""Maximum number of requests that a model processes concurrently; further requests wait."""
STATM_PATH = Path("/proc/self/statm")
Loader = Callable[[ServedModel], Translator]
RouteKey = tuple[tuple[str, str, str], ...]


@dataclass(eq=False)
class LoadedModel:
    """A loaded model, or a chain of loaded models.

    Attributes:
        translator: the asynchronous translator that requests share.
        sync_translator: the underlying synchronous translator.
        bytes: number of bytes by which the memory of the process grew when the model was loaded.
        active_requests: number of requests that are using the model.
        last_used: start time of the last request.
        models: the models of a chain; empty for a single model.
    """

    translator: AsyncTranslator
    sync_translator: Translator
    bytes: int = 0
    active_requests: int = 0
    last_used: float = 0.0
    models: tuple[LoadedModel, ...] = ()


class ModelObserver(Observer, Protocol):
    """Observer of the requests and batch steps of a model."""

    def on_steps(self, steps: int, rows: int, sentences: int) -> None:
        """Handle new values of :attr:`uwaga.translator.asynchronous.AsyncTranslator.counters`."""
        ...


@dataclass
class Failure:
    """The reason why a model could not be loaded, and the time of the failure."""

    message: str
    time: float = field(default_factory=time.monotonic)


class ModelPool:
    """Pool of loaded models and chains of models.

    Args:
        load_model: loads a model; called in a thread.
        memory: limit in MiB on the total size of the models, above which unused models are unloaded; 0 for no
            limit.
        max_waiting: maximum number of requests that wait for a model; further requests are refused.
        observer: returns the observer for a model, given the name of the model.
        nice: niceness of the engine's threads, as in :class:`uwaga.AsyncTranslator`.
    """

    def __init__(
        self,
        load_model: Loader,
        memory: int = 0,
        max_waiting: int = 2048,
        observer: Callable[[str], ModelObserver] | None = None,
        nice: int = 0,
    ) -> None:
        self._nice = nice
        self._load_model, self._memory, self._max_waiting = load_model, memory * MEBIBYTE, max_waiting
        self._loaded: dict[RouteKey, LoadedModel] = {}
        self._failures: dict[str, Failure] = {}
        self._load_tasks: dict[str, asyncio.Task[LoadedModel]] = {}
        self._pending: Counter[str] = Counter()
        self._load_lock = asyncio.Lock()
        self._observer = observer

    @asynccontextmanager
    async def translator(self, route: ModelRoute) -> AsyncIterator[AsyncTranslator]:
        """Yield the translator of a route, and keep the models of the route loaded during the block."""
        loaded_model = self._loaded.get(_route_key(route)) or await self._load_route(route)
        loaded_model.active_requests += 1
        loaded_model.last_used = time.monotonic()
        for model in loaded_model.models:
            model.last_used = loaded_model.last_used
        try:
            yield loaded_model.translator
        finally:
            loaded_model.active_requests -= 1
            if (observer := loaded_model.translator.observer) is not None:
                cast("ModelObserver", observer).on_steps(*loaded_model.translator.counters)

    async def preload(self, models: list[ServedModel]) -> None:
        """Load the models with the setting ``preload``; a model that cannot be loaded is skipped."""
        for model in models:
            if model.settings.preload and not model.problem:
                try:
                    await self._single_model(model)
                except ApiError:
                    continue  # logged, and listed by :meth:`failures`

    def failures(self) -> dict[str, str]:
        """Return the reason for each failure to load a model, by the name of the model."""
        return {name: failure.message for name, failure in self._failures.items()}

    def loaded_names(self) -> list[str]:
        """Return the names of the loaded models."""
        return sorted({key[0][0] for key in self._loaded if len(key) == 1})

    async def close(self) -> None:
        """Finish the translations in progress, and unload all models."""
        for task in self._load_tasks.values():
            task.cancel()
        loaded_models = list(self._loaded.values())
        self._loaded.clear()
        await asyncio.gather(*(loaded_model.translator.close(drain=True) for loaded_model in loaded_models))

    async def _load_route(self, route: ModelRoute) -> LoadedModel:
        names = [step.model.name for step in route]
        self._pending.update(names)
        try:
            models = [await self._single_model(step.model) for step in route]
        finally:
            self._pending.subtract(names)
        if len(route) == 1:
            return models[0]
        loaded_model = self._loaded.get(
            _route_key(route)
        )  # another request may have built it in the meantime
        if loaded_model is not None:
            return loaded_model
        first_model, *later_models = [
            _translator_for_step(loaded_model.sync_translator, step)
            for loaded_model, step in zip(models, route, strict=True)
        ]
        translator = first_model.then(*later_models)
        chain = LoadedModel(
            self._async_translator("-".join(step.model.name for step in route), translator),
            translator,
            models=tuple(models),
        )
        self._loaded[_route_key(route)] = chain
        return chain

    async def _single_model(self, model: ServedModel) -> LoadedModel:
        """Return a single model, loaded if necessary; if the call is cancelled, the loading continues."""
        loaded_model = self._loaded.get(_model_key(model))
        if loaded_model is not None:
            return loaded_model
        failure = self._failures.get(model.name)
        if failure is not None and time.monotonic() - failure.time < RETRY_INTERVAL:
            raise _unavailable_error(RETRY_INTERVAL - (time.monotonic() - failure.time))
        task = self._load_tasks.get(model.name)
        if task is None:
            task = self._load_tasks[model.name] = asyncio.create_task(self._load_in_turn(model))
            task.add_done_callback(lambda task: self._finish_load(model, task))
        return await asyncio.shield(task)

    async def _load_in_turn(self, model: ServedModel) -> LoadedModel:
        """Load a model once no other model is being loaded, so that its memory use can be measured."""
        async with self._load_lock:
            loaded = self._loaded[_model_key(model)] = await self._load_measured(model)
            self._failures.pop(model.name, None)
            await self._evict(loaded)
            return loaded

    def _finish_load(self, model: ServedModel, task: asyncio.Task[LoadedModel]) -> None:
        self._load_tasks.pop(model.name, None)
        if not task.cancelled():
            task.exception()  # mark as retrieved, even if no request waits for it

    async def _load_measured(self, model: ServedModel) -> LoadedModel:
        memory_before, start = _resident_memory(), time.monotonic()
        try:
            translator = await run_in_thread(self._load_model, model)
        except ApiError as failure:
            error = failure.__cause__ or failure
            is_expected = isinstance(error, UwagaError | OSError | MemoryError)
            reason = str(error) if is_expected else f"{type(error).__name__}: {error}"
            self._failures[model.name] = Failure(reason)
            extra = {"model": model.name, "reason": reason}
            LOG.error("model not loaded", extra=extra, exc_info=None if is_expected else error)
            raise _unavailable_error(RETRY_INTERVAL) from None
        size = max(0, _resident_memory() - memory_before)
        seconds = round(time.monotonic() - start, 3)
        LOG.info("model loaded", extra={"model": model.name, "seconds": seconds, "bytes": size})
        return LoadedModel(self._async_translator(model.name, translator), translator, size)

    def _async_translator(self, name: str, translator: Translator) -> AsyncTranslator:
        observer = None if self._observer is None else self._observer(name)
        limit, nice = self._max_waiting, self._nice
        return AsyncTranslator(
            translator, max_waiting=limit, workers=MAX_CONCURRENT_REQUESTS, observer=observer, nice=nice
        )

    async def _evict(self, newest_model: LoadedModel) -> None:
        """Unload the least recently used models until the remaining models fit into the memory limit."""
        if not self._memory:
            return
        single_models = [(key[0][0], model) for key, model in self._loaded.items() if not model.models]
        for name, least_recent in sorted(single_models, key=lambda entry: entry[1].last_used):
            if sum(model.bytes for model in self._loaded.values()) <= self._memory:
                return
            dependent_models = [model for model in self._loaded.values() if least_recent in model.models]
            if (
                least_recent is newest_model
                or self._pending[name]
                or any(model.active_requests for model in (least_recent, *dependent_models))
            ):
                continue
            self._loaded = {
                key: model
                for key, model in self._loaded.items()
                if model not in (least_recent, *dependent_models)
            }
            LOG.info("model unloaded", extra={"bytes": least_recent.bytes})
            await asyncio.gather(
                *(model.translator.close(drain=True) for model in (*dependent_models, least_recent))
            )


def loader(threads: int, memory_mapped: bool) -> Loader:
    """Return a function that loads a model.

    Args:
        threads: number of engine threads, for models whose settings do not state it.
        memory_mapped: whether to memory-map the weights of int8 models, so that processes share them.
    """

    def load_model(model: ServedModel) -> Translator:
        """Load a model and return its translator."""
        settings = model.settings
        for memory in ("shared", "fast") if memory_mapped else ("fast",):
            try:
                translator = load(
                    settings.name,
                    dtype=settings.precision,
                    engine=settings.engine,
                    threads=threads if settings.threads is None else settings.threads,
                    shortlist=settings.shortlist,
                    memory=memory,
                    source=settings.source,
                    target=settings.target,
                )
            except SettingsError:
                if memory == "fast":
                    raise
                continue  # not an int8 model: each process loads a copy
            if isinstance(translator, Translator):
                return translator
            raise ModelError(f"{settings.name}: not a translation model")
        raise AssertionError("unreachable")

    return load_model


def _translator_for_step(translator: Translator, step: RouteStep[ServedModel]) -> Translator:
    """Return the translator of a model, restricted to the language pair of a route step."""
    return (
        translator
        if len(translator.models) > 1 or step.model.has_single_pair
        else translator.between(step.source, step.target)
    )


def _model_key(model: ServedModel) -> RouteKey:
    return ((model.name, "", ""),)


def _route_key(route: ModelRoute) -> RouteKey:
    if len(route) == 1:
        return _model_key(route[0].model)
    return tuple((step.model.name, step.source, step.target) for step in route)


def _unavailable_error(seconds: float) -> ApiError:
    return ApiError(503, "model_unavailable", MODEL_UNAVAILABLE, retry_after=seconds)


def _resident_memory() -> int:
    """Return the resident memory of the process in bytes; 0 if unknown."""
    try:
        return int(STATM_PATH.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
