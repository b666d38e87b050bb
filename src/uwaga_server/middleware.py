"""Middleware for all endpoints: request ids, limits on bodies and concurrency, errors, logs and metrics."""

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

from uwaga_server.api_errors import ApiError, api_error
from uwaga_server.metrics import Metrics
from uwaga_server.settings import LimitSettings

LOG = logging.getLogger("uwaga_server")
REQUEST_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
DISCONNECTED_STATUS = 499
"""Status that is logged for a request whose client disconnected."""
UNKNOWN_ROUTE = "unknown"
"""Name that is logged instead of an unknown path, which might contain text to translate."""

Render = Callable[[str, ApiError, str], Response]


@dataclass(eq=False)
class RequestState:
    """State of a request, stored in ``scope["uwaga"]``.

    Attributes:
        id: the request id that the client sent, or a random id.
        body_memory: the memory budget for request bodies.
        status: the status of the response; 0 before the response starts.
        disconnected: True if the client has disconnected.
        is_counted: True while the request counts towards the limit of concurrent requests.
        body_bytes: number of bytes of the request's body that are counted in ``body_memory``.
        is_refused: True if the incomplete body was refused to free memory for other requests.
        part_timeout: the timeout of the next part of the body; None unless the request waits for a part.
    """

    id: str
    body_memory: BodyMemory
    status: int = 0
    disconnected: bool = False
    is_counted: bool = False
    body_bytes: int = 0
    is_refused: bool = False
    part_timeout: asyncio.Timeout | None = None


class BodyMemory:
    """Memory budget for the bodies of all requests in progress.

    If the budget is exceeded, the oldest incomplete body is refused, so that clients that never complete
    their bodies do not block other clients.

    Args:
        size: the maximum total size in bytes.
    """

    def __init__(self, size: int) -> None:
        self._size, self._used = size, 0
        self._unfinished: dict[RequestState, None] = {}

    def add(self, state: RequestState, size: int) -> None:
        """Count ``size`` bytes of a body, and refuse the oldest incomplete bodies that exceed the budget."""
        self._unfinished.setdefault(state)
        state.body_bytes += size
        self._used += size
        while self._used > self._size:
            oldest_request = next(iter(self._unfinished))
            self.free(oldest_request)
            if oldest_request is state:
                raise _memory_error()
            oldest_request.is_refused = True
            if oldest_request.part_timeout is not None and not oldest_request.part_timeout.expired():
                oldest_request.part_timeout.reschedule(0)

    def finish(self, state: RequestState) -> None:
        """Mark the body of a request as complete; its bytes are counted until :meth:`free` is called."""
        self._unfinished.pop(state, None)

    def replace(self, state: RequestState, size: int) -> None:
        """Count ``size`` bytes for a request, instead of the bytes of its complete body."""
        self.free(state)
        self.add(state, size)
        self.finish(state)

    def free(self, state: RequestState) -> None:
        """Stop counting the bytes of a request."""
        self.finish(state)
        self._used -= state.body_bytes
        state.body_bytes = 0


def _memory_error() -> ApiError:
    message = "the memory for request bodies is full; try again in a second"
    return ApiError(503, "busy", message, retry_after=1.0)


def _clear_frames(error: BaseException) -> None:
    """Clear the stack frames of an exception and its causes, to free long texts and reference cycles."""
    pending_errors: list[BaseException | None] = [error]
    visited_errors: set[int] = set()
    while pending_errors:
        pending_error = pending_errors.pop()
        if pending_error is not None and id(pending_error) not in visited_errors:
            visited_errors.add(id(pending_error))
            traceback.clear_frames(pending_error.__traceback__)
            pending_errors += [pending_error.__cause__, pending_error.__context__]


