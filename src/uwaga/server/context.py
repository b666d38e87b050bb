"""What the dialects of one server share: stores, clients, limits, counts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from uwaga.server.api_errors import ApiError, QuotaError, api_error, in_thread
from uwaga.server.auth import Client, KeyRing
from uwaga.server.document_worker import DocumentWorker
from uwaga.server.http import address_of
from uwaga.server.limits import RateLimiter
from uwaga.server.metrics import Metrics
from uwaga.server.routing import Routes
from uwaga.server.service import Service
from uwaga.server.settings import ServerSettings
from uwaga.server.store import Stores


@dataclass(frozen=True)
class ServerContext:
    """One server.

    ``keys``: None lets everybody in. ``documents``: translates stored
    documents; None without a ``state`` folder.
    """

    settings: ServerSettings
    service: Service
    keys: KeyRing | None = None
    limiter: RateLimiter = field(default_factory=RateLimiter)
    metrics: Metrics = field(default_factory=Metrics)
    document_suffixes: tuple[str, ...] = ()
    stores: Stores = field(default_factory=Stores)
    documents: DocumentWorker | None = None

    def owner(self, client: Client) -> str:
        """Whose glossaries, documents and counts a client's are; without keys there is one owner of all."""
        return "" if self.keys is None else client.name

    @asynccontextmanager
    async def spending(self, client: Client, characters: int, documents: int = 0) -> AsyncIterator[None]:
        """Count characters and documents as used, but not where what is inside fails.

        Raises:
            ApiError: they are more than the client has left (403), or cannot be counted.
        """
        await self.spend(client, characters, documents)
        try:
            yield
        except BaseException:
            await self._count(client, -characters, -documents, client.characters)
            raise

    async def spend(self, client: Client, characters: int, documents: int = 0) -> None:
        """Count characters and documents as used, whatever comes of them.

        Raises:
            ApiError: as :meth:`spending`.
        """
        await self._count(client, characters, documents, client.characters)

    async def _count(self, client: Client, characters: int, documents: int, limit: int) -> None:
        usage, owner = self.stores.usage, self.owner(client)
        if usage.waits(limit):
            await in_thread(usage.add, owner, characters, documents, limit)
            return
        try:
            usage.add(owner, characters, documents, limit)
        except QuotaError as error:
            raise api_error(error) from error

    def admit(self, key: str | None, address: str) -> Client:
        """Who asks, one request counted.

        Args:
            key: as the dialect has it; not looked at where the server asks for none.
            address: of the client.

        Raises:
            ApiError: the key is missing (401) or wrong (403), or it is a request too many (429).
        """
        client = self.visitor(address) if self.keys is None else self.keys.client(key)
        self.limiter.take(client)
        return client

    def visitor(self, address: str) -> Client:
        """A client without a key."""
        limits = self.settings.limits
        return Client(address, limits.requests_per_minute, limits.characters_per_minute)

    def charge(self, client: Client, texts: Sequence[str], parameter: str = "text") -> int:
        """Check the size of a request's texts and count their characters, which it returns.

        Raises:
            ApiError: they are too many for a request (413) or for a minute (429).
        """
        limits = self.settings.limits
        if len(texts) > limits.texts:
            message = f"{len(texts)} texts in one request; send at most {limits.texts}"
            raise ApiError(413, "too_many_texts", message, parameter)
        characters = sum(map(len, texts))
        if characters > limits.characters:
            message = f"{characters} characters in one request; send at most {limits.characters}"
            raise ApiError(413, "text_too_large", message, parameter)
        if characters:
            self.limiter.take(client, characters)
        return characters


@dataclass(frozen=True)
class Dialect:
    """A way to speak to the server.

    ``owns``: whether a path is the dialect's, so that what goes wrong there is told in its form.
    ``routes``: its routes for one server. ``render``: a problem in its form; the second argument is the
    request's id.
    """

    name: str
    owns: Callable[[str], bool]
    routes: Callable[[ServerContext], Routes]
    render: Callable[[ApiError, str], Response]


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
