"""HTTP requests whose every wait is bounded and whose redirects never leave HTTPS, on httpx.

Proxies come from the environment (``https_proxy``, ``no_proxy``), trusted certificates from the system or
from ``SSL_CERT_FILE``.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import http
import json
import ssl
import threading
import time
import urllib.parse
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from uwaga.errors import CatalogueError, SettingsError, shown
from uwaga.files.regular import read_regular
from uwaga.files.retry import retry

if TYPE_CHECKING:
    import httpx

HEADERS = {"User-Agent": "uwaga", "Accept-Encoding": "identity"}
CHUNK = 1 << 16
COLLECTING = 0.02
MAX_BLOCKS = 32
"""Blocks of at most 64 KiB that are handed to a caller's thread at once."""
MAX_REDIRECTS = 5
REDIRECTS = (301, 302, 303, 307, 308)
PASSING = (408, 425, 429, 500, 502, 503, 504)
"""Statuses after which the same request may succeed."""
Result = TypeVar("Result")


class UnreachableError(CatalogueError):
    """A server cannot be reached."""


class BrokenTransferError(CatalogueError):
    """A transfer was interrupted; the same request may succeed."""


class NotThereError(CatalogueError):
    """The server has no such file."""


@dataclass(frozen=True)
class Limits:
    """How long to wait for servers.

    Attributes:
        timeout: seconds until the headers of an answer have arrived, and between two blocks of its body.
        window: seconds over which the speed is measured.
        slowest: bytes a second below which a transfer is given up.
        attempts: how often a file is requested; each attempt resumes where the last one broke off.
        patience: seconds after which a request is not repeated if nothing has arrived in all its attempts.
        pause: seconds before the second attempt, doubled before each further one.
        together: files transferred at the same time.
    """

    timeout: float = 30.0
    window: float = 30.0
    slowest: float = 2048.0
    attempts: int = 4
    patience: float = 30.0
    pause: float = 1.0
    together: int = 4

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if (
                not isinstance(value, int | float)
                or not 0 <= value < float("inf")
                or (value < 1 if name in ("attempts", "together") else value == 0 and name == "timeout")
            ):
                raise SettingsError(f"Limits.{name}: {shown(value)} is not a valid limit")


