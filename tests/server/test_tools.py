"""Requests of the tools in docs/guides/tools, replayed from their source code.

Weblate: weblate/machinery/libretranslate.py at 19117864, base.py at db58819b, deepl.py at 01c5add9.
Mastodon: app/lib/translation_service/libre_translate.rb at bcba029a.
Zotero: src/modules/services/{libretranslate,deeplcustom}.ts of zotero-pdf-translate 2.4.6, ac91acaf.
calibre: engines/custom.py and lib/element.py of Ebook-Translator-Calibre-Plugin 2.4.2, 3a04debd.
OmegaT: OmegaTPlugin/.../OpusCatTranslator.java of OPUS-CAT at b050d52c; OmegaT itself at ba59a847.
Home Assistant: homeassistant/components/rest_command/__init__.py at eaca577d.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from running_server import RunningServer, running_server

from uwaga_server.auth import add_key

pytest_plugins = "server_fixtures"

PAGES = Path(__file__).parents[2] / "docs/guides/tools"
DIALECTS = ["v1", "libretranslate", "deepl", "deeplx", "opuscat"]
TEXT = "A man sleeps."
GERMAN = "Ein Mann schläft."


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    file = tmp_path_factory.mktemp("keys") / "keys.json"
    issued = {"usual": add_key(file, "usual"), "wrong": "uwk-wrong"}
    issued["slow"] = add_key(file, "slow", requests_per_minute=1)
    issued["small"] = add_key(file, "small", characters=1)
    return {**issued, "file": str(file)}


@pytest.fixture(scope="module")
def protected_server(
    tmp_path_factory: pytest.TempPathFactory, keys: dict[str, str]
) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("protected")
    with running_server(folder, dialects=DIALECTS, state=str(folder / "state"), keys=keys["file"]) as running:
        yield running


def sample(page: str, title: str) -> str:
    """Return the code block of a page with this title."""
    text = (PAGES / page).read_text(encoding="utf-8")
    [block] = re.findall(rf'^```\w+ title="{re.escape(title)}"\n(.*?)^```$', text, re.M | re.S)
    return str(block)


def post(server: RunningServer, path: str, **kwargs: Any) -> Any:
    response = server.post(path, **kwargs)
    assert response.status_code == 200, response.text
    return response.json()


def weblate_libretranslate(texts: list[str], target: str = "de", key: str = "") -> dict[str, Any]:
    return {"json": {"api_key": key, "q": texts, "source": "en", "target": target}}


def weblate_deepl(texts: list[str], target: str = "DE", key: str = "any", **fields: str) -> dict[str, Any]:
    body = {
        "text": texts, "source_lang": "EN", "target_lang": target, "formality": "default",
        "tag_handling": "xml", "ignore_tags": ["x"], **fields,
    }  # fmt: skip
    return {"json": body, "headers": {"authorization": f"DeepL-Auth-Key {key}".strip()}}


def test_weblate_settings_check_passes(server: RunningServer):
    assert {"en", "de"} <= {language["code"] for language in server.get("/languages").json()}
    assert len(post(server, "/translate", **weblate_libretranslate(["test"]))["translatedText"]) == 1
    sources, targets = (
        {language["language"] for language in server.get("/v2/languages", params={"type": side}).json()}
        for side in ("source", "target")
    )
    assert ("EN" in sources, "DE" in targets) == (True, True)
    body = weblate_deepl(["test"])["json"] | {"source_lang": "en", "target_lang": "de"}
    assert len(post(server, "/v2/translate", json=body)["translations"]) == 1


@pytest.mark.parametrize(
    "text", ["Open [X5X] now.", "There are [X10X] cars in [X24X].", "[X0X] sleeps.", "[X0X][X7X]"]
)
def test_weblate_placeholders_survive_the_libretranslate_dialect(server: RunningServer, text: str):
    [translation] = post(server, "/translate", **weblate_libretranslate([text]))["translatedText"]
    assert sorted(re.findall(r"\[X\d+X\]", translation)) == sorted(re.findall(r"\[X\d+X\]", text))


def test_weblate_batch_is_translated_by_the_deepl_dialect(server: RunningServer):
    texts = ['Open <x id="5"></x> the car.', TEXT, '<x id="0"></x>']
    kwargs = weblate_deepl(texts, context="A shop", model_type="prefer_quality_optimized")
    results = [translation["text"] for translation in post(server, "/v2/translate", **kwargs)["translations"]]
    assert results[1:] == [GERMAN, '<x id="0"></x>']
    assert results[0].count('<x id="5"></x>') == 1


def test_weblate_glossary_is_created_applied_and_deleted(server: RunningServer):
    pairs = server.get("/v2/glossary-language-pairs").json()["supported_languages"]
    assert ("EN", "DE") in {(pair["source_lang"].upper(), pair["target_lang"].upper()) for pair in pairs}
    glossary = {
        "name": "weblate:1:EN:DE:0a1b2c", "source_lang": "EN", "target_lang": "DE", "entries": "car\tKarosse",
        "entries_format": "tsv",
    }  # fmt: skip
    assert server.post("/v2/glossaries", json=glossary).status_code == 201
    listed = server.get("/v2/glossaries").json()["glossaries"]
    [glossary_id] = [
        listed_glossary["glossary_id"]
        for listed_glossary in listed
        if listed_glossary["name"] == glossary["name"]
    ]
    assert all(re.match(r"\d{4}-\d\d-\d\dT", listed_glossary["creation_time"]) for listed_glossary in listed)
    kwargs = weblate_deepl(["I want to buy a car."], glossary_id=glossary_id)
    assert "Karosse" in post(server, "/v2/translate", **kwargs)["translations"][0]["text"]
    assert server.delete(f"/v2/glossaries/{glossary_id}").status_code == 204
    assert server.delete(f"/v2/glossaries/{glossary_id}").status_code in {400, 404}


@pytest.mark.parametrize("key", ["", "usual", "wrong", "small", "slow"])
@pytest.mark.parametrize(
    ("path", "make", "expected"),
    [
        ("/translate", weblate_libretranslate, {"": 400, "wrong": 403, "small": 403}),
        ("/v2/translate", weblate_deepl, {"": 403, "wrong": 403, "small": 456}),
    ],
)
def test_weblate_requests_get_the_expected_status_codes_and_messages(
    protected_server: RunningServer,
    keys: dict[str, str],
    path: str,
    make: Any,
    expected: dict[str, int],
    key: str,
):
    """Weblate reads a message from ``error`` or ``message`` and continues or pauses by the status."""
    responses = [protected_server.post(path, **make([TEXT, TEXT], key=keys.get(key, ""))) for _ in range(2)]
    last = responses[-1]
    assert last.status_code == {"usual": 200, "slow": 429, **expected}[key], last.text
    if last.status_code != 200:
        assert isinstance(last.json()["error" if path == "/translate" else "message"], str)


def test_unsupported_language_requested_by_weblate_is_refused(server: RunningServer):
    response = server.post("/translate", **weblate_libretranslate([TEXT], "tlh"))
    assert (response.status_code, response.json()["error"]) == (400, "tlh is not supported")
    response = server.post("/v2/translate", **weblate_deepl([TEXT], "TLH"))
    assert response.status_code == 400 and "target_lang" in response.json()["message"]


def mastodon(texts: list[str], source: str = "en", key: str | None = None) -> dict[str, Any]:
    body = {"q": texts, "source": source, "target": "de", "format": "html", "api_key": key}
    return {"content": json.dumps(body), "headers": {"content-type": "application/json"}}


MASTODON_POST = (
    '<p>A man sleeps. <a href="https://example.org/@ann" class="mention" translate="no">@<span>ann</span></a>'
    '<br>The car is very fast <span translate="no">:blobcat:</span></p>'
)


def test_languages_are_listed_for_mastodon(server: RunningServer):
    listed = server.get("/languages", headers={"content-type": "application/json"}).json()
    assert {language["code"]: language["targets"] for language in listed} == {"en": ["de"], "de": []}


def test_mastodon_post_keeps_its_markup(server: RunningServer):
    translations = post(server, "/translate", **mastodon([MASTODON_POST, "A car", "<p>🙂</p>"]))[
        "translatedText"
    ]
    assert re.findall("<[^>]+>", translations[0]) == re.findall("<[^>]+>", MASTODON_POST)
    assert ":blobcat:" in translations[0] and "schläft" in translations[0]
    assert translations[2] == "<p>🙂</p>"


def test_language_of_each_mastodon_text_is_detected(server: RunningServer):
    body = post(server, "/translate", **mastodon([MASTODON_POST, f"<p>{TEXT}</p>"], "auto"))
    assert len(body["translatedText"]) == len(body["detectedLanguage"]) == 2
    assert [detection["language"] for detection in body["detectedLanguage"]] == ["en", "en"]


def test_mastodon_requests_get_the_expected_status_codes(protected_server, keys):
    """Mastodon treats 403 as quota exceeded, 429 as too many requests, and others as unexpected."""
    for key, expected in ((None, 400), ("wrong", 403), ("small", 403), ("usual", 200)):
        kwargs = mastodon([f"<p>{TEXT}</p>"], key=key and keys[key])
        assert protected_server.post("/translate", **kwargs).status_code == expected, key
    statuses = [
        protected_server.post("/translate", **mastodon([TEXT], key=keys["slow"])).status_code
        for _ in range(2)
    ]
    assert statuses[-1] == 429


def test_mastodon_sample_sets_the_required_variables():
    names = [line.partition("=")[0] for line in sample("mastodon.md", ".env.production").splitlines()]
    assert names == ["LIBRE_TRANSLATE_ENDPOINT", "LIBRE_TRANSLATE_API_KEY"]


def test_zotero_translates_with_the_libretranslate_dialect(server, protected_server, keys):
    body = {"q": TEXT, "source": "en", "target": "de", "format": "text"}
    assert post(server, "/translate", json=body) == {"translatedText": GERMAN}
    assert (
        post(protected_server, "/translate", json=body | {"api_key": keys["usual"]})["translatedText"]
        == GERMAN
    )
    assert protected_server.post("/translate", json=body).status_code == 400
    assert protected_server.post("/translate", json=body | {"api_key": "wrong"}).status_code == 403


def test_zotero_translates_with_the_deeplx_dialect(server, protected_server, keys):
    body = json.dumps({"text": TEXT, "source_lang": "EN", "target_lang": "DE"})
    kwargs = {"content": body, "headers": {"content-type": "application/json; charset=utf-8"}}
    assert post(server, "/deeplx/translate", **kwargs)["data"] == GERMAN
    assert post(protected_server, f"/deeplx/{keys['usual']}/translate", **kwargs)["data"] == GERMAN
    assert protected_server.post("/deeplx/translate", **kwargs).status_code == 401


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
def test_calibre_engine_from_the_guide_translates(server: RunningServer, text: str, source: str):
    """Build the body and read the response as the plugin does."""
    engine = json.loads(sample("calibre.md", "engine"))
    engine_request = engine["request"]
    body = json.dumps(engine_request["data"]).replace("<source>", source).replace("<target>", "de")
    body = body.replace("<text>", json.dumps(text)[1:-1])
    url = engine_request["url"].replace("http://127.0.0.1:5000", server.url)
    response = httpx.request(
        engine_request["method"], url, content=body, headers=engine_request["headers"], timeout=60
    )
    translation = eval(engine["response"], {"response": response.json()})
    assert isinstance(translation, str)
    assert re.findall(r"\{\{id_\d+\}\}|\n\n", translation) == re.findall(r"\{\{id_\d+\}\}|\n\n", text)
    assert set(engine["languages"]) == {"source", "target"} and "<text>" in str(engine_request["data"])


def omegat(text: str, target: str = "DE-DE") -> dict[str, str]:
    return {"input": text, "modelTag": "", "srcLangCode": "EN-US", "tokenCode": "0", "trgLangCode": target}


@pytest.mark.parametrize(
    "text", [TEXT, "A man <g1>sleeps</g1>.", "Open <x1/> the <g2>new</g2> car.", "<e0/>A man<f1>"]
)
def test_tags_from_the_opus_cat_plugin_for_omegat_are_preserved(server: RunningServer, text: str):
    response = server.get("/MTRestService/TranslateJson", params=omegat(text))
    translation = response.json()["translation"]
    assert re.findall("<[^>]+>", translation) == re.findall("<[^>]+>", text)
    assert "&" not in translation


def test_special_html_characters_from_omegat_are_preserved(server: RunningServer):
    text = "Open https://example.org/?a=1&b=2 in <g1>the car</g1>."
    response = server.get("/MTRestService/TranslateJson", params=omegat(text))
    assert "https://example.org/?a=1&b=2" in response.json()["translation"]


def test_omegat_connection_check_succeeds_and_errors_are_reported(server: RunningServer):
    assert server.get("/MTRestService/ListSupportedLanguagePairs").json() == ["en-de"]
    response = server.get("/MTRestService/TranslateJson", params=omegat(TEXT, "TLH"))
    assert response.status_code == 400 and "translation" not in response.json()


def home_assistant(server: RunningServer, **data: object) -> dict[str, Any]:
    """Call the command of the guide and return the value of a script's ``response_variable``."""
    jinja2 = pytest.importorskip("jinja2")
    command = yaml.safe_load(sample("home-assistant.md", "configuration.yaml"))["rest_command"]["translate"]
    environment = jinja2.Environment()
    environment.filters["to_json"] = lambda value: json.dumps(value, ensure_ascii=False)
    payload = environment.from_string(command["payload"]).render(**data)
    response = httpx.request(
        command["method"].upper(), re.sub(r"http://[\d.]+:5000", server.url, command["url"]),
        content=payload.encode(), headers={"content-type": command["content_type"]}, timeout=60,
    )  # fmt: skip
    assert response.headers["content-type"] == "application/json"
    return {"content": response.json(), "status": response.status_code}