def _is_task_cancelled(error: BaseException) -> bool:
    """Return whether the current task itself was cancelled, rather than a task or thread that it awaits."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


class RequestMiddleware:
    """ASGI middleware that limits requests, renders errors, and records each request.

    Args:
        app: the ASGI application to wrap.
        limits: limits on request bodies.
        metrics: the metrics in which requests are recorded.
        render: returns an error response, given the path, the error and the request id.
        max_concurrent: maximum number of concurrent requests with a body; further requests are refused
            immediately. A request counts from the end of its body to the end of its response, so that slow
            clients do not block other clients.
    """

    def __init__(
        self, app: ASGIApp, limits: LimitSettings, metrics: Metrics, render: Render, max_concurrent: int
    ) -> None:
        self.app, self._limits, self._metrics, self._render = app, limits, metrics, render
        self._max_concurrent, self._request_count = max_concurrent, 0
        self._body_memory = BodyMemory(limits.total_body_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, start = Headers(scope=scope), time.perf_counter()
        client_id = headers.get("x-request-id", "")
        request_id = client_id if REQUEST_ID.fullmatch(client_id) else secrets.token_hex(8)
        state = scope["uwaga"] = RequestState(request_id, self._body_memory)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                state.status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = state.id
            elif not message.get("more_body", False):
                self._finish(state)
            await send(message)

        running_gauge = self._metrics.running
        running_gauge.inc()
        try:
            if "content-length" in headers or "transfer-encoding" in headers:
                self._check_concurrency()
            await self.app(scope, self._bounded_receive(scope, headers, receive), send_with_id)
        except ClientDisconnect:
            state.disconnected = True
        except BaseException as error:
            if not _is_task_cancelled(error):
                await self._answer_error(error, scope, receive, send_with_id)
            elif not state.disconnected:
                raise
        finally:
            self._finish(state)
            running_gauge.dec()
            self._record_request(scope, state, time.perf_counter() - start)

    async def _answer_error(self, error: BaseException, scope: Scope, receive: Receive, send: Send) -> None:
        """Send an error response, unless a response has already started."""
        state: RequestState = scope["uwaga"]
        problem = api_error(error)
        if problem.status == 500:
            LOG.error("server error", extra={"id": state.id}, exc_info=error)
        if not state.status:
            await self._render(scope["path"], problem, state.id)(scope, receive, send)
        _clear_frames(error)

    def _check_concurrency(self) -> None:
        if self._request_count >= self._max_concurrent:
            message = (
                f"the maximum of {self._max_concurrent} concurrent requests is reached; try again in a second"
            )
            raise ApiError(503, "busy", message, retry_after=1.0)

    def _check_size(self, scope: Scope, headers: Headers, size: int) -> None:
        is_form, route = headers.get("content-type", "").startswith("multipart/form-data"), scope.get("route")
        large = (is_form and getattr(route, "large", False)) or (route is not None and route.body.raw)
        limit = self._limits.document_bytes if large else self._limits.body_bytes
        if size > limit:
            raise ApiError(413, "body_too_large", f"the body is too large; send at most {limit} bytes")

    def _finish(self, state: RequestState) -> None:
        self._request_count -= state.is_counted
        state.is_counted = False
        self._body_memory.free(state)

    def _bounded_receive(self, scope: Scope, headers: Headers, receive: Receive) -> Receive:
        """Return an ASGI receive callable that enforces the limits on bodies and concurrent requests.

        The callable raises an ApiError only when an endpoint reads the body, so that the endpoint can check
        the headers first.
        """
        state: RequestState = scope["uwaga"]
        deadline = asyncio.get_running_loop().time() + self._limits.body_seconds
        content_length = headers.get("content-length", "0")
        expected_bytes = int(content_length[:20]) if content_length.isdecimal() else 0
        received_bytes, is_complete = 0, False

        async def receive_part() -> Message:
            nonlocal received_bytes, is_complete
            if is_complete:
                return await receive()
            if state.is_refused:
                raise _memory_error()
            self._check_size(scope, headers, expected_bytes)
            message = await self._next_part(state, deadline, receive)
            part = message.get("body", b"")
            received_bytes += len(part)
            self._check_size(scope, headers, received_bytes)
            self._body_memory.add(state, sys.getsizeof(part))
            is_complete = not message.get("more_body", False)
            if is_complete:
                self._body_memory.finish(state)
            if is_complete and received_bytes:
                self._check_concurrency()
                self._request_count += 1
                state.is_counted = True
            return message

        return receive_part

    async def _next_part(self, state: RequestState, deadline: float, receive: Receive) -> Message:
        """Return the message with the next part of a body, or raise an ApiError after the deadline."""
        try:
            async with asyncio.timeout_at(deadline) as state.part_timeout:
                return await receive()
        except TimeoutError:
            if state.is_refused:
                raise _memory_error() from None
            raise ApiError(408, "body_too_slow", "the body did not arrive in time") from None
        finally:
            state.part_timeout = None

    def _record_request(self, scope: Scope, state: RequestState, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", UNKNOWN_ROUTE)
        status = DISCONNECTED_STATUS if state.disconnected else state.status
        self._metrics.request(route, str(status), seconds)
        if LOG.isEnabledFor(logging.INFO):
            extra = {"id": state.id, "method": scope["method"], "route": route, "status": status}
            LOG.info("request", extra={**extra, "seconds": round(seconds, 4)})
