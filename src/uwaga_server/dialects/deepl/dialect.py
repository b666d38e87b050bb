"""The routes and the error responses of the DeepL dialect."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from uwaga_server.api_errors import ApiError
from uwaga_server.context import DEEPL_KEY, Dialect, ServerContext
from uwaga_server.dialects.deepl.account import add_account_routes
from uwaga_server.dialects.deepl.documents import add_document_routes
from uwaga_server.dialects.deepl.glossaries import add_deepl_glossary_routes
from uwaga_server.dialects.deepl.texts import add_translate_route
from uwaga_server.http import json_response
from uwaga_server.routing import ResponseDescription, Routes

QUOTA_STATUS = 456
STATUS_BY_CODE = {"quota_exceeded": QUOTA_STATUS, "not_ready": 503, "busy": 429, "not_available": 400}
"""Map from error codes of the server to DeepL's HTTP statuses."""
DEEPL_STATUSES = {401: 403, 408: 400, 422: 400}
"""Map from the server's HTTP statuses to DeepL's HTTP statuses, for all other error codes."""
PARAMETER_NAMES = {"source": "source_lang", "target": "target_lang"}
"""Map from the translation service's names of parameters to DeepL's names."""
DEFAULT_RETRY_AFTER = 1.0
"""Default value of ``Retry-After`` in seconds."""
UNSUPPORTED_RESOURCES = ("write", "admin", "style_rules", "voice", "quality-evaluation")
MEMORY_RESOURCE = "translation_memories"

ERROR_SCHEMA = {
    "type": "object",
    "required": ["message"],
    "properties": {"message": {"type": "string"}, "code": {"type": "string"}},
}
ERRORS = {
    status: ResponseDescription(description, content={"application/json": {"schema": ERROR_SCHEMA}})
    for status, description in (
        (400, "A parameter is missing, invalid or not supported"),
        (403, "The key is missing or wrong"),
        (404, "The glossary or document does not exist"),
        (413, "The request is too large"),
        (415, "The body is neither JSON nor a form"),
        (429, "The rate limit is exceeded, or the queue is full; see `Retry-After`"),
        (QUOTA_STATUS, "The character quota of the key is exceeded"),
        (503, "The document is not ready, or a model is unavailable; see `Retry-After`"),
        (504, "The request timed out"),
    )
}


def routes(context: ServerContext) -> Routes:
    """Return the routes of the dialect."""
    routes, undocumented = Routes("deepl", ERRORS), Routes()
    add_translate_route(routes, context)
    add_account_routes(routes, context)
    add_deepl_glossary_routes(routes, context)
    add_document_routes(routes, context)
    unsupported: tuple[str, ...] = UNSUPPORTED_RESOURCES
    if context.settings.memories is None:
        unsupported += (MEMORY_RESOURCE,)
    else:
        from uwaga_server.dialects.deepl.memories import add_memory_routes  # needs the extra `memory`

        add_memory_routes(routes, context)

    async def refuse(request: Request, rest: str = "") -> Response:
        """Refuse a request for an unsupported resource of DeepL's API."""
        DEEPL_KEY.admit(context, request)
        name = request.url.path.split("/")[2]
        raise ApiError(404, "not_supported", f"{name} is not supported: this server only translates")

    for version in ("v2", "v3"):
        for name in unsupported:
            for path in (f"/{version}/{name}", f"/{version}/{name}/{{rest:path}}"):
                for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                    undocumented.add(method, path)(refuse)
    routes.routes += undocumented.routes
    return routes


def render(problem: ApiError, request_id: str) -> Response:
    """Return an error response in DeepL's format."""
    status = STATUS_BY_CODE.get(problem.code, DEEPL_STATUSES.get(problem.status, problem.status))
    message = problem.message
    if status == QUOTA_STATUS:
        message = f"Quota exceeded. {message}"
    elif problem.parameter in PARAMETER_NAMES:
        message = f"Value for '{PARAMETER_NAMES[problem.parameter]}' not supported: {message}"
    elif problem.code == "unsupported_format":
        message = f"Unsupported file extension: {message}"
    headers = {"x-trace-id": request_id}
    if status in (429, 503) and problem.retry_after is None:
        headers["retry-after"] = str(int(DEFAULT_RETRY_AFTER))
    return json_response({"message": message, "code": problem.code}, status, headers)


DIALECT = Dialect("deepl", lambda path: path.startswith(("/v2/", "/v3/")), routes, render)
