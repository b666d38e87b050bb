"""Protection from requests that pages of other sites make a browser send to a server on this machine."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from uwaga_server.api_errors import ApiError
from uwaga_server.settings import ServerSettings

LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class OriginCheck:
    """Refuses requests by pages of other sites, for a server that trusts all clients.

    A server on loopback without keys trusts the programs of its machine. Pages of other sites reach it
    through the browser: by a host name of theirs that resolves to this machine (DNS rebinding, which the
    header ``Host`` reveals), or by a form, which needs no permission (``Origin`` names the page).

    Args:
        app: handles the other requests.
        settings: the settings of the server; ``public_url`` and ``cors`` name further hosts and origins.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self._app, self._origins = app, {origin.lower() for origin in settings.cors}
        self._names = {"", "localhost", settings.host.lower()}
        if settings.public_url is not None:
            url = urlsplit(settings.public_url.lower())
            self._origins.add(f"{url.scheme}://{url.netloc}")
            self._names.add(url.hostname or "")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        headers = Headers(scope=scope)
        host, origin = headers.get("host", "").lower(), headers.get("origin", "").lower()
        if not self._serves_host(host):
            message = f"this server is not {host[:80]!r}; set public_url if clients reach it by this name"
            raise ApiError(421, "wrong_host", message)
        is_site = origin == "null" or origin.startswith(
            ("http://", "https://")
        )  # not a program or an extension
        if is_site and origin not in self._origins and origin.partition("://")[2] != host:
            message = f"pages of {origin[:80]!r} may not use this server; cors lists the origins that may"
            raise ApiError(403, "wrong_origin", message)
        await self._app(scope, receive, send)

    def _serves_host(self, host: str) -> bool:
        """Return whether a host is this server's; any IP address is, since DNS rebinding needs a name."""
        name = host.partition("]")[0].removeprefix("[") if host[:1] == "[" else host.partition(":")[0]
        if name in self._names or name.endswith(".localhost"):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True


def check_origins(app: ASGIApp, settings: ServerSettings) -> ASGIApp:
    """Return an application with the check if the settings need it: on loopback, without keys."""
    if settings.keys is not None or "*" in settings.cors or not is_loopback(settings.host):
        return app
    return OriginCheck(app, settings)


def is_loopback(host: str) -> bool:
    """Return whether a server that listens on a host can be reached from this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
