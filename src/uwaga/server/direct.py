"""The short way to routes that read a request by themselves: FastAPI describes them, and need not do more."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import get_type_hints

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Receive, Scope, Send


def direct_routes(routes: Iterable[BaseRoute]) -> dict[tuple[str, str], APIRoute]:
    """Those, by method and path, whose function takes the request and nothing else, and makes the answer."""
    found: dict[tuple[str, str], APIRoute] = {}
    for route in routes:
        if isinstance(route, APIRoute) and "{" not in route.path and _reads_by_itself(route):
            for method in route.methods or ():
                found.setdefault((method, route.path), route)  # of two that are alike the first is taken
    return found


def _reads_by_itself(route: APIRoute) -> bool:
    parameters, types = inspect.signature(route.endpoint).parameters, get_type_hints(route.endpoint)
    answer = types.pop("return", None)
    answers = isinstance(answer, type) and issubclass(answer, Response)
    wanted = len(parameters) == 1 and list(types.values()) == [Request]
    return answers and wanted and not route.dependencies


class DirectRoutes:
    """The innermost middleware: what is not for one of its routes goes on to the application.

    What a route raises is for the middleware around it, as everywhere else.

    Args:
        app: the application.
        routes: by method and path.
    """

    def __init__(self, app: ASGIApp, routes: Mapping[tuple[str, str], APIRoute]) -> None:
        self.app, self._routes = app, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        found = scope["type"] == "http" and not scope.get("root_path")
        route = self._routes.get((scope["method"], scope["path"])) if found else None
        if route is None:
            await self.app(scope, receive, send)
            return
        scope["route"] = route
        response = await route.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)
