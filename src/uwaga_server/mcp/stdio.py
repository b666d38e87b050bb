"""MCP over standard input and output, for clients that start the server as a child process."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import CancelledError
from types import FrameType
from typing import IO, Any, cast

import anyio
from mcp.server.stdio import stdio_server

from uwaga.errors import SettingsError
from uwaga_server.auth import Client
from uwaga_server.context import ServerContext
from uwaga_server.mcp.folders import Folders
from uwaga_server.mcp.protocol import mcp_server
from uwaga_server.metrics import Metrics
from uwaga_server.serve import open_service, set_up_logs
from uwaga_server.settings import ServerSettings

STDIO_CLIENT = Client("stdio")


def run_stdio(settings: ServerSettings, folders: Folders) -> None:
    """Serve a client until it closes standard input.

    Raises:
        SystemExit: after SIGINT or SIGTERM, with the exit status that shells report, such as 143.
    """
    set_up_logs(settings.log_level)
    metrics = Metrics()
    context = ServerContext(settings, open_service(settings, metrics), metrics=metrics)
    stdin, stdout = _open_streams()
    stop_signal = None
    try:
        stop_signal = asyncio.run(_run_until_signal(_serve(context, folders, stdin, stdout)))
    except* BrokenPipeError:
        pass  # the client has exited
    if stop_signal is not None:
        sys.exit(128 + stop_signal)


def _open_streams() -> tuple[IO[str], IO[str]]:
    """Return standard input and output as text files, and redirect other output to standard error."""
    try:
        stdin = os.fdopen(0, encoding="utf-8", errors="replace", newline="\n", closefd=False)
        stdout = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
    except OSError:
        raise SettingsError("standard input or output is closed; add --http to serve over HTTP") from None
    sys.stdout.flush()
    os.dup2(2, 1)
    return stdin, stdout


async def _run_until_signal(serving: Coroutine[Any, Any, None]) -> int | None:
    """Await ``serving``, or cancel it on SIGINT or SIGTERM and return the number of the signal.

    An exception raised by a signal handler would become part of a task group's exception group, as do the
    exceptions of tasks whose counterparts were cancelled. A second signal is handled as it was before.
    """
    loop = asyncio.get_running_loop()
    received_signal: asyncio.Future[int] = loop.create_future()
    handlers = {
        signal_number: signal.getsignal(signal_number) for signal_number in (signal.SIGINT, signal.SIGTERM)
    }

    def stop(signal_number: int, frame: FrameType | None) -> None:
        for handled, handler in handlers.items():
            signal.signal(handled, handler)
        loop.call_soon_threadsafe(received_signal.set_result, signal_number)

    for signal_number in handlers:
        signal.signal(signal_number, stop)
    task: asyncio.Future[Any] = loop.create_task(serving)
    await asyncio.wait((task, received_signal), return_when=asyncio.FIRST_COMPLETED)
    if not received_signal.done():
        task.result()
        return None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return received_signal.result()


async def _serve(context: ServerContext, folders: Folders, stdin: IO[str], stdout: IO[str]) -> None:
    service = context.service
    server = mcp_server(context, folders, lambda _: STDIO_CLIENT)
    lines = cast("anyio.AsyncFile[str]", _read_lines(stdin))
    start_task = asyncio.ensure_future(service.start())
    try:
        async with stdio_server(lines, anyio.wrap_file(cast("io.TextIOWrapper", stdout))) as (read, write):
            await server.run(read, write, server.create_initialization_options())
    finally:
        start_task.cancel()
        await service.close()


async def _read_lines(stdin: IO[str]) -> AsyncIterator[str]:
    """Yield the lines of standard input as they arrive.

    They are read in a daemon thread, which does not delay shutdown.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[str] = asyncio.Queue(1)

    def read() -> None:
        while True:
            line = stdin.readline()
            try:
                asyncio.run_coroutine_threadsafe(queue.put(line), loop).result()
            except (CancelledError, RuntimeError):  # the server has ended
                return
            if not line:
                return

    threading.Thread(target=read, daemon=True).start()
    while line := await queue.get():
        yield line
