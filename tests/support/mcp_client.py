"""Synchronous use of the official client of the Model Context Protocol, and servers for it."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client


class McpClient:
    """A session of the client with a server."""

    def __init__(self, portal: BlockingPortal, session: ClientSession, hello: types.InitializeResult) -> None:
        self._portal, self._session, self.hello = portal, session, hello

    def tools(self) -> dict[str, types.Tool]:
        """Return the tools by name."""
        return {tool.name: tool for tool in self._portal.call(self._session.list_tools).tools}

    def call(self, name: str, /, *, extra: Any = None, **arguments: Any) -> types.CallToolResult:
        """Return the result of a tool, which the client has validated by the tool's schema."""
        return self._portal.call(self._session.call_tool, name, {**(extra or {}), **arguments})

    def ok(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool that must succeed, and return the JSON of its result."""
        result = self.call(name, **arguments)
        assert not result.isError, result.content[0].text
        return result.structuredContent

    def refused(self, name: str, /, **arguments: Any) -> str:
        """Call a tool that must fail, and return its error message."""
        result = self.call(name, **arguments)
        assert result.isError, result.structuredContent
        return result.content[0].text

    def cancelled(self, name: str, /, **arguments: Any) -> tuple[list[tuple[float, float]], str]:
        """Cancel a call at its first progress notification; return its progress and its error."""
        return self._portal.call(self._cancelled, name, arguments)

    async def _cancelled(self, name: str, arguments: dict[str, Any]) -> tuple[list[tuple[float, float]], str]:
        session, progress, started = self._session, [], asyncio.Event()

        async def on_progress(completed: float, count: float | None, message: str | None) -> None:
            progress.append((completed, count))
            started.set()

        number = session._request_id
        call = asyncio.create_task(session.call_tool(name, arguments, progress_callback=on_progress))
        await started.wait()
        cancel = types.CancelledNotification(params=types.CancelledNotificationParams(requestId=number))
        await session.send_notification(types.ClientNotification(cancel))
        try:
            await call
        except McpError as error:
            return progress, str(error)
        return progress, ""


@contextlib.contextmanager
def open_client(session: Callable[[], contextlib.AbstractAsyncContextManager[Any]]) -> Iterator[McpClient]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(session()) as (client_session, hello),
    ):
        yield McpClient(portal, client_session, hello)


def connect_stdio(folder: Path, *options: str) -> contextlib.AbstractContextManager[McpClient]:
    """Return a client of ``uwaga mcp``, which logs to ``mcp.log`` in the folder."""
    command = ["-m", "uwaga", "mcp", "--threads", "1", *options]
    server = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))

    @contextlib.asynccontextmanager
    async def session() -> AsyncIterator[Any]:
        with (folder / "mcp.log").open("w") as log:
            async with stdio_client(server, log) as streams, ClientSession(*streams) as client_session:
                yield client_session, await client_session.initialize()

    return open_client(session)


def connect_http(url: str, key: str = "") -> contextlib.AbstractContextManager[McpClient]:
    """Return a client of the server at a URL."""
    headers = {"authorization": f"Bearer {key}"} if key else {}

    @contextlib.asynccontextmanager
    async def session() -> AsyncIterator[Any]:
        async with (
            httpx.AsyncClient(headers=headers, timeout=60) as http,
            streamable_http_client(f"{url}/mcp", http_client=http) as (read, write, *_),
            ClientSession(read, write) as client_session,
        ):
            yield client_session, await client_session.initialize()

    return open_client(session)
