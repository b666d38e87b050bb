"""The ASGI application, which serves the dialects, health checks, metrics and the web page."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

from pydantic import BaseModel
from pydantic_core import to_json
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router as Lifespan
from starlette.types import ASGIApp, Receive, Scope, Send

from uwaga import __version__
from uwaga_server.api_errors import ApiError, run_in_thread
from uwaga_server.auth import KeyRing
from uwaga_server.context import Dialect, ServerContext
from uwaga_server.dialects import v1
from uwaga_server.document_worker import DocumentWorker
from uwaga_server.http import json_response
from uwaga_server.limits import RateLimiter
from uwaga_server.metrics import Metrics
from uwaga_server.middleware import RequestMiddleware
from uwaga_server.models import MAX_CONCURRENT_REQUESTS
from uwaga_server.origins import check_origins
from uwaga_server.page import DESCRIPTION_HEADERS, description_page, page_routes
from uwaga_server.routing import JSON, ResponseDescription, Route, Router, Routes, openapi
from uwaga_server.service import Service
from uwaga_server.settings import DIALECTS, ServerSettings
from uwaga_server.store import open_stores

LOG = logging.getLogger("uwaga_server")
OPENAPI_PATH = "/openapi.json"
API_DESCRIPTION = "Machine translation by uwaga. Texts stay on this server."
MAX_THREADS = 64
"""Number of threads for blocking calls; at most half of the threads can wait for glossaries."""
FLUSH_INTERVAL = 1.0
"""Seconds between two writes of usage counts from memory to the database."""


class Health(BaseModel):
    """The status of the server, `ok` or `loading`, and the names of unavailable models."""

    status: str
    failed: list[str] = []


class Application:
    """The server as an ASGI application.

    Args:
        http: the ASGI application that handles HTTP requests.
        lifespan: returns an asynchronous context manager that is entered at startup and exited at shutdown.
        routes: all routes of the application, for the OpenAPI document and tests.
    """

    def __init__(
        self,
        http: ASGIApp,
        lifespan: Callable[[object], AbstractAsyncContextManager[None]],
        routes: Sequence[Route],
    ) -> None:
        self._http, self._lifespan, self.routes = http, Lifespan(lifespan=lifespan), routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an HTTP request or the lifespan protocol."""
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        else:
            await self._http(scope, receive, send)


def create_app(
    service: Service,
    settings: ServerSettings,
    metrics: Metrics | None = None,
    limiter: RateLimiter | None = None,
    dialects: Sequence[Dialect] | None = None,
) -> Application:
    """Create the application, which starts the service at startup and closes it at shutdown.

    Args:
        service: the translation service.
        settings: the settings of the server.
        metrics: the metrics; a new object if None.
        limiter: the limiter of requests and characters per minute; a new limiter if None.
        dialects: the dialects to serve; if None, those that the settings name.
    """
    context = _create_context(service, settings, metrics or Metrics(), limiter or RateLimiter())
    if dialects is None:
        dialects = [DIALECTS[name] for name in DIALECTS if name in settings.dialects]

    def render(path: str, error: ApiError, request_id: str) -> Response:
        """Return an error response in the format of the dialect that the path belongs to."""
        dialect = next((candidate for candidate in dialects if candidate.owns(path)), v1.DIALECT)
        response = dialect.render(error, request_id)
        response.headers.update(error.headers)
        return response

    routes = [route for dialect in dialects for route in dialect.routes(context).routes]
    routes += _operation_routes(context).routes
    routes += _description_routes(list(routes))
    if settings.page:
        routes += page_routes().routes
    http: ASGIApp = RequestMiddleware(
        check_origins(Router(routes), settings),
        limits=settings.limits,
        metrics=context.metrics,
        render=render,
        max_concurrent=settings.limits.waiting + MAX_CONCURRENT_REQUESTS * len(service.served),
    )
    if settings.cors:
        http = CORSMiddleware(
            http, allow_origins=settings.cors, allow_methods=["*"], allow_headers=["*"],
            expose_headers=["x-request-id", "retry-after"],
        )  # fmt: skip
    return Application(http, _lifespan(context, dialects), routes)


