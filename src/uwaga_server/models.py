"""Loaded models: loaded at startup or at first use, unloaded beyond a memory limit."""

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
"""Seconds until loading a model is retried after a failure."""
MEBIBYTE = 1 << 20
WORKERS = 64
"""Maximum concurrent requests of a model; further ones wait."""
STATM_PATH = Path("/proc/self/statm")
Loader = Callable[[ServedModel], Translator]
RouteKey = tuple[tuple[str, str, str], ...]


@dataclass(eq=False)
class LoadedModel:
    """A translator in memory.

    Attributes:
        translator: the translator that requests share.
        sync_translator: the same without the scheduler.
        bytes: bytes of memory that loading it took.
        uses: number of requests that are using it.
        used: start time of the last request.
        models: the models of a chain; empty for a single model.
    """

    translator: AsyncTranslator
    sync_translator: Translator
    bytes: int = 0
    uses: int = 0
    used: float = 0.0
    models: tuple[LoadedModel, ...] = ()


class ModelObserver(Observer, Protocol):
    """Observes a model's requests and its batch."""

    def on_steps(self, steps: int, rows: int, sentences: int) -> None:
        """Receive :attr:`uwaga.translator.asynchronous.AsyncTranslator.counters`."""
        ...


@dataclass
class Failure:
    """The reason why a model could not be loaded, and the time."""

    message: str
    time: float = field(default_factory=time.monotonic)


