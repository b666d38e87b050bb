"""Servers forked from a process that has already imported the server and the language detector.

``python forked_server.py`` is that process. It reads requests from standard input, a socket, and answers each
with the id of a server's process.
"""

import atexit
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

MODULES = {"serve": "uwaga_server.serve", "mcp": "uwaga_server.mcp.serve", "train": "uwaga.training.train"}
"""The module to import in advance for each command."""
MAX_REQUEST = 1 << 17


class ForkedServer:
    """A server process with the methods of ``subprocess.Popen`` that need no exit status."""

    def __init__(self, arguments: Sequence[str], log: Path) -> None:
        """Start ``uwaga`` with these arguments; its output is written to ``log``."""
        request = {
            "arguments": arguments,
            "log": str(log),
            "folder": str(Path.cwd()),
            "environment": dict(os.environ) | {"OMP_NUM_THREADS": "1"},
        }
        connection = _connection()
        connection.sendall(json.dumps(request).encode())
        self.pid = int(connection.recv(100))
        self._descriptor = os.pidfd_open(self.pid)

    def poll(self) -> int | None:
        """Return None while the process runs."""
        return 0 if select.select([self._descriptor], [], [], 0)[0] else None

    def wait(self, timeout: float | None = None) -> None:
        """Wait until the process has ended."""
        if not select.select([self._descriptor], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("uwaga", timeout or 0)

    def send_signal(self, number: int) -> None:
        """Send a signal to the running process."""
        signal.pidfd_send_signal(self._descriptor, number)

    def kill(self) -> None:
        """Kill the running process."""
        self.send_signal(signal.SIGKILL)

    def __del__(self) -> None:
        os.close(self._descriptor)


@cache
def _connection() -> socket.socket:
    """Start the forking process; return the socket to it. It stops when the socket is closed."""
    connection, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with other:
        process = subprocess.Popen([sys.executable, __file__], stdin=other, env=os.environ)
    atexit.register(process.wait)
    atexit.register(connection.close)
    return connection


def main() -> None:
    """Fork a server for each request."""
    from uwaga.languages.detection import load_detector

    load_detector()
    gc.disable()  # uwaga.cli.start enables it
    with socket.socket(fileno=os.dup(0)) as connection:
        while message := connection.recv(MAX_REQUEST):
            while _has_ended_child():
                pass
            request = json.loads(message)
            importlib.import_module(MODULES[request["arguments"][0]])
            gc.freeze()  # what is imported stays
            if (pid := os.fork()) == 0:
                break
            connection.sendall(str(pid).encode())
        else:
            return
    _serve(request)


def _has_ended_child() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return False


def _serve(request: dict) -> None:
    """Run the command of a request in this process."""
    os.dup2(os.open(request["log"], os.O_WRONLY | os.O_APPEND), 1)
    os.dup2(1, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None
    sys.argv = ["uwaga", *request["arguments"]]
    from uwaga.cli.start import start

    start()


if __name__ == "__main__":
    main()
