"""The MCP tools, called through the official client over both transports."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import run_uwaga
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running_server import running_server

import uwaga
from uwaga.cli.main import Commands
from uwaga.errors import SettingsError
from uwaga_documents import translate_file

pytest.importorskip("mcp")
from mcp_client import McpClient, connect_http, connect_stdio

from uwaga_server.auth import Client
from uwaga_server.context import ServerContext
from uwaga_server.mcp.folders import Folders
from uwaga_server.mcp.http import check_settings
from uwaga_server.mcp.schema import LanguagesArguments
from uwaga_server.mcp.tools import Call, languages
from uwaga_server.models import ModelPool, loader
from uwaga_server.served_models import ServedModel
from uwaga_server.service import Service
from uwaga_server.settings import ModelSettings, server_settings

TEXT = "A man and a woman are walking in the park with their dog."
SECRET_TEXT = "The weather is nice today."


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that the servers may use, next to a file that they may not use."""
    root = tmp_path_factory.mktemp("named")
    (root / "inside").mkdir()
    (root / "secret.txt").write_text(SECRET_TEXT)
    inside = root / "inside"
    (inside / "deep").mkdir()
    (inside / "page.md").write_text(f"# A [dog](x)\n\n{TEXT}\n", encoding="utf-8")
    (inside / "link.txt").symlink_to(root / "secret.txt")
    (inside / "up").symlink_to(root)
    (inside / "loop.txt").symlink_to(inside / "loop.txt")
    (inside / "terms.tsv").write_text("dog\tHündin\n", encoding="utf-8")
    os.mkfifo(inside / "pipe.txt")
    return inside


