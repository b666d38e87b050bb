"""The application: dialects, health and figures over one service. Nothing here is global."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path

from uwaga import __version__
from uwaga.server.api_errors import ApiError, StorageError
from uwaga.server.auth import KeyRing
from uwaga.server.context import Dialect, ServerContext
from uwaga.server.dialects import libretranslate, v1, v1_documents, v1_glossaries
from uwaga.server.dialects.deepl import dialect as deepl
from uwaga.server.dialects.documents import document_suffixes
from uwaga.server.direct import DirectRoutes, direct_routes
from uwaga.server.document_worker import DocumentWorker
from uwaga.server.http import JSON, json_response, request_id
from uwaga.server.limits import RateLimiter
from uwaga.server.metrics import Metrics
from uwaga.server.middleware import Render, RequestMiddleware
from uwaga.server.models import WORKERS
from uwaga.server.page import page_router
from uwaga.server.service import Service
from uwaga.server.settings import ServerSettings
from uwaga.server.store import open_stores
from uwaga.server.suggestions import Suggestions

DIALECTS: tuple[Dialect, ...] = (v1.DIALECT, libretranslate.DIALECT, deepl.DIALECT)
"""Those there are, by their names in the settings; the first renders what belongs to none."""
OPENAPI = "/openapi.json"
FLUSH = 1.0
"""Seconds between two writes of counts in memory to the database."""
DESCRIPTION = "Machine translation by uwaga. Texts in, translations out; everything stays on this server."


class Health(BaseModel):
    """Whether the server is ready, and which models are not there."""

    status: str
    failed: list[str]


def create_app(
    service: Service,
    settings: ServerSettings,
    metrics: Metrics | None = None,
    limiter: RateLimiter | None = None,
) -> FastAPI:
    """The application over a service; it starts and closes the service.

    Args:
        service: the models.
        settings: of the server.
        metrics: where figures go, its own if None.
        limiter: what clients may ask for in a minute is counted by, its own if None.

    Raises:
        SettingsError: the file of keys is damaged.
    """
    context = _context(service, settings, metrics or Metrics(), limiter or RateLimiter())
    spoken = [one for one in DIALECTS if one.name in settings.dialects]
    app = FastAPI(
        title="uwaga",
        version=__version__,
        description=DESCRIPTION,
        openapi_url=None,  # it would be rendered anew for each request
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        lifespan=_lifespan(context),
    )

    def render(path: str, problem: ApiError, number: str) -> Response:
        """A problem as the dialect of a path tells it."""
        dialect = next((one for one in spoken if one.owns(path)), v1.DIALECT)
        response = dialect.render(problem, number)
        response.headers.update(problem.headers)
        return response

    _add_handlers(app, render)
    _add_operation(app, context)
    routers = [one.router(context) for one in spoken]
    if v1.DIALECT in spoken:
        routers += [v1_glossaries.router(context), v1_documents.router(context)]
    if settings.page:
        routers.append(page_router())
    for router in routers:
        app.include_router(router)
    direct = direct_routes(route for router in routers for route in router.routes)
    app.add_middleware(DirectRoutes, routes=direct)
    most = settings.limits.waiting + WORKERS * len(service.served)
    app.add_middleware(
        RequestMiddleware, limits=settings.limits, metrics=context.metrics, render=render, most=most
    )
    if settings.cors:
        app.add_middleware(
            CORSMiddleware, allow_origins=settings.cors, allow_methods=["*"], allow_headers=["*"],
            expose_headers=["x-request-id", "retry-after"],
        )  # fmt: skip
    return app


def _context(
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
        document_suffixes=() if worker is None else document_suffixes(),
        suggestions=None if settings.suggestions is None else Suggestions(settings.suggestions),
    )
    if settings.keys is None:
        return context
    return replace(context, keys=KeyRing(settings.keys, context.visitor("")))


def _lifespan(context: ServerContext) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        """Models are loaded while the server answers already; at the end what was taken is answered."""
        service, documents = context.service, context.documents
        starting, counting = asyncio.ensure_future(service.start()), asyncio.ensure_future(_flush(context))
        if documents is not None:
            documents.start()
        yield
        if documents is not None:
            await documents.stop()
        for task in (starting, counting):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        with contextlib.suppress(StorageError):
            await asyncio.to_thread(context.stores.usage.flush)
        await service.close()

    return lifespan


async def _flush(context: ServerContext) -> None:
    """Write what clients have used to the database every second."""
    while True:
        await asyncio.sleep(FLUSH)
        with contextlib.suppress(StorageError):  # the log says so; the counts stay
            await asyncio.to_thread(context.stores.usage.flush)


def _add_handlers(app: FastAPI, render: Render) -> None:
    """Let what FastAPI refuses by itself be told in the dialect's form."""

    async def refused(request: Request, error: Exception) -> Response:
        """A problem that a route raised."""
        assert isinstance(error, ApiError)
        return render(request.url.path, error, request_id(request))

    async def unrouted(request: Request, error: Exception) -> Response:
        """No such path, or another method."""
        assert isinstance(error, HTTPException)
        known = {404: ("not_found", "there is nothing here"), 405: ("wrong_method", "not with this method")}
        code, message = known.get(error.status_code, ("refused", str(error.detail)))
        response = render(request.url.path, ApiError(error.status_code, code, message), request_id(request))
        response.headers.update(error.headers or {})
        if error.status_code == 405 and (methods := _methods(app, request)):
            response.headers["allow"] = ", ".join(methods)
        return response

    async def invalid(request: Request, error: Exception) -> Response:
        """A parameter that is missing or of another type."""
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:])[:80]
        problem = ApiError(422, "invalid_request", f"{place}: {first['msg']}"[:300], place)
        return render(request.url.path, problem, request_id(request))

    app.add_exception_handler(ApiError, refused)
    app.add_exception_handler(HTTPException, unrouted)
    app.add_exception_handler(RequestValidationError, invalid)


