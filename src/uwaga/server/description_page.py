"""The OpenAPI document as one HTML page, at ``/docs``: no script, no style and nothing from elsewhere."""

from __future__ import annotations

import json
from html import escape
from typing import Any

PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def description_page(document: dict[str, Any]) -> str:
    """Return an OpenAPI document as HTML: operations by tag, with parameters, bodies and responses."""
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
        "<p>The same for programs: <a href=openapi.json>openapi.json</a>.",
    ]
    for tag in tags:
        parts.append(f"<h2>{escape(tag)}</h2>")
        parts += [_operation(name, one) for name, one in operations if one["tags"][0] == tag]
    parts.append("<h2>Schemas</h2>")
    for name, schema in document["components"]["schemas"].items():
        parts.append(f"<h3 id='{escape(name)}'>{escape(name)}</h3>{_json(schema)}")
    return "\n".join(parts)


def _operation(name: str, operation: dict[str, Any]) -> str:
    parts = [f"<details><summary><code>{escape(name)}</code> {escape(operation['summary'])}</summary>"]
    parts.append(f"<p>{escape(operation['description'])}")
    rows = [
        f"<tr><td><code>{escape(parameter['name'])}</code><td>{escape(parameter['in'])}"
        f"<td>{'required' if parameter['required'] else ''}<td>{_json(parameter['schema'])}"
        for parameter in operation.get("parameters", ())
    ]
    if rows:
        parts.append(f"<h4>Parameters</h4><table>{''.join(rows)}</table>")
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"<h4>Body: <code>{escape(media)}</code></h4>{_json(content['schema'])}")
    parts.append("<h4>Responses</h4><table>")
    for status, response in operation["responses"].items():
        content = "".join(
            f"<code>{escape(media)}</code> {_json(of.get('schema', {}))}"
            for media, of in response.get("content", {}).items()
        )
        parts.append(f"<tr><td>{status}<td>{escape(response['description'])}<td>{content}")
    return "".join([*parts, "</table></details>"])


def _json(schema: dict[str, Any]) -> str:
    reference = schema.get("$ref", "").rpartition("/")[2]
    if reference:
        return f"<a href='#{escape(reference)}'>{escape(reference)}</a>"
    return f"<pre>{escape(json.dumps(schema, indent=1, ensure_ascii=False))}</pre>"
