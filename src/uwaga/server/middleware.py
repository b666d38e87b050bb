"""Middleware around all endpoints: request ids, limits of bodies and concurrency, errors, logs, metrics."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
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


@dataclass
class RequestState:
    """State of a request, in ``scope["uwaga"]``.

    Attributes:
        id: sent by the client, or random.
        status: the status of the response; 0 before it starts.
        gone: the client has disconnected.
        counted: among the requests being answered.
    """

    id: str
    status: int = 0
    gone: bool = False
    counted: bool = False


def _clear_frames(error: BaseException | None) -> None:
    """Release what the frames of an error hold: futures, which hold the error, and long texts."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__


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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, began = Headers(scope=scope), time.perf_counter()
        given = headers.get("x-request-id", "")
        visit = scope["uwaga"] = RequestState(given if REQUEST_ID.fullmatch(given) else secrets.token_hex(8))

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start":
                visit.status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = visit.id
            elif not message.get("more_body", False):
                self._uncount(visit)
            await send(message)

        running = self._metrics.running
        running.inc()
        try:
            bounded = self._bounded(visit, headers, receive)
            await self.app(scope, bounded, answered)
        except asyncio.CancelledError:
            if not visit.gone:
                raise
        except ClientDisconnect:
            visit.gone = True
        except Exception as error:
            if api_error(error).status == 500:
                LOG.exception("server error", extra={"id": visit.id})
            if not visit.status:
                response = self._render(scope["path"], api_error(error), visit.id)
                await response(scope, receive, answered)
            _clear_frames(error)
        finally:
            self._uncount(visit)
            running.dec()
            self._record(scope, visit, time.perf_counter() - began)

    def _check_room(self) -> None:
        if self._answering >= self._most:
            message = f"{self._answering} requests are being answered, the maximum: try again in a second"
            raise ApiError(503, "busy", message, retry_after=1.0)

    def _uncount(self, visit: RequestState) -> None:
        self._answering -= visit.counted
        visit.counted = False

    def _bounded(self, visit: RequestState, headers: Headers, receive: Receive) -> Receive:
        """Return a receive function that refuses too large or slow bodies, and too many requests.

        Raises:
            ApiError: there are too many requests, or its stated length is too large.
        """
        limits = self._limits
        if "content-length" in headers or "transfer-encoding" in headers:
            self._check_room()
        form = headers.get("content-type", "").startswith("multipart/form-data")
        most = limits.document_bytes if form else limits.body_bytes
        stated = headers.get("content-length", "0")
        too_large = ApiError(413, "body_too_large", f"the body is too large; send at most {most} bytes")
        if stated.isdecimal() and int(stated[:20]) > most:
            raise too_large
        until, seen, whole = time.monotonic() + limits.body_seconds, 0, False

        async def received() -> Message:
            nonlocal seen, whole
            if whole:
                return await receive()
            try:
                async with asyncio.timeout(max(0.0, until - time.monotonic())):
                    message = await receive()
            except TimeoutError:
                raise ApiError(408, "body_too_slow", "the body did not arrive in time") from None
            seen += len(message.get("body", b""))
            if seen > most:
                raise too_large
            whole = not message.get("more_body", False)
            if whole and seen:
                self._check_room()
                self._answering += 1
                visit.counted = True
            return message

        return received

    def _record(self, scope: Scope, visit: RequestState, seconds: float) -> None:
        route = getattr(scope.get("route"), "path", UNKNOWN)
        status = GONE if visit.gone else visit.status
        self._metrics.request(route, str(status), seconds)
        if LOG.isEnabledFor(logging.INFO):
            extra = {"id": visit.id, "method": scope["method"], "route": route, "status": status}
            LOG.info("request", extra={**extra, "seconds": round(seconds, 4)})
