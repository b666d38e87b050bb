"""Who asks, of dialects whose clients have their key in the Authorization header."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from uwaga.server.auth import Client
from uwaga.server.context import ServerContext
from uwaga.server.http import address_of


@dataclass(frozen=True)
class HeaderAuth:
    """By ``Authorization: SCHEME KEY``; ``scheme`` in lower case."""

    scheme: str

    def client(self, context: ServerContext, request: Request) -> Client:
        """Who asks, one request counted.

        Raises:
            ApiError: the key is missing or wrong, or it is a request too many.
        """
        stated, _, key = request.headers.get("authorization", "").partition(" ")
        return context.admit(key.strip() if stated.lower() == self.scheme else None, address_of(request))

    def owner(self, context: ServerContext, request: Request) -> str:
        """Whose glossaries and documents are asked for, one request counted.

        Raises:
            ApiError: as :meth:`client`.
        """
        return context.owner(self.client(context, request))


BEARER = HeaderAuth("bearer")
DEEPL = HeaderAuth("deepl-auth-key")
