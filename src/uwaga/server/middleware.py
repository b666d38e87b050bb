"""Middleware around all endpoints: request ids, limits of bodies and concurrency, errors, logs, metrics."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from uwaga.server.api_errors import ApiError, api_error
from uwaga.server.metrics import Metrics
from uwaga.server.settings import LimitSettings

LOG = logging.getLogger("uwaga.server")
REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
GONE = 499
"""Logged status of a request whose client disconnected."""
UNKNOWN = "unknown"
"""Logged instead of an unknown path, which might hold a text."""

Render = Callable[[str, ApiError, str], Response]


@dataclass(eq=False)
class RequestState:
    """State of a request, in ``scope["uwaga"]``.

    Attributes:
        id: sent by the client, or random.
        status: the status of the response; 0 before it starts.
        gone: the client has disconnected.
        counted: among the requests being answered.
        room: counts its body.
        body_bytes: memory of its body, as counted there.
        refused: its unfinished body has made room for others.
        waiting: the time limit of the part of its body that it waits for; None while it does not wait.
    """

    id: str
    room: BodyRoom
    status: int = 0
    gone: bool = False
    counted: bool = False
    body_bytes: int = 0
    refused: bool = False
    waiting: asyncio.Timeout | None = None


class BodyRoom:
    """The memory for the bodies of all requests in progress.

    Once it is full, the unfinished body that began first is refused, so that clients that never finish
    theirs keep nobody out.

    Args:
        size: in bytes.
    """

    def __init__(self, size: int) -> None:
        self._size, self._used = size, 0
        self._unfinished: dict[RequestState, None] = {}

    def add(self, state: RequestState, size: int) -> None:
        """Count a part of a request's body, of so many bytes."""
        self._unfinished.setdefault(state)
        state.body_bytes += size
        self._used += size
        while self._used > self._size:
            oldest = next(iter(self._unfinished))
            self.free(oldest)
            if oldest is state:
                raise _no_room()
            oldest.refused = True
            if oldest.waiting is not None and not oldest.waiting.expired():
                oldest.waiting.reschedule(0)

    def finish(self, state: RequestState) -> None:
        """Keep a body that has arrived until :meth:`free`."""
        self._unfinished.pop(state, None)

    def replace(self, state: RequestState, size: int) -> None:
        """Count what is kept of a body that has arrived in its place."""
        self.free(state)
        self.add(state, size)
        self.finish(state)

    def free(self, state: RequestState) -> None:
        """Count a request's body no more."""
        self.finish(state)
        self._used -= state.body_bytes
        state.body_bytes = 0


def _no_room() -> ApiError:
    message = "the bodies of requests take more memory than this server has for them: try again in a second"
    return ApiError(503, "busy", message, retry_after=1.0)


def _clear_frames(error: BaseException) -> None:
    """Release what the frames of an error hold: futures, which hold the error, and long texts."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending:
        raised = pending.pop()
        if raised is not None and id(raised) not in seen:
            seen.add(id(raised))
            traceback.clear_frames(raised.__traceback__)
            pending += [raised.__cause__, raised.__context__]


def _cancelled(error: BaseException) -> bool:
    """Return whether this task was cancelled; an awaited task or thread that was cancelled is a failure."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