def _create_context(
    service: Service, settings: ServerSettings, metrics: Metrics, limiter: RateLimiter
) -> ServerContext:
    stores = open_stores(settings)
    worker = None if stores.document_store is None else DocumentWorker(stores, service)
    context = ServerContext(
        settings,
        service,
        limiter=limiter,
        metrics=metrics,
        stores=stores,
        documents=worker,
    )
    if settings.keys is None:
        return context
    return replace(context, keys=KeyRing(settings.keys, context.anonymous_client("")))


def _lifespan(
    context: ServerContext, dialects: Sequence[Dialect]
) -> Callable[[object], AbstractAsyncContextManager[None]]:
    @contextlib.asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[None]:
        """Start loading the models without delaying startup; finish the running requests at shutdown."""
        service, documents, usage = context.service, context.documents, context.stores.usage
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(MAX_THREADS, "uwaga-server"))

        async def flush() -> None:
            while True:
                await asyncio.sleep(FLUSH_INTERVAL)
                try:
                    await run_in_thread(usage.flush)
                except ApiError as error:  # the counts stay in memory
                    if error.status == 500:
                        LOG.error("usage not stored", exc_info=error.__cause__)

        tasks = [
            asyncio.ensure_future(coroutine) for coroutine in (service.start(), service.collect(), flush())
        ]
        if documents is not None:
            documents.start()
        async with contextlib.AsyncExitStack() as stack:
            for dialect in dialects:
                await stack.enter_async_context(dialect.lifespan())
            yield
        if documents is not None:
            await documents.stop()
        for task in tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await service.close()
        with contextlib.suppress(ApiError):
            await run_in_thread(usage.flush)

    return lifespan


def _operation_routes(context: ServerContext) -> Routes:
    """Return the routes for health checks and metrics, at the same paths as in LibreTranslate."""
    routes = Routes("operation")

    @routes.add(
        "GET",
        "/health",
        "Check whether the server is ready",
        responses={
            200: ResponseDescription("Ready", Health),
            503: ResponseDescription("Loading models, or stopping", Health),
        },
    )
    async def health(request: Request) -> Response:
        """Return status 200 if the server is ready, and 503 while it loads models or stops."""
        service = context.service
        failed_models = [model.name for model in service.served if model.problem] + list(
            service.pool.failures()
        )
        content: dict[str, object] = {"status": "ok" if service.ready else "loading"}
        content |= {"failed": failed_models} if failed_models else {}
        if service.ready:
            return json_response(content)
        return json_response(content, 503, {"retry-after": "1"})

    if context.settings.metrics:
        metrics_response = ResponseDescription(
            "Metrics", content={"text/plain": {"schema": {"type": "string"}}}
        )

        @routes.add("GET", "/metrics", "Get metrics for Prometheus", responses={200: metrics_response})
        async def metrics(request: Request) -> Response:
            """Return metrics of requests, latencies, batches and tokens, in the Prometheus text format."""
            body, kind = await run_in_thread(context.metrics.text)  # may read the files of all workers
            return Response(body, media_type=None, headers={"content-type": kind})

    return routes


def _description_routes(routes: list[Route]) -> list[Route]:
    @functools.cache
    def document() -> tuple[bytes, str]:
        """Return the OpenAPI document as JSON and as HTML."""
        document = openapi(routes, "uwaga", __version__, API_DESCRIPTION)
        return to_json(document), description_page(document)

    async def description(request: Request) -> Response:
        """Return the OpenAPI document as JSON."""
        return Response(document()[0], media_type=JSON)

    async def page(request: Request) -> Response:
        """Return the OpenAPI document as an HTML page, which loads no other files."""
        return Response(document()[1], media_type="text/html", headers=DESCRIPTION_HEADERS)

    return [Route("GET", OPENAPI_PATH, description), Route("GET", "/docs", page)]
