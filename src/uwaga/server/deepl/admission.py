"""Where DeepL's clients have their key."""

from __future__ import annotations

from starlette.requests import Request

from uwaga.server.context import ServerContext
from uwaga.server.exchange import address_of, authorised_key
from uwaga.server.keys import Client

SCHEME = "deepl-auth-key"


def admitted(context: ServerContext, request: Request) -> Client:
    """Who asks: ``Authorization: DeepL-Auth-Key KEY``.

    Raises:
        Problem: the key is missing or wrong, or it is a request too many.
    """
    return context.admit(authorised_key(request, SCHEME), address_of(request))


def owner_of(context: ServerContext, request: Request) -> str:
    """Whose glossaries and documents are asked for.

    Raises:
        Problem: as :func:`admitted`.
    """
    return context.owner(admitted(context, request))
