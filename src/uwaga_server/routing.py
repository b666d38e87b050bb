"""Routes with descriptions, an ASGI application that serves them, and their OpenAPI document.

An endpoint takes the request and the path parameters, reads the body with :mod:`uwaga_server.http`, and
returns a response. The models of bodies and responses are used only for descriptions. This router takes
15 µs per request; FastAPI, which would parse bodies with the models, takes 270 to 400 µs. FastAPI can
neither read JSON and forms with the same model, nor check the key before it reads the body.
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
FILE_SCHEMA = {"type": "string", "format": "binary", "description": "The document, with its file name."}
SCHEMA_PREFIX = "#/components/schemas/"

Endpoint = Callable[..., Awaitable[Response]]
Decorated = TypeVar("Decorated", bound=Endpoint)
Model = type[BaseModel]
BodyKind = Literal["json", "json or form", "upload", "query"]


@dataclass(frozen=True)
class ResponseDescription:
    """The description of a response in the OpenAPI document.

    Attributes:
        description: the meaning of the response.
        model: the model of the JSON body, or ``list[Model]`` for an array; None for a response without JSON.
        content: OpenAPI media type objects of other formats, by media type.
    """

    description: str
    model: Any = None
    content: Mapping[str, Any] = field(default_factory=dict)


ERROR_REASONS = {
    400: "The body is not JSON, a parameter is invalid, or a language is not supported",
    401: "The key is missing or wrong",
    403: "The key is wrong, or its character quota is exceeded",
    404: "The path does not exist",
    408: "The body arrived too slowly",
    413: "The request is too large",
    422: "A field is missing or invalid",
    429: "The rate limit is exceeded; see `Retry-After`",
    501: "A required library is not installed",
    503: "The server is busy or starting; see `Retry-After`",
    504: "The request timed out",
}
"""Descriptions of error responses by status."""


def error_responses(model: Model, without: Sequence[int] = ()) -> dict[int, ResponseDescription]:
    """Return the descriptions of a dialect's error responses, by status.

    Args:
        model: the model of the body of an error response.
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
    """The parameters of a request, in its body or its query.

    Attributes:
        model: the Pydantic model of the parameters; None if there are no parameters.
        kind: the place and the format of the parameters.
        large: whether a multipart body may be as large as a document, although ``kind`` is not ``upload``.
        raw: whether the body is a file, which may be as large as a document.
    """

    model: Model | None = None
    kind: BodyKind = "json"
    large: bool = False
    raw: bool = False


@dataclass(frozen=True)
class Route:
    """An HTTP method and a path, with their endpoint and description.

    Attributes:
        method: the HTTP method.
        path: the path template, such as ``/v1/documents/{document_id}``.
        endpoint: takes the request and the path parameters, and returns the response.
        tag: tag in the OpenAPI document; empty for a route that is not described there.
        summary: description in one line; the docstring of the endpoint is the full description.
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
    """A group of routes with the same tag, path prefix and error responses.

    Args:
        tag: tag in the OpenAPI document; empty for routes that are not described there.
        errors: descriptions of the error responses of all routes, by status.
        prefix: prefix of all paths.
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
            response_model: the model of the JSON body of a successful response.
            status: the HTTP status of a successful response.
            responses: descriptions of other responses by status; they replace the default descriptions.
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
    """ASGI application that calls the endpoints of routes; the middleware handles exceptions.

    Args:
        routes: the routes; of several routes with the same method and path, the first is used.
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
        """Call the endpoint of the route that matches a request, or raise an ApiError."""
        path: str = scope["path"]
        methods, parameters = self._fixed_routes.get(path, {}), dict[str, str]()
        if not methods:
            methods, parameters = self._match_template(path)
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

    def _match_template(self, path: str) -> tuple[dict[str, Route], dict[str, str]]:
        for pattern, methods in self._templates.values():
            match = pattern.match(path)
            if match is not None:
                return methods, match.groupdict()
        return {}, {}


def openapi(routes: Sequence[Route], title: str, version: str, description: str) -> dict[str, Any]:
    """Return the OpenAPI document of routes; routes without a tag are omitted."""
    routes = [route for route in routes if route.tag]
    models = {(model, "serialization") for route in routes for model in _response_models(route)}
    bodies = [route.body for route in routes if route.body.kind in BODY_MEDIA_TYPES]
    models |= {(body.model, "validation") for body in bodies if body.model is not None}
    sorted_models = sorted(models, key=lambda pair: (pair[0].__name__, pair[1]))
    references, definitions = models_json_schema(sorted_models, ref_template=SCHEMA_PREFIX + "{model}")  # type: ignore[arg-type]
    schemas = definitions.get("$defs", {})
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        operation = _describe_operation(route, references, schemas)
        paths.setdefault(re.sub(r":\w+}", "}", route.path), {}).setdefault(route.method.lower(), operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version, "description": description},
        "paths": paths,
        "components": {"schemas": schemas},
    }


BODY_MEDIA_TYPES = {"json": (JSON,), "json or form": (JSON, FORM), "upload": (UPLOAD,)}
References = Mapping[tuple[Any, Any], dict[str, Any]]


def _response_models(route: Route) -> list[Model]:
    models = [response.model for response in route.responses.values() if response.model is not None]
    return [model.__args__[0] if hasattr(model, "__args__") else model for model in models]


def _describe_operation(route: Route, references: References, schemas: dict[str, Any]) -> dict[str, Any]:
    name = re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").strip("_")
    operation: dict[str, Any] = {"tags": [route.tag], "operationId": name, "summary": route.summary}
    operation["description"] = inspect.getdoc(route.endpoint) or ""
    parameters = [
        {"name": parameter_name, "in": "path", "required": True, "schema": {"type": "string"}}
        for parameter_name in re.findall(r"{(\w+)", route.path)
    ]
    model, kind = route.body.model, route.body.kind
    if model is not None and kind == "query":
        schema = model.model_json_schema()
        parameters += [
            {
                "name": parameter_name,
                "in": "query",
                "required": parameter_name in schema.get("required", ()),
                "schema": property_schema,
            }
            for parameter_name, property_schema in schema["properties"].items()
        ]
    elif model is not None:
        schema = references[model, "validation"]
        definition = schemas[schema["$ref"].removeprefix(SCHEMA_PREFIX)]
        if kind == "upload":
            properties = {**definition["properties"], "file": FILE_SCHEMA}
            schema = {
                **definition,
                "properties": properties,
                "required": [*definition.get("required", ()), "file"],
            }
        content = {media: {"schema": schema} for media in BODY_MEDIA_TYPES[kind]}
        required = kind != "json or form" or "required" in definition
        operation["requestBody"] = {"required": required, "content": content}
    if parameters:
        operation["parameters"] = parameters
    operation["responses"] = {
        str(status): _describe_response(response, references)
        for status, response in sorted(route.responses.items())
    }
    return operation


def _describe_response(response: ResponseDescription, references: References) -> dict[str, Any]:
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