class HttpClient:
    """Opens URLs for any number of threads; leaving its ``with`` block ends all that are open.

    httpx bounds the wait for each packet, and a server that sends one byte at a time would hold a caller for
    ever. So requests run as tasks of an event loop in a thread of this client, where a deadline can cancel
    them.

    Args:
        limits: limits on waiting times.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits, self.stopped = limits, threading.Event()
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: httpx.AsyncClient | None = None

    def __enter__(self) -> HttpClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @contextlib.contextmanager
    def open(self, url: str, headers: Mapping[str, str] | None = None) -> Iterator[Response]:
        """Send a GET request and follow its redirects; the response is closed after the block."""
        for _ in range(MAX_REDIRECTS + 1):
            response = Response(self, self._request(url, headers or {}), url)
            try:
                if response.status not in REDIRECTS:
                    if response.status in PASSING:
                        raise BrokenTransferError(f"{public_url(url)}: {status_text(response.status)}")
                    yield response
                    return
                url = _redirected(url, response.header("Location"))
            finally:
                response.close()
        raise CatalogueError(f"{public_url(url)}: more than {MAX_REDIRECTS} redirects")

    def repeat(self, call: Callable[[], Result], received: Callable[[], int] = lambda: 0) -> Result:
        """Return the result of a request, repeated after broken transfers within the limits.

        Args:
            call: sends the request.
            received: returns the number of bytes that have arrived, which a repeated request keeps.
        """
        latest, since = received(), time.monotonic()

        def may_succeed(error: Exception) -> bool:
            nonlocal latest, since
            if latest != received():
                latest, since = received(), time.monotonic()
            waited = time.monotonic() - since
            return isinstance(error, BrokenTransferError) and waited < self.limits.patience

        return retry(call, self.limits.attempts, self.limits.pause, may_succeed, self.stopped.wait)

    def stop(self) -> None:
        """End every transfer; a thread that waits for one fails with :class:`BrokenTransferError`."""
        self.stopped.set()
        with self._starting:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    def run(self, step: Coroutine[Any, Any, Result], seconds: float) -> Result:
        """Return the result of one step of a transfer."""
        with self._starting:
            loop = self._loop
            if loop is None or self.stopped.is_set():
                step.close()
                raise BrokenTransferError("stopped")
            future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(step, seconds), loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise BrokenTransferError("stopped") from None
        except KeyboardInterrupt:
            future.cancel()
            raise

    def _request(self, url: str, headers: Mapping[str, str]) -> httpx.Response:
        import httpx

        check_url(url)
        try:
            client = self._open_client()
            request = client.build_request("GET", url, headers=headers)
            return self.run(client.send(request, stream=True), self.limits.timeout)
        except httpx.InvalidURL as error:
            raise CatalogueError(f"{public_url(url)}: not a valid address ({error}); refused") from None
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise UnreachableError(f"{public_url(url)}: cannot be reached: {reason(error)}") from None
        except (TimeoutError, httpx.TimeoutException):
            waited = f"no answer within {self.limits.timeout:g} seconds"
            raise BrokenTransferError(f"{public_url(url)}: {waited}") from None
        except (httpx.HTTPError, OSError) as error:
            raise BrokenTransferError(f"{public_url(url)}: no answer: {reason(error)}") from None

    def _open_client(self) -> httpx.AsyncClient:
        import httpx

        with self._starting:
            if self._client is None and not self.stopped.is_set():
                try:
                    self._client = httpx.AsyncClient(
                        headers=HEADERS,
                        verify=ssl.create_default_context(),
                        timeout=self.limits.timeout,
                        limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
                    )
                except (ImportError, ValueError) as error:  # a proxy of the environment
                    raise CatalogueError(f"the proxy of the environment cannot be used: {error}") from None
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run_loop, args=(self._loop,), daemon=True).start()
            if self._client is None:
                raise BrokenTransferError("stopped")
            return self._client


class Response:
    """A response whose body has not been read yet.

    Attributes:
        status: the HTTP status.
        length: bytes of the body, None where the server does not state them.
        url: the address that answered, after all redirects.
    """

    def __init__(self, client: HttpClient, response: httpx.Response, url: str) -> None:
        self._client, self._response, self.url = client, response, url
        self.status = response.status_code
        stated = self.header("Content-Length")
        self.length = int(stated) if stated.isascii() and stated.isdigit() and len(stated) < 19 else None

    def header(self, name: str) -> str:
        """Return the value of a header, empty where it is missing."""
        return str(self._response.headers.get(name, ""))

    def chunks(self) -> Iterator[bytes]:
        """Yield the body in blocks."""
        import httpx

        limits, url = self._client.limits, public_url(self.url)
        body = self._response.aiter_raw()
        started, count, total = time.monotonic(), 0, 0
        while True:
            blocks: list[bytes] = []
            failure: Exception | None = None
            try:
                self._client.run(_collect(body, blocks), limits.timeout)
            except (httpx.HTTPError, OSError) as error:
                failure = error
            if chunk := b"".join(blocks):
                yield chunk
            total += len(chunk)
            count += len(chunk)
            if failure is not None:
                raise BrokenTransferError(f"{url}: {self._interruption(failure, total)}")
            if not chunk:
                return
            if (passed := time.monotonic() - started) >= limits.window:
                if count < limits.slowest * passed:
                    raise CatalogueError(
                        f"{url}: {count / passed:.0f} bytes a second, fewer than {limits.slowest:g}; gave up"
                    )
                started, count = time.monotonic(), 0

    def _interruption(self, error: Exception, total: int) -> str:
        import httpx

        if isinstance(error, TimeoutError | httpx.TimeoutException):
            return f"nothing has arrived for {self._client.limits.timeout:g} seconds"
        if self.length is not None and total < self.length:
            return f"ended after {total} of {self.length} bytes"
        return f"broke off: {reason(error)}"

    def close(self) -> None:
        """End the connection."""
        with contextlib.suppress(Exception):  # of a connection that is not needed any more
            self._client.run(self._response.aclose(), self._client.limits.timeout)


def is_url(place: str) -> bool:
    """Return whether a place is an HTTP address; otherwise it is a path."""
    return place.lower().startswith(("http://", "https://"))


def check_url(url: str) -> str:
    """Return an address that may be opened."""
    try:
        parts = urllib.parse.urlsplit(url)
        sound = parts.scheme.lower() in ("http", "https") and parts.hostname and (parts.port or 1) > 0
    except ValueError:
        sound = False
    if not sound or not url.isascii() or any(char <= " " or char == "\x7f" for char in url):
        raise CatalogueError(
            f"{shown(public_url(url))}: not an address that begins with https:// or http://; refused"
        )
    return url


def public_url(place: str) -> str:
    """Return an address without user, password and query, for messages and records; a path is unchanged."""
    if not is_url(place):
        return place
    try:
        address = _without_credentials(place)
    except ValueError:
        return place.partition("@")[2] or place
    return address.partition("?")[0]


def join_url(base: str, path: str) -> str:
    """Return the address or the path of ``path``, which has been checked to be relative, below ``base``."""
    if not is_url(base):
        return str(Path(base, path))
    return base.rstrip("/") + "/" + urllib.parse.quote(path, safe="/~+=@")


def read_document(client: HttpClient, place: str, most: int) -> bytes:
    """Return the content of a small file, remote or local."""
    if not is_url(place):
        return _read_file(place, most)
    return client.repeat(lambda: _read_body(client, place, most))


def status_text(status: int) -> str:
    """Describe an HTTP status in the words of the standard: a server's own may contain anything."""
    phrase = http.HTTPStatus(status).phrase if status in list(http.HTTPStatus) else ""
    return f"the server answers {status} {phrase}".rstrip()


