"""Requests of other projects' clients to the dialects, replayed.

- kiss-translator 2.0.9, ``src/apis/trans.js``: ``genDeeplX``, ``genCustom`` (2.x, and 1.x with ``from`` empty).
- pot-desktop, ``src/services/translate/deepl/index.jsx``; zotero-pdf-translate, ``deeplcustom.ts``; read-frog's
  DeepLX provider, whose URL is ``https://api.deeplx.org/{{apiKey}}/translate``; DeepLX's own documentation.
- Immersive Translate's documentation of "Custom Interface Translation", with both formats of placeholders.
- ``google-cloud-translate`` 3.28 for Python, recorded with a session that prints its requests, and version 2 of
  the client for Node, ``src/v2/index.ts``; Google's documentation.
- deepl-python 1.30, deepl-node 1.27, LibreTranslate 1.9's tests and page, and Weblate's two machines.
"""

# ruff: noqa: E501 (a table of requests)

import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from running_server import RunningServer, running_server
from shapes import fits

from uwaga_server.auth import add_key
from uwaga_server.settings import DIALECTS

pytest_plugins = "server_fixtures"

TEXT = "A man sleeps."
GERMAN = "Ein Mann schläft."
FRENCH = "Le gouvernement français a annoncé hier une réforme des retraites."
DEEPLX = {"code": 200, "id": int, "data": GERMAN, "alternatives": None, "source_lang": "EN", "method": "Free"}
ZOTERO = {"content-type": "application/json; charset=utf-8"}
OFFICIAL = {"translations": [{"detected_source_language": "EN", "text": GERMAN}]}
CAR = "Das <i0>Auto</i0> ist sehr schnell."
GOOGLE = {"target": "de", "q": [TEXT], "cid": [], "format": None, "source": None, "model": None}
PYTHON = "/language/translate/v2?prettyPrint=false"
NODE = {"q": [TEXT], "format": "text", "target": "de"}
DEEPL_PYTHON = {
    "target_lang": "DE", "text": ["proton beam"], "show_billed_characters": True, "split_sentences": "1",
    "preserve_formatting": False, "outline_detection": True,
}  # fmt: skip
DEEPL_NODE = {"target_lang": "de", "show_billed_characters": "1", "text": "proton beam"}
WEBLATE = {
    "text": ['Open <x id="5"></x> now.', "A man sleeps."], "source_lang": "EN", "target_lang": "DE",
    "formality": "default", "tag_handling": "xml", "ignore_tags": ["x"],
}  # fmt: skip
GLOSSARY = {"name": "N", "source_lang": "en", "target_lang": "de", "entries_format": "tsv", "entries": "a\tb"}
PAGE = {"q": "Hello", "source": "auto", "target": "de", "format": "text", "alternatives": 3, "api_key": ""}
LIBRE = {"q": "Hello", "source": "en", "target": "de", "format": "text"}
DEEPL_TEXT = {"detected_source_language": "EN", "text": str}
BILLED_TEXT = DEEPL_TEXT | {"billed_characters": 11}
PAIR = {"source_lang": "en", "target_lang": "de", "entry_count": 1}
STORED_GLOSSARY = {"glossary_id": str, "name": str, "ready": True, **PAIR, "creation_time": str}
MULTILINGUAL_GLOSSARY = {"glossary_id": str, "name": "N", "dictionaries": [PAIR], "creation_time": str}
FILE = {"file": ("x.txt", b"A man sleeps.")}
DETECTED_LANGUAGE = {"confidence": float, "language": "en"}


def data(*translations: dict[str, str]) -> dict[str, Any]:
    return {"data": {"translations": list(translations)}}


def refused(word: str, code: str = str) -> dict[str, object]:
    return {"message": lambda message: word in message, "code": code}


def matches(pattern: str):
    return lambda text: re.search(pattern, text) is not None


