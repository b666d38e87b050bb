"""Common properties of the optional dialects: off by default, keys, limits, format of errors."""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from running_server import RunningServer, running_server
from shapes import fits

from uwaga_server.auth import add_key
from uwaga_server.settings import DEFAULT_DIALECTS, DIALECTS

PAGE = Path(__file__).parents[2] / "docs/guides/dialects.md"
SAMPLE = re.compile(r'^```console\n\$ (curl .*?)^```\n\n```json title="output"\n(.*?)^```$', re.M | re.S)
ALL_DIALECTS = list(DIALECTS)


@dataclass(frozen=True)
class DialectRequest:
    """A dialect's request for a translation.

    Attributes:
        path: path of a POST request.
        body: JSON, in which ``TEXT`` and ``de`` are replaced by a text and its target language.
        error: returns the shape of an error with a status.
        key: name of the query parameter or header for the key.
        text: returns the translation from the response.
        key_location: where the key is sent, ``params`` or ``headers``.
    """

    path: str
    body: dict[str, Any]
    error: Any
    key: str
    text: Any
    key_location: str = "params"

    def post(
        self, url: str, text: str = "A man sleeps.", target: str = "de", **kwargs: Any
    ) -> httpx.Response:
        body = json.dumps(self.body).replace('"TEXT"', json.dumps(text)).replace('"de"', json.dumps(target))
        headers = {"content-type": "application/json", **kwargs.pop("headers", {})}
        return httpx.post(f"{url}{self.path}", content=body, headers=headers, timeout=60, **kwargs)


