"""HTTP with an end: every wait is bounded, no redirect leaves HTTPS, and nothing but HTTP is opened.

The standard library's client does the protocol, and knows the proxies of the environment (``https_proxy``).
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from uwaga.errors import CatalogueError, SettingsError, shown
from uwaga.files.regular import read_regular

ALWAYS = {"User-Agent": "uwaga", "Accept-Encoding": "identity"}
CHUNK = 1 << 16
MOST_REDIRECTS = 5
REDIRECTS = (301, 302, 303, 307, 308)
PASSING = (408, 425, 429, 500, 502, 503, 504)
"""Statuses after which the same request may succeed."""
TRANSPORT = (OSError, http.client.HTTPException, EOFError, ValueError)
"""What http.client and ssl raise of broken connections; ValueError: a chunk's length that is none."""


class UnreachableError(CatalogueError):
    """A server cannot be reached at all."""


class BrokenTransferError(CatalogueError):
    """A transfer that broke off; the same request may succeed."""


class NotThereError(CatalogueError):
    """A server answers that there is no such file."""


@dataclass(frozen=True)
class Limits:
    """Of waiting for servers.

    Attributes:
        timeout: seconds to connect, to answer, and without a byte.
        window: seconds over which the speed is measured.
        slowest: bytes a second that are too few.
        attempts: how often a file is asked for, each time going on where the last one broke off.
        pause: seconds before the second attempt, twice as many before each further one.
        together: files at a time.

    Raises:
        SettingsError: one is negative, or leaves no time, no attempt or no file.
    """

    timeout: float = 30.0
    window: float = 30.0
    slowest: float = 2048.0
    attempts: int = 4
    pause: float = 1.0
    together: int = 4

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if (
                not isinstance(value, int | float)
                or not 0 <= value < float("inf")
                or (value < 1 if name in ("attempts", "together") else value == 0 and name == "timeout")
            ):
                raise SettingsError(f"Limits.{name}: {shown(value)} is no such limit")


class Answer:
    """The answer to a request, its body still to be read.

    Attributes:
        status: of HTTP.
        length: bytes of the body, None where nothing is stated.
        url: where it came from, behind all redirects.
    """

    def __init__(self, response: _Response, url: str, limits: Limits) -> None:
        self._response, self._limits, self.url = response, limits, url
        self.status = response.status
        stated = response.headers.get("Content-Length", "")
        self.length = int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 19 else None

    def header(self, name: str) -> str:
        """A header's value, empty where there is none."""
        return self._response.headers.get(name, "")

    def chunks(self) -> Iterator[bytes]:
        """The body, piece by piece.

        Raises:
            BrokenTransferError: it broke off.
            CatalogueError: it comes too slowly.
        """
        began, count, read = time.monotonic(), 0, 0
        while True:
            try:
                self._response.watchdog.busy()
                chunk = self._response.read1(CHUNK)
                self._response.watchdog.idle()
            except TimeoutError:
                raise BrokenTransferError(
                    f"{bare(self.url)}: nothing has come for {self._limits.timeout:g} seconds"
                ) from None
            except TRANSPORT as error:
                raise BrokenTransferError(f"{bare(self.url)}: broke off: {reason(error)}") from None
            if not chunk:
                break
            read += len(chunk)
            yield chunk
            count += len(chunk)
            if (passed := time.monotonic() - began) >= self._limits.window:
                if count < self._limits.slowest * passed:
                    raise CatalogueError(
                        f"{bare(self.url)}: {count / passed:.0f} bytes a second, fewer than "
                        f"{self._limits.slowest:g}; given up"
                    )
                began, count = time.monotonic(), 0
        if self.length is not None and read < self.length:
            raise BrokenTransferError(f"{bare(self.url)}: ended after {read} of {self.length} bytes")

    def close(self) -> None:
        """End the connection."""
        self._response.watchdog.end()
        with contextlib.suppress(*TRANSPORT):
            self._response.close()


