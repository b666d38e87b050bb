"""HTTP of one connection, whose client can neither make the server wait for ever nor make it grow."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, NamedTuple

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

KEEP_ALIVE = 75
"""Seconds that a connection is kept after an answer. Clients and proxies keep theirs for less (nginx for 60),
so that they close it, and no request meets a connection that is being closed here."""
HEAD_BYTES = 64 << 10
"""Most bytes of a request that are no body: its head, what frames its chunks, what follows them."""
FRAMING = 8
"""Bytes that a byte of a body may be sent in; chunks of one byte each take six."""
MOST_AHEAD = 64
"""Requests that a client may send before it is answered."""
_OVER: Any = {}
"""In the place of what a request was once it is answered."""


class Standing(NamedTuple):
    """How far a client is that is waited for; ``unread``: bytes written that it has not read."""

    requests: int
    in_head: bool
    closing: bool
    unread: int


class WatchedConnection(HttpToolsProtocol):
    """A connection that is looked at now and then, and given up where its client has not moved since.

    It should send something, or the end of a head, or the end of a body that was answered before it had come,
    or read what is written. Bodies that somebody waits for are the matter of
    :class:`uwaga.server.middleware.RequestMiddleware`. There is one timer a connection, none a request.

    Args:
        config: of uvicorn.
        server_state: likewise.
        app_state: likewise.
        patience: seconds between two looks.
        _loop: the running one if None.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        patience: float = 30.0,
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._patience = patience
        self._timer: asyncio.TimerHandle | None = None
        self._seen: Standing | None = None
        self._requests = self._overhead = 0
        self._receiving = False
        self._unanswered: deque[RequestResponseCycle] = deque()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See :class:`asyncio.Protocol`."""
        super().connection_made(transport)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """See :class:`asyncio.Protocol`."""
        if self._timer is not None:
            self._timer.cancel()
        for cycle in self._unanswered:  # uvicorn tells the last of several only
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See :class:`asyncio.Protocol`."""
        self._overhead += len(data)
        super().data_received(data)
        if self._receiving and self._overhead > HEAD_BYTES and not self.transport.is_closing():
            self._give_up(431)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._requests, self._receiving = self._requests + 1, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A request is to be answered."""
        super().on_headers_complete()
        self._unanswered.append(self.cycle)
        if len(self._unanswered) > MOST_AHEAD:
            self.transport.abort()
            raise ValueError("too many requests ahead of their answers")  # nothing more of them is read

    def on_response_complete(self) -> None:
        """The one that waited for longest is answered."""
        answered = self._unanswered.popleft()
        super().on_response_complete()
        if answered.scope is self.scope:
            self.headers = []
            self.scope = answered.scope = _OVER  # a connection that waits for the next needs nothing of it

    def on_header(self, name: bytes, value: bytes) -> None:
        """A line of a head. Those that follow a body are dropped: they would be added to its head."""
        if self._in_head:
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        """Some of a body."""
        self._overhead = max(0, self._overhead - FRAMING * len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is there as a whole."""
        self._overhead, self._receiving = 0, False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Say that this is no HTTP, unless the connection was given up."""
        if not self.transport.is_closing():
            super().send_400_response(msg)

    @property
    def _in_head(self) -> bool:
        return self._receiving and (self.cycle is None or self.cycle.scope is not self.scope)

    def _look(self) -> None:
        """Give the connection up, or look again later."""
        standing = self._standing()
        if standing is not None and standing == self._seen:
            self._give_up(408)
        self._seen = standing
        self._timer = self.loop.call_later(self._patience, self._look)

    def _standing(self) -> Standing | None:
        """What is waited for, None while it is not the client's turn."""
        closing, deaf = self.transport.is_closing(), self.flow.write_paused
        answering = self.cycle is not None and not self.cycle.response_complete
        if not closing and not deaf and (answering or self.timeout_keep_alive_task is not None):
            return None
        unread = self.transport.get_write_buffer_size()
        return Standing(self._requests, self._in_head, closing, unread)

    def _give_up(self, status: int) -> None:
        """Close it, with an answer where one can be given and read."""
        if self.transport.is_closing() or self.flow.write_paused or (self._receiving and not self._in_head):
            self.transport.abort()
            return
        if self._in_head:
            self.transport.write(STATUS_LINE[status] + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()
