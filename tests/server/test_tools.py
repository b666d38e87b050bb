"""The requests of the tools in docs/guides/tools, replayed as their sources build them.

Weblate: weblate/machinery/libretranslate.py at 19117864, base.py at db58819b, deepl.py at 01c5add9.
Mastodon: app/lib/translation_service/libre_translate.rb at bcba029a.
Zotero: src/modules/services/{libretranslate,deeplcustom}.ts of zotero-pdf-translate 2.4.6, ac91acaf.
calibre: engines/custom.py and lib/element.py of Ebook-Translator-Calibre-Plugin 2.4.2, 3a04debd.
OmegaT: OmegaTPlugin/.../OpusCatTranslator.java of OPUS-CAT at b050d52c; OmegaT itself at ba59a847.
Home Assistant: homeassistant/components/rest_command/__init__.py at eaca577d.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from running_server import RunningServer, running_server

from uwaga.server.auth import add_key

PAGES = Path(__file__).parents[2] / "docs/guides/tools"
DIALECTS = ["v1", "libretranslate", "deepl", "deeplx", "opuscat"]
TEXT = "A man sleeps."
GERMAN = "Ein Mann schläft."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("server")
    with running_server(folder, dialects=DIALECTS, state=str(folder / "state")) as running:
        yield running


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    file = tmp_path_factory.mktemp("keys") / "keys.json"
    made = {"usual": add_key(file, "usual"), "wrong": "uwk-wrong"}
    made["slow"] = add_key(file, "slow", requests_per_minute=1)
    made["small"] = add_key(file, "small", characters=1)
    return {**made, "file": str(file)}


@pytest.fixture(scope="module")
def closed_server(tmp_path_factory: pytest.TempPathFactory, keys: dict[str, str]) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("closed")
    with running_server(folder, dialects=DIALECTS, state=str(folder / "state"), keys=keys["file"]) as running:
        yield running


def sample(page: str, title: str) -> str:
    """Return the block of a page that has this title."""
    text = (PAGES / page).read_text(encoding="utf-8")
    [block] = re.findall(rf'^```\w+ title="{re.escape(title)}"\n(.*?)^```$', text, re.M | re.S)
    return str(block)


def post(server: RunningServer, path: str, **sent: Any) -> Any:
    answer = httpx.post(f"{server.url}{path}", timeout=60, **sent)
    assert answer.status_code == 200, answer.text
    return answer.json()


def status(server: RunningServer, path: str, **sent: Any) -> int:
    return httpx.post(f"{server.url}{path}", timeout=60, **sent).status_code


def weblate_libretranslate(texts: list[str], target: str = "de", key: str = "") -> dict[str, Any]:
    return {"json": {"api_key": key, "q": texts, "source": "en", "target": target}}


def weblate_deepl(texts: list[str], target: str = "DE", key: str = "any", **more: str) -> dict[str, Any]:
    body = {
        "text": texts,
        "source_lang": "EN",
        "target_lang": target,
        "formality": "default",
        "tag_handling": "xml",
        "ignore_tags": ["x"],
        **more,
    }
    return {"json": body, "headers": {"authorization": f"DeepL-Auth-Key {key}".strip()}}


def test_weblate_tests_its_settings(server: RunningServer):
    assert {"en", "de"} <= {one["code"] for one in httpx.get(f"{server.url}/languages").json()}
    assert len(post(server, "/translate", **weblate_libretranslate(["test"]))["translatedText"]) == 1
    sources, targets = (
        {one["language"] for one in httpx.get(f"{server.url}/v2/languages", params={"type": side}).json()}
        for side in ("source", "target")
    )
    assert ("EN" in sources, "DE" in targets) == (True, True)
    body = weblate_deepl(["test"])["json"] | {"source_lang": "en", "target_lang": "de"}
    assert len(post(server, "/v2/translate", json=body)["translations"]) == 1


@pytest.mark.parametrize(
    "text", ["Open [X5X] now.", "There are [X10X] cars in [X24X].", "[X0X] sleeps.", "[X0X][X7X]"]
)
def test_weblates_placeholders_of_libretranslate(server: RunningServer, text: str):
    [made] = post(server, "/translate", **weblate_libretranslate([text]))["translatedText"]
    assert sorted(re.findall(r"\[X\d+X\]", made)) == sorted(re.findall(r"\[X\d+X\]", text))


def test_weblates_batch_with_placeholders_and_context_for_deepl(server: RunningServer):
    texts = ['Open <x id="5"></x> the car.', TEXT, '<x id="0"></x>']
    sent = weblate_deepl(texts, context="A shop", model_type="prefer_quality_optimized")
    made = [one["text"] for one in post(server, "/v2/translate", **sent)["translations"]]
    assert made[1:] == [GERMAN, '<x id="0"></x>']
    assert made[0].count('<x id="5"></x>') == 1


def test_weblate_uploads_its_glossary(server: RunningServer):
    pairs = httpx.get(f"{server.url}/v2/glossary-language-pairs").json()["supported_languages"]
    assert ("EN", "DE") in {(pair["source_lang"].upper(), pair["target_lang"].upper()) for pair in pairs}
    glossary = {
        "name": "weblate:1:EN:DE:0a1b2c",
        "source_lang": "EN",
        "target_lang": "DE",
        "entries": "car\tKarosse",
        "entries_format": "tsv",
    }
    assert status(server, "/v2/glossaries", json=glossary) == 201
    listed = httpx.get(f"{server.url}/v2/glossaries").json()["glossaries"]
    [number] = [one["glossary_id"] for one in listed if one["name"] == glossary["name"]]
    assert all(re.match(r"\d{4}-\d\d-\d\dT", one["creation_time"]) for one in listed)
    sent = weblate_deepl(["I want to buy a car."], glossary_id=number)
    assert "Karosse" in post(server, "/v2/translate", **sent)["translations"][0]["text"]
    assert httpx.delete(f"{server.url}/v2/glossaries/{number}").status_code == 204
    assert httpx.delete(f"{server.url}/v2/glossaries/{number}").status_code in {400, 404}


@pytest.mark.parametrize("key", ["", "usual", "wrong", "small", "slow"])
@pytest.mark.parametrize(
    ("path", "make", "expected"),
    [
        ("/translate", weblate_libretranslate, {"": 400, "wrong": 403, "small": 403}),
        ("/v2/translate", weblate_deepl, {"": 403, "wrong": 403, "small": 456}),
    ],
)
def test_weblate_reads_the_errors(
    closed_server: RunningServer,
    keys: dict[str, str],
    path: str,
    make: Any,
    expected: dict[str, int],
    key: str,
):
    """A message under ``error`` or ``message``, and a status after which Weblate pauses or goes on."""
    answers = [
        httpx.post(f"{closed_server.url}{path}", timeout=60, **make([TEXT, TEXT], key=keys.get(key, "")))
        for _ in range(2)
    ]
    last = answers[-1]
    assert last.status_code == {"usual": 200, "slow": 429, **expected}[key], last.text
    if last.status_code != 200:
        assert isinstance(last.json()["error" if path == "/translate" else "message"], str)


def test_weblate_shows_why_a_language_is_refused(server: RunningServer):
    answer = httpx.post(f"{server.url}/translate", **weblate_libretranslate([TEXT], "tlh"))
    assert (answer.status_code, answer.json()["error"]) == (400, "tlh is not supported")
    answer = httpx.post(f"{server.url}/v2/translate", **weblate_deepl([TEXT], "TLH"))
    assert answer.status_code == 400 and "target_lang" in answer.json()["message"]


def mastodon(texts: list[str], source: str = "en", key: str | None = None) -> dict[str, Any]:
    body = {"q": texts, "source": source, "target": "de", "format": "html", "api_key": key}
    return {"content": json.dumps(body), "headers": {"content-type": "application/json"}}


POST = (
    '<p>A man sleeps. <a href="https://example.org/@ann" class="mention" translate="no">@<span>ann</span></a>'
    '<br>The car is very fast <span translate="no">:blobcat:</span></p>'
)


def test_mastodon_reads_the_languages(server: RunningServer):
    listed = httpx.get(f"{server.url}/languages", headers={"content-type": "application/json"}).json()
    assert {one["code"]: one["targets"] for one in listed} == {"en": ["de"], "de": []}


def test_mastodon_translates_a_post(server: RunningServer):
    made = post(server, "/translate", **mastodon([POST, "A car", "<p>🙂</p>"]))["translatedText"]
    assert re.findall("<[^>]+>", made[0]) == re.findall("<[^>]+>", POST)
    assert ":blobcat:" in made[0] and "schläft" in made[0]
    assert made[2] == "<p>🙂</p>"


def test_mastodon_reads_the_language_of_each_text_if_the_post_has_none(server: RunningServer):
    made = post(server, "/translate", **mastodon([POST, f"<p>{TEXT}</p>"], "auto"))
    assert len(made["translatedText"]) == len(made["detectedLanguage"]) == 2
    assert [one["language"] for one in made["detectedLanguage"]] == ["en", "en"]


def test_mastodon_tells_errors_by_their_status(closed_server: RunningServer, keys: dict[str, str]):
    """403 is its quota, 429 too many requests, any other an unexpected response."""
    for key, expected in ((None, 400), ("wrong", 403), ("small", 403), ("usual", 200)):
        sent = mastodon([f"<p>{TEXT}</p>"], key=key and keys[key])
        assert status(closed_server, "/translate", **sent) == expected, key
    slow = [status(closed_server, "/translate", **mastodon([TEXT], key=keys["slow"])) for _ in range(2)]
    assert slow[-1] == 429


def test_mastodons_sample_names_its_variables():
    names = [line.partition("=")[0] for line in sample("mastodon.md", ".env.production").splitlines()]
    assert names == ["LIBRE_TRANSLATE_ENDPOINT", "LIBRE_TRANSLATE_API_KEY"]


def test_zotero_by_libretranslates_api(
    server: RunningServer, closed_server: RunningServer, keys: dict[str, str]
):
    body = {"q": TEXT, "source": "en", "target": "de", "format": "text"}
    assert post(server, "/translate", json=body) == {"translatedText": GERMAN}
    assert (
        post(closed_server, "/translate", json=body | {"api_key": keys["usual"]})["translatedText"] == GERMAN
    )
    assert status(closed_server, "/translate", json=body) == 400
    assert status(closed_server, "/translate", json=body | {"api_key": "wrong"}) == 403


def test_zotero_by_deeplx(server: RunningServer, closed_server: RunningServer, keys: dict[str, str]):
    body = json.dumps({"text": TEXT, "source_lang": "EN", "target_lang": "DE"})
    sent = {"content": body, "headers": {"content-type": "application/json; charset=utf-8"}}
    assert post(server, "/deeplx/translate", **sent)["data"] == GERMAN
    assert post(closed_server, f"/deeplx/{keys['usual']}/translate", **sent)["data"] == GERMAN
    assert status(closed_server, "/deeplx/translate", **sent) == 401


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        'The {{id_00001}} car is "very" fast.',
        f"{TEXT}\n\nThe car is very fast.\n\n{{{{id_00002}}}}",
        "The car is fast — 5 €.",
    ],
)
@pytest.mark.parametrize("source", ["en", "auto"])
def test_calibres_engine_of_the_page(server: RunningServer, text: str, source: str):
    """The body and the reading of the response are the plugin's."""
    engine = json.loads(sample("calibre.md", "engine"))
    asked = engine["request"]
    body = json.dumps(asked["data"]).replace("<source>", source).replace("<target>", "de")
    body = body.replace("<text>", json.dumps(text)[1:-1])
    url = asked["url"].replace("http://127.0.0.1:5000", server.url)
    answer = httpx.request(asked["method"], url, content=body, headers=asked["headers"], timeout=60)
    made = eval(engine["response"], {"response": answer.json()})
    assert isinstance(made, str)
    assert re.findall(r"\{\{id_\d+\}\}|\n\n", made) == re.findall(r"\{\{id_\d+\}\}|\n\n", text)
    assert set(engine["languages"]) == {"source", "target"} and "<text>" in str(asked["data"])


