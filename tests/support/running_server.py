"""A server process on loopback, for real clients."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partialmethod
from pathlib import Path

import httpx
import yaml
from forked_server import ForkedServer

UWAGA = ("-m", "uwaga")


@dataclass(frozen=True)
class RunningServer:
    """The URL, process and log file of a server."""

    url: str
    process: subprocess.Popen[bytes] | ForkedServer
    log: Path

    def request(self, method: str, path: str, **options) -> httpx.Response:
        """Send a request, with a minute for its response."""
        return httpx.request(method, f"{self.url}{path}", **{"timeout": 60, **options})

    get, post = partialmethod(request, "GET"), partialmethod(request, "POST")
    put, delete = partialmethod(request, "PUT"), partialmethod(request, "DELETE")

    def stop(self) -> int | None:
        """Stop the server, and return its exit status, or None for a forked server."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextlib.contextmanager
def running_server(
    folder: Path,
    command: Sequence[str] = ("serve",),
    program: Sequence[str] | None = None,
    **settings: object,
) -> Iterator[RunningServer]:
    """Run a server with the given settings; yield it when its models are loaded.

    Args:
        folder: the folder of its settings and its log.
        command: the arguments before ``--settings``.
        program: the program to start with Python, such as :data:`UWAGA`; by default a process that has
            imported the server is forked, which takes a fifth of the time.
        settings: the settings.
    """
    file, log = folder / "server.yaml", folder / "server.log"
    file.write_text(yaml.safe_dump({"port": 0, "threads": 1, **settings}), encoding="utf-8")
    arguments = [*command, "--settings", str(file)]
    with log.open("wb") as output:
        process = (
            ForkedServer(arguments, log)
            if program is None
            else subprocess.Popen(
                [sys.executable, *program, *arguments],
                stderr=output,
                stdout=output,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        )
    try:
        yield RunningServer(_address(log, process), process, log)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    assert "leaked" not in log.read_text(encoding="utf-8"), "objects of the compiled core outlived the models"


def _address(log: Path, process: subprocess.Popen[bytes] | ForkedServer) -> str:
    """Wait until the server is ready, and return its URL from the log."""
    import json

    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        for line in log.read_text(encoding="utf-8").splitlines():
            if line.startswith("{") and json.loads(line)["event"] == "listening":
                url = str(json.loads(line)["url"])
                with contextlib.suppress(httpx.TransportError):
                    if httpx.get(f"{url}/health").status_code == 200:
                        return url
        time.sleep(0.05)
    raise AssertionError(f"the server did not start:\n{log.read_text(encoding='utf-8')}")
