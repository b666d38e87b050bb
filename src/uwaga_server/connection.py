"""HTTP connections with limits on time and memory, which protect the server from slow or hostile clients."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, NamedTuple

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

KEEP_ALIVE = 75
"""Seconds after which an idle connection is closed.

Clients and proxies usually close idle connections earlier (nginx after 60 s), so that no request is sent on a
connection that the server is closing.
"""
MAX_HEAD_BYTES = 64 << 10
"""Maximum number of bytes of a request outside its body: head, chunk framing and trailers."""
FRAMING_FACTOR = 8
"""Maximum number of received bytes per byte of a body; a chunk with one byte of content takes six bytes."""
MAX_PIPELINED = 64
"""Maximum number of pipelined requests on a connection."""
_FINISHED_SCOPE: Any = {}
"""Placeholder for the scope of a finished request, so that its memory can be freed."""


class ClientProgress(NamedTuple):
    """State of a client for which the server waits; if two states are equal, the client made no progress.

    Attributes:
        requests: number of requests started on the connection.
        is_in_head: whether the head of a request is being received.
        is_closing: whether the connection is closing.
        unread: number of response bytes that the client has not read.
    """

    requests: int
    is_in_head: bool
    is_closing: bool
    unread: int


class WatchedConnection(HttpToolsProtocol):
    """A connection that is closed when its client makes no progress between two checks.

    Progress means starting a request, completing its head, sending the rest of a body whose response has
    already been sent, or reading the response. The time for a body that an endpoint waits for is limited by
    :class:`uwaga_server.middleware.RequestMiddleware`. There is one timer per connection, not per request.

    Args:
        config: the uvicorn configuration.
        server_state: the uvicorn server state.
        app_state: the uvicorn application state.
        check_interval: seconds between two checks.
        _loop: the event loop; the running loop if None.
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
        self._is_receiving = False
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
        if self._is_receiving and self._overhead > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._close_with_status(431)

    def on_message_begin(self) -> None:
        """Handle the start of a request."""
        self._requests, self._is_receiving, self._head_bytes = self._requests + 1, True, 0
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """Handle a part of the URL."""
        self._count_head(url)
        super().on_url(url)

    def on_headers_complete(self) -> None:
        """Handle the end of the headers: queue the request if it has a valid Host (RFC 9112, section 3.2)."""
        host_count = sum(name == b"host" for name, _ in self.headers)
        if host_count > 1 or (not host_count and self.parser.get_http_version() == "1.1"):
            self.send_400_response("A request must have exactly one Host header.")
            raise ValueError("the request must have exactly one Host header")  # stops reading the request
        super().on_headers_complete()
        self._unanswered.append(self.cycle)
        if len(self._unanswered) > MAX_PIPELINED:
            self.transport.abort()
            raise ValueError("too many pipelined requests")  # stops reading requests

    def on_response_complete(self) -> None:
        """Handle the completion of a response, which belongs to the oldest unanswered request."""
        cycle = self._unanswered.popleft()
        cycle.body = bytearray()  # free the unread part
        super().on_response_complete()
        if cycle.scope is self.scope:
            self.headers = []
            self.scope = cycle.scope = _FINISHED_SCOPE  # an idle connection needs neither headers nor scope

    def on_header(self, name: bytes, value: bytes) -> None:
        """Handle a header; ignore trailers, which uvicorn would treat as headers."""
        if self._is_in_head:
            self._count_head(name, value)
            super().on_header(name, value)

    def _count_head(self, *parts: bytes) -> None:
        """Count the bytes of a request head, and refuse the request if its head is too long."""
        self._head_bytes += sum(map(len, parts))
        if self._head_bytes > MAX_HEAD_BYTES:
            self._close_with_status(431)
            raise ValueError("the request head is too long")  # stops reading the request

    def on_body(self, body: bytes) -> None:
        """Handle a part of a body; each of its bytes permits some bytes of framing overhead."""
        self._overhead = max(0, self._overhead - FRAMING_FACTOR * len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Handle the end of a request."""
        self._overhead, self._is_receiving = 0, False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Send a response with status 400, unless the connection is already closing."""
        if not self.transport.is_closing():
            super().send_400_response(msg)

    @property
    def _is_in_head(self) -> bool:
        return self._is_receiving and (self.cycle is None or self.cycle.scope is not self.scope)

    def _check_progress(self) -> None:
        """Close the connection if the client has made no progress, and schedule the next check."""
        progress = self._progress()
        if progress is not None and progress == self._last_progress:
            self._close_with_status(408)
        self._last_progress = progress
        self._timer = self.loop.call_later(self._check_interval, self._check_progress)

    def _progress(self) -> ClientProgress | None:
        """Return the state of the client; None while the client waits for the server."""
        is_closing, is_paused = self.transport.is_closing(), self.flow.write_paused
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if not is_closing and not is_paused and (is_answering or self.timeout_keep_alive_task is not None):
            return None
        unread_bytes = self.transport.get_write_buffer_size()
        return ClientProgress(self._requests, self._is_in_head, is_closing, unread_bytes)

    def _close_with_status(self, status: int) -> None:
        """Close the connection, after sending an error response if the client can still receive one."""
        if (
            self.transport.is_closing()
            or self.flow.write_paused
            or (self._is_receiving and not self._is_in_head)
        ):
            self.transport.abort()
            return
        if self._is_in_head:
            self.transport.write(STATUS_LINE[status] + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()
