"""Translation with asyncio: any number of concurrent calls share one running batch of the model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, TypeVarTuple, Unpack, overload

from uwaga.errors import CancelledRequestError, DeadlineError, SettingsError, quoted
from uwaga.results.translation import Translation
from uwaga.scheduling.batching_decoder import ModelBatches
from uwaga.scheduling.call_context import CallContext, Progress
from uwaga.scheduling.fair_queue import FairWorkers
from uwaga.scheduling.thread_queue import ThreadQueue
from uwaga.settings.load_options import LoadOptions
from uwaga.settings.options import check_integer
from uwaga.translator.choose_models import choose_for
from uwaga.translator.memories import MemoryArgument, TextContext
from uwaga.translator.request import Request, build_requests
from uwaga.translator.translator import Translator

if TYPE_CHECKING:
    from uwaga.translator.call_options import RequestFields, TranslateOptions

MAX_WORKERS = 1 << 12
MAX_WAITING = 1 << 20
MAX_NICE = 19
MIN_LONG_CHARACTERS = 2_000
"""Minimum number of characters of a long call; long calls take turns to process their texts."""
Outcome = Literal["done", "failed", "cancelled", "late"]
"""How a request ended: it was answered, failed, was cancelled, or missed its deadline."""

Arguments = TypeVarTuple("Arguments")
Value = TypeVar("Value")


class Observer(Protocol):
    """An object whose methods are called, in any thread, on events of requests.

    The methods must be fast and must not raise exceptions.
    """

    def on_queued(self, client: str) -> None:
        """Handle the acceptance of a request."""
        ...

    def on_started(self, client: str, wait_seconds: float) -> None:
        """Handle the start of a request's translation, given the waiting time of the request in seconds."""
        ...

    def on_finished(self, client: str, seconds: float, outcome: Outcome) -> None:
        """Handle the end of a request, given the time since the request was accepted, in seconds."""
        ...