CODE_AND_MESSAGE = {"code": str, "message": str}
REQUESTS = {
    "deeplx": DialectRequest(
        path="/deeplx/translate",
        body={"text": "TEXT", "source_lang": "EN", "target_lang": "de"},
        error=lambda status: {"code": status, "message": str},
        key="token",
        text=lambda body: body["data"],
    ),
    "immersive": DialectRequest(
        path="/immersive",
        body={"source_lang": "en", "target_lang": "de", "text_list": ["TEXT"]},
        error=lambda status: CODE_AND_MESSAGE,
        key="key",
        text=lambda body: body["translations"][0]["text"],
    ),
    "kiss": DialectRequest(
        path="/kiss",
        body={"text": "TEXT", "from": "en", "to": "de"},
        error=lambda status: CODE_AND_MESSAGE,
        key="key",
        text=lambda body: body["text"],
    ),
    "google": DialectRequest(
        path="/language/translate/v2",
        body={"q": "TEXT", "source": "en", "target": "de", "format": "text"},
        error=lambda status: {
            "error": {
                "code": status,
                "message": str,
                "errors": [{"message": str, "domain": str, "reason": str}],
                "status": str,
            }
        },
        key="key",
        text=lambda body: body["data"]["translations"][0]["translatedText"],
    ),
    "opuscat": DialectRequest(
        path="/MTRestService/TranslatePost",
        body={"input": "TEXT", "srcLangCode": "en", "trgLangCode": "de"},
        error=lambda status: {"Message": str},
        key="tokenCode",
        text=lambda body: body["translation"],
    ),
    "openai": DialectRequest(
        path="/openai/v1/chat/completions",
        body={
            "model": "uwaga",
            "messages": [{"role": "user", "content": "TEXT"}],
            "translation_options": {"target_lang": "de"},
        },
        error=lambda status: {
            "error": {"message": str, "type": str, "param": lambda name: name is None or name, "code": str}
        },
        key="api-key",
        text=lambda body: body["choices"][0]["message"]["content"],
        key_location="headers",
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("server")
    with running_server(folder, dialects=ALL_DIALECTS, limits={"characters": 2000}) as running:
        yield running


@pytest.fixture(scope="module")
def default_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("usual")) as running:
        yield running


def test_every_optional_dialect_has_a_test_request_under_its_name():
    assert [dialect.name for dialect in DIALECTS.values()] == ALL_DIALECTS
    assert set(REQUESTS) == set(ALL_DIALECTS) - set(DEFAULT_DIALECTS)


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_of_each_dialect_are_translated(server: RunningServer, name: str):
    response = REQUESTS[name].post(server.url)
    assert (response.status_code, REQUESTS[name].text(response.json())) == (200, "Ein Mann schläft."), (
        response.text
    )


@pytest.mark.parametrize("name", REQUESTS)
def test_optional_dialects_are_disabled_by_default(default_server: RunningServer, name: str):
    assert REQUESTS[name].post(default_server.url).status_code == 404
    assert REQUESTS[name].path not in default_server.get("/openapi.json").json()["paths"]


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize(
    ("kwargs", "statuses"),
    [
        ({"target": "tlh"}, {400, 404}),
        ({"target": "../../etc/passwd"}, {400, 404}),
        ({"target": "\x00"}, {400, 404, 422}),
        ({"text": "a" * 2001}, {400, 413}),
        ({"text": "a" * (3 << 20)}, {413}),
    ],
    ids=["unknown language", "path", "control character", "too many characters", "too many bytes"],
)
def test_error_responses_use_the_format_of_the_dialect(server, name, kwargs, statuses):
    response = REQUESTS[name].post(server.url, **kwargs)
    assert response.status_code in statuses, response.text
    assert fits(response.json(), REQUESTS[name].error(response.status_code)), response.text


@pytest.mark.parametrize("name", REQUESTS)
def test_responses_to_unsupported_methods_use_the_format_of_the_dialect(server: RunningServer, name: str):
    response = server.put(REQUESTS[name].path, json={})
    assert response.status_code == 405
    assert fits(response.json(), REQUESTS[name].error(405)), response.text


@pytest.mark.slow
def test_api_keys_and_rate_limits_apply_to_optional_dialects(tmp_path: Path):
    file = tmp_path / "keys.json"
    keys = {name: add_key(file, name, requests_per_minute=2) for name in REQUESTS}
    with running_server(tmp_path, dialects=ALL_DIALECTS, keys=str(file)) as server:
        for name, dialect_request in REQUESTS.items():
            bearer = {"authorization": f"Bearer {keys[name]}"}
            wrong = {"authorization": f"Bearer {keys[name]}x"}
            responses = [
                dialect_request.post(server.url),
                dialect_request.post(server.url, headers=wrong),
                dialect_request.post(server.url, headers=bearer),
                dialect_request.post(
                    server.url, **{dialect_request.key_location: {dialect_request.key: keys[name]}}
                ),
                dialect_request.post(server.url, headers=bearer),
            ]
            missing, refused, *accepted, limited = [response.status_code for response in responses]
            assert accepted == [200, 200], name
            assert {missing, refused} <= {400, 401, 403}, name
            assert limited == 429 and int(responses[-1].headers["retry-after"]) > 0, name
            for response in (*responses[:2], responses[-1]):
                assert fits(response.json(), dialect_request.error(response.status_code)), response.text
        log = server.log.read_text(encoding="utf-8")
        assert not any(key in log for key in keys.values())


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("name", REQUESTS)
@given(data=st.data())
def test_arbitrary_request_bodies_cause_no_server_error(server: RunningServer, name: str, data: Any):
    """Send the dialect's fields with arbitrary values, arbitrary JSON, and arbitrary bytes."""
    fields = dict.fromkeys(REQUESTS[name].body, ANY_JSON)
    valid = st.fixed_dictionaries(
        {}, optional={key: st.just(value) for key, value in REQUESTS[name].body.items()}
    )
    mutated = st.builds(lambda old, new: {**old, **new}, valid, st.fixed_dictionaries({}, optional=fields))
    body = data.draw(st.builds(json.dumps, mutated | ANY_JSON).map(str.encode) | st.binary(max_size=40))
    headers = {"content-type": data.draw(st.sampled_from(["application/json", "text/plain", ""]))}
    response = server.post(REQUESTS[name].path, content=body, headers=headers)
    assert response.status_code < 500, response.text
    if response.status_code != 200:
        assert fits(response.json(), REQUESTS[name].error(response.status_code)), response.text


def samples() -> list[tuple[str, str]]:
    return SAMPLE.findall(PAGE.read_text(encoding="utf-8"))


def test_guide_has_a_sample_for_each_dialect():
    assert len(samples()) >= len(REQUESTS)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize(("command", "output"), samples())
def test_guide_samples_print_the_documented_output(server: RunningServer, command: str, output: str):
    arguments = shlex.split(command.replace("\\\n", " ").replace("http://127.0.0.1:5000", server.url))
    response = json.loads(subprocess.run([*arguments, "-s"], capture_output=True, check=True).stdout)
    expected = json.loads(output)
    for name in ("id", "created"):  # variable fields of DeepLX and OpenAI
        if name in expected:
            response[name] = expected[name]
    assert response == expected
