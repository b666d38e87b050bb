"""The web page at ``/``, and the OpenAPI document as HTML; neither loads resources from other servers."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from uwaga.results.views import view_module
from uwaga_server.routing import Routes

PAGE_FOLDER = Path(__file__).parent / "page"
MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
"""Media types of the files in :data:`PAGE_FOLDER` by suffix; other files are not served."""
ATTENTION_VIEW_FILE = "attention.js"
"""File name of the library's attention view; like the laboratory, it is loaded only when it is opened."""
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
PAGE_HEADERS = {
    "cache-control": "no-cache",  # revalidated each time, 304 if unchanged
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "vary": "accept-encoding",
    "x-content-type-options": "nosniff",
}


@dataclass(frozen=True)
class PageFile:
    """A file of the web page: its content, plain and compressed, its media type and its entity tag."""

    plain: bytes
    compressed: bytes
    kind: str
    etag: str

    @classmethod
    def from_content(cls, content: bytes, kind: str) -> PageFile:
        """Create a file from its content and media type."""
        compressed = gzip.compress(content, 9, mtime=0)
        return cls(content, compressed, kind, hashlib.sha256(content).hexdigest()[:24])

    def response(self, request: Request) -> Response:
        """Return the file, compressed if the client accepts gzip, or status 304 if the client has a copy."""
        is_compressed = _accepts_gzip(request.headers.get("accept-encoding", ""))
        # The tag is weak, since it is the same for the plain and the compressed file.
        headers = (
            PAGE_HEADERS
            | {"etag": f'W/"{self.etag}"'}
            | ({"content-encoding": "gzip"} if is_compressed else {})
        )
        etags = request.headers.get("if-none-match", "")
        if self.etag in {tag.strip().removeprefix("W/").strip('"') for tag in etags.split(",")}:
            headers.pop("content-encoding", None)
            return Response(status_code=304, headers=headers)
        return Response(
            self.compressed if is_compressed else self.plain, headers=headers, media_type=self.kind
        )


def page_files() -> dict[str, PageFile]:
    """Return the files of the web page by path."""
    files = {
        f"page/{path.relative_to(PAGE_FOLDER).as_posix()}": PageFile.from_content(
            path.read_bytes(), MEDIA_TYPES[path.suffix]
        )
        for path in sorted(PAGE_FOLDER.rglob("*"))
        if path.suffix in MEDIA_TYPES
    }
    files[""] = files.pop("page/index.html")
    files[f"page/{ATTENTION_VIEW_FILE}"] = PageFile.from_content(
        view_module().encode("utf-8"), MEDIA_TYPES[".js"]
    )
    return files


def page_routes() -> Routes:
    """Return the routes of the web page, which require no API key."""
    routes = Routes()
    for path, file in page_files().items():
        for method in ("GET", "HEAD"):
            routes.add(method, f"/{path}")(_endpoint(file))
    return routes


def _endpoint(file: PageFile) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        """Return a file of the web page."""
        return file.response(request)

    return endpoint


def _accepts_gzip(accepted_encodings: str) -> bool:
    """Return whether the value of ``Accept-Encoding`` allows gzip."""
    for part in accepted_encodings.lower().split(","):
        name, _, weight = part.replace(" ", "").partition(";q=")
        if name == "gzip":
            return weight.strip("0.") != "" or weight == ""
    return False


DESCRIPTION_HEADERS = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def description_page(document: dict[str, Any]) -> str:
    """Return an OpenAPI document as HTML, with the operations grouped by tag."""
    operations = [
        (f"{method.upper()} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    tags = list(dict.fromkeys(operation["tags"][0] for _, operation in operations))
    info = document["info"]
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'>",
        f"<title>{escape(info['title'])} {escape(info['version'])}</title>",
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info['description'])}",
        "<p>Machine-readable version: <a href=openapi.json>openapi.json</a>.",
    ]
    for tag in tags:
        parts.append(f"<h2>{escape(tag)}</h2>")
        parts += [
            _operation_html(name, operation) for name, operation in operations if operation["tags"][0] == tag
        ]
    parts.append("<h2>Schemas</h2>")
    for name, schema in document["components"]["schemas"].items():
        parts.append(f"<h3 id='{escape(name)}'>{escape(name)}</h3>{_schema_html(schema)}")
    return "\n".join(parts)


def _operation_html(name: str, operation: dict[str, Any]) -> str:
    parts = [f"<details><summary><code>{escape(name)}</code> {escape(operation['summary'])}</summary>"]
    parts.append(f"<p>{escape(operation['description'])}")
    rows = [
        f"<tr><td><code>{escape(parameter['name'])}</code><td>{escape(parameter['in'])}"
        f"<td>{'required' if parameter['required'] else ''}<td>{_schema_html(parameter['schema'])}"
        for parameter in operation.get("parameters", ())
    ]
    if rows:
        parts.append(f"<h4>Parameters</h4><table>{''.join(rows)}</table>")
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"<h4>Body: <code>{escape(media)}</code></h4>{_schema_html(content['schema'])}")
    parts.append("<h4>Responses</h4><table>")
    for status, response in operation["responses"].items():
        content = "".join(
            f"<code>{escape(media)}</code> {_schema_html(description.get('schema', {}))}"
            for media, description in response.get("content", {}).items()
        )
        parts.append(f"<tr><td>{status}<td>{escape(response['description'])}<td>{content}")
    return "".join([*parts, "</table></details>"])


def _schema_html(schema: dict[str, Any]) -> str:
    reference = schema.get("$ref", "").rpartition("/")[2]
    if reference:
        return f"<a href='#{escape(reference)}'>{escape(reference)}</a>"
    return f"<pre>{escape(json.dumps(schema, indent=1, ensure_ascii=False))}</pre>"