def _methods(app: FastAPI, request: Request) -> list[str]:
    """What a path takes, by all of its routes that are described."""
    for template, operations in app.openapi()["paths"].items():
        if compile_path(template)[0].match(request.url.path):
            return sorted(method.upper() for method in operations)
    return []


def _add_operation(app: FastAPI, context: ServerContext) -> None:
    """Health and figures, at the same paths as LibreTranslate's."""

    @app.get(
        "/health",
        tags=["operation"],
        summary="Whether the server is ready for requests",
        responses={200: {"model": Health}, 503: {"model": Health, "description": "Not yet, or no more"}},
    )
    async def health() -> Response:
        """503 until the models that are loaded at start are there, and while stopping."""
        service = context.service
        failed = [one.name for one in service.served if one.problem] + list(service.pool.failures())
        content = {"status": "ok" if service.ready else "loading", "failed": failed}
        return json_response(content, 200 if service.ready else 503)

    description: list[bytes] = []

    @app.get(OPENAPI, include_in_schema=False)
    async def openapi() -> Response:
        """What all routes take and answer; rendered once."""
        if not description:
            description.append(to_json(app.openapi()))
        return Response(description[0], media_type=JSON)

    if context.settings.metrics:
        figures: dict[int | str, dict[str, Any]] = {
            200: {"content": {"text/plain": {"schema": {"type": "string"}}}}
        }

        @app.get(
            "/metrics",
            tags=["operation"],
            summary="Figures for Prometheus",
            response_class=Response,
            responses=figures,
        )
        async def metrics() -> Response:
            """Requests, latency by stage, batches, tokens."""
            body, kind = await asyncio.to_thread(context.metrics.text)  # it may read every worker's files
            return Response(body, media_type=None, headers={"content-type": kind})


def dialect_names(dialects: Sequence[Dialect] = DIALECTS) -> list[str]:
    """The names of the dialects there are."""
    return [one.name for one in dialects]
