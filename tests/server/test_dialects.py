"""What holds for every dialect that the settings must name: off by default, keys, limits, its own errors."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from running_server import RunningServer, running_server
from shapes import fits

from uwaga.server.app import DIALECTS
from uwaga.server.auth import add_key
from uwaga.server.settings import USUAL_DIALECTS, DialectName

PAGE = Path(__file__).parents[2] / "docs/guides/dialects.md"
SAMPLE = re.compile(r'^```console\n\$ (curl .*?)^```\n\n```json title="output"\n(.*?)^```$', re.M | re.S)
EVERY = list(get_args(DialectName))


@dataclass(frozen=True)
class Spoken:
    """A dialect's request for one translation.

    Attributes:
        path: of a POST.
        body: JSON, in which ``TEXT`` and ``de`` stand for a text and its target language.
        error: the shape of an error of a status.
        key: a parameter of the query for the key, or a header.
        text: reads the translation.
        place: of that key, ``params`` or ``headers``.
    """

    path: str
    body: dict[str, Any]
    error: Any
    key: str
    text: Any
    place: str = "params"

    def post(self, url: str, text: str = "A man sleeps.", target: str = "de", **sent: Any) -> httpx.Response:
        body = json.dumps(self.body).replace('"TEXT"', json.dumps(text)).replace('"de"', json.dumps(target))
        headers = {"content-type": "application/json", **sent.pop("headers", {})}
        return httpx.post(f"{url}{self.path}", content=body, headers=headers, timeout=60, **sent)


CODED = {"code": str, "message": str}
SPOKEN = {
    "deeplx": Spoken(
        path="/deeplx/translate",
        body={"text": "TEXT", "source_lang": "EN", "target_lang": "de"},
        error=lambda status: {"code": status, "message": str},
        key="token",
        text=lambda answer: answer["data"],
    ),
    "immersive": Spoken(
        path="/immersive",
        body={"source_lang": "en", "target_lang": "de", "text_list": ["TEXT"]},
        error=lambda status: CODED,
        key="key",
        text=lambda answer: answer["translations"][0]["text"],
    ),
    "kiss": Spoken(
        path="/kiss",
        body={"text": "TEXT", "from": "en", "to": "de"},
        error=lambda status: CODED,
        key="key",
        text=lambda answer: answer["text"],
    ),
    "google": Spoken(
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
        text=lambda answer: answer["data"]["translations"][0]["translatedText"],
    ),
    "opuscat": Spoken(
        path="/MTRestService/TranslatePost",
        body={"input": "TEXT", "srcLangCode": "en", "trgLangCode": "de"},
        error=lambda status: {"Message": str},
        key="tokenCode",
        text=lambda answer: answer["translation"],
    ),
    "openai": Spoken(
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
        text=lambda answer: answer["choices"][0]["message"]["content"],
        place="headers",
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("server")
    with running_server(folder, dialects=EVERY, limits={"characters": 2000}) as running:
        yield running


@pytest.fixture(scope="module")
def usual_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tmp_path_factory.mktemp("usual")) as running:
        yield running


def test_every_name_of_the_settings_is_a_dialect():
    assert [dialect.name for dialect in DIALECTS] == EVERY
    assert set(SPOKEN) == set(EVERY) - set(USUAL_DIALECTS)


@pytest.mark.parametrize("name", SPOKEN)
def test_a_dialect_translates(server: RunningServer, name: str):
    answer = SPOKEN[name].post(server.url)
    assert (answer.status_code, SPOKEN[name].text(answer.json())) == (200, "Ein Mann schläft."), answer.text


@pytest.mark.parametrize("name", SPOKEN)
def test_a_dialect_is_off_unless_it_is_named(usual_server: RunningServer, name: str):
    assert SPOKEN[name].post(usual_server.url).status_code == 404
    assert SPOKEN[name].path not in httpx.get(f"{usual_server.url}/openapi.json").json()["paths"]


@pytest.mark.parametrize("name", SPOKEN)
@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        ({"target": "tlh"}, {400, 404}),
        ({"target": "../../etc/passwd"}, {400, 404}),
        ({"target": "\x00"}, {400, 404, 422}),
        ({"text": "a" * 2001}, {400, 413}),
        ({"text": "a" * (3 << 20)}, {413}),
    ],
    ids=["unknown language", "path", "control character", "too many characters", "too many bytes"],
)
def test_a_refusal_has_the_form_of_the_dialect(
    server: RunningServer, name: str, sent: dict[str, str], statuses: set[int]
):
    answer = SPOKEN[name].post(server.url, **sent)
    assert answer.status_code in statuses, answer.text
    assert fits(answer.json(), SPOKEN[name].error(answer.status_code)), answer.text


@pytest.mark.parametrize("name", SPOKEN)
def test_other_methods_and_paths_have_the_form_of_the_dialect(server: RunningServer, name: str):
    answer = httpx.put(f"{server.url}{SPOKEN[name].path}", json={})
    assert answer.status_code == 405
    assert fits(answer.json(), SPOKEN[name].error(405)), answer.text


def test_keys_and_limits(tmp_path: Path):
    file = tmp_path / "keys.json"
    keys = {name: add_key(file, name, requests_per_minute=2) for name in SPOKEN}
    with running_server(tmp_path, dialects=EVERY, keys=str(file)) as server:
        for name, spoken in SPOKEN.items():
            bearer = {"authorization": f"Bearer {keys[name]}"}
            wrong = {"authorization": f"Bearer {keys[name]}x"}
            answers = [
                spoken.post(server.url),
                spoken.post(server.url, headers=wrong),
                spoken.post(server.url, headers=bearer),
                spoken.post(server.url, **{spoken.place: {spoken.key: keys[name]}}),
                spoken.post(server.url, headers=bearer),
            ]
            missing, refused, *taken, limited = [answer.status_code for answer in answers]
            assert taken == [200, 200], name
            assert {missing, refused} <= {400, 401, 403}, name
            assert limited == 429 and int(answers[-1].headers["retry-after"]) > 0, name
            for answer in (*answers[:2], answers[-1]):
                assert fits(answer.json(), spoken.error(answer.status_code)), answer.text
        log = server.log.read_text(encoding="utf-8")
        assert not any(key in log for key in keys.values())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize("name", SPOKEN)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_body_has_an_answer_or_an_error_of_the_dialect(server: RunningServer, name: str, data: Any):
    """The fields of the dialect with any values, any JSON, and any bytes."""
    fields = dict.fromkeys(SPOKEN[name].body, JSON)
    known = st.fixed_dictionaries(
        {}, optional={key: st.just(value) for key, value in SPOKEN[name].body.items()}
    )
    changed = st.builds(lambda old, new: {**old, **new}, known, st.fixed_dictionaries({}, optional=fields))
    body = data.draw(st.builds(json.dumps, changed | JSON).map(str.encode) | st.binary(max_size=40))
    headers = {"content-type": data.draw(st.sampled_from(["application/json", "text/plain", ""]))}
    answer = httpx.post(f"{server.url}{SPOKEN[name].path}", content=body, headers=headers, timeout=60)
    assert answer.status_code < 500, answer.text
    if answer.status_code != 200:
        assert fits(answer.json(), SPOKEN[name].error(answer.status_code)), answer.text


def samples() -> list[tuple[str, str]]:
    return SAMPLE.findall(PAGE.read_text(encoding="utf-8"))


def test_the_page_has_a_sample_of_every_dialect():
    assert len(samples()) >= len(SPOKEN)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
@pytest.mark.parametrize(("command", "output"), samples())
def test_the_samples_of_the_page(server: RunningServer, command: str, output: str):
    words = shlex.split(command.replace("\\\n", " ").replace("http://127.0.0.1:5000", server.url))
    answer = json.loads(subprocess.run([*words, "-s"], capture_output=True, check=True).stdout)
    shown = json.loads(output)
    for name in ("id", "created"):  # of DeepLX and OpenAI: they vary
        if name in shown:
            answer[name] = shown[name]
    assert answer == shown