class AsyncTranslator:
    """A translator for asyncio, whose calls share the model's batch.

    Results equal those of :meth:`uwaga.translator.Translator.translate`, whatever else is being translated.
    Cancelling a task removes its sentences from the batch.

    Args:
        translator: a :class:`uwaga.translator.Translator`, or the name of a model for :func:`uwaga.load`.
        max_waiting: maximum number of waiting requests; further requests are refused.
        workers: maximum number of requests that are processed at once; each has a thread, which mostly waits
            for the model.
        observer: object that is notified of the events of requests.
        nice: niceness of the engine's threads, as for nice(1), so that the threads of requests obtain a core
            when all cores are busy; on Linux only.

    Raises:
        SettingsError: a number is out of range, or ``translator`` has the wrong type.
        ModelError: the model does not exist or cannot be read.
    """

    def __init__(
        self,
        translator: Translator | str | Path | None = None,
        *,
        max_waiting: int = 1024,
        workers: int = 64,
        observer: Observer | None = None,
        nice: int = 0,
    ) -> None:
        check_integer("nice", nice, 0, MAX_NICE)
        check_integer("max_waiting", max_waiting, 0, MAX_WAITING)
        check_integer("workers", workers, 1, MAX_WORKERS)
        loaded_model: object = translator
        if translator is None or isinstance(translator, str | Path):
            options = LoadOptions()
            loaded_model = choose_for(translator, options).load(options)
        if not isinstance(loaded_model, Translator):
            raise SettingsError(
                f"translator must be a Translator or a model's name, not {quoted(loaded_model)}"
            )
        self.translator = loaded_model
        self.observer = observer
        self._workers = FairWorkers(workers, max_waiting)
        self._requests: set[CallContext] = set()
        self._models = ModelBatches(nice)
        self._closed = False

    def __repr__(self) -> str:
        return f"AsyncTranslator({self.translator!r})"

    @property
    def waiting(self) -> int:
        """The number of requests whose translation has not begun."""
        return self._workers.waiting

    @property
    def running(self) -> int:
        """The number of requests that are being translated."""
        return len(self._requests) - self._workers.waiting

    @property
    def counters(self) -> tuple[int, int, int]:
        """The numbers of decoding steps, of rows in all steps, and of finished sentences, over all models."""
        batch_counters = [(0, 0, 0), *(batch.counters for batch in self._models.batches)]
        steps, rows, sentences = (sum(column) for column in zip(*batch_counters, strict=True))
        return steps, rows, sentences

    @overload
    async def translate(  # type: ignore[overload-overlap]  # as in ``Translator.translate``
        self,
        text: str,
        *,
        client: str = ...,
        deadline: float | None = ...,
        **options: Unpack[TranslateOptions],
    ) -> Translation: ...

    @overload
    async def translate(
        self,
        text: Iterable[str],
        *,
        client: str = ...,
        deadline: float | None = ...,
        **options: Unpack[TranslateOptions],
    ) -> list[Translation]: ...

    async def translate(
        self,
        text: str | Iterable[str],
        *,
        client: str = "",
        deadline: float | None = None,
        **options: Unpack[TranslateOptions],
    ) -> Translation | list[Translation]:
        """Translate one text, or several texts; see :meth:`uwaga.translator.Translator.translate`.

        Args:
            text: one text, or any number of them.
            client: the name of the client; clients are served in turn.
            deadline: seconds until the translation is due; None for no deadline.
            **options: as for ``Translator.translate``.

        Raises:
            BusyError: too many requests are waiting.
            DeadlineError: the deadline has passed.
            CancelledRequestError: the translator was closed.
            TextTooLongError, SettingsError, DataError: as for ``Translator.translate``.
        """
        translations = await self.run(build_requests(text, options), client=client, deadline=deadline)
        return translations[0] if isinstance(text, str) else translations

    async def confirm(
        self,
        source: str,
        target: str,
        *,
        memory: MemoryArgument,
        context: TextContext | None = None,
        origin: str = "",
    ) -> None:
        """Add a confirmed translation to a memory; see :meth:`uwaga.translator.Translator.confirm`.

        Raises:
            DataError, SettingsError, MissingExtraError: as for ``Translator.confirm``.
        """
        await asyncio.to_thread(
            self.translator.confirm, source, target, memory=memory, context=context, origin=origin
        )

    async def retranslate(
        self,
        text: str,
        previous: str | Translation,
        *,
        bias: float = 0.0,
        mask: int = 0,
        client: str = "",
        deadline: float | None = None,
        **options: Unpack[RequestFields],
    ) -> Translation:
        """Translate a text that has grown; see :meth:`uwaga.translator.Translator.retranslate`.

        Args:
            text: the complete current text.
            previous: the complete translation of the text before it grew; empty at first.
            bias: as for ``Translator.retranslate``.
            mask: as for ``Translator.retranslate``.
            client: as for :meth:`translate`.
            deadline: as for :meth:`translate`.
            **options: as for ``Translator.translate``, with greedy search.

        Raises:
            BusyError, DeadlineError, TextTooLongError, SettingsError, DataError: as in :meth:`translate`.
        """
        draft_options = {"beam": 1, "nbest": 1, **options, "draft": str(previous), "bias": bias, "mask": mask}
        [translation] = await self.run(build_requests(text, draft_options), client=client, deadline=deadline)
        return translation

    async def run(
        self,
        requests: Iterable[Request],
        *,
        client: str = "",
        deadline: float | None = None,
        progress: Progress | None = None,
    ) -> list[Translation]:
        """Translate requests together; see :meth:`uwaga.translator.Translator.run`.

        Args:
            requests: any number of requests.
            client: as for :meth:`translate`.
            deadline: as for :meth:`translate`.
            progress: as for :meth:`call`.

        Raises:
            BusyError, DeadlineError, TextTooLongError, SettingsError, DataError: as in :meth:`translate`.
        """
        request_list = list(requests)

        def work(translator: Translator) -> list[Translation]:
            return list(translator.run(request_list, window=max(len(request_list), 1)))

        characters = sum(len(request.text) for request in request_list if isinstance(request.text, str))
        return await self.call(
            work,
            client=client,
            deadline=deadline,
            is_long=characters >= MIN_LONG_CHARACTERS,
            progress=progress,
        )

    def stream(
        self,
        text: str,
        *,
        client: str = "",
        deadline: float | None = None,
        **options: Unpack[TranslateOptions],
    ) -> AsyncGenerator[str, None]:
        """Translate a text and yield its translation piece by piece as it grows.

        The joined pieces equal ``translate(text, beam=1, ...).text``. A caller that stops early should close
        the generator (``aclose()``, or ``contextlib.aclosing``), which removes the text from the batch.

        Raises:
            BusyError, DeadlineError, TextTooLongError, SettingsError, DataError: as in :meth:`translate`.
        """
        [request] = build_requests(text, options)
        return self.run_stream(request, client=client, deadline=deadline)

    async def run_stream(
        self,
        request: Request,
        *,
        client: str = "",
        deadline: float | None = None,
        on_truncated: Callable[[], object] | None = None,
    ) -> AsyncGenerator[str, None]:
        """Translate a request and yield its translation as it grows; see :meth:`stream`.

        Args:
            request: the request.
            client: as for :meth:`translate`.
            deadline: as for :meth:`translate`.
            on_truncated: called after the last piece if a length limit truncated the translation.

        Raises:
            BusyError, DeadlineError, TextTooLongError, SettingsError, DataError: as in :meth:`translate`.
        """
        pieces = ThreadQueue[str]()

        def work(translator: Translator) -> bool:
            translated_pieces = translator.run_stream(request)
            while True:
                try:
                    pieces.put(next(translated_pieces))
                except StopIteration as end:
                    return bool(end.value)

        task = asyncio.ensure_future(
            self.call(
                work, client=client, deadline=deadline, is_long=len(request.text) >= MIN_LONG_CHARACTERS
            )
        )
        pieces.close_after(task)
        try:
            async for piece in pieces:
                yield piece
            if await task and on_truncated is not None:
                on_truncated()
        finally:
            task.cancel()

    async def call(
        self,
        function: Callable[[Any, Unpack[Arguments]], Value],
        *args: *Arguments,
        client: str = "",
        deadline: float | None = None,
        is_long: bool = False,
        progress: Progress | None = None,
    ) -> Value:
        """Call a function in a thread, with a translator whose searches belong to this request.

        This method is for work other than translating texts: documents, alignment and scores.

        Args:
            function: function that is called with the translator and ``args``; its searches raise an error
                once the request is cancelled.
            *args: further arguments.
            client: the name of the client.
            deadline: seconds until the result is due.
            is_long: whether the call has long texts; such calls take turns, except while they wait for the
                model.
            progress: function that is called, in another thread, with the number of sentences that the model
                has translated and the number of sentences known so far.

        Raises:
            BusyError: too many requests are waiting.
            DeadlineError: the deadline has passed.
            CancelledRequestError: the translator was closed.
        """
        if self._closed:
            raise CancelledRequestError("the translator was closed")
        request = CallContext(client, deadline, is_long, progress)
        future: Future[Value] = Future()
        start = time.monotonic()
        job = partial(self._work, request, future, start, lambda translator: function(translator, *args))
        self._workers.put(client, job)
        self._requests.add(request)
        if self.observer is not None:
            self.observer.on_queued(client)
        status: Outcome = "cancelled"
        try:
            result = await asyncio.wait_for(asyncio.wrap_future(future), deadline)
            status = "done"
            return result
        except TimeoutError:
            status = "late"
            raise request.deadline_error() from None
        except DeadlineError:
            status = "late"
            raise
        except CancelledRequestError:
            raise
        except Exception:
            status = "failed"
            raise
        finally:
            self._requests.discard(request)
            if status != "done":
                request.cancel()
                self._workers.remove(client, job)
            if self.observer is not None:
                self.observer.on_finished(client, time.monotonic() - start, status)
            del future, job  # as in :meth:`_work`

    async def close(self, drain: bool = True) -> None:
        """Refuse further requests, and end the threads.

        Args:
            drain: whether to finish the accepted requests; False cancels them.
        """
        self._closed = True
        if not drain:
            for request in list(self._requests):
                request.cancel("the translator was closed")
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._workers.wait()
        self._workers.close()
        self._models.close()

    async def __aenter__(self) -> AsyncTranslator:
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close(drain=error_type is None)

    def _work(
        self, request: CallContext, future: Future[Value], start: float, function: Callable[[Any], Value]
    ) -> None:
        if self.observer is not None:
            self.observer.on_started(request.client, time.monotonic() - start)
        try:
            request.check()
            with request.active():
                result = function(self.translator.wrap_decoders(self._models.decoder_for(request)))
        except BaseException as error:
            with suppress(InvalidStateError):  # the request was cancelled
                future.set_exception(_task_error(error))
        else:
            with suppress(InvalidStateError):
                future.set_result(result)
        finally:
            del future  # it holds the error, whose traceback holds this frame


def _task_error(error: BaseException) -> Exception:
    """Return an error that a task can raise: ``error`` itself, or a RuntimeError that it caused.

    SystemExit and KeyboardInterrupt would end the event loop, StopIteration would never reach the task, and
    the other replaced errors would look like a cancellation of the task.
    """
    if isinstance(error, Exception) and not isinstance(error, StopIteration | CancelledError):
        return error
    replacement = RuntimeError(f"the call ended with {type(error).__name__}")
    replacement.__cause__ = error
    return replacement