def reason(error: BaseException) -> str:
    """Return in a few printable words why a connection failed."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TimeoutError) or type(cause).__name__.endswith("Timeout"):
            return "no answer in time"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message})"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return shown(str(error)) if str(error) else type(error).__name__


def to_json(values: object) -> bytes:
    """Return a record as it is stored."""
    return json.dumps(values, ensure_ascii=False, indent=2).encode("utf-8") + b"\n"


async def _collect(body: AsyncIterator[bytes], blocks: list[bytes]) -> None:
    """Append the next block of a body, and those that follow within :data:`COLLECTING` seconds."""
    end = time.monotonic() + COLLECTING
    while block := await anext(body, b""):
        blocks.append(block)
        if len(blocks) == MAX_BLOCKS or time.monotonic() >= end:
            return


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Run an event loop until it is stopped, then cancel its tasks, which ends their connections."""
    try:
        loop.run_forever()
        loop.run_until_complete(_cancel_others())
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


async def _cancel_others() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _without_credentials(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _read_body(client: HttpClient, url: str, most: int) -> bytes:
    with client.open(url) as response:
        if response.status in (404, 410):
            raise NotThereError(f"{public_url(url)}: {status_text(response.status)}")
        if response.status != http.HTTPStatus.OK:
            raise CatalogueError(f"{public_url(url)}: {status_text(response.status)}")
        content = bytearray()
        for chunk in response.chunks():
            content += chunk
            if len(content) > most:
                raise CatalogueError(f"{public_url(url)}: more than {most} bytes; refused")
        return bytes(content)


def _read_file(place: str, most: int) -> bytes:
    try:
        return read_regular(Path(place), most)
    except FileNotFoundError:
        raise NotThereError(f"{place}: no such file") from None
    except OSError as error:
        raise CatalogueError(f"{place}: cannot be read: {error.strerror or error}") from None


def _redirected(url: str, location: str) -> str:
    """Return the address that a redirect leads to, without credentials, and never from HTTPS to HTTP."""
    try:
        target = urllib.parse.urljoin(_without_credentials(url), location)
    except ValueError:
        target = location
    check_url(target if location else "")
    if url.lower().startswith("https:") and not target.lower().startswith("https:"):
        raise CatalogueError(
            f"{public_url(url)}: redirects to {shown(public_url(target))}, which is not encrypted; refused"
        )
    return target
