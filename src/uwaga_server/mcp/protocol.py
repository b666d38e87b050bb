"""The MCP server, which lists tools, runs tool calls, and reports progress and errors."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.session import ServerSession
from mcp.shared.context import RequestContext
from pydantic import ValidationError

from uwaga import __version__
from uwaga.errors import quoted
from uwaga.scheduling.thread_queue import ThreadQueue
from uwaga_server.api_errors import ApiError, api_error
from uwaga_server.auth import Client
from uwaga_server.context import ServerContext
from uwaga_server.http import validation_error
from uwaga_server.mcp.folders import NO_FOLDERS_MESSAGE, Folders
from uwaga_server.mcp.tools import TOOLS, Call

LOG = logging.getLogger("uwaga_server")
INSTRUCTIONS = (
    "Machine translation by models on this machine. `languages` lists the codes of languages. Files are "
    "named by their paths inside the folders of this server: {folders}."
)
Context = RequestContext[ServerSession, Any, Any]
ClientLookup = Callable[[Context], Client]


def mcp_server(context: ServerContext, folders: Folders, client_of: ClientLookup) -> Server[Any, Any]:
    """Return an MCP server that offers the tools.

    Args:
        context: the service, the limits and the usage.
        folders: the folders whose files clients may access.
        client_of: returns the client of a request.
    """
    instructions = INSTRUCTIONS.format(folders=folders.folder_names or f"none ({NO_FOLDERS_MESSAGE})")
    server: Server[Any, Any] = Server("uwaga", __version__, instructions)

    async def list_tools(_: types.ListToolsRequest | None) -> types.ServerResult:
        """List the tools."""
        tools = [tool.to_protocol() for tool in TOOLS.values()]
        return types.ServerResult(types.ListToolsResult(tools=tools))

    async def call_tool(request: types.CallToolRequest) -> types.ServerResult:
        """Run a tool; an error is returned as a result that contains the error message."""
        request_context, name = server.request_context, request.params.name
        try:
            async with _progress_reporter(request_context) as progress:
                call = Call(context, folders, client_of(request_context), progress)
                result = await _run_tool(call, name, request.params.arguments or {})
        except Exception as error:
            problem = api_error(error)
            if problem.status == 500:
                LOG.exception("server error", extra={"tool": name if name in TOOLS else "unknown"})
            return types.ServerResult(_error_result(folders.without_roots(problem.message)))
        return types.ServerResult(result)

    server.request_handlers[types.ListToolsRequest] = list_tools
    server.request_handlers[types.CallToolRequest] = call_tool
    return server


async def _run_tool(call: Call, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
    """Validate the arguments of a tool, run the tool, and return its result as text and as JSON."""
    tool = TOOLS.get(name)
    if tool is None:
        message = f"there is no tool {quoted(name)}; available tools: {', '.join(TOOLS)}"
        raise ApiError(404, "unknown_tool", message)
    try:
        validated = tool.arguments.model_validate(arguments)
    except ValidationError as error:
        raise validation_error(error) from None
    result = await tool.run(call, validated)
    return types.CallToolResult(
        content=[_text_content(result.model_dump_json(exclude_none=True))],
        structuredContent=result.model_dump(mode="json", exclude_none=True),
    )


def _error_result(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[_text_content(message)], isError=True)


def _text_content(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


@contextlib.asynccontextmanager
async def _progress_reporter(context: Context) -> AsyncIterator[Callable[[int, int], None] | None]:
    """Yield a thread-safe function that reports progress to the client; None if no progress is requested."""
    token = None if context.meta is None else context.meta.progressToken
    if token is None:
        yield None
        return
    reports = ThreadQueue[tuple[int, int]]()

    async def send() -> None:
        async for completed_count, total in reports:
            await context.session.send_progress_notification(
                token,
                completed_count,
                total,
                f"{completed_count} of {total} texts",
                related_request_id=str(context.request_id),
            )

    def report(completed_count: int, total: int) -> None:
        reports.put((completed_count, total))

    send_task = asyncio.ensure_future(send())
    try:
        yield report
        reports.close()
        await send_task
    finally:
        send_task.cancel()
