"""Files of the page: how they are built and served, and that they load no external files."""

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from uwaga.results.views import LANGUAGES
from uwaga_server.page import PAGE_FOLDER, page_files, page_routes
from uwaga_server.routing import Router

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "page"
MAX_FIRST_LOAD_BYTES = 129_000
"""Maximum total size in bytes of the files of the first load, uncompressed."""


@pytest.fixture(scope="module")
def client():
    return TestClient(Router(page_routes().routes))


@pytest.fixture(scope="module")
def paths() -> list[str]:
    return [f"/{path}" for path in page_files()]


def test_index_page_has_no_broken_links_or_inline_code(client, paths):
    index = client.get("/").text
    linked = re.findall(r'(?:href|src)="([^"]+)"', index)
    assert {f"/{name}" for name in linked} - {"/openapi.json"} <= set(paths)
    assert "<style" not in index and "onclick" not in index
    assert not re.search(r"<script(?![^>]*src=)", index)


def test_attention_view_is_fully_translated():
    view = (ROOT / "src/uwaga/results/attention_view.js").read_text(encoding="utf-8")
    phrases = set(re.findall(r'phrase\("([^"]+)"', view)) | {"cross", "encoder", "decoder", "matrix", "model"}
    phrases |= set(re.findall(r'const label = "([^"]+)"', view))
    translations = json.loads((ROOT / "src/uwaga/results/attention_phrases.json").read_text(encoding="utf-8"))
    languages = json.loads((SOURCES / "src/page_languages.json").read_text(encoding="utf-8"))
    assert len(phrases) > 20 and {"en", *translations} == set(languages) == set(LANGUAGES)
    for texts in translations.values():
        assert set(texts) == phrases
        for english, text in texts.items():
            assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", english))


def test_first_page_load_is_within_the_size_limit():
    files = page_files()
    first = [file for path, file in files.items() if not re.search(r"attention|lab|messages", path)]
    first.append(
        max(
            (file for path, file in files.items() if "messages/page" in path),
            key=lambda file: len(file.plain),
        )
    )
    assert sum(len(file.plain) for file in first) <= MAX_FIRST_LOAD_BYTES
    assert sum(len(file.compressed) for file in first) <= MAX_FIRST_LOAD_BYTES // 3


def test_page_files_have_no_external_references(client, paths):
    for path in paths:
        text = client.get(path).text.replace("http://www.w3.org/2000/svg", "")
        assert not re.findall(r"https?://|//cdn|@import|url\(", text), path


def test_page_files_are_served_with_caching_and_security_headers(client, paths):
    for path in paths:
        plain = client.get(path, headers={"accept-encoding": "identity"})
        compressed = client.get(path, headers={"accept-encoding": "br;q=1, gzip;q=0.5"})
        refused = client.get(path, headers={"accept-encoding": "gzip;q=0"})
        assert plain.status_code == compressed.status_code == 200
        assert "content-encoding" not in plain.headers and "content-encoding" not in refused.headers
        assert compressed.headers["content-encoding"] == "gzip"
        assert plain.content == compressed.content == refused.content
        assert int(compressed.headers["content-length"]) < len(plain.content) or path.endswith("icon.svg")
        for name in ("content-security-policy", "x-content-type-options", "vary", "referrer-policy"):
            assert name in plain.headers
        tag = plain.headers["etag"]
        for etag in (tag, f'"other", {tag}', tag.removeprefix("W/")):
            unchanged = client.get(path, headers={"if-none-match": etag})
            assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", tag)
        assert client.get(path, headers={"if-none-match": '"other"'}).status_code == 200
        head = client.head(path, headers={"accept-encoding": "identity"})
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == plain.headers["content-length"]


def test_content_security_policy_is_strict(client):
    policy = dict(
        directive.strip().split(" ", 1)
        for directive in client.get("/").headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'" and policy["script-src"] == policy["style-src"] == "'self'"
    assert "unsafe" not in str(policy) and policy["require-trusted-types-for"] == "'script'"


def test_page_uses_the_attention_view_of_the_library(client):
    text = client.get("/page/attention.js").text
    for name in ("attention_drawing.js", "attention_view.js"):
        assert (ROOT / "src/uwaga/results" / name).read_text(encoding="utf-8") in text


def test_page_scripts_are_short_and_do_not_insert_html_strings():
    for path in (SOURCES / "src").rglob("*.ts"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text), path
        assert len(text.splitlines()) <= 450, path


def require_npm_tools() -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    if not (SOURCES / "node_modules/esbuild").is_dir():
        pytest.skip("the page's tools are not installed: npm --prefix page ci")


def contents(folder: Path, condition) -> dict[str, bytes]:
    """Return the contents of the files below a folder by path."""
    files = [path for path in folder.rglob("*") if path.is_file() and condition(path)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_error_codes_that_the_page_explains_are_those_of_the_server():
    table = (SOURCES / "src" / "problem.ts").read_text().partition("const MEANINGS")[2].partition("];")[0]
    codes = re.findall(r'^  \["(\w+)"', table, re.MULTILINE)
    server = "".join(path.read_text() for path in (ROOT / "src" / "uwaga_server").rglob("*.py"))
    assert codes == sorted(codes) and [code for code in codes if f'"{code}"' not in server] == []


def test_committed_page_files_match_their_sources(tmp_path):
    require_npm_tools()
    subprocess.run(["node", SOURCES / "build.mjs", tmp_path], check=True, cwd=SOURCES)
    built = contents(tmp_path, lambda path: path.relative_to(tmp_path).parts[0] != "lab")
    committed = contents(PAGE_FOLDER, lambda path: True)
    assert built == committed, (
        "the page is not what page/ makes: run `make page` and commit src/uwaga_server/page"
    )


@pytest.mark.slow
def test_npm_checks_and_tests_pass():
    """Run the tests of ``page/``, which `make page` runs as well."""
    require_npm_tools()
    for task in ("check", "test"):
        result = subprocess.run(
            ["npm", "run", "--silent", task], cwd=SOURCES, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, (result.stdout + result.stderr)[-4000:]


def test_compression_of_page_files_is_reproducible():
    for file in page_files().values():
        assert gzip.decompress(file.compressed) == file.plain
    assert {path: file.compressed for path, file in page_files().items()} == {
        path: file.compressed for path, file in page_files().items()
    }
