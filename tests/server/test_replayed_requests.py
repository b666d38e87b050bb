"""Replayed requests of other projects' clients and test suites.

Sources are deepl-python 1.30, deepl-node 1.27, LibreTranslate 1.9's tests and page, and Weblate's two
machines.
"""

# ruff: noqa: E501 (a table of requests)

from collections.abc import Iterator

import httpx
import pytest
from running_server import RunningServer, running_server
from shapes import fits

PYTHON = {
    "target_lang": "DE", "text": ["proton beam"], "show_billed_characters": True, "split_sentences": "1",
    "preserve_formatting": False, "outline_detection": True,
}  # fmt: skip
NODE = {"target_lang": "de", "show_billed_characters": "1", "text": "proton beam"}
WEBLATE = {
    "text": ['Open <x id="5"></x> now.', "A man sleeps."], "source_lang": "EN", "target_lang": "DE",
    "formality": "default", "tag_handling": "xml", "ignore_tags": ["x"],
}  # fmt: skip
GLOSSARY = {"name": "N", "source_lang": "en", "target_lang": "de", "entries_format": "tsv", "entries": "a\tb"}
PAGE = {"q": "Hello", "source": "auto", "target": "de", "format": "text", "alternatives": 3, "api_key": ""}
LIBRE = {"q": "Hello", "source": "en", "target": "de", "format": "text"}
TEXT = {"detected_source_language": "EN", "text": str}
BILLED_TEXT = TEXT | {"billed_characters": 11}
PAIR = {"source_lang": "en", "target_lang": "de", "entry_count": 1}
STORED_GLOSSARY = {"glossary_id": str, "name": "N", "ready": True, **PAIR, "creation_time": str}
MULTILINGUAL_GLOSSARY = {"glossary_id": str, "name": "N", "dictionaries": [PAIR], "creation_time": str}
FILE = {"file": ("x.txt", b"A man sleeps.")}
DETECTED_LANGUAGE = {"confidence": float, "language": "en"}


def refused(word: str, code: str = str) -> dict[str, object]:
    return {"message": lambda message: word in message, "code": code}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("server")
    paths = {"state": str(folder / "state"), "suggestions": str(folder / "suggestions.jsonl")}
    with running_server(folder, **paths) as running:
        yield running


@pytest.mark.parametrize(
    ("method", "path", "kwargs", "status", "shape"),
    [
        # deepl-python and deepl-node
        ("POST", "/v2/translate", {"json": PYTHON}, 200, {"translations": [BILLED_TEXT]}),
        ("POST", "/v2/translate", {"data": NODE}, 200, {"translations": [BILLED_TEXT]}),
        ("POST", "/v2/translate", {"json": PYTHON | {"debug": "1"}}, 200, {"translations": [BILLED_TEXT]}),
        ("POST", "/v2/translate", {"json": PYTHON | {"target_lang": "XX"}}, 400, refused("target_lang")),
        ("POST", "/v2/translate", {"json": PYTHON | {"source_lang": "XX"}}, 400, refused("source_lang")),
        ("POST", "/v2/translate", {"json": PYTHON | {"formality": "more"}}, 400, refused("Target language")),
        ("POST", "/v2/translate", {"json": PYTHON | {"custom_instructions": ["x"]}}, 400, refused("custom")),
        ("POST", "/v2/translate", {"json": PYTHON | {"style_id": "x"}}, 400, refused("style_id")),
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
         {"translations": [TEXT | {"text": lambda text: '<x id="5"></x>' in text, "tag_handling_version": "v2"},
                           TEXT | {"tag_handling_version": "v2"}]}),
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
def test_recorded_client_requests_get_responses_of_the_expected_structure(
    server, method, path, kwargs, status, shape
):
    response = httpx.request(method, f"{server.url}{path}", timeout=60, **kwargs)
    assert response.status_code == status, response.text
    assert fits(response.json(), shape), response.text
