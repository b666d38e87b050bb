"""DeepL's dialect: its routes and the format of its errors."""

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
STATUS_OF_CODE = {"quota_exceeded": QUOTA_STATUS, "not_ready": 503, "busy": 429, "not_available": 400}
"""DeepL's HTTP statuses, by the server's error codes."""
DEEPL_STATUS = {401: 403, 408: 400, 422: 400}
PARAMETERS = {"source": "source_lang", "target": "target_lang"}
"""DeepL's names of the service's parameters."""
DEFAULT_RETRY_AFTER = 1.0
"""Default of ``Retry-After``, in seconds."""
OTHER_RESOURCES = ("write", "admin", "style_rules", "voice", "quality-evaluation")
MEMORIES = "translation_memories"

ERROR_SCHEMA = {
    "type": "object",
    "required": ["message"],
    "properties": {"message": {"type": "string"}, "code": {"type": "string"}},
}
ERRORS = {
    status: ResponseDescription(description, content={"application/json": {"schema": ERROR_SCHEMA}})
    for status, description in (
        (400, "A parameter is missing, invalid or not supported"),
        (403, "No key, or a wrong one"),
        (404, "No such glossary or document"),
        (413, "Too much for one request"),
        (415, "Neither JSON nor a form"),
        (429, "Too much for a minute, or the queue is full; see `Retry-After`"),
        (QUOTA_STATUS, "The key's characters are used up"),
        (503, "A document is not ready, or a model is unavailable; see `Retry-After`"),
        (504, "Timed out"),
    )
}


def routes(context: ServerContext) -> Routes:
    """Return the routes of the dialect."""
    routes, hidden = Routes("deepl", ERRORS), Routes()
    add_translate_route(routes, context)
    add_account_routes(routes, context)
    add_deepl_glossary_routes(routes, context)
    add_document_routes(routes, context)
    others: tuple[str, ...] = OTHER_RESOURCES
    if context.settings.memories is None:
        others += (MEMORIES,)
    else:
        from uwaga_server.dialects.deepl.memories import add_memory_routes  # needs the extra `memory`

        add_memory_routes(routes, context)

    async def refuse(request: Request, rest: str = "") -> Response:
        """Refuse requests for other resources of DeepL."""
        DEEPL_KEY.admit(context, request)
        name = request.url.path.split("/")[2]
        raise ApiError(404, "not_supported", f"{name} is not supported: this server only translates")

    for version in ("v2", "v3"):
        for name in others:
            for path in (f"/{version}/{name}", f"/{version}/{name}/{{rest:path}}"):
                for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                    hidden.add(method, path)(refuse)
    routes.routes += hidden.routes
    return routes


def render(problem: ApiError, request_id: str) -> Response:
    """Return an error in DeepL's format."""
    status = STATUS_OF_CODE.get(problem.code, DEEPL_STATUS.get(problem.status, problem.status))
    message = problem.message
    if status == QUOTA_STATUS:
        message = f"Quota exceeded. {message}"
    elif problem.parameter in PARAMETERS:
        message = f"Value for '{PARAMETERS[problem.parameter]}' not supported: {message}"
    elif problem.code == "unsupported_format":
        message = f"Unsupported file extension: {message}"
    headers = {"x-trace-id": request_id}
    if status in (429, 503) and problem.retry_after is None:
        headers["retry-after"] = str(int(DEFAULT_RETRY_AFTER))
    return json_response({"message": message, "code": problem.code}, status, headers)


DIALECT = Dialect("deepl", lambda path: path.startswith(("/v2/", "/v3/")), routes, render)
