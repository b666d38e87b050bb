"""Routes: what a path and a method reach, and how they are described."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from uwaga.server.api_errors import ApiError
from uwaga.server.page import description_page
from uwaga.server.routing import Router, Routes, openapi


class Part(BaseModel):
    name: str
    inner: list[Part] = []


class Query(BaseModel):
    name: str
    most: int = 3


def routes() -> Routes:
    made = Routes("parts", prefix="/v1")

    @made.add("GET", "/parts/{part_id}", "A part", answer=Part)
    async def get(request: Request, part_id: str) -> Response:
        """Say more."""
        return Response(part_id)

    @made.add("DELETE", "/parts/{part_id}", "Delete", status=204)
    async def delete(request: Request, part_id: str) -> Response:
        return Response(status_code=204)

    @made.add("POST", "/parts", "Add", body=Part, kind="json or form", answer=list[Part])
    async def add(request: Request) -> Response:
        return Response(await request.body())

    @made.add("GET", "/parts", "Search", body=Query, kind="query")
    async def search(request: Request) -> Response:
        return Response("all")

    return made


def ask(method: str, path: str) -> httpx.Response:
    async def answer() -> httpx.Response:
        transport = httpx.ASGITransport(Router(routes().routes))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.request(method, path, content=b"body")

    return asyncio.run(answer())


def test_a_path_and_a_method_reach_an_endpoint():
    assert ask("GET", "/v1/parts/a%20b").text == "a b"
    assert ask("DELETE", "/v1/parts/x").status_code == 204
    assert ask("POST", "/v1/parts").text == "body"
    assert ask("GET", "/v1/parts").text == "all"


def test_another_method_is_told_those_of_the_path():
    for path, allowed in (("/v1/parts", ("GET", "POST")), ("/v1/parts/x", ("DELETE", "GET"))):
        with pytest.raises(ApiError) as error:
            ask("PUT", path)
        assert (error.value.status, error.value.allow) == (405, allowed)
        assert error.value.headers["allow"] == ", ".join(allowed)


def test_an_unknown_path_is_not_found_and_a_slash_too_many_is_redirected():
    for path in ("/", "/v1", "/v1/parts/x/y", "/v1/parts/x/"):
        with pytest.raises(ApiError) as error:
            ask("GET", path)
        assert error.value.status == 404
    answer = ask("POST", "/v1/parts/")
    assert (answer.status_code, answer.headers["location"]) == (307, "http://here/v1/parts")


def test_the_page_of_the_description_loads_nothing():
    page = description_page(openapi(routes().routes, "title <x>", "1", "what it is"))
    for named in ("POST /v1/parts", "title &lt;x&gt;", "Say more.", "Schemas"):
        assert named in page
    assert not any(part in page for part in ("<script", "<style", "<link", "http://", "https://"))


def test_the_description_has_parameters_bodies_and_answers():
    hidden = Routes()
    hidden.add("GET", "/hidden")(ask)  # type: ignore[type-var]
    document = openapi([*routes().routes, *hidden.routes], "title", "1", "")
    assert set(document["paths"]) == {"/v1/parts/{part_id}", "/v1/parts"}
    get = document["paths"]["/v1/parts/{part_id}"]["get"]
    assert (get["summary"], get["description"]) == ("A part", "Say more.")
    assert [one["in"] for one in get["parameters"]] == ["path"]
    post, search = (document["paths"]["/v1/parts"][method] for method in ("post", "get"))
    assert len(post["requestBody"]["content"]) == 2
    assert {(one["name"], one["required"]) for one in search["parameters"]} == {
        ("name", True),
        ("most", False),
    }
    array = post["responses"]["200"]["content"]["application/json"]["schema"]
    name = array["items"]["$ref"].rpartition("/")[2]
    assert document["components"]["schemas"][name]["required"] == ["name"]
