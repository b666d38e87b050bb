"""Where DeepL's clients have their key."""

from __future__ import annotations

from starlette.requests import Request

from uwaga.server.context import ServerContext
from uwaga.server.exchange import address_of
from uwaga.server.keys import Client

SCHEME = "deepl-auth-key"


def admitted(context: ServerContext, request: Request) -> Client:
    """Who asks: ``Authorization: DeepL-Auth-Key KEY``.

    Raises:
        Problem: the key is missing or wrong, or it is a request too many.
    """
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return context.admit(key.strip() if scheme.lower() == SCHEME else None, address_of(request))