def test_home_assistant_command_from_the_guide_translates(server: RunningServer):
    result = home_assistant(server, text=TEXT, source="en", target="de")
    assert result == {"content": {"translatedText": GERMAN}, "status": 200}
    result = home_assistant(server, text='The car is "very"\nfast — 5 °C', target="de")
    assert result["status"] == 200 and result["content"]["detectedLanguage"]["language"] == "en"
    assert result["content"]["translatedText"].count("\n") == 1
    assert home_assistant(server, text=[TEXT], source="en", target="de")["content"]["translatedText"] == [
        GERMAN
    ]


def test_home_assistant_script_from_the_guide_shows_the_translation_or_the_error(server: RunningServer):
    """Render the templates of its notifications for a translation and for an error."""
    jinja2 = pytest.importorskip("jinja2")
    [script] = yaml.safe_load(sample("home-assistant.md", "scripts.yaml")).values()
    call, branch = script["sequence"]
    assert call["action"] == "rest_command.translate"
    for target, branch_name, message in (("de", "then", GERMAN), ("tlh", "else", "tlh is not supported")):
        response = home_assistant(server, text=TEXT, source=call["data"]["source"], target=target)
        [step] = branch[branch_name]
        assert jinja2.Template(branch["if"]).render(answer=response) == str(branch_name == "then")
        assert jinja2.Template(step["data"]["message"]).render(answer=response) == message