class Web:
    """Opens URLs, and can end all that are open at once.

    Args:
        limits: of waiting.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits, self.stopped = limits, threading.Event()
        self._sockets: set[socket.socket] = set()
        self._opener = urllib.request.OpenerDirector()
        for handler in (urllib.request.ProxyHandler(), _Plain(self._sockets), _Secure(self._sockets)):
            self._opener.add_handler(handler)

    @contextlib.contextmanager
    def open(self, url: str, headers: Mapping[str, str] | None = None) -> Iterator[Answer]:
        """The answer to a request, closed afterwards.

        Raises:
            UnreachableError: there is no such server, or it does not listen.
            BrokenTransferError: it does not answer, or not now.
            CatalogueError: it leads to a place that is not gone to.
        """
        for _ in range(MOST_REDIRECTS + 1):
            answer = Answer(self._request(url, headers or {}), url, self.limits)
            try:
                if answer.status not in REDIRECTS:
                    if answer.status in PASSING:
                        raise BrokenTransferError(f"{bare(url)}: {status_text(answer.status)}")
                    yield answer
                    return
                url = _redirected(url, answer.header("Location"))
            finally:
                answer.close()
        raise CatalogueError(f"{bare(url)}: more than {MOST_REDIRECTS} redirects")

    def stop(self) -> None:
        """End every connection; what waits for one fails at once."""
        self.stopped.set()
        for one in list(self._sockets):
            shut(one)

    def _request(self, url: str, headers: Mapping[str, str]) -> _Response:
        address, credentials = split_credentials(check_url(url))
        request = urllib.request.Request(address, headers={**ALWAYS, **headers})  # noqa: S310 (HTTP alone)
        if credentials:
            packed = base64.b64encode(credentials.encode("utf-8")).decode("ascii")
            request.add_unredirected_header("Authorization", f"Basic {packed}")
        try:
            found = self._opener.open(request, timeout=self.limits.timeout)
        except urllib.error.URLError as error:
            raise UnreachableError(f"{bare(url)}: cannot be reached: {reason(error.reason)}") from None
        except TRANSPORT as error:
            raise BrokenTransferError(f"{bare(url)}: no answer: {reason(error)}") from None
        return cast(_Response, found)


def is_url(place: str) -> bool:
    """Whether a place is an address of the web; otherwise it is a path."""
    return place.lower().startswith(("http://", "https://"))


def check_url(url: str) -> str:
    """An address that is opened.

    Raises:
        CatalogueError: it is none of HTTP, or holds what no address holds.
    """
    try:
        parts = urllib.parse.urlsplit(url)
        sound = parts.scheme.lower() in ("http", "https") and parts.hostname and (parts.port or 1) > 0
    except ValueError:
        sound = False
    if not sound or not url.isascii() or any(one <= " " or one == "\x7f" for one in url):
        raise CatalogueError(
            f"{shown(bare(url))}: not an address that begins with https:// or http://; refused"
        )
    return url


def split_credentials(url: str) -> tuple[str, str]:
    """An address without ``user:password@``, and these two, empty where there are none."""
    parts = urllib.parse.urlsplit(url)
    before, at, host = parts.netloc.rpartition("@")
    return urllib.parse.urlunsplit(parts._replace(netloc=host)), urllib.parse.unquote(before) if at else ""


def bare(place: str) -> str:
    """A place as messages and records name it: without user, password and query."""
    if not is_url(place):
        return place
    try:
        address = split_credentials(place)[0]
    except ValueError:
        return place.partition("@")[2] or place
    return address.partition("?")[0]


def below(base: str, path: str) -> str:
    """The place of ``path``, which has been checked to be relative, below an address or a folder."""
    if not is_url(base):
        return str(Path(base, path))
    return base.rstrip("/") + "/" + urllib.parse.quote(path, safe="/~+=@")


def read_document(web: Web, place: str, most: int) -> bytes:
    """All of a small file, of the web or of this machine.

    Raises:
        NotThereError: there is none.
        CatalogueError: it cannot be had, or has more than ``most`` bytes.
    """
    if not is_url(place):
        return _read_file(place, most)
    for attempt in range(web.limits.attempts):
        try:
            return _read_body(web, place, most)
        except BrokenTransferError:
            if attempt + 1 == web.limits.attempts or web.stopped.wait(web.limits.pause * 2**attempt):
                raise
    raise AssertionError("there is one attempt at least")


def status_text(status: int) -> str:
    """A status of HTTP in words of ours: a server's own may hold anything."""
    return f"the server answers {status} {http.client.responses.get(status, '')}".rstrip()


