"""Routes with their descriptions: an ASGI application that serves them, and their OpenAPI document.

An endpoint takes the request and the parameters of its path, reads the body with :mod:`uwaga_server.http`,
and returns a response. The models of bodies and responses are for descriptions only. FastAPI, which would
parse bodies with them, takes 270 to 400 µs per request, and this router 15; FastAPI can neither read JSON or
a form with one model nor check the key before it reads the body.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import compile_path
from starlette.types import Receive, Scope, Send

from uwaga_server.api_errors import ApiError

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
UPLOAD = "multipart/form-data"
FILE = {"type": "string", "format": "binary", "description": "The document, with its file name."}
SCHEMAS = "#/components/schemas/"

Endpoint = Callable[..., Awaitable[Response]]
Decorated = TypeVar("Decorated", bound=Endpoint)
Model = type[BaseModel]
BodyKind = Literal["json", "json or form", "upload", "query"]


@dataclass(frozen=True)
class ResponseDescription:
    """A response, as OpenAPI describes it.

    Attributes:
        description: what the response means.
        model: the model of its JSON; a list of a model for an array; None for a response without JSON.
        content: further media types, with their schemas.
    """

    description: str
    model: Any = None
    content: Mapping[str, Any] = field(default_factory=dict)


ERROR_REASONS = {
    400: "Not JSON, an invalid parameter, or a language that is not served",
    401: "No key, or a wrong one",
    403: "A wrong key, or its characters are used up",
    404: "No such path",
    408: "The body came too slowly",
    413: "Too much for one request",
    422: "A field is missing or invalid",
    429: "Too much for a minute; see `Retry-After`",
    501: "A library is not installed",
    503: "Busy or starting; see `Retry-After`",
    504: "Timed out",
}
"""Reasons for errors, by status."""


def error_responses(model: Model, without: Sequence[int] = ()) -> dict[int, ResponseDescription]:
    """Return the error responses of a dialect.

    Args:
        model: the model of an error.
        without: statuses that the dialect does not use.
    """
    return {
        status: ResponseDescription(reason, model)
        for status, reason in ERROR_REASONS.items()
        if status not in without
    }


DOWNLOAD = ResponseDescription(
    "The document", content={"application/octet-stream": {"schema": {"type": "string"}}}
)


@dataclass(frozen=True)
class Body:
    """The parameters of a request.

    Attributes:
        model: their model; None if there are none.
        kind: their location in the request.
        large: whether a multipart body may be as large as a document; always for uploads.
        raw: whether the body is a file, which may be as large as a document.
    """

    model: Model | None = None
    kind: BodyKind = "json"
    large: bool = False
    raw: bool = False


@dataclass(frozen=True)
class Route:
    """A method and path, with its endpoint and description.

    Attributes:
        method: the HTTP method.
        path: path template, such as ``/v1/documents/{document_id}``.
        endpoint: takes the request and the parameters of the path.
        tag: group in the description; empty for a route that is not described.
        summary: description in one line; the endpoint's docstring has the details.
        body: the parameters of a request.
        responses: descriptions of the responses by status.
    """

    method: str
    path: str
    endpoint: Endpoint
    tag: str = ""
    summary: str = ""
    body: Body = Body()
    responses: Mapping[int, ResponseDescription] = field(default_factory=dict)

    @property
    def large(self) -> bool:
        """True if a multipart body may be as large as a document."""
        return self.body.large or self.body.kind == "upload"


class Routes:
    """Routes of one tag, which share error responses.

    Args:
        tag: group in the description; empty for routes that are not described.
        errors: error responses of all routes, by status.
        prefix: prefix of their paths.
    """

    def __init__(
        self, tag: str = "", errors: Mapping[int, ResponseDescription] | None = None, prefix: str = ""
    ) -> None:
        self.routes: list[Route] = []
        self._tag, self._errors, self._prefix = tag, errors or {}, prefix

    def add(
        self,
        method: str,
        path: str,
        summary: str = "",
        *,
        body: Model | Body | None = None,
        response_model: Any = None,
        status: int = 200,
        responses: Mapping[int, ResponseDescription] | None = None,
    ) -> Callable[[Decorated], Decorated]:
        """Return a decorator that adds an endpoint.

        Args:
            method: the HTTP method.
            path: path template without the prefix.
            summary: description in one line.
            body: the parameters, or the model of a JSON body.
            response_model: model of the JSON of a success.
            status: HTTP status of a success.
            responses: descriptions of further responses by status, or of a success with other media types.
        """
        request_body = body if isinstance(body, Body) else Body(body)

        def register(endpoint: Decorated) -> Decorated:
            descriptions = {
                status: ResponseDescription("Success", response_model),
                **self._errors,
                **(responses or {}),
            }
            full_path = self._prefix + path
            route = Route(method, full_path, endpoint, self._tag, summary, request_body, descriptions)
            self.routes.append(route)
            return endpoint

        return register


class Router:
    """Serves routes; errors are raised and handled by the middleware around it.

    Args:
        routes: the routes; the first is used if several have the same method and path.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self._fixed_routes: dict[str, dict[str, Route]] = {}
        self._templates: dict[str, tuple[re.Pattern[str], dict[str, Route]]] = {}
        for route in routes:
            if "{" in route.path:
                entry = self._templates.setdefault(route.path, (compile_path(route.path)[0], {}))
                entry[1].setdefault(route.method, route)
            else:
                self._fixed_routes.setdefault(route.path, {}).setdefault(route.method, route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        path: str = scope["path"]
        methods, parameters = self._fixed_routes.get(path, {}), dict[str, str]()
        if not methods:
            methods, parameters = self._match(path)
        route = methods.get(scope["method"])
        request = Request(scope, receive, send)
        if route is not None:
            scope["route"] = route
            response = await route.endpoint(request, **parameters)
        elif methods:
            raise ApiError(405, "wrong_method", "method not allowed", allow=tuple(sorted(methods)))
        elif path != "/" and (path.rstrip("/") or "/") in self._fixed_routes:
            response = RedirectResponse(str(request.url.replace(path=path.rstrip("/"))), 307)
        else:
            raise ApiError(404, "not_found", "not found")
        await response(scope, receive, send)

    def _match(self, path: str) -> tuple[dict[str, Route], dict[str, str]]:
        for pattern, methods in self._templates.values():
            match = pattern.match(path)
            if match is not None:
                return methods, match.groupdict()
        return {}, {}


def openapi(routes: Sequence[Route], title: str, version: str, description: str) -> dict[str, Any]:
    """Return the OpenAPI document of routes; those without a tag are left out."""
    routes = [route for route in routes if route.tag]
    models = {(model, "serialization") for route in routes for model in _models(route)}
    bodies = [route.body for route in routes if route.body.kind in _IN_BODY]
    models |= {(body.model, "validation") for body in bodies if body.model is not None}
    ordered = sorted(models, key=lambda pair: (pair[0].__name__, pair[1]))
    references, definitions = models_json_schema(ordered, ref_template=SCHEMAS + "{model}")  # type: ignore[arg-type]
    schemas = definitions.get("$defs", {})
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _operation(route, references, schemas)
        paths.setdefault(re.sub(r":\w+}", "}", route.path), {}).setdefault(route.method.lower(), operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version, "description": description},
        "paths": paths,
        "components": {"schemas": schemas},
    }


