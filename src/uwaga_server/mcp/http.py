"""MCP over HTTP: the endpoint ``/mcp``, in a server with API keys, limits and metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from uwaga.errors import SettingsError
from uwaga_server.api_errors import ApiError
from uwaga_server.auth import Client
from uwaga_server.context import BEARER_KEY, Dialect, ServerContext
from uwaga_server.http import json_response
from uwaga_server.mcp.folders import Folders
from uwaga_server.mcp.protocol import Context, mcp_server
from uwaga_server.origins import LOOPBACK_HOSTS, is_loopback
from uwaga_server.routing import Routes
from uwaga_server.serve import run_server
from uwaga_server.settings import ServerSettings

PATH = "/mcp"
SERVER_ERROR_CODE = -32000
"""JSON-RPC error code for errors of the server."""


def run_http(settings: ServerSettings, folders: Folders) -> None:
    """Serve MCP clients over HTTP until the process receives a signal to stop."""
    check_settings(settings, folders)
    endpoint = Endpoint(settings, folders)
    run_server(settings, [Dialect("mcp", PATH.__eq__, endpoint.routes, render, endpoint.lifespan)])


def check_settings(settings: ServerSettings, folders: Folders) -> None:
    """Raise a SettingsError if MCP does not support the settings, or anyone could access the folders."""
    if settings.workers > 1:
        raise SettingsError("workers: MCP sessions require a single process; set workers to 1")
    if "*" in settings.cors:
        raise SettingsError("cors: MCP requires a list of origins; * is not allowed")
    if is_loopback(settings.host):
        return
    if settings.public_url is None:
        message = "the server must know the URL by which clients reach it"
        raise SettingsError(f"--host {settings.host}: {message}; set public_url in --settings")
    if folders.roots and settings.keys is None:
        raise SettingsError(
            f"--host {settings.host}: without --keys, anyone could access the folders; add --keys"
        )


class Endpoint:
    """The MCP endpoint, which manages the sessions of clients.

    Args:
        settings: the settings of the server.
        folders: the folders whose files clients may access.
    """

    def __init__(self, settings: ServerSettings, folders: Folders) -> None:
        self._folders, self._security = folders, transport_security(settings)
        self._sessions: StreamableHTTPSessionManager | None = None

    def routes(self, context: ServerContext) -> Routes:
        """Return the routes of the endpoint."""
        sessions = self._sessions = StreamableHTTPSessionManager(
            mcp_server(context, self._folders, _client),
            security_settings=self._security,
            max_request_body_size=context.settings.limits.body_bytes,
        )
        routes = Routes("mcp")

        async def endpoint(request: Request) -> Response:
            """Receive messages (POST), send messages (GET), or end a session (DELETE)."""
            client = BEARER_KEY.admit(context, request)
            request.state.client = client
            if context.keys is not None:  # a session belongs to the client that started it
                token = AccessToken(token="", client_id=client.name, scopes=[])
                request.scope["user"] = AuthenticatedUser(token)
            body = await request.body()
            if request.method == "POST":
                try:
                    from_json(body)
                except ValueError:
                    raise ApiError(400, "not_json", "the body is not JSON") from None
            return SessionResponse(sessions, body)

        for method in ("POST", "GET", "DELETE"):
            routes.add(method, PATH, "The Model Context Protocol")(endpoint)
        return routes

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Run the session manager during the block."""
        assert self._sessions is not None
        async with self._sessions.run():
            yield


class SessionResponse(Response):
    """A response that the session manager sends, for a request whose body has already been read."""

    def __init__(self, sessions: StreamableHTTPSessionManager, body: bytes) -> None:
        super().__init__()
        self._sessions, self._unread = sessions, [body]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request and its body to the session manager, which sends the response."""

        async def replay_body() -> Message:
            if self._unread:
                return {"type": "http.request", "body": self._unread.pop(), "more_body": False}
            return await receive()

        await self._sessions.handle_request(scope, replay_body, send)


def transport_security(settings: ServerSettings) -> TransportSecuritySettings:
    """Return the allowed values of ``Host`` and ``Origin``, which prevent DNS rebinding attacks."""
    port = settings.port
    hosts = [f"{name}:{port}" if port else f"{name}:*" for name in LOOPBACK_HOSTS]
    origins = [f"http://{host}" for host in hosts] + settings.cors
    if settings.public_url is not None:
        parts = urlsplit(settings.public_url)
        hosts.append(parts.netloc)
        origins.append(f"{parts.scheme}://{parts.netloc}")
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


def render(error: ApiError, request_id: str) -> Response:
    """Return an error response in JSON-RPC format."""
    content = {"jsonrpc": "2.0", "id": None, "error": {"code": SERVER_ERROR_CODE, "message": error.message}}
    headers = {"www-authenticate": "Bearer"} if error.status == 401 else None
    return json_response(content, error.status, headers)


def _client(context: Context) -> Client:
    """Return the client of the HTTP request that contained a message."""
    assert context.request is not None
    client: Client = context.request.state.client
    return client