@pytest.mark.parametrize(
    ("method", "path", "kwargs", "status", "shape"),
    [
        # kiss-translator, pot-desktop, zotero-pdf-translate and read-frog to DeepLX
        ("POST", "/deeplx/translate", {"json": {"text": TEXT, "target_lang": "DE", "source_lang": ""}}, 200, DEEPLX | {"target_lang": "DE"}),
        ("POST", "/deeplx/translate", {"json": {"source_lang": "auto", "target_lang": "de", "text": TEXT}}, 200, DEEPLX | {"target_lang": "de"}),
        ("POST", "/deeplx/translate", {"content": f'{{"text":"{TEXT}","source_lang":"EN","target_lang":"DE"}}', "headers": ZOTERO}, 200, DEEPLX | {"target_lang": "DE"}),
        ("POST", "/deeplx/token123/translate", {"json": {"text": TEXT, "source_lang": "EN", "target_lang": "DE"}}, 200, DEEPLX | {"target_lang": "DE"}),
        # DeepLX's documentation
        ("POST", "/deeplx/v1/translate?token=x", {"json": {"text": TEXT, "target_lang": "DE"}}, 200, DEEPLX | {"target_lang": "DE", "method": "Pro"}),
        ("POST", "/deeplx/v2/translate", {"json": {"text": [TEXT], "target_lang": "DE"}, "headers": {"authorization": "DeepL-Auth-Key x"}}, 200, OFFICIAL),
        ("POST", "/deeplx/v2/translate", {"data": {"text": TEXT, "target_lang": "DE"}}, 200, OFFICIAL),
        ("POST", "/deeplx/v2/translate", {"json": {"text": [TEXT, TEXT], "target_lang": "DE"}}, 200, {"translations": OFFICIAL["translations"] * 2}),
        ("POST", "/deeplx/translate", {"json": {"text": "<b>A man</b> sleeps.", "target_lang": "DE", "tag_handling": "html"}}, 200, DEEPLX | {"data": "<b>Ein Mann</b> schläft.", "target_lang": "DE"}),
        ("POST", "/deeplx/translate", {"json": {"text": TEXT, "target_lang": "DE", "tag_handling": "pdf"}}, 400, {"code": 400, "message": matches("^Invalid tag_handling value")}),
        ("POST", "/deeplx/translate", {"json": {"text": "", "target_lang": "DE"}}, 404, {"code": 404, "message": "No text to translate"}),
        ("POST", "/deeplx/translate", {"json": {"text": TEXT, "target_lang": "XX"}}, 400, {"code": 400, "message": matches("available")}),
        ("GET", "/deeplx", {}, 200, {"code": 200, "message": str}),
        ("GET", "/deeplx/other", {}, 404, {"code": 404, "message": "Path not found"}),
        # Immersive Translate
        ("POST", "/immersive", {"json": {"source_lang": "auto", "target_lang": "de", "text_list": [TEXT, TEXT]}}, 200,
         {"translations": [{"detected_source_lang": "en", "text": GERMAN}] * 2}),
        ("POST", "/immersive", {"json": {"source_lang": "en", "target_lang": "de", "text_list": ["{0} Hello {1} world"]}}, 200,
         {"translations": [{"detected_source_lang": "en", "text": matches(r"\{0\}.*\{1\}")}]}),
        ("POST", "/immersive", {"json": {"source_lang": "en", "target_lang": "de", "text_list": ["<b0></b0> Hello <b1></b1> world", "1 < 2 & 3"]}}, 200,
         {"translations": [{"detected_source_lang": "en", "text": matches(r"<b0></b0>.*<b1></b1>")}, {"detected_source_lang": "en", "text": matches("1 < 2 & 3")}]}),
        ("POST", "/immersive", {"json": {"source_lang": "en", "target_lang": "de", "text_list": []}}, 200, {"translations": []}),
        ("POST", "/immersive", {"json": {"source_lang": "auto", "target_lang": "de", "text_list": [TEXT, FRENCH]}}, 200,
         {"translations": [{"detected_source_lang": "en", "text": GERMAN}, {"detected_source_lang": "", "text": FRENCH}]}),
        ("POST", "/immersive", {"json": {"source_lang": "auto", "target_lang": "de", "text_list": [FRENCH]}}, 400, {"code": "unknown_language", "message": str}),
        # kiss-translator: one text, several, placeholders, and version 1
        ("POST", "/kiss", {"json": {"text": TEXT, "from": "auto", "to": "de"}, "headers": {"authorization": "Bearer"}}, 200, {"text": GERMAN, "from": "en", "to": "de"}),
        ("POST", "/kiss", {"json": {"texts": [TEXT, TEXT], "from": "en", "to": "de"}}, 200, [{"text": GERMAN, "src": "en"}] * 2),
        ("POST", "/kiss", {"json": {"texts": ["The <i0>car</i0> is very fast."], "from": "en", "to": "de"}}, 200, [{"text": CAR, "src": "en"}]),
        ("POST", "/kiss", {"json": {"texts": ["The <a i=0>car</a> is very fast."], "from": "en", "to": "de"}}, 200, [{"text": matches("<a i=0>Auto</a>"), "src": "en"}]),
        ("POST", "/kiss", {"json": {"text": TEXT, "from": "", "to": "de"}}, 200, {"text": GERMAN, "from": "en", "to": "de"}),
        ("POST", "/kiss", {"json": {"texts": [TEXT, "", "12:30"], "from": "auto", "to": "de"}}, 200,
         [{"text": GERMAN, "src": "en"}, {"text": "", "src": "en"}, {"text": "12:30", "src": "en"}]),
        ("POST", "/kiss", {"json": {"texts": [""], "from": "auto", "to": "de"}}, 200, [{"text": "", "src": "en"}]),
        ("POST", "/kiss", {"json": {"texts": ["A man sleeps.<br />Two dogs run.\n<b>The car</b> is very fast."], "from": "en", "to": "de"}}, 200,
         [{"text": "Ein Mann schläft.<br />Zwei Hunde laufen.\n<b>Das Auto</b> ist sehr schnell.", "src": "en"}]),
        ("POST", "/translate", {"json": {"q": "A man sleeps.<br />Two dogs run.", "source": "en", "target": "de", "format": "text"}}, 200,
         {"translatedText": "Ein Mann schläft.<br />Zwei Hunde laufen."}),
        ("POST", "/kiss", {"json": {"from": "en", "to": "de"}}, 400, {"code": "missing", "message": matches("`texts`")}),
        # google-cloud-translate for Python
        ("POST", PYTHON, {"json": GOOGLE}, 200, data({"translatedText": GERMAN, "detectedSourceLanguage": "en"})),
        ("POST", PYTHON, {"json": GOOGLE | {"q": [TEXT, "<b>A man</b> sleeps."], "source": "en", "model": "nmt"}}, 200,
         data({"translatedText": GERMAN, "model": "nmt"}, {"translatedText": "<b>Ein Mann</b> schläft.", "model": "nmt"})),
        ("POST", PYTHON, {"json": GOOGLE | {"target": "xx"}}, 400, lambda body: body["error"]["errors"][0]["reason"] == "invalid"),
        ("POST", PYTHON, {"json": GOOGLE | {"cid": ["a"]}}, 400, lambda body: "'cid'" in body["error"]["message"]),
        ("GET", "/language/translate/v2/languages?target=en&prettyPrint=false", {}, 200,
         {"data": {"languages": [{"language": "de", "name": "German"}, {"language": "en", "name": "English"}]}}),
        ("POST", "/language/translate/v2/detect?prettyPrint=false", {"json": {"q": ["This is an English sentence.", "12"]}}, 200,
         {"data": {"detections": [[{"language": "en", "confidence": float, "isReliable": bool}], [{"language": "und", "confidence": 0.0, "isReliable": bool}]]}}),
        # the client for Node, and Google's documentation
        ("POST", "/language/translate/v2?key=x", {"json": NODE}, 200, data({"translatedText": GERMAN, "detectedSourceLanguage": "en"})),
        ("POST", "/language/translate/v2?key=x", {"json": NODE | {"source": "en", "model": "base"}}, 200, data({"translatedText": GERMAN, "model": "base"})),
        ("GET", "/language/translate/v2/languages?key=x", {}, 200, {"data": {"languages": [{"language": "de"}, {"language": "en"}]}}),
        ("GET", "/language/translate/v2", {"params": [("key", "x"), ("source", "en"), ("target", "de"), ("q", TEXT), ("q", TEXT)]}, 200,
         data(*[{"translatedText": GERMAN}] * 2)),
        ("POST", "/language/translate/v2", {"data": {"key": "x", "source": "en", "target": "de", "q": [TEXT, TEXT]}, "headers": {"x-http-method-override": "GET"}}, 200,
         data(*[{"translatedText": GERMAN}] * 2)),
        ("GET", "/language/translate/v2/detect", {"params": {"q": "Das ist ein deutscher Satz."}}, 200,
         {"data": {"detections": [[{"language": "de", "confidence": float, "isReliable": bool}]]}}),
        ("POST", "/language/translate/v2", {"json": {"q": TEXT}}, 400, lambda body: body["error"]["errors"][0]["reason"] == "required"),
        ("GET", "/language/translate/v2/other", {}, 404, lambda body: body["error"]["status"] == "NOT_FOUND"),
        # deepl-python and deepl-node
        ("POST", "/v2/translate", {"json": DEEPL_PYTHON}, 200, {"translations": [BILLED_TEXT]}),
        ("POST", "/v2/translate", {"data": DEEPL_NODE}, 200, {"translations": [BILLED_TEXT]}),
        ("POST", "/v2/translate", {"json": DEEPL_PYTHON | {"debug": "1"}}, 200, {"translations": [BILLED_TEXT]}),
        ("POST", "/v2/translate", {"json": DEEPL_PYTHON | {"target_lang": "XX"}}, 400, refused("target_lang")),
        ("POST", "/v2/translate", {"json": DEEPL_PYTHON | {"source_lang": "XX"}}, 400, refused("source_lang")),
        ("POST", "/v2/translate", {"json": DEEPL_PYTHON | {"formality": "more"}}, 400, refused("Target language")),
        ("POST", "/v2/translate", {"json": DEEPL_PYTHON | {"custom_instructions": ["x"]}}, 400, refused("custom")),
        ("POST", "/v2/translate", {"json": DEEPL_PYTHON | {"style_id": "x"}}, 400, refused("style_id")),
        ("POST", "/v2/write/rephrase", {"json": {"text": ["x"]}}, 404, refused("only translates")),
        ("GET", "/v3/style_rules", {}, 404, refused("only translates")),
        ("GET", "/v3/translation_memories", {}, 404, refused("only translates")),
        ("GET", "/v2/usage", {}, 200, lambda usage: usage["character_count"] <= usage["character_limit"]),
        ("POST", "/v2/document", {"data": {"target_lang": "DE"}, "files": FILE}, 200,
         {"document_id": lambda key: len(key) == 32, "document_key": lambda key: len(key) == 64}),
        ("POST", "/v2/document", {"data": {"target_lang": "DE"}, "files": {"file": ("x.invalid", b"x")}}, 400,
         refused("file extension")),
        ("POST", f"/v2/document/{'12AB' * 8}", {"json": {"document_key": "CD34" * 16}}, 404, refused("")),
        ("POST", "/v3/glossaries", {"json": {"name": "N", "dictionaries": [GLOSSARY]}}, 201, MULTILINGUAL_GLOSSARY),
        ("POST", "/v3/glossaries", {"json": {"name": "", "dictionaries": []}}, 400, refused("name")),
        ("GET", "/v3/glossaries/no-id", {}, 404, refused("")),
        # Weblate's machine for DeepL
        ("GET", "/v2/languages?type=source", {}, 200, [{"language": "EN", "name": "English"}]),
        ("GET", "/v2/languages?type=target&enable_beta_languages=1", {}, 200,
         [{"language": "DE", "name": "German", "supports_formality": False}]),
        ("GET", "/v2/glossary-language-pairs", {}, 200,
         {"supported_languages": [{"source_lang": "en", "target_lang": "de"}]}),
        ("POST", "/v2/translate", {"json": WEBLATE}, 200,
         {"translations": [DEEPL_TEXT | {"text": lambda text: '<x id="5"></x>' in text, "tag_handling_version": "v2"},
                           DEEPL_TEXT | {"tag_handling_version": "v2"}]}),
        ("POST", "/v2/glossaries", {"json": GLOSSARY}, 201, STORED_GLOSSARY),
        ("GET", "/v2/glossaries", {}, 200, lambda body: all(fits(glossary, STORED_GLOSSARY) for glossary in body["glossaries"])),
        ("DELETE", "/v2/glossaries/no-id", {}, 404, refused("")),
        # LibreTranslate's own tests
        ("GET", "/languages", {}, 200,
         [{"code": "en", "name": "English", "targets": ["de"]}, {"code": "de", "name": "German", "targets": []}]),
        ("GET", "/frontend/settings", {}, 200, lambda body: body["language"]["source"]["code"] == "en"),
        ("GET", "/health", {}, 200, {"status": "ok"}),
        ("GET", "/spec", {}, 200, lambda body: "/translate" in body["paths"]),
        ("POST", "/detect", {"data": {"q": "Hello"}}, 200, [DETECTED_LANGUAGE]),
        ("POST", "/detect", {}, 400, {"error": str}),
        ("POST", "/translate", {"data": LIBRE}, 200, {"translatedText": str}),
        ("POST", "/translate", {"json": LIBRE | {"q": ["Hello", "World"]}}, 200, {"translatedText": [str, str]}),
        ("POST", "/translate", {"data": LIBRE | {"target": "zz"}}, 400, {"error": "zz is not supported"}),
        ("POST", "/translate", {"data": {"source": "en"}}, 400, {"error": "Invalid request: missing q parameter"}),
        *((method, path, {}, 405, {"error": str})
          for method, path in (("GET", "/detect"), ("POST", "/languages"), ("POST", "/spec"))),
        # LibreTranslate's page and Weblate's machine for it
        ("POST", "/translate", {"data": PAGE, "files": {"secret": (None, "")}}, 200,
         {"translatedText": str, "detectedLanguage": DETECTED_LANGUAGE, "alternatives": [str, str, str]}),
        ("POST", "/suggest", {"data": PAGE | {"s": "Hallo", "source": "en"}}, 200, {"success": True}),
        ("POST", "/translate_file", {"data": {"source": "en", "target": "de"}, "files": FILE}, 200,
         {"translatedFileUrl": lambda url: "/download_file/" in url}),
        ("POST", "/translate", {"data": {"api_key": "", "q": "Hello", "source": "en", "target": "de"}}, 200,
         {"translatedText": str}),
    ],
)  # fmt: skip
def test_responses_have_the_structure_that_clients_expect(server, method, path, kwargs, status, shape):
    response = httpx.request(method, f"{server.url}{path}", timeout=60, **kwargs)
    assert response.status_code == status, response.text
    assert fits(response.json(), shape), response.text