_IN_BODY = {"json": (JSON,), "json or form": (JSON, FORM), "upload": (UPLOAD,)}
References = Mapping[tuple[Any, Any], dict[str, Any]]


def _models(route: Route) -> list[Model]:
    models = [response.model for response in route.responses.values() if response.model is not None]
    return [model.__args__[0] if hasattr(model, "__args__") else model for model in models]


def _operation(route: Route, references: References, schemas: dict[str, Any]) -> dict[str, Any]:
    name = re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").strip("_")
    operation: dict[str, Any] = {"tags": [route.tag], "operationId": name, "summary": route.summary}
    operation["description"] = inspect.getdoc(route.endpoint) or ""
    parameters = [
        {"name": part, "in": "path", "required": True, "schema": {"type": "string"}}
        for part in re.findall(r"{(\w+)", route.path)
    ]
    model, kind = route.body.model, route.body.kind
    if model is not None and kind == "query":
        schema = model.model_json_schema()
        parameters += [
            {
                "name": part,
                "in": "query",
                "required": part in schema.get("required", ()),
                "schema": property_schema,
            }
            for part, property_schema in schema["properties"].items()
        ]
    elif model is not None:
        schema = references[model, "validation"]
        definition = schemas[schema["$ref"].removeprefix(SCHEMAS)]
        if kind == "upload":
            properties = {**definition["properties"], "file": FILE}
            schema = {
                **definition,
                "properties": properties,
                "required": [*definition.get("required", ()), "file"],
            }
        content = {media: {"schema": schema} for media in _IN_BODY[kind]}
        required = kind != "json or form" or "required" in definition
        operation["requestBody"] = {"required": required, "content": content}
    if parameters:
        operation["parameters"] = parameters
    operation["responses"] = {
        str(status): _response(response, references) for status, response in sorted(route.responses.items())
    }
    return operation


def _response(response: ResponseDescription, references: References) -> dict[str, Any]:
    content: dict[str, Any] = {
        media: dict(media_content) for media, media_content in response.content.items()
    }
    if response.model is not None:
        if hasattr(response.model, "__args__"):
            items = references[response.model.__args__[0], "serialization"]
            schema: dict[str, Any] = {"type": "array", "items": items}
        else:
            schema = references[response.model, "serialization"]
        content[JSON] = {"schema": schema}
    return {"description": response.description, **({"content": content} if content else {})}