@pytest.fixture(scope="module", params=["stdio", "http"])
def client(
    request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[McpClient]:
    state_folder = tmp_path_factory.mktemp(request.param)
    if request.param == "stdio":
        with connect_stdio(state_folder, "--folder", str(folder)) as connection:
            yield connection
        return
    with (
        running_server(state_folder, ("mcp", "--http", "--folder", str(folder))) as server,
        connect_http(server.url) as connection,
    ):
        yield connection


@pytest.fixture(scope="module")
def translator() -> uwaga.Translator:
    return uwaga.Translator.load(threads=1)


def test_tools_are_listed_with_schemas_and_hints(client: McpClient):
    tools = client.tools()
    assert list(tools) == ["translate", "translate_file", "languages", "glossary", "memory", "confirm"]
    for name, tool in tools.items():
        assert tool.description and tool.title and tool.outputSchema["type"] == "object"
        assert tool.inputSchema["additionalProperties"] is False
        assert tool.annotations.readOnlyHint is (name in ("translate", "languages", "memory"))
    assert client.hello.serverInfo.name == "uwaga" and client.hello.serverInfo.version == uwaga.__version__
    assert "inside" in client.hello.instructions


def test_translation_tool_matches_python_api(client: McpClient, translator: uwaga.Translator):
    texts = [TEXT, "The weather is nice today.", ""]
    result = client.ok("translate", text=texts, source="en", target="de")
    assert [entry["text"] for entry in result["translations"]] == [
        entry.text for entry in translator.translate(texts)
    ]
    assert result["model"] == "bundled"
    [entry] = client.ok("translate", text=TEXT, target="de", model="bundled")["translations"]
    assert entry["text"] == result["translations"][0]["text"] and entry["source"] == "en"
    [entry] = client.ok("translate", text="A <b>dog</b> sleeps.", source="en", target="de", format="html")[
        "translations"
    ]
    assert "<b>" in entry["text"] and "</b>" in entry["text"]


def test_terms_of_a_glossary_file_and_a_tool_call_are_combined(client: McpClient):
    arguments = {"source": "en", "target": "de", "glossary": "terms.tsv", "terms": {"man": ["Kerl", "Kerls"]}}
    [entry] = client.ok("translate", text=TEXT, **arguments)["translations"]
    assert "Hündin" in entry["text"] and "Kerl" in entry["text"]
    assert "contradicts itself" in client.refused(
        "translate", text=TEXT, **{**arguments, "terms": {"dog": "Katze"}}
    )


def test_text_of_a_tool_result_is_json_of_its_structured_content(client: McpClient):
    result = client.call("translate", text=TEXT, source="en", target="de")
    assert json.loads(result.content[0].text) == result.structuredContent


def test_language_tool_lists_and_filters_languages(client: McpClient):
    result = client.ok("languages")
    assert {"code": "en", "name": "English", "targets": ["de"]} in result["languages"]
    assert {"name": "bundled", "sources": ["en"], "targets": ["de"]} in result["models"]
    assert client.ok("languages", source="en", target="de")["languages"]
    assert client.ok("languages", target="en")["languages"] == []
    assert "available: " in client.refused("languages", source="tlh")


def test_targets_of_many_language_pairs_are_listed_only_for_a_given_source():
    codes = tuple(f"q{first}{second}" for first in "abcdefgh" for second in "abcde")
    service = Service([ServedModel("many", ModelSettings(), codes, codes)], ModelPool(loader(1, False)))
    call = Call(ServerContext(server_settings({}, "the options"), service), Folders([]), Client(""))
    result = asyncio.run(languages(call, LanguagesArguments()))
    assert len(result.languages) == 40 and result.note.startswith(
        "1560 language pairs; state a source language"
    )
    assert {language.targets for language in result.languages} == {None}
    [language] = asyncio.run(languages(call, LanguagesArguments(source="qaa"))).languages
    assert sorted(language.targets) == sorted(codes[1:])


def test_document_is_translated_and_its_output_overwritten_only_on_request(client, folder, tmp_path):
    output = folder / "page.de.md"
    output.unlink(missing_ok=True)
    result = client.ok("translate_file", document="page.md", target="de")
    assert (result["output"], result["folder"], result["format"]) == ("page.de.md", "inside", "markdown")
    assert result["texts"] == 2 and result["source"] == "en"
    translate_file(uwaga.Translator.load(threads=1), folder / "page.md", tmp_path / "page.de.md")
    assert output.read_bytes() == (tmp_path / "page.de.md").read_bytes()
    before = output.read_bytes()
    assert "set overwrite" in client.refused("translate_file", document="page.md", target="de")
    assert output.read_bytes() == before
    arguments = {"document": str(folder / "page.md"), "output": "page.de.md", "overwrite": True}
    client.ok("translate_file", target="de", source="en", glossary="terms.tsv", **arguments)
    assert "Hündin" in output.read_text(encoding="utf-8")
    client.ok("translate_file", document="page.md", target="de", output=str(folder / "deep" / "x.md"))
    (folder / "deep" / "x.md").unlink()


def test_document_translation_reports_progress_and_resumes_after_cancellation(client, folder):
    lines = [f"The {number} men walk in the park." for number in range(160)]
    (folder / "long.txt").write_text("\n\n".join(lines))
    output = folder / "long.de.txt"
    output.unlink(missing_ok=True)
    arguments = {"document": "long.txt", "source": "en", "target": "de"}
    reports, error = client.cancelled("translate_file", **arguments)
    assert reports[0] == (32, 160)
    assert error == "Request cancelled" and not output.exists()
    assert client.ok("languages")["languages"]
    message = client.refused("translate_file", **arguments, terms={"men": "Kerle"})
    assert "use the same value to resume" in message and str(folder) not in message
    result = client.ok("translate_file", **arguments)
    assert 32 <= result["resumed"] < result["texts"] == 160
    assert len(output.read_text().split("\n\n")) == 160
    assert not list(folder.glob(".long*"))


def test_glossaries_are_created_shown_and_listed(client: McpClient, folder: Path):
    (folder / "deep" / "made.tsv").unlink(missing_ok=True)
    terms = {"source": ["target"], "house": ["Haus", "Gebäude"], "uwaga": ["uwaga"]}
    created = client.ok("glossary", name="deep/made.tsv", terms={**terms, "uwaga": ""})
    assert created["glossaries"] == [{"name": "deep/made.tsv", "count": 3}]
    [entry] = client.ok("glossary", name="deep/made.tsv")["glossaries"]
    assert entry["terms"] == terms
    names = [entry["name"] for entry in client.ok("glossary")["glossaries"]]
    assert {"deep/made.tsv", "terms.tsv"} <= set(names)
    assert "set overwrite" in client.refused("glossary", name="deep/made.tsv", terms={"a": "b"})
    client.ok("glossary", name="deep/made.tsv", terms={"a": "b"}, overwrite=True)
    for name in ("page2.md", "page2"):
        message = client.refused("glossary", name=name, terms={"a": "b"})
        assert "must end with .tsv, such as 'page2.tsv'" in message
    assert "set name to the .tsv file" in client.refused("glossary", terms={"a": "b"})
    assert "begin with #" in client.refused("glossary", name="x.tsv", terms={"#a": "b"})
    assert "there are no terms" in client.refused("glossary", name="x.tsv", terms={})
    assert "a glossary must be" in client.refused("glossary", name="page.md")
    assert not (folder / "x.tsv").exists()


def test_confirmed_translations_are_stored_in_the_translation_memory(client: McpClient, folder: Path):
    for path in folder.glob("deep/new.uwm*"):
        path.unlink()
    name = "deep/new.uwm"
    pair = {"memory": name, "text": "A dog", "translation": "Ein Hündchen"}
    assert "no such file" in client.refused("confirm", **pair)
    languages = {"source": "en", "target": "de"}
    added = client.ok("confirm", **pair, create=languages, origin="Ann")
    assert added == {"memory": name, "count": 1, "known": False}
    client.ok("confirm", **{**pair, "translation": "Wauwau"}, context={"key": "title"})
    assert client.ok("confirm", **pair, create=languages)["known"] is True
    arguments = {**languages, "memory": name, "threshold": 90}
    [plain] = client.ok("translate", text="A dog", **arguments)["translations"]
    assert (plain["text"], plain["memory"][0]["used"], plain["memory"][0]["score"]) == (
        "Ein Hündchen",
        "verbatim",
        100.0,
    )
    [title] = client.ok("translate", text="A dog", context={"key": "title"}, **arguments)["translations"]
    assert (title["text"], title["memory"][0]["score"]) == ("Wauwau", 101.0)
    assert name in [entry["name"] for entry in client.ok("memory")["memories"]]
    [result] = client.ok("memory", name=name, text="A dog.", threshold=60)["memories"]
    assert (result["source"], result["target"], result["count"]) == ("en", "de", 2)
    assert [match["target"] for match in result["matches"]] == ["Ein Hündchen", "Wauwau"]
    (folder / "deep/title.md").write_text("# A dog\n")
    output = {"output": "deep/title.de.md", "overwrite": True}
    assert client.ok("translate_file", document="deep/title.md", **output, **arguments)["memory"] == {
        "verbatim": 1
    }
    assert (folder / "deep/title.de.md").read_text(encoding="utf-8") == "# Ein Hündchen\n"
    for tool, values, hint in (
        ("memory", {"text": "A dog"}, "set name to the memory"),
        ("memory", {"name": "page.md"}, "must be a .uwm file"),
        (
            "confirm",
            {**pair, "memory": "deep/x.txt", "create": languages},
            "must end with .uwm, such as 'deep/x.uwm'",
        ),
        ("confirm", {**pair, "translation": " "}, "was not added: no translation"),
        ("translate", {"text": "a", "target": "de", "memory": "no.uwm"}, "deep/new.uwm"),
    ):
        assert hint in client.refused(tool, **values)
    for path in folder.glob("deep/new.uwm*"):
        path.unlink()


REFUSED_PATHS = [
    "../secret.txt", "deep/../../secret.txt", "deep/../page.md", "link.txt", "up/secret.txt", "loop.txt",
    "pipe.txt", "/etc/passwd", "/proc/self/environ", "~/secret.txt", "file:///etc/passwd", "page.md\0.txt",
    "page.md\n", "", " ", ".", "deep", "x" * 300, "x/" * 5000, "..\\secret.txt", "C:\\Windows\\win.ini",
    "C:/Windows/win.ini", "C:page.md", "\\\\host\\share\\file.txt", "\\\\?\\C:\\file.txt",
]  # fmt: skip


@pytest.mark.parametrize("path", REFUSED_PATHS)
def test_invalid_paths_and_paths_outside_the_configured_folders_are_refused(client, folder, path):
    before = sorted(folder.parent.rglob("*"))
    for arguments in ({"document": path}, {"document": "page.md", "output": path, "overwrite": True}):
        if arguments.get("output") == "":
            continue  # the default name
        message = client.refused("translate_file", target="de", source="en", **arguments)
        assert SECRET_TEXT not in message and str(folder) not in message
    assert client.refused("translate", text=TEXT, target="de", glossary=path)
    assert client.refused("glossary", name=path)
    assert client.refused("glossary", name=path, terms={"a": "b"}, overwrite=True)
    assert client.refused("memory", name=path)
    new = {"create": {"source": "en", "target": "de"}, "text": "a", "translation": "b"}
    assert client.refused("confirm", memory=path, **new)
    assert sorted(folder.parent.rglob("*")) == before
    assert (folder.parent / "secret.txt").read_text() == SECRET_TEXT


@pytest.mark.parametrize(
    ("tool", "arguments", "hint"),
    [
        ("translate", {"text": "a", "target": "xx"}, "available: "),
        ("translate", {"text": "a", "target": "de", "source": "tlh"}, "available: "),
        ("translate", {"text": "a", "target": "de", "model": "gpt"}, "available: bundled"),
        ("translate", {"text": "a " * 60_000, "target": "de"}, "send at most 100000"),
        ("translate", {"text": ["a"] * 600, "target": "de"}, "send at most 512"),
        ("translate", {"text": 3, "target": "de"}, "text"),
        ("translate", {"target": "de"}, "parameter 'text' is missing"),
        ("translate", {"text": "a", "target": "de", "formality": "more"}, "formality"),
        ("translate", {"text": "a", "target": ["de"]}, "target"),
        ("translate_file", {"document": "missing.md", "target": "de"},
         "there is no such file; available files: "),
        ("translate_file", {"document": "page.md", "target": "de", "output": "a/b.md"},
         "create the folder first"),
        ("translate_file", {"document": "page.md", "target": "de", "output": "b.txt"}, "name it page.de.md"),
        ("translate_file", {"document": "page.md", "target": "de", "output": "bashrc"}, "supported: "),
        ("translate_file", {"document": "page.md", "target": "de", "columns": 1}, "columns"),
        ("write", {}, "tools: translate, translate_file, languages, glossary"),
    ],
)  # fmt: skip
def test_errors_for_invalid_tool_calls_say_how_to_fix_them(client, tool, arguments, hint):
    assert hint in client.refused(tool, **arguments)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20) | st.sampled_from(["en", "de", "page.md", "terms.tsv", "../x", "text", "\0"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
NAMES = st.sampled_from(
    ["text", "target", "source", "model", "glossary", "terms", "format", "document", "output", "name"]
)
ARGUMENTS = st.dictionaries(NAMES | st.text(max_size=5), VALUES, max_size=5)
TOOL = st.sampled_from(["translate", "translate_file", "languages", "glossary", "memory", "confirm"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], database=None)
@given(TOOL, ARGUMENTS, st.booleans())
def test_arbitrary_tool_arguments_cause_no_server_error(client, tool, arguments, valid):
    if valid:
        required = {
            "translate": {"text": "A dog."},
            "translate_file": {"document": "page.md"},
            "confirm": {"memory": "no.uwm", "text": "A dog.", "translation": "Ein Hund."},
        }
        arguments = {"target": "de", **required.get(tool, {}), **arguments}
    result = client.call(tool, extra=arguments)
    assert result.isError is (result.structuredContent is None)
    assert "server error" not in result.content[0].text


@pytest.mark.slow
def test_invalid_lines_on_standard_input_do_not_stop_the_server(tmp_path: Path):
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    messages = [
        b"\xff\xfe\x00binary\x80", b"[" * 100_000, b'{"jsonrpc": "2.0"', b"null",
        b'{"jsonrpc": "2.0", "id": 7, "method": "no/such"}',
        b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}',
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode(),
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        b'{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": 3}}',
        b'{"jsonrpc": "2.0", "id": 3, "method": "tools/list"}',
    ]  # fmt: skip
    command = [sys.executable, "-m", "uwaga", "mcp"]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=subprocess.DEVNULL) as server:
        server.stdin.write(b"\n".join(messages) + b"\n")
        server.stdin.flush()
        responses = {}
        while 3 not in responses:
            line = server.stdout.readline()
            assert line, "the server has ended"
            response = json.loads(line)
            responses[response.get("id")] = response
        server.stdin.close()
        assert server.stdout.read() == b"" and server.wait(30) == 0
    assert responses[1]["result"]["serverInfo"]["name"] == "uwaga"
    assert responses[2]["error"]["code"] == responses[7]["error"]["code"] == -32602
    assert len(responses[3]["result"]["tools"]) == 6


