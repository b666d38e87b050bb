"""An HTTP connection that limits time and memory for slow or hostile clients."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, NamedTuple

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

KEEP_ALIVE = 75
"""Seconds to keep an idle connection. Clients and proxies use shorter times (nginx 60), so that they close it
and never send a request on a connection that the server is closing."""
MAX_HEAD_BYTES = 64 << 10
"""Maximum bytes of a request without its body: head, chunk framing, trailers."""
FRAMING_FACTOR = 8
"""Maximum bytes sent per byte of a body; chunks of one byte take six."""
MAX_PIPELINED = 64
"""Maximum pipelined requests."""
_FINISHED_SCOPE: Any = {}
"""Replaces the scope of a finished request."""


class ClientProgress(NamedTuple):
    """Progress of a client that the server waits for; ``unread`` are the bytes that it has not read."""

    requests: int
    in_head: bool
    closing: bool
    unread: int


class WatchedConnection(HttpToolsProtocol):
    """A connection that is closed when its client makes no progress between two checks.

    The client must send a request, finish a head, finish a body that was answered early, or read the
    response. :class:`uwaga_server.middleware.RequestMiddleware` limits the time of bodies that an endpoint
    waits for. There is one timer per connection, not per request.

    Args:
        config: uvicorn's configuration.
        server_state: uvicorn's state of the server.
        app_state: uvicorn's state of the application.
        check_interval: seconds between two checks.
        _loop: the event loop; the running one if None.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        check_interval: float = 30.0,
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._check_interval = check_interval
        self._timer: asyncio.TimerHandle | None = None
        self._last_progress: ClientProgress | None = None
        self._requests = self._overhead = self._head_bytes = 0
        self._receiving = False
        self._unanswered: deque[RequestResponseCycle] = deque()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See :class:`asyncio.Protocol`."""
        super().connection_made(transport)
        self._check_progress()

    def connection_lost(self, exc: Exception | None) -> None:
        """See :class:`asyncio.Protocol`."""
        if self._timer is not None:
            self._timer.cancel()
        for cycle in self._unanswered:  # uvicorn notifies only the last one
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See :class:`asyncio.Protocol`."""
        self._overhead += len(data)
        super().data_received(data)
        if self._receiving and self._overhead > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._give_up(431)

    def on_message_begin(self) -> None:
        """Start a request."""
        self._requests, self._receiving, self._head_bytes = self._requests + 1, True, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Add a part of the URL."""
        self._count_head(url)
        super().on_url(url)

    def on_headers_complete(self) -> None:
        """Queue the request, unless it has no host or several (RFC 9112, section 3.2)."""
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (not hosts and self.parser.get_http_version() == "1.1"):
            self.send_400_response("A request has one header Host.")
            raise ValueError("the request must name exactly one host")  # read no more of it
        super().on_headers_complete()
        self._unanswered.append(self.cycle)
        if len(self._unanswered) > MAX_PIPELINED:
            self.transport.abort()
            raise ValueError("too many pipelined requests")  # read no more of them

    def on_response_complete(self) -> None:
        """Finish the oldest request."""
        cycle = self._unanswered.popleft()
        cycle.body = bytearray()  # drop the unread part
        super().on_response_complete()
        if cycle.scope is self.scope:
            self.headers = []
            self.scope = cycle.scope = _FINISHED_SCOPE  # an idle connection does not need them

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; drop trailers, which uvicorn would add to the head."""
        if self._in_head:
            self._count_head(name, value)
            super().on_header(name, value)

    def _count_head(self, *parts: bytes) -> None:
        """Count bytes of a head and refuse one that is too long, even if it arrives in one read."""
        self._head_bytes += sum(map(len, parts))
        if self._head_bytes > MAX_HEAD_BYTES:
            self._give_up(431)
            raise ValueError("the head is too long")  # read no more of it

    def on_body(self, body: bytes) -> None:
        """Offset the framing overhead by the bytes of a part of a body."""
        self._overhead = max(0, self._overhead - FRAMING_FACTOR * len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Finish receiving a request."""
        self._overhead, self._receiving = 0, False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse malformed HTTP, unless the connection is already closing."""
        if not self.transport.is_closing():
            super().send_400_response(msg)

    @property
    def _in_head(self) -> bool:
        return self._receiving and (self.cycle is None or self.cycle.scope is not self.scope)

    def _check_progress(self) -> None:
        """Close a connection without progress, or check again later."""
        progress = self._progress()
        if progress is not None and progress == self._last_progress:
            self._give_up(408)
        self._last_progress = progress
        self._timer = self.loop.call_later(self._check_interval, self._check_progress)

    def _progress(self) -> ClientProgress | None:
        """Return the client's progress; None while the client waits for the server."""
        is_closing, is_paused = self.transport.is_closing(), self.flow.write_paused
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if not is_closing and not is_paused and (is_answering or self.timeout_keep_alive_task is not None):
            return None
        unread = self.transport.get_write_buffer_size()
        return ClientProgress(self._requests, self._in_head, is_closing, unread)

    def _give_up(self, status: int) -> None:
        """Close the connection, with a response if one can be sent and read."""
        if self.transport.is_closing() or self.flow.write_paused or (self._receiving and not self._in_head):
            self.transport.abort()
            return
        if self._in_head:
            self.transport.write(STATUS_LINE[status] + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()