class RequestMiddleware:
    """Bounds requests, renders errors, and records each request.

    Args:
        app: the endpoints.
        limits: limits on request bodies.
        metrics: records requests.
        render: returns an error response from the path, the error and the request's id.
        most: maximum concurrent requests with a body; further ones are refused at once. A request counts
            from when its body has arrived until its response is complete, so that slow clients do not keep
            others out.
    """

    def __init__(
        self, app: ASGIApp, limits: LimitSettings, metrics: Metrics, render: Render, most: int
    ) -> None:
        self.app, self._limits, self._metrics, self._render = app, limits, metrics, render
        self._most, self._answering = most, 0
        self._room = BodyRoom(limits.total_body_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, began = Headers(scope=scope), time.perf_counter()
        stated = headers.get("x-request-id", "")
        number = stated if REQUEST_ID.fullmatch(stated) else secrets.token_hex(8)
        state = scope["uwaga"] = RequestState(number, self._room)

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start":
                state.status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = state.id
            elif not message.get("more_body", False):
                self._finish(state)
            await send(message)

        running = self._metrics.running
        running.inc()
        try:
            if "content-length" in headers or "transfer-encoding" in headers:
                self._check_count()
            await self.app(scope, self._bounded(scope, headers, receive), answered)
        except ClientDisconnect:
            state.gone = True
        except BaseException as error:
            if not _cancelled(error):
                await self._answer_error(error, scope, receive, answered)
            elif not state.gone:
                raise
        finally:
            self._finish(state)
            running.dec()
            self._record(scope, state, time.perf_counter() - began)

    async def _answer_error(self, error: BaseException, scope: Scope, receive: Receive, send: Send) -> None:
        """Send an error as a response, unless a response has begun."""
        state: RequestState = scope["uwaga"]
        problem = api_error(error)
        if problem.status == 500:
            LOG.error("server error", extra={"id": state.id}, exc_info=error)
        if not state.status:
            await self._render(scope["path"], problem, state.id)(scope, receive, send)
        _clear_frames(error)

    def _check_count(self) -> None:
        if self._answering >= self._most:
            message = f"{self._answering} requests are being answered, the maximum: try again in a second"
            raise ApiError(503, "busy", message, retry_after=1.0)

    def _check_size(self, scope: Scope, headers: Headers, size: int) -> None:
        form = headers.get("content-type", "").startswith("multipart/form-data")
        large = form and getattr(scope.get("route"), "large", False)
        most = self._limits.document_bytes if large else self._limits.body_bytes
        if size > most:
            raise ApiError(413, "body_too_large", f"the body is too large; send at most {most} bytes")

    def _finish(self, state: RequestState) -> None:
        self._answering -= state.counted
        state.counted = False
        self._room.free(state)

    def _bounded(self, scope: Scope, headers: Headers, receive: Receive) -> Receive:
        """Return a receive function that refuses too large or slow bodies, and too many requests.

        It raises an ApiError when an endpoint reads the body, so after the endpoint has seen the headers.
        """
        state: RequestState = scope["uwaga"]
        until = asyncio.get_running_loop().time() + self._limits.body_seconds
        stated = headers.get("content-length", "0")
        expected = int(stated[:20]) if stated.isdecimal() else 0
        seen, whole = 0, False

        async def received() -> Message:
            nonlocal seen, whole
            if whole:
                return await receive()
            if state.refused:
                raise _no_room()
            self._check_size(scope, headers, expected)
            message = await self._next_part(state, until, receive)
            part = message.get("body", b"")
            seen += len(part)
            self._check_size(scope, headers, seen)
            self._room.add(state, sys.getsizeof(part))
            whole = not message.get("more_body", False)
            if whole:
                self._room.finish(state)
            if whole and seen:
                self._check_count()
                self._answering += 1
                state.counted = True
            return message

        return received

    async def _next_part(self, state: RequestState, until: float, receive: Receive) -> Message:
        """Return the next part of a body."""
        try:
            async with asyncio.timeout_at(until) as state.waiting:
                return await receive()
        except TimeoutError:
            if state.refused:
                raise _no_room() from None
            raise ApiError(408, "body_too_slow", "the body did not arrive in time") from None
        finally:
            state.waiting = None

    def _record(self, scope: Scope, state: RequestState, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", UNKNOWN)
        status = GONE if state.gone else state.status
        self._metrics.request(route, str(status), seconds)
        if LOG.isEnabledFor(logging.INFO):
            extra = {"id": state.id, "method": scope["method"], "route": route, "status": status}
            LOG.info("request", extra={**extra, "seconds": round(seconds, 4)})