def omegat(text: str, target: str = "DE-DE") -> dict[str, str]:
    return {"input": text, "modelTag": "", "srcLangCode": "EN-US", "tokenCode": "0", "trgLangCode": target}


@pytest.mark.parametrize(
    "text", [TEXT, "A man <g1>sleeps</g1>.", "Open <x1/> the <g2>new</g2> car.", "<e0/>A man<f1>"]
)
def test_omegat_by_the_plugin_of_opus_cat(server: RunningServer, text: str):
    answer = httpx.get(f"{server.url}/MTRestService/TranslateJson", params=omegat(text), timeout=60)
    made = answer.json()["translation"]
    assert re.findall("<[^>]+>", made) == re.findall("<[^>]+>", text)
    assert "&" not in made


def test_omegat_keeps_characters_that_are_special_in_html(server: RunningServer):
    text = "Open https://example.org/?a=1&b=2 in <g1>the car</g1>."
    answer = httpx.get(f"{server.url}/MTRestService/TranslateJson", params=omegat(text), timeout=60)
    assert "https://example.org/?a=1&b=2" in answer.json()["translation"]


def test_omegat_tests_the_connection_and_shows_nothing_on_errors(server: RunningServer):
    assert httpx.get(f"{server.url}/MTRestService/ListSupportedLanguagePairs").json() == ["en-de"]
    answer = httpx.get(f"{server.url}/MTRestService/TranslateJson", params=omegat(TEXT, "TLH"))
    assert answer.status_code == 400 and "translation" not in answer.json()


