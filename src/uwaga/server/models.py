"""Loaded models: loaded at start or at first use, unloaded beyond a limit of memory."""

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
from uwaga.server.api_errors import MODEL_UNAVAILABLE, ApiError, in_thread
from uwaga.server.served_models import Route, ServedModel
from uwaga.translator import Translator, load
from uwaga.translator.asynchronous import AsyncTranslator, Observer

LOG = logging.getLogger("uwaga.server")
RETRY = 30.0
"""Seconds until a model that failed to load is tried again."""
MEBIBYTE = 1 << 20
WORKERS = 64
"""Concurrent requests of a model; further ones wait."""
STATUS = Path("/proc/self/statm")
Loader = Callable[[ServedModel], Translator]
Way = tuple[tuple[str, str, str], ...]


@dataclass(eq=False)
class Loaded:
    """A translator in memory.

    Attributes:
        translator: shared by requests.
        own: the same without the scheduler.
        bytes: bytes of memory that it took.
        uses: requests that use it now.
        used: when the last one started.
        legs: the models of a chain.
    """

    translator: AsyncTranslator
    own: Translator
    bytes: int = 0
    uses: int = 0
    used: float = 0.0
    legs: tuple[Loaded, ...] = ()


class ModelObserver(Observer, Protocol):
    """Observes a model's requests and its batch."""

    def stepped(self, steps: int, rows: int, sentences: int) -> None:
        """Receive :attr:`uwaga.translator.asynchronous.AsyncTranslator.counters`."""
        ...


@dataclass
class Failure:
    """Why a model could not be loaded, and when."""

    message: str
    at: float = field(default_factory=time.monotonic)


