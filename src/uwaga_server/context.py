"""State that the dialects of a server share: the service, stores, keys, limits and usage."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response

from uwaga.translator.request import Request as TextRequest
from uwaga_server.api_errors import ApiError, as_api_error, run_in_thread
from uwaga_server.auth import Client, KeyRing
from uwaga_server.document_worker import DocumentWorker
from uwaga_server.http import client_address, recount_body, while_connected
from uwaga_server.limits import RateLimiter
from uwaga_server.metrics import Metrics
from uwaga_server.routing import Routes
from uwaga_server.service import Service, TextAnswer
from uwaga_server.settings import ServerSettings
from uwaga_server.store import Stores


@dataclass(frozen=True)
class ServerContext:
    """State shared by the endpoints of a server.

    Attributes:
        settings: the settings of the server.
        service: the translation service.
        keys: the API keys; None if requests need no key.
        limiter: the limiter of requests and characters per minute.
        metrics: the metrics for Prometheus.
        stores: the stores of glossaries, usage and documents.
        documents: the worker that translates stored documents; None if no ``state`` folder is set.
    """

    settings: ServerSettings
    service: Service
    keys: KeyRing | None = None
    limiter: RateLimiter = field(default_factory=RateLimiter)
    metrics: Metrics = field(default_factory=Metrics)
    stores: Stores = field(default_factory=Stores)
    documents: DocumentWorker | None = None

    def owner(self, client: Client) -> str:
        """Return the name of the owner to whom a client's stored data belongs.

        On a server without keys, all clients share the owner with the empty name.
        """
        return "" if self.keys is None else client.name

    @asynccontextmanager
    async def charge_or_refund(
        self, client: Client, characters: int, documents: int = 0
    ) -> AsyncIterator[None]:
        """Charge a client for characters and documents, and refund them if the block raises an exception."""
        await self.charge_usage(client, characters, documents)
        try:
            yield
        except BaseException:
            await self.charge_usage(client, -characters, -documents)
            raise

    async def charge_usage(self, client: Client, characters: int, documents: int = 0) -> None:
        """Charge a client for characters and documents; negative numbers refund them."""
        usage, owner, limit = self.stores.usage, self.owner(client), client.characters
        if usage.add_blocks(limit):
            await run_in_thread(usage.add, owner, characters, documents, limit)
            return
        with as_api_error():
            usage.add(owner, characters, documents, limit)

    def admit(self, key: str | None, address: str) -> Client:
        """Authenticate a request, count it against the client's rate limit, and return the client.

        Args:
            key: the API key of the request; ignored on a server without keys.
            address: the IP address of the client.
        """
        client = self.anonymous_client(address) if self.keys is None else self.keys.client(key)
        self.limiter.consume(client)
        return client

    def anonymous_client(self, address: str) -> Client:
        """Return a client without a key, identified by its IPv4 address or its IPv6 /64 network."""
        limits = self.settings.limits
        return Client(_client_network(address), limits.requests_per_minute, limits.characters_per_minute)

    def admit_texts(self, client: Client, texts: Sequence[str], parameter: str = "text") -> int:
        """Check the size of a request's texts, and return their total number of characters.

        The characters are counted against the client's rate limit.
        """
        characters = self.check_size(texts, parameter)
        if characters:
            self.limiter.consume(client, characters)
        return characters

    def check_size(self, texts: Sequence[str], parameter: str = "text") -> int:
        """Check the size of a request's texts and return their total number of characters."""
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
        raise_errors: bool = True,
    ) -> TextAnswer:
        """Translate the texts of a request within the limits of its client.

        Args:
            request: the request, whose body has been read; if its client disconnects, the translation is
                cancelled.
            client: the client to charge.
            texts: the texts, as for :meth:`Service.translate`.
            parameter: the name of the request parameter that contains the texts.
            raise_errors: whether to raise the error of the first text that cannot be translated.
        """
        strings = [text.text for text in texts]
        characters = self.admit_texts(client, strings, parameter)
        if all(text.glossary is None for text in texts):
            recount_body(request, strings)
        deadline = self.settings.limits.deadline
        async with self.charge_or_refund(client, characters), while_connected(request):
            answer = await self.service.translate(texts, client=client.name, deadline=deadline)
        if raise_errors:
            answer.raise_first()
        return answer


@dataclass(frozen=True)
class Dialect:
    """An HTTP API of the server, which often imitates the API of another translation service.

    Attributes:
        name: the name of the dialect in the settings.
        owns: returns whether a path belongs to the dialect.
        routes: returns the routes of the dialect.
        render: returns an error response in the format of the dialect, given the error and the request id.
        lifespan: returns an asynchronous context manager that the server enters at startup and exits at
            shutdown.
    """

    name: str
    owns: Callable[[str], bool]
    routes: Callable[[ServerContext], Routes]
    render: Callable[[ApiError, str], Response]
    lifespan: Callable[[], AbstractAsyncContextManager[None]] = nullcontext


def _client_network(address: str) -> str:
    """Return the /64 network of an IPv6 address, which usually belongs to one client.

    Other addresses are returned unchanged, except that an IPv4-mapped IPv6 address is returned as IPv4.
    """
    if ":" not in address:
        return address
    try:
        ip_address = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    if ip_address.ipv4_mapped is not None:
        return str(ip_address.ipv4_mapped)
    return str(ipaddress.IPv6Network((ip_address, 64), strict=False))


@dataclass(frozen=True)
class KeyLocation:
    """The places where a request of a dialect may contain the API key.

    Attributes:
        schemes: accepted schemes of ``Authorization: SCHEME KEY``, in lower case.
        header: name of another header that may contain the key; empty if no other header may.
        parameter: name of a query parameter that may contain the key; empty if no parameter may.
    """

    schemes: tuple[str, ...]
    header: str = ""
    parameter: str = ""

    def admit(self, context: ServerContext, request: Request, key: object = None) -> Client:
        """Authenticate a request, count it against the client's rate limit, and return the client.

        Args:
            context: the context of the server.
            request: the request.
            key: the key from the path or the body, for dialects that accept it there.
        """
        request_key = None
        if context.keys is not None:
            request_key = self._find_key(request) or (key if isinstance(key, str) else "") or None
        return context.admit(request_key, client_address(request))

    def admit_early(self, context: ServerContext, request: Request) -> Client | None:
        """Authenticate a request before its body is read, as :meth:`admit` does.

        Returns:
            The client; None if a key is required and only the body can contain it.
        """
        if context.keys is None or self._find_key(request):
            return self.admit(context, request)
        return None

    def _find_key(self, request: Request) -> str:
        """Return the key in the headers or the query; empty if they contain no key."""
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        key = credentials.strip() if scheme.lower() in self.schemes else ""
        if not key and self.header:
            key = request.headers.get(self.header, "")
        if not key and self.parameter:
            key = request.query_params.get(self.parameter, "")
        return key

    def admit_owner(self, context: ServerContext, request: Request) -> str:
        """Authenticate a request as :meth:`admit` does, and return the owner of the client's stored data."""
        return context.owner(self.admit(context, request))


BEARER_KEY = KeyLocation(("bearer",))
DEEPL_KEY = KeyLocation(("deepl-auth-key",))
