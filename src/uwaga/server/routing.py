"""Requests as OpenAPI describes them."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

FORM = "application/x-www-form-urlencoded"
FILE = {"type": "string", "format": "binary", "description": "The document, with its file name."}
FILE_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {"description": "The document", "content": {"application/octet-stream": {}}}
}
REFERENCE = "#/$defs/"


def described(model: type[BaseModel]) -> dict[str, Any]:
    """A body that is JSON or a form."""
    schema = schema_of(model)
    content = {"application/json": {"schema": schema}, FORM: {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


def described_json(model: type[BaseModel]) -> dict[str, Any]:
    """A body that is JSON."""
    content = {"application/json": {"schema": schema_of(model)}}
    return {"requestBody": {"required": True, "content": content}}


def described_upload(model: type[BaseModel]) -> dict[str, Any]:
    """A form with a file."""
    schema = schema_of(model)
    schema["properties"]["file"] = FILE
    schema["required"] = [*schema.get("required", []), "file"]
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


def described_query(model: type[BaseModel]) -> dict[str, Any]:
    """Parameters in the query."""
    schema = schema_of(model)
    needed = schema.get("required", [])
    return {
        "parameters": [
            {"name": name, "in": "query", "required": name in needed, "schema": one}
            for name, one in schema["properties"].items()
        ]
    }


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON schema of a model, with the models inside it in their places."""
    schema = model.model_json_schema()
    inner = schema.pop("$defs", {})
    placed: dict[str, Any] = _placed(schema, inner)
    return placed


def _placed(part: Any, inner: dict[str, Any]) -> Any:
    if isinstance(part, dict):
        if "$ref" in part:
            return _placed(inner[part["$ref"].removeprefix(REFERENCE)], inner)
        return {key: _placed(value, inner) for key, value in part.items()}
    return [_placed(one, inner) for one in part] if isinstance(part, list) else part