class ModelPool:
    """Loaded models and chains of models.

    Args:
        load_model: loads a served model; called in a thread.
        memory: MiB of all models beyond which unused ones are unloaded; 0 for no limit.
        max_waiting: maximum requests that wait for a model; further ones are refused.
        observer: returns the observer of the model with a name.
        nice: as in :class:`uwaga.AsyncTranslator`.
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
        self._load, self._memory, self._max_waiting = load_model, memory * MEBIBYTE, max_waiting
        self._loaded: dict[RouteKey, LoadedModel] = {}
        self._failed: dict[str, Failure] = {}
        self._load_tasks: dict[str, asyncio.Task[LoadedModel]] = {}
        self._pending: Counter[str] = Counter()
        self._load_lock = asyncio.Lock()
        self._observer = observer

    @asynccontextmanager
    async def translator(self, route: ModelRoute) -> AsyncIterator[AsyncTranslator]:
        """Return the translator of a route and keep it loaded during the block."""
        loaded = self._loaded.get(_route_key(route)) or await self._load_route(route)
        loaded.uses += 1
        loaded.used = time.monotonic()
        for model in loaded.models:
            model.used = loaded.used
        try:
            yield loaded.translator
        finally:
            loaded.uses -= 1
            if (observer := loaded.translator.observer) is not None:
                cast("ModelObserver", observer).on_steps(*loaded.translator.counters)

    async def preload(self, models: list[ServedModel]) -> None:
        """Load the models that the settings preload; after a failure, continue with the next model."""
        for model in models:
            if model.settings.preload and not model.problem:
                try:
                    await self._single_model(model)
                except ApiError:
                    continue  # logged, and listed by :meth:`failures`

    def failures(self) -> dict[str, str]:
        """Return the reasons why models could not be loaded, by name."""
        return {name: failure.message for name, failure in self._failed.items()}

    def loaded_names(self) -> list[str]:
        """Return the names of the loaded models."""
        return sorted({key[0][0] for key in self._loaded if len(key) == 1})

    async def close(self) -> None:
        """Finish the sentences being translated, then unload all models."""
        for task in self._load_tasks.values():
            task.cancel()
        loaded_models = list(self._loaded.values())
        self._loaded.clear()
        await asyncio.gather(*(loaded.translator.close(drain=True) for loaded in loaded_models))

    async def _load_route(self, route: ModelRoute) -> LoadedModel:
        names = [step.model.name for step in route]
        self._pending.update(names)
        try:
            models = [await self._single_model(step.model) for step in route]
        finally:
            self._pending.subtract(names)
        if len(route) == 1:
            return models[0]
        existing = self._loaded.get(_route_key(route))  # another request may have built it in the meantime
        if existing is not None:
            return existing
        first, *following = [
            _translator_for_step(loaded.sync_translator, step)
            for loaded, step in zip(models, route, strict=True)
        ]
        translator = first.then(*following)
        chain = LoadedModel(
            self._async_translator("-".join(step.model.name for step in route), translator),
            translator,
            models=tuple(models),
        )
        self._loaded[_route_key(route)] = chain
        return chain

    async def _single_model(self, model: ServedModel) -> LoadedModel:
        """Return a single model, loading it if necessary; cancelling the call does not stop the loading."""
        loaded = self._loaded.get(_model_key(model))
        if loaded is not None:
            return loaded
        failure = self._failed.get(model.name)
        if failure is not None and time.monotonic() - failure.time < RETRY_INTERVAL:
            raise _unavailable_error(RETRY_INTERVAL - (time.monotonic() - failure.time))
        task = self._load_tasks.get(model.name)
        if task is None:
            task = self._load_tasks[model.name] = asyncio.create_task(self._load_in_turn(model))
            task.add_done_callback(lambda task: self._finish_load(model, task))
        return await asyncio.shield(task)

    async def _load_in_turn(self, model: ServedModel) -> LoadedModel:
        """Load a model; models are loaded one at a time, so that their memory can be measured."""
        async with self._load_lock:
            loaded = self._loaded[_model_key(model)] = await self._load_measured(model)
            self._failed.pop(model.name, None)
            await self._evict(loaded)
            return loaded

    def _finish_load(self, model: ServedModel, task: asyncio.Task[LoadedModel]) -> None:
        self._load_tasks.pop(model.name, None)
        if not task.cancelled():
            task.exception()  # mark as retrieved, even if no request waits for it

    async def _load_measured(self, model: ServedModel) -> LoadedModel:
        memory_before, start = _resident_memory(), time.monotonic()
        try:
            translator = await run_in_thread(self._load, model)
        except ApiError as failure:
            error = failure.__cause__ or failure
            expected = isinstance(error, UwagaError | OSError | MemoryError)
            reason = str(error) if expected else f"{type(error).__name__}: {error}"
            self._failed[model.name] = Failure(reason)
            extra = {"model": model.name, "reason": reason}
            LOG.error("model not loaded", extra=extra, exc_info=None if expected else error)
            raise _unavailable_error(RETRY_INTERVAL) from None
        size = max(0, _resident_memory() - memory_before)
        seconds = round(time.monotonic() - start, 3)
        LOG.info("model loaded", extra={"model": model.name, "seconds": seconds, "bytes": size})
        return LoadedModel(self._async_translator(model.name, translator), translator, size)

    def _async_translator(self, name: str, translator: Translator) -> AsyncTranslator:
        observer = None if self._observer is None else self._observer(name)
        limit, nice = self._max_waiting, self._nice
        return AsyncTranslator(translator, most_waiting=limit, workers=WORKERS, observer=observer, nice=nice)

    async def _evict(self, newest: LoadedModel) -> None:
        """Unload the least recently used models until the remaining ones fit."""
        if not self._memory:
            return
        single_models = [(key[0][0], loaded) for key, loaded in self._loaded.items() if not loaded.models]
        for name, old in sorted(single_models, key=lambda entry: entry[1].used):
            if sum(loaded.bytes for loaded in self._loaded.values()) <= self._memory:
                return
            dependent_models = [loaded for loaded in self._loaded.values() if old in loaded.models]
            if (
                old is newest
                or self._pending[name]
                or any(loaded.uses for loaded in (old, *dependent_models))
            ):
                continue
            self._loaded = {
                key: loaded for key, loaded in self._loaded.items() if loaded not in (old, *dependent_models)
            }
            LOG.info("model unloaded", extra={"bytes": old.bytes})
            await asyncio.gather(
                *(loaded.translator.close(drain=True) for loaded in (*dependent_models, old))
            )


def loader(threads: int, mapped: bool) -> Loader:
    """Return a function that loads a served model.

    Args:
        threads: engine threads of models whose settings have none.
        mapped: memory-map the weights of int8 folders, so that processes share them.
    """

    def load_model(model: ServedModel) -> Translator:
        """Load a model."""
        settings = model.settings
        for memory in ("shared", "fast") if mapped else ("fast",):
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
                continue  # not int8: each process loads a copy
            if isinstance(translator, Translator):
                return translator
            raise ModelError(f"{settings.name}: not a translation model")
        raise AssertionError("unreachable")

    return load_model


def _translator_for_step(translator: Translator, step: RouteStep[ServedModel]) -> Translator:
    """Return a model's translator for a step of a route."""
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