class ModelPool:
    """Loaded models and chains of models.

    Args:
        load_offer: loads a served model; called in a thread.
        memory: MiB of all models beyond which unused ones are unloaded; 0 for no limit.
        most_waiting: requests that wait for one model before further ones are refused.
        observer: returns the observer of a model by its name.
        nice: as in :class:`uwaga.AsyncTranslator`.
    """

    def __init__(
        self,
        load_offer: Loader,
        memory: int = 0,
        most_waiting: int = 2048,
        observer: Callable[[str], ModelObserver] | None = None,
        nice: int = 0,
    ) -> None:
        self._nice = nice
        self._load, self._memory, self._most_waiting = load_offer, memory * MEBIBYTE, most_waiting
        self._loaded: dict[Way, Loaded] = {}
        self._failed: dict[str, Failure] = {}
        self._coming: dict[str, asyncio.Task[Loaded]] = {}
        self._awaited: Counter[str] = Counter()
        self._loading = asyncio.Lock()
        self._observer = observer

    @asynccontextmanager
    async def translator(self, route: Route) -> AsyncIterator[AsyncTranslator]:
        """Return the translator of a route, and keep it loaded during the block."""
        loaded = self._loaded.get(_way(route)) or await self._made(route)
        loaded.uses += 1
        loaded.used = time.monotonic()
        for leg in loaded.legs:
            leg.used = loaded.used
        try:
            yield loaded.translator
        finally:
            loaded.uses -= 1
            if (observer := loaded.translator.observer) is not None:
                cast("ModelObserver", observer).stepped(*loaded.translator.counters)

    async def preload(self, offers: list[ServedModel]) -> None:
        """Load the models that the settings preload; a failure does not stop the others."""
        for offer in offers:
            if offer.settings.preload and not offer.problem:
                try:
                    await self._offer(offer)
                except ApiError:
                    continue  # logged, and listed by :meth:`failures`

    def failures(self) -> dict[str, str]:
        """Return why models could not be loaded, by name."""
        return {name: failure.message for name, failure in self._failed.items()}

    def loaded_names(self) -> list[str]:
        """Return the names of the loaded models."""
        return sorted({way[0][0] for way in self._loaded if len(way) == 1})

    async def close(self) -> None:
        """Finish the running sentences, then unload all models."""
        for task in self._coming.values():
            task.cancel()
        every = list(self._loaded.values())
        self._loaded.clear()
        await asyncio.gather(*(loaded.translator.close(drain=True) for loaded in every))

    async def _made(self, route: Route) -> Loaded:
        names = [leg.model.name for leg in route]
        self._awaited.update(names)
        try:
            legs = [await self._offer(leg.model) for leg in route]
        finally:
            self._awaited.subtract(names)
        if len(route) == 1:
            return legs[0]
        known = self._loaded.get(_way(route))  # another request may have built it meanwhile
        if known is not None:
            return known
        first, *others = [_between(loaded.own, leg) for loaded, leg in zip(legs, route, strict=True)]
        own = first.then(*others)
        chain = Loaded(
            self._asynchronous("-".join(leg.model.name for leg in route), own), own, legs=tuple(legs)
        )
        self._loaded[_way(route)] = chain
        return chain

    async def _offer(self, offer: ServedModel) -> Loaded:
        """Return a single model, loaded if necessary; cancelling does not stop the loading."""
        loaded = self._loaded.get(_alone(offer))
        if loaded is not None:
            return loaded
        failure = self._failed.get(offer.name)
        if failure is not None and time.monotonic() - failure.at < RETRY:
            raise _unavailable(RETRY - (time.monotonic() - failure.at))
        task = self._coming.get(offer.name)
        if task is None:
            task = self._coming[offer.name] = asyncio.create_task(self._arriving(offer))
            task.add_done_callback(lambda task: self._arrived(offer, task))
        return await asyncio.shield(task)

    async def _arriving(self, offer: ServedModel) -> Loaded:
        """Load a model, one at a time, so that its memory can be measured."""
        async with self._loading:
            loaded = self._loaded[_alone(offer)] = await self._fresh(offer)
            self._failed.pop(offer.name, None)
            await self._let_go(loaded)
            return loaded

    def _arrived(self, offer: ServedModel, task: asyncio.Task[Loaded]) -> None:
        self._coming.pop(offer.name, None)
        if not task.cancelled():
            task.exception()  # marked as retrieved, even if nobody waits for it

    async def _fresh(self, offer: ServedModel) -> Loaded:
        before, began = _resident(), time.monotonic()
        try:
            own = await in_thread(self._load, offer)
        except ApiError as failure:
            error = failure.__cause__ or failure
            known = isinstance(error, UwagaError | OSError | MemoryError)
            reason = str(error) if known else f"{type(error).__name__}: {error}"
            self._failed[offer.name] = Failure(reason)
            extra = {"model": offer.name, "reason": reason}
            LOG.error("model not loaded", extra=extra, exc_info=None if known else error)
            raise _unavailable(RETRY) from None
        taken = max(0, _resident() - before)
        seconds = round(time.monotonic() - began, 3)
        LOG.info("model loaded", extra={"model": offer.name, "seconds": seconds, "bytes": taken})
        return Loaded(self._asynchronous(offer.name, own), own, taken)

    def _asynchronous(self, name: str, own: Translator) -> AsyncTranslator:
        observer = None if self._observer is None else self._observer(name)
        most, nice = self._most_waiting, self._nice
        return AsyncTranslator(own, most_waiting=most, workers=WORKERS, observer=observer, nice=nice)

    async def _let_go(self, newest: Loaded) -> None:
        """Unload the least recently used models until the others fit."""
        if not self._memory:
            return
        held = [(way[0][0], loaded) for way, loaded in self._loaded.items() if not loaded.legs]
        for name, old in sorted(held, key=lambda loaded: loaded[1].used):
            if sum(loaded.bytes for loaded in self._loaded.values()) <= self._memory:
                return
            users = [loaded for loaded in self._loaded.values() if old in loaded.legs]
            if old is newest or self._awaited[name] or any(loaded.uses for loaded in (old, *users)):
                continue
            self._loaded = {
                way: loaded for way, loaded in self._loaded.items() if loaded not in (old, *users)
            }
            LOG.info("model unloaded", extra={"bytes": old.bytes})
            await asyncio.gather(*(loaded.translator.close(drain=True) for loaded in (*users, old)))


def loader(threads: int, mapped: bool) -> Loader:
    """Return a function that loads a served model.

    Args:
        threads: engine threads, unless the model's settings say.
        mapped: memory-map the weights of int8 folders, so that processes share them.
    """

    def loaded(offer: ServedModel) -> Translator:
        """Load a model."""
        settings = offer.settings
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
                continue  # not int8: each process has its own copy
            if isinstance(translator, Translator):
                return translator
            raise ModelError(f"{settings.name}: it is not a translator")
        raise AssertionError("the loop ends by itself")

    return loaded


def _between(own: Translator, leg: RouteStep[ServedModel]) -> Translator:
    """Return a model's translator for a step of a route."""
    return own if len(own.models) > 1 or leg.model.one_pair else own.between(leg.source, leg.target)


def _alone(offer: ServedModel) -> Way:
    return ((offer.name, "", ""),)


def _way(route: Route) -> Way:
    if len(route) == 1:
        return _alone(route[0].model)
    return tuple((leg.model.name, leg.source, leg.target) for leg in route)


def _unavailable(seconds: float) -> ApiError:
    return ApiError(503, "model_unavailable", MODEL_UNAVAILABLE, retry_after=seconds)


def _resident() -> int:
    """Resident memory of the process in bytes; 0 if unknown."""
    try:
        return int(STATUS.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