@pytest.mark.slow
@pytest.mark.parametrize("signal_name", ["INT", "TERM"])
@pytest.mark.parametrize("busy", [False, True])
def test_signal_stops_the_server(signal_name: str, busy: bool):
    command = [sys.executable, "-m", "uwaga", "mcp"]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=subprocess.PIPE) as server:
        hello = {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "x", "version": "1"},
        }
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        server.stdin.write(json.dumps(message).encode() + b"\n")
        if busy:
            server.stdin.writelines(
                b'{"jsonrpc": "2.0", "id": %d, "method": "ping"}\n' % n for n in range(2, 99)
            )
        server.stdin.flush()
        assert b"serverInfo" in server.stdout.readline()
        os.kill(server.pid, {"INT": 2, "TERM": 15}[signal_name])
        assert server.wait(30) == {"INT": 130, "TERM": 143}[signal_name]
        assert b"Traceback" not in server.stderr.read()


def test_invalid_options_are_refused(tmp_path: Path):
    for arguments, status, hint in [
        (["--folder", str(tmp_path / "none")], 1, "create it, or choose another --folder"),
        (["--port", "80"], 2, "--port requires --http"),
        (["--settings", str(tmp_path / "none.yaml")], 1, "no such file"),
    ]:
        result = run_uwaga("mcp", *arguments, code=status)
        assert hint in result.output


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        ({"workers": 2}, "set workers to 1"),
        ({"cors": ["*"]}, "a list of origins"),
        ({"host": "0.0.0.0"}, "set public_url"),
        ({"host": "mcp.example"}, "set public_url"),
        ({"host": "::", "public_url": "https://mcp.example"}, "add --keys"),
    ],
)
def test_unsupported_and_insecure_settings_are_refused(tmp_path: Path, values: dict[str, object], hint: str):
    with pytest.raises(SettingsError, match=hint):
        check_settings(server_settings(values, "the options"), Folders([tmp_path]))
    check_settings(server_settings({"host": "::1"}, "the options"), Folders([tmp_path]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirection", "status", "message"),
    [
        ("</dev/null", 0, ""),
        ("<&-", 1, "standard input or output is closed"),
        (">&-", 1, "standard input or output is closed"),
    ],
)
def test_server_exits_if_its_standard_input_or_output_is_closed(redirection: str, status: int, message: str):
    command = f"{sys.executable} -m uwaga mcp {redirection}"
    result = subprocess.run(command, shell=True, stderr=-1, stdin=-3, text=True, check=False)
    assert result.returncode == status and message in result.stderr and "Traceback" not in result.stderr


def test_missing_mcp_package_error_names_its_extra(tmp_path: Path):
    code = "import sys; sys.modules['mcp'] = None; from uwaga.cli.main import main; main(['mcp'])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 1 and "pip install 'uwaga[mcp]'" in result.stderr


def test_guide_samples_have_valid_options():
    page = (Path(__file__).parents[2] / "docs/guides/mcp.md").read_text(encoding="utf-8")
    samples = [json.loads(text) for text in re.findall(r"^```json.*?\n(.*?)^```$", page, re.M | re.S)]
    entries = [
        value["uwaga"]
        for sample in samples
        for name, value in sample.items()
        if name in ("mcpServers", "servers", "context_servers")
    ]
    local = [entry for entry in entries if "command" in entry]
    options = {option for param in Commands()["mcp"].params for option in param.opts}
    assert len(local) == 4 and len(entries) == 5
    for entry in local:
        verb, *arguments = entry["args"]
        assert verb == "mcp" and {argument for argument in arguments if argument.startswith("-")} <= options
