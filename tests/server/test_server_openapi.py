"""Requests generated from the server's OpenAPI document cause no errors or undocumented responses."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from running_server import RunningServer, running_server

from uwaga_server.settings import DIALECTS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("server")
    paths = {name: str(folder / name) for name in ("suggestions", "state", "memories")}
    (folder / "memories").mkdir()
    limits = {"characters": 2000, "deadline": 30}
    with running_server(folder, limits=limits, dialects=list(DIALECTS), **paths) as running:
        yield running


@pytest.mark.parametrize(
    "examples", [pytest.param(3, marks=pytest.mark.slow), pytest.param(10, marks=pytest.mark.release)]
)
def test_server_conforms_to_its_openapi_description(server: RunningServer, tmp_path: Path, examples: int):
    """Run the command of Schemathesis, since its pytest plugin requires an older pytest.

    ``benchmarks/server_load.py described`` sends thousands of requests.
    """
    main = "import sys; from schemathesis.cli import schemathesis; sys.exit(schemathesis())"
    limits = ["--max-examples", str(examples), "--request-timeout", "60", "--generation-database", "none"]
    command = [sys.executable, "-c", main, "--config-file", str(ROOT / "schemathesis.toml"), "run"]
    result = subprocess.run(
        [*command, f"{server.url}/openapi.json", "--no-color", *limits], cwd=tmp_path, capture_output=True,
        text=True, timeout=3000,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-2000:]
