"""Requests made from the server's own OpenAPI: no mistakes, and nothing that it does not document."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from running_server import RunningServer, running_server

from uwaga.server.settings import DialectName

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("server")
    kept = {name: str(folder / name) for name in ("suggestions", "state")}
    limits = {"characters": 2000, "deadline": 30}
    with running_server(folder, limits=limits, dialects=list(get_args(DialectName)), **kept) as running:
        yield running


@pytest.mark.slow
def test_the_description_is_kept_to(server: RunningServer, tmp_path: Path):
    """By Schemathesis' own command, since its plugin for pytest wants an older pytest.

    ``benchmarks/server_load.py described`` makes thousands.
    """
    main = "import sys; from schemathesis.cli import schemathesis; sys.exit(schemathesis())"
    limits = ["--max-examples", "25", "--request-timeout", "60", "--generation-database", "none"]
    command = [sys.executable, "-c", main, "--config-file", str(ROOT / "schemathesis.toml"), "run"]
    run = subprocess.run(
        [*command, f"{server.url}/openapi.json", "--no-color", *limits],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=3000,
    )
    assert run.returncode == 0, run.stdout[-8000:] + run.stderr[-2000:]