def reason(error: object) -> str:
    """Why a connection failed, in a few words that may be printed."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, http.client.HTTPException | ValueError):
        return type(error).__name__ if str(error) == "" else shown(str(error))
    return shown(str(error))


def shut(one: socket.socket) -> None:
    """End a connection, also for a thread that waits for it."""
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


def _read_body(web: Web, url: str, most: int) -> bytes:
    with web.open(url) as answer:
        if answer.status in (404, 410):
            raise NotThereError(f"{bare(url)}: {status_text(answer.status)}")
        if answer.status != http.client.OK:
            raise CatalogueError(f"{bare(url)}: {status_text(answer.status)}")
        content = bytearray()
        for chunk in answer.chunks():
            content += chunk
            if len(content) > most:
                raise CatalogueError(f"{bare(url)}: more than {most} bytes; refused")
        return bytes(content)


def _read_file(place: str, most: int) -> bytes:
    try:
        return read_regular(Path(place), most)
    except FileNotFoundError:
        raise NotThereError(f"{place}: no such file") from None
    except OSError as error:
        raise CatalogueError(f"{place}: cannot be read: {error.strerror or error}") from None


def _redirected(url: str, location: str) -> str:
    """Where a redirect leads; never from HTTPS to HTTP."""
    try:
        found = urllib.parse.urljoin(split_credentials(url)[0], location)
    except ValueError:
        found = location
    check_url(found if location else "")
    if url.lower().startswith("https:") and not found.lower().startswith("https:"):
        raise CatalogueError(f"{bare(url)}: leads to {shown(bare(found))}, which is not encrypted; refused")
    return found


class _Response(http.client.HTTPResponse):
    """An answer whose connection is watched."""

    watchdog: _Watchdog


class _Watchdog:
    """Ends a connection that keeps somebody busy for too long, though its bytes may trickle.

    A limit of silence alone would wait for ever for headers, or for trailers, that never end.
    """

    def __init__(self, connection: socket.socket, seconds: float) -> None:
        self._connection, self._seconds = connection, seconds
        self._since = time.monotonic()
        self._ended, self._fired = threading.Event(), False
        threading.Thread(target=self._watch, daemon=True).start()

    def busy(self) -> None:
        """Begin to wait."""
        self._since = time.monotonic()

    def idle(self) -> None:
        """What was waited for is there.

        Raises:
            TimeoutError: it only seems so, because the connection was ended.
        """
        self._since = float("inf")
        if self._fired:
            raise TimeoutError

    def end(self) -> None:
        """Watch no longer."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(self._seconds / 8):
            if time.monotonic() - self._since > self._seconds:
                self._fired = True
                shut(self._connection)
                return


class _Watched(http.client.HTTPConnection):
    """A connection whose answer must begin in time, though its bytes may trickle, and that others can end."""

    sockets: set[socket.socket]
    response_class = _Response

    def connect(self) -> None:
        super().connect()
        self.sockets.add(self.sock)

    def getresponse(self) -> _Response:
        connection = self.sock
        watchdog = _Watchdog(connection, cast(float, self.timeout))
        try:
            found = cast(_Response, super().getresponse())
            watchdog.idle()
        except BaseException:
            watchdog.end()
            raise
        found.watchdog = watchdog
        return found


class _WatchedSecure(_Watched, http.client.HTTPSConnection):
    """The same, encrypted."""


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, sockets: set[socket.socket]) -> None:
        super().__init__()
        self._sockets = sockets

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_maker(_Watched, self._sockets), req)


class _Secure(urllib.request.HTTPSHandler):
    def __init__(self, sockets: set[socket.socket]) -> None:
        super().__init__()
        self._sockets, self._trust = sockets, ssl.create_default_context()

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(_maker(_WatchedSecure, self._sockets), req, context=self._trust)


def _maker(kind: type[_Watched], sockets: set[socket.socket]) -> Any:
    """What makes a connection of a kind that is known to those who may end it."""

    def make(host: str, **options: Any) -> _Watched:
        made = kind(host, **options)
        made.sockets = sockets
        return made

    return make


def to_json(values: object) -> bytes:
    """A record as it is stored."""
    return json.dumps(values, ensure_ascii=False, indent=2).encode("utf-8") + b"\n"
