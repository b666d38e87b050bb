"""A server of models on loopback, which can simulate faults, and the catalogues that it serves."""

import contextlib
import gzip
import hashlib
import http.server
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import formatdate

FAST_LIMITS = {"timeout": 1.0, "window": 0.5, "min_speed": 10_000.0, "attempts": 3, "pause": 0.01}
"""Limits for a server on loopback."""


@dataclass
class Behaviour:
    """The responses to requests for a path.

    Attributes:
        cut: numbers of bytes after which the bodies of the next responses end.
        throttle: number of bytes, and seconds of the pause after each such block.
        endless: whether the body never ends.
        ranges: whether range requests are supported.
        silent: seconds before the response starts.
        wrong_extent: a wrong ``Content-Range`` of partial responses.
    """

    body: bytes = b""
    status: int = 200
    cut: list[int] = field(default_factory=list)
    throttle: tuple[int, float] | None = None
    endless: bool = False
    ranges: bool = True
    tag: str | None = None
    lengthless: bool = False
    silent: float = 0.0
    wrong_extent: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


class ModelServer:
    """Serve ``paths`` and record ``requests``: their paths and ranges."""

    def __init__(self) -> None:
        self.paths: dict[str, Behaviour] = {}
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.closing = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                with contextlib.suppress(OSError):
                    outer.answer(self)
                self.close_connection = True

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def put(self, path: str, body: bytes | object, **options: object) -> Behaviour:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        self.paths["/" + path] = Behaviour(content, **({"tag": tag} | options))
        return self.paths["/" + path]

    def answer(self, request: http.server.BaseHTTPRequestHandler) -> None:
        range_header = request.headers.get("Range", "")
        self.requests.append((request.path, range_header))
        self.headers.append(dict(request.headers))
        behaviour = self.paths.get(request.path)
        if behaviour is None:
            request.send_error(404)
            return
        self.closing.wait(behaviour.silent)
        body, status, extra = behaviour.body, behaviour.status, dict(behaviour.headers)
        range_match = re.fullmatch(r"bytes=(\d+)-", range_header)
        condition = request.headers.get("If-Range")
        if range_match and behaviour.ranges and condition in (None, behaviour.tag) and status == 200:
            start = int(range_match[1])
            if start >= len(body):
                status, extra["Content-Range"] = 416, f"bytes */{len(body)}"
                body = b""
            else:
                status = 206
                extra["Content-Range"] = f"bytes {start}-{len(body) - 1}/{len(body)}"
                if behaviour.wrong_extent is not None:
                    extra["Content-Range"] = behaviour.wrong_extent
                body = body[start:]
        request.send_response(status)
        if behaviour.tag:
            request.send_header("ETag", behaviour.tag)
        for name, value in extra.items():
            request.send_header(name, value)
        if not behaviour.lengthless and "Content-Length" not in extra:
            request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        self.send(request, behaviour, body)

    def send(self, request: http.server.BaseHTTPRequestHandler, behaviour: Behaviour, body: bytes) -> None:
        if behaviour.cut:
            body = body[: behaviour.cut.pop(0)]
        if behaviour.throttle is None and not behaviour.endless:
            request.wfile.write(body)
        size, pause = behaviour.throttle or (1 << 16, 0.0)
        offset = 0
        while (behaviour.throttle or behaviour.endless) and not self.closing.is_set():
            block = body[offset : offset + size] or (b"x" * size if behaviour.endless else b"")
            if not block:
                return
            request.wfile.write(block)
            offset += size
            time.sleep(pause)


@contextlib.contextmanager
def serve_models() -> Iterator[ModelServer]:
    """Run a server; yield it."""
    server = ModelServer()
    thread = threading.Thread(target=server.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.server.shutdown()
        server.server.server_close()
        thread.join()


def closed_port() -> int:
    """Return a port on which no server listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def model_files(pair: str, size: int = 200_000) -> dict[str, bytes]:
    """Return the files of an invented Firefox model by name: random, incompressible bytes."""
    joined = pair.replace("-", "")
    stream = hashlib.shake_256(pair.encode()).digest(size + 6000)
    return {
        f"model.{joined}.intgemm.alphas.bin": stream[:size],
        f"lex.50.50.{joined}.s2t.bin": stream[size : size + 4000],
        f"vocab.{joined}.spm": stream[size + 4000 :],
    }


Models = dict[tuple[str, str], dict[str, bytes]]


def serve_catalogue(server: ModelServer, models: Models, **changed: object) -> dict[str, object]:
    """Serve models like Firefox's storage; return the catalogue, which can be changed and served again."""
    listings: dict[str, list[object]] = {}
    for (pair, architecture), files in models.items():
        source, target = pair.split("-")
        entries: dict[str, object] = {}
        for name, content in files.items():
            path = f"models/{pair}/{architecture}_x/exported/{name}.gz"
            server.put(path, gzip.compress(content, mtime=0))
            kind = {"m": "model", "l": "lexicalShortlist", "v": "vocab", "s": "srcVocab", "t": "trgVocab"}
            entries[kind[name[0]]] = {"path": path} | (
                {"uncompressedSize": len(content), "uncompressedHash": hashlib.sha256(content).hexdigest()}
                if name.startswith("model")
                else {}
            )
        better = {"tiny": 0.0, "base-memory": 1.0, "base": 2.0}[architecture]
        listings.setdefault(pair, []).append(
            {
                "architecture": architecture,
                "releaseStatus": "Release",
                "sourceLanguage": source,
                "targetLanguage": target,
                "files": entries,
                "modelStatistics": {"parameters": 16907062},
                "metrics": {
                    "flores200-plus": {"bleu": 45.0 + better, "chrf": 65.0 + better, "comet22": 0.88}
                },
            }
        )
    catalogue: dict[str, object] = {
        "generated": formatdate(0),
        "baseUrl": "https://storage.invalid/bucket",
        "models": listings,
    }
    server.put("models.json", catalogue | changed)
    return catalogue
