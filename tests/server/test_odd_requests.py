"""Unusual values in the request fields of all routes never cause a server error."""

import asyncio
import json
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from running_server import RunningServer
from test_key_routes import FIELDS, make_app

from uwaga_server.http import json_bytes
from uwaga_server.routing import FORM, Route

pytest_plugins = "server_fixtures"

SURROGATE = "\ud800"
VALUES = [SURROGATE, f"a {SURROGATE} b", [SURROGATE], {SURROGATE: 1}, "\0", {}, None, -1, "9" * 5000]
FORM_VALUES = [value for value in VALUES if isinstance(value, str)]


@pytest.fixture(scope="module")
def client(shared_server: RunningServer) -> Iterator[httpx.Client]:
    headers = {"content-type": "application/json"}
    with httpx.Client(base_url=shared_server.url, timeout=60, headers=headers) as client:
        yield client


def routes(tmp_path_factory: pytest.TempPathFactory) -> list[Route]:
    app = make_app(tmp_path_factory.mktemp("app"))[0]
    return [route for route in app.routes if route.body.model is not None]


def names_of(route: Route) -> list[str]:
    assert route.body.model is not None
    fields = route.body.model.model_fields
    return [field.alias or name for name, field in fields.items()]


def send_values(client: httpx.Client, route: Route, name: str, every: slice) -> Iterator[httpx.Response]:
    """Send requests to a route, each with one of the selected unusual values in the named field."""
    defaults = {field: FIELDS[field] for field in names_of(route) if field in FIELDS}
    path = route.path.replace("{", "").replace("}", "")
    if route.body.kind != "query":
        for value in VALUES[every]:
            yield client.request(route.method, path, content=json.dumps({**defaults, name: value}))
    if route.body.kind in ("query", "json or form"):
        texts = {key: value for key, value in defaults.items() if isinstance(value, str)}
        for value in FORM_VALUES[every]:
            body_fields = {**texts, name: value.encode("utf-8", "surrogatepass")}
            if route.body.kind == "query":
                yield client.request(
                    route.method, path, params={**texts, name: value.replace(SURROGATE, "?")}
                )
            else:
                body = httpx.QueryParams({key: str(text) for key, text in texts.items()})
                encoded = "".join(f"%{byte:02x}" for byte in body_fields[name])
                content = f"{body}&{name}={encoded}".encode()
                yield client.request(route.method, path, content=content, headers={"content-type": FORM})


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_unusual_field_values_cause_no_server_error(client, tmp_path_factory, step):
    """With a step of 4, each value is sent to a quarter of the fields."""
    fields = [(route, name) for route in routes(tmp_path_factory) for name in names_of(route)]
    assert len(fields) > 70
    for number, (route, name) in enumerate(fields):
        for response in send_values(client, route, name, slice(number % step, None, step)):
            context = (route.method, route.path, name, response.request.content[:200])
            assert response.status_code != 500, context
            assert response.headers["x-request-id"], context
            assert response.status_code == 204 or response.headers["content-type"], context


@pytest.mark.parametrize("path", ["/translate", "/language/translate/v2"])
def test_lone_surrogate_is_returned_unchanged(client: httpx.Client, path: str):
    response = client.post(
        path, content=json.dumps({"q": SURROGATE, "source": "en", "target": "de", "format": "text"})
    )
    assert response.status_code < 500
    if response.status_code == 200:
        assert json.dumps(SURROGATE)[1:-1] in response.text


@pytest.mark.parametrize(
    "content",
    [
        SURROGATE, {SURROGATE: 1}, [SURROGATE, float("nan")], {"a": [{"b": SURROGATE}, float("inf"), 1.5]},
        {"a": 1},
    ],
)  # fmt: skip
def test_json_encoding_is_valid_for_any_content(content: Any):
    parsed = json.loads(json_bytes(content))

    def without_nonfinite(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without_nonfinite(item) for name, item in value.items()}
        if isinstance(value, list):
            return [without_nonfinite(item) for item in value]
        return None if isinstance(value, float) and value - value != 0 else value

    assert parsed == without_nonfinite(content)


TEXTS = {
    "/translate": {"q": ["A"] * 600, "source": "en", "target": "de"},
    "/language/translate/v2": {"q": ["A"] * 600, "source": "en", "target": "de"},
    "/deeplx/v2/translate": {"text": ["A"] * 600, "source_lang": "en", "target_lang": "de"},
    "/immersive": {"text_list": ["A"] * 600, "source_lang": "en", "target_lang": "de"},
    "/kiss": {"texts": ["A"] * 600, "from": "en", "to": "de"},
    "/v1/translate": {"text": ["A"] * 600, "source": "en", "target": "de"},
    "/v2/translate": {"text": ["A"] * 600, "source_lang": "EN", "target_lang": "DE"},
}


@pytest.mark.parametrize("path", TEXTS)
def test_too_many_texts_are_refused_before_requests_are_built(path, tmp_path, monkeypatch):
    def build_requests(*_: object) -> None:
        raise AssertionError("too many texts")

    for module in [
        module for name, module in sys.modules.items() if name.startswith("uwaga_server.dialects")
    ]:
        for name in ("build_requests", "page_requests", "text_requests"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, build_requests)
    app, _ = make_app(tmp_path, keys=None)

    async def request() -> httpx.Response:
        headers = {"authorization": "DeepL-Auth-Key any"}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://localhost"
        ) as client:
            return await client.post(path, json=TEXTS[path], headers=headers)

    assert asyncio.run(request()).status_code == 413
