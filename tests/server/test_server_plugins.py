"""A dialect and a document format in plugin files that the server's settings name."""

from pathlib import Path

import httpx
import pytest
from command_line import run_uwaga
from plugin_samples import forget_plugins, plugin_file
from running_server import running_server

from uwaga_documents import DOCUMENT_FORMATS

PROPERTIES = "title=A dog sleeps.\n# a comment\nfoot=12\n"


@pytest.mark.slow
def test_dialect_and_document_format_of_plugins_are_served(tmp_path: Path) -> None:
    names = ("Add a dialect", "Add a document format")
    files = [str(plugin_file(name, tmp_path)) for name in names]
    settings = {"plugins": files, "dialects": ["v1", "lines"], "state": str(tmp_path / "state"), "workers": 2}
    with running_server(tmp_path, **settings) as server, httpx.Client(base_url=server.url) as client:
        lines = client.post("/lines", json={"lines": ["A dog sleeps.", "12"], "to": "de"})
        assert lines.json() == ["Ein Hund schläft.", "12"]
        assert client.post("/lines", json={"lines": "A dog"}).status_code == 422
        assert "/lines" in client.get("/openapi.json").json()["paths"]
        file = ("a.properties", PROPERTIES.encode(), "text/plain")
        document = client.post("/v1/documents", files={"file": file}, data={"target": "de"})
        assert document.status_code == 202, document.text


def test_document_format_of_a_plugin_is_read_and_written(tmp_path, monkeypatch) -> None:
    """The command line reads and writes the format, and refuses it without the plugin."""
    forget_plugins(monkeypatch, DOCUMENT_FORMATS)
    plugin = plugin_file("Add a document format", tmp_path)
    source, target = tmp_path / "a.properties", tmp_path / "b.properties"
    source.write_text(PROPERTIES, encoding="utf-8")
    command = ["translate-file", str(source), str(target)]
    assert "unknown file type '.properties'" in run_uwaga(*command, code=None).stderr
    run_uwaga("--plugin", plugin, *command)
    assert target.read_text("utf-8") == "title=Ein Hund schläft.\n# a comment\nfoot=12\n"
    source.write_text("title=café\n", encoding="latin-1")
    invalid = run_uwaga("--plugin", plugin, *command, "--force", code=1)
    assert "line 1, byte 10 of the file is not valid utf-8" in invalid.stderr


def test_unknown_dialect_error_suggests_a_plugin(tmp_path: Path) -> None:
    result = run_uwaga("serve", "--dialect", "lines", code=1)
    assert "no dialect is named 'lines'" in result.stderr and "uwaga --plugin FILE" in result.stderr