def home_assistant(server: RunningServer, **data: object) -> dict[str, Any]:
    """Call the command of the page, and return what a script's ``response_variable`` holds."""
    jinja2 = pytest.importorskip("jinja2")
    command = yaml.safe_load(sample("home-assistant.md", "configuration.yaml"))["rest_command"]["translate"]
    environment = jinja2.Environment()
    environment.filters["to_json"] = lambda value: json.dumps(value, ensure_ascii=False)
    payload = environment.from_string(command["payload"]).render(**data)
    answer = httpx.request(
        command["method"].upper(),
        re.sub(r"http://[\d.]+:5000", server.url, command["url"]),
        content=payload.encode(),
        headers={"content-type": command["content_type"]},
        timeout=60,
    )
    assert answer.headers["content-type"] == "application/json"
    return {"content": answer.json(), "status": answer.status_code}


def test_home_assistants_command_of_the_page(server: RunningServer):
    made = home_assistant(server, text=TEXT, source="en", target="de")
    assert made == {"content": {"translatedText": GERMAN}, "status": 200}
    made = home_assistant(server, text='The car is "very"\nfast — 5 °C', target="de")
    assert made["status"] == 200 and made["content"]["detectedLanguage"]["language"] == "en"
    assert made["content"]["translatedText"].count("\n") == 1
    assert home_assistant(server, text=[TEXT], source="en", target="de")["content"]["translatedText"] == [
        GERMAN
    ]


def test_home_assistants_script_of_the_page_reads_the_response(server: RunningServer):
    """The templates of its notifications, for a translation and for an error."""
    jinja2 = pytest.importorskip("jinja2")
    [script] = yaml.safe_load(sample("home-assistant.md", "scripts.yaml")).values()
    call, branch = script["sequence"]
    assert call["action"] == "rest_command.translate"
    for target, then, shown in (("de", "then", GERMAN), ("tlh", "else", "tlh is not supported")):
        answer = home_assistant(server, text=TEXT, source=call["data"]["source"], target=target)
        [step] = branch[then]
        assert jinja2.Template(branch["if"]).render(answer=answer) == str(then == "then")
        assert jinja2.Template(step["data"]["message"]).render(answer=answer) == shown
