"""The state that the dialects of one server share: stores, clients, limits, counts."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from uwaga.server.api_errors import ApiError, as_api_error, in_thread
from uwaga.server.auth import Client, KeyRing
from uwaga.server.document_worker import DocumentWorker
from uwaga.server.http import address_of, recount_body, while_connected
from uwaga.server.limits import RateLimiter
from uwaga.server.metrics import Metrics
from uwaga.server.routing import Routes
from uwaga.server.service import Service, TextAnswer
from uwaga.server.settings import ServerSettings
from uwaga.server.store import Stores
from uwaga.translator.request import Request as TextRequest


@dataclass(frozen=True)
class ServerContext:
    """The state that the endpoints of one server share.

    Attributes:
        settings: the settings of the server.
        service: translates.
        keys: keys of clients; None serves everybody.
        limiter: requests and characters per minute.
        metrics: for Prometheus.
        document_suffixes: file name endings of supported documents.
        stores: glossaries, usage and documents.
        documents: translates stored documents; None without a ``state`` folder.
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
        """Return the owner of a client's glossaries, documents and usage; without keys all share one."""
        return "" if self.keys is None else client.name

    @asynccontextmanager
    async def spending(self, client: Client, characters: int, documents: int = 0) -> AsyncIterator[None]:
        """Count characters and documents as used, and give them back if the block fails."""
        await self.spend(client, characters, documents)
        try:
            yield
        except BaseException:
            await self._count(client, -characters, -documents, client.characters)
            raise

    async def spend(self, client: Client, characters: int, documents: int = 0) -> None:
        """Count characters and documents as used."""
        await self._count(client, characters, documents, client.characters)

    async def _count(self, client: Client, characters: int, documents: int, limit: int) -> None:
        usage, owner = self.stores.usage, self.owner(client)
        if usage.waits(limit):
            await in_thread(usage.add, owner, characters, documents, limit)
            return
        with as_api_error():
            usage.add(owner, characters, documents, limit)

    def admit(self, key: str | None, address: str) -> Client:
        """Return the client of a request, and count the request.

        Args:
            key: the key of the request; ignored on a server without keys.
            address: the address of the client.
        """
        client = self.visitor(address) if self.keys is None else self.keys.client(key)
        self.limiter.take(client)
        return client

    def visitor(self, address: str) -> Client:
        """Return a client without a key: its IPv4 address, or the network of its IPv6 address."""
        limits = self.settings.limits
        return Client(_network(address), limits.requests_per_minute, limits.characters_per_minute)

    def charge(self, client: Client, texts: Sequence[str], parameter: str = "text") -> int:
        """Check the size of a request's texts, count their characters and return them."""
        characters = self.check_size(texts, parameter)
        if characters:
            self.limiter.take(client, characters)
        return characters

    def check_size(self, texts: Sequence[str], parameter: str = "text") -> int:
        """Check the size of a request's texts before they are used, and return their number of characters."""
        limits = self.settings.limits
        if len(texts) > limits.texts:
            message = f"{len(texts)} texts in one request; send at most {limits.texts}"
            raise ApiError(413, "too_many_texts", message, parameter)
        characters = sum(map(len, texts))
        if characters > limits.characters:
            message = f"{characters} characters in one request; send at most {limits.characters}"
            raise ApiError(413, "text_too_large", message, parameter)
        return characters

    async def translate(
        self,
        request: Request,
        client: Client,
        texts: Sequence[TextRequest],
        parameter: str = "text",
        *,
        raises: bool = True,
    ) -> TextAnswer:
        """Translate the texts of a request, whose body has been read, within the limits of its client.

        Args:
            request: cancels the translation when its client disconnects.
            client: who is charged.
            texts: as for :meth:`Service.translate`.
            parameter: the request's parameter with the texts.
            raises: raise the error of a text that cannot be translated.
        """
        plain = [text.text for text in texts]
        characters = self.charge(client, plain, parameter)
        if all(text.glossary is None for text in texts):
            recount_body(request, plain)
        deadline = self.settings.limits.deadline
        async with self.spending(client, characters), while_connected(request):
            answer = await self.service.translate(texts, client=client.name, deadline=deadline)
        if raises:
            answer.raise_first()
        return answer


@dataclass(frozen=True)
class Dialect:
    """An API of the server.

    Attributes:
        name: in the settings.
        owns: whether a path is the dialect's.
        routes: returns its routes.
        render: returns an error response in its form, from the error and the request's id.
        running: a context that the server enters before the first request and leaves after the last.
    """

    name: str
    owns: Callable[[str], bool]
    routes: Callable[[ServerContext], Routes]
    render: Callable[[ApiError, str], Response]
    running: Callable[[], AbstractAsyncContextManager[None]] = nullcontext


def _network(address: str) -> str:
    """Return the /64 network of an IPv6 address, which is one client's; any other address as it is."""
    if ":" not in address:
        return address
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, 64), strict=False))


@dataclass(frozen=True)
class KeyPlace:
    """Where the requests of a dialect have their key.

    Attributes:
        schemes: in lower case, of ``Authorization: SCHEME KEY``.
        header: another header, which holds the key alone; empty for none.
        parameter: a parameter of the query; empty for none.
    """

    schemes: tuple[str, ...]
    header: str = ""
    parameter: str = ""

    def client(self, context: ServerContext, request: Request, key: object = None) -> Client:
        """Return the client of a request, and count the request.

        Args:
            context: the server's.
            request: without a key on an open server.
            key: the key in the path or the body, for a dialect that allows one there.
        """
        stated = self._key(request) or (key if isinstance(key, str) else "")
        return context.admit(stated or None, address_of(request))

    def early_client(self, context: ServerContext, request: Request) -> Client | None:
        """Return the client of a request, as :meth:`client`, before its body is read.

        None if only the body can have its key.
        """
        if context.keys is None or self._key(request):
            return self.client(context, request)
        return None

    def _key(self, request: Request) -> str:
        """Return the key in the headers or the query; empty if they have none."""
        scheme, _, stated = request.headers.get("authorization", "").partition(" ")
        key = stated.strip() if scheme.lower() in self.schemes else ""
        if not key and self.header:
            key = request.headers.get(self.header, "")
        if not key and self.parameter:
            key = request.query_params.get(self.parameter, "")
        return key

    def owner(self, context: ServerContext, request: Request) -> str:
        """Return the owner of a request's glossaries and documents, and count the request."""
        return context.owner(self.client(context, request))


BEARER = KeyPlace(("bearer",))
DEEPL = KeyPlace(("deepl-auth-key",))