@pytest.mark.slow
def test_keys_are_accepted_wherever_clients_send_them(tmp_path: Path):
    file = tmp_path / "keys.json"
    key = add_key(file, "ann")
    deeplx, google = {"text": TEXT, "target_lang": "DE"}, {"q": TEXT, "target": "de"}
    with running_server(tmp_path, dialects=list(DIALECTS), keys=str(file)) as server:
        for path, kwargs, status in (
            (f"/deeplx/{key}/translate", {"json": deeplx}, 200),
            (
                "/deeplx/v2/translate",
                {"json": deeplx, "headers": {"authorization": f"DeepL-Auth-Key {key}"}},
                200,
            ),
            ("/deeplx/translate", {"json": deeplx}, 401),
            ("/deeplx/wrong/translate", {"json": deeplx}, 401),
            ("/language/translate/v2", {"data": google | {"key": key}}, 200),
            ("/language/translate/v2", {"json": google, "headers": {"x-goog-api-key": key}}, 200),
            ("/language/translate/v2", {"json": google}, 403),
            ("/language/translate/v2?key=wrong", {"json": google}, 400),
        ):
            response = server.post(path, **kwargs)
            assert response.status_code == status, response.text
        assert key not in server.log.read_text(encoding="utf-8")


def test_google_client_library_translates_and_detects(server: RunningServer):
    translate_v2 = pytest.importorskip("google.cloud.translate_v2", reason="needs google-cloud-translate")
    credentials = pytest.importorskip("google.auth.credentials").AnonymousCredentials()
    client = translate_v2.Client(credentials=credentials, client_options={"api_endpoint": server.url})
    assert client.translate(TEXT, target_language="de")["translatedText"] == GERMAN
    assert [language["language"] for language in client.get_languages()] == ["de", "en"]
    assert client.detect_language("This is an English sentence.")["language"] == "en"
    with pytest.raises(Exception, match="'xx' is not available"):
        client.translate(TEXT, target_language="xx")


def test_chinese_language_codes_are_converted_between_regions_and_scripts():
    from uwaga.languages.codes import with_region, with_script

    assert [with_script(code) for code in ("zh-CN", "zh_TW", "zh-HK", "zh", "pt-BR")] == [
        "zh-Hans", "zh-Hant", "zh-Hant", "zh", "pt-BR",
    ]  # fmt: skip
    assert [with_region(code) for code in ("zh", "zh-Hans", "zh-Hant", "zho_Hant", "de")] == [
        "zh-CN", "zh-CN", "zh-TW", "zh-TW", "de",
    ]  # fmt: skip
