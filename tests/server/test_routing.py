"""Routing by path and method, and descriptions of routes."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from uwaga_server.api_errors import ApiError
from uwaga_server.page import description_page
from uwaga_server.routing import Body, Router, Routes, openapi


class Part(BaseModel):
    name: str
    inner: list[Part] = []


class Query(BaseModel):
    name: str
    limit: int = 3


def routes() -> Routes:
    group = Routes("parts", prefix="/v1")

    @group.add("GET", "/parts/{part_id}", "A part", response_model=Part)
    async def get(request: Request, part_id: str) -> Response:
        """Say more."""
        return Response(part_id)

    @group.add("DELETE", "/parts/{part_id}", "Delete", status=204)
    async def delete(request: Request, part_id: str) -> Response:
        return Response(status_code=204)

    @group.add("POST", "/parts", "Add", body=Body(Part, "json or form"), response_model=list[Part])
    async def add(request: Request) -> Response:
        return Response(await request.body())

    @group.add("GET", "/parts", "Search", body=Body(Query, "query"))
    async def search(request: Request) -> Response:
        return Response("all")

    return group


def send(method: str, path: str) -> httpx.Response:
    async def request() -> httpx.Response:
        transport = httpx.ASGITransport(Router(routes().routes))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.request(method, path, content=b"body")

    return asyncio.run(request())


def test_routes_match_the_path_and_the_method():
    assert send("GET", "/v1/parts/a%20b").text == "a b"
    assert send("DELETE", "/v1/parts/x").status_code == 204
    assert send("POST", "/v1/parts").text == "body"
    assert send("GET", "/v1/parts").text == "all"


def test_disallowed_method_error_lists_allowed_methods():
    for path, allowed in (("/v1/parts", ("GET", "POST")), ("/v1/parts/x", ("DELETE", "GET"))):
        with pytest.raises(ApiError) as error:
            send("PUT", path)
        assert (error.value.status, error.value.allow) == (405, allowed)
        assert error.value.headers["allow"] == ", ".join(allowed)


def test_unknown_paths_are_refused_and_a_trailing_slash_is_redirected():
    for path in ("/", "/v1", "/v1/parts/x/y", "/v1/parts/x/"):
        with pytest.raises(ApiError) as error:
            send("GET", path)
        assert error.value.status == 404
    response = send("POST", "/v1/parts/")
    assert (response.status_code, response.headers["location"]) == (307, "http://here/v1/parts")


def test_api_description_page_is_self_contained():
    page = description_page(openapi(routes().routes, "title <x>", "1", "what it is"))
    for text in ("POST /v1/parts", "title &lt;x&gt;", "Say more.", "Schemas"):
        assert text in page
    assert not any(part in page for part in ("<script", "<style", "<link", "http://", "https://"))


def test_openapi_document_describes_routes_and_parameters():
    hidden = Routes()
    hidden.add("GET", "/hidden")(send)  # type: ignore[type-var]
    document = openapi([*routes().routes, *hidden.routes], "title", "1", "")
    assert set(document["paths"]) == {"/v1/parts/{part_id}", "/v1/parts"}
    get = document["paths"]["/v1/parts/{part_id}"]["get"]
    assert (get["summary"], get["description"]) == ("A part", "Say more.")
    assert [parameter["in"] for parameter in get["parameters"]] == ["path"]
    post, search = (document["paths"]["/v1/parts"][method] for method in ("post", "get"))
    assert len(post["requestBody"]["content"]) == 2
    assert {(parameter["name"], parameter["required"]) for parameter in search["parameters"]} == {
        ("name", True),
        ("limit", False),
    }
    array = post["responses"]["200"]["content"]["application/json"]["schema"]
    name = array["items"]["$ref"].rpartition("/")[2]
    assert document["components"]["schemas"][name]["required"] == ["name"]
