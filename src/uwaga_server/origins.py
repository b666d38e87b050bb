"""Protection of a local server from requests that web pages of other sites send through a browser."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from uwaga_server.api_errors import ApiError
from uwaga_server.settings import ServerSettings

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class OriginCheck:
    """ASGI middleware that refuses requests from web pages of other sites, for a server without keys.

    A server on a loopback address without keys trusts all programs on its machine. Web pages of other sites
    can reach it through the browser in two ways: with a host name of the site that resolves to this machine
    (DNS rebinding, detected by the header ``Host``), or with a form, which browsers submit without asking the
    server for permission (detected by the header ``Origin``).

    Args:
        app: the ASGI application to wrap.
        settings: the settings of the server; ``public_url`` and ``cors`` add allowed hosts and origins.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app, self._origins = app, {origin.lower() for origin in settings.cors}
        self._names = {"", "localhost", settings.host.lower()}
        if settings.public_url is not None:
            url = urlsplit(settings.public_url.lower())
            self._origins.add(f"{url.scheme}://{url.netloc}")
            self._names.add(url.hostname or "")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the application, or raise an ApiError if its host or origin is not allowed."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", "").lower(), headers.get("origin", "").lower()
        if not self._serves_host(host):
            message = f"this server is not {host[:80]!r}; if clients reach it by this name, set public_url"
            raise ApiError(421, "wrong_host", message)
        is_site = origin == "null" or origin.startswith(
            ("http://", "https://")
        )  # not a program or an extension
        if is_site and origin not in self._origins and origin.partition("://")[2] != host:
            message = (
                f"pages from {origin[:80]!r} may not use this server; to allow them, add the origin to cors"
            )
            raise ApiError(403, "wrong_origin", message)
        await self._app(scope, receive, send)

    def _serves_host(self, host: str) -> bool:
        """Return whether a host is allowed; any IP address is allowed, as DNS rebinding requires a name."""
        name = host.partition("]")[0].removeprefix("[") if host[:1] == "[" else host.partition(":")[0]
        if name in self._names or name.endswith(".localhost"):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def check_origins(app: ASGIApp, settings: ServerSettings) -> ASGIApp:
    """Return the application; if the server is on loopback without keys, wrap it in :class:`OriginCheck`."""
    if settings.keys is not None or "*" in settings.cors or not is_loopback(settings.host):
        return app
    return OriginCheck(app, settings)


def is_loopback(host: str) -> bool:
    """Return whether a host is a loopback address, which can be reached only from this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
