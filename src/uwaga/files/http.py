"""HTTP requests with httpx: all waits have timeouts, and redirects never leave HTTPS.

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

from uwaga.errors import CatalogueError, SettingsError, quoted
from uwaga.files.regular import read_regular
from uwaga.files.retry import retry

if TYPE_CHECKING:
    import httpx

HEADERS = {"User-Agent": "uwaga", "Accept-Encoding": "identity"}
CHUNK = 1 << 16
COLLECT_SECONDS = 0.02
MAX_BLOCKS = 32
"""Maximum number of blocks, of at most 64 KiB, that are passed to the caller's thread at once."""
MAX_REDIRECTS = 5
REDIRECT_STATUSES = (301, 302, 303, 307, 308)
TRANSIENT_STATUSES = (408, 425, 429, 500, 502, 503, 504)
"""HTTP statuses after which a retry of the request may succeed."""
Result = TypeVar("Result")


class UnreachableError(CatalogueError):
    """A server cannot be reached."""


class BrokenTransferError(CatalogueError):
    """A transfer was interrupted; a retry of the request may succeed."""


class NotFoundError(CatalogueError):
    """The server has no such file."""


@dataclass(frozen=True)
class Limits:
    """Timeouts and limits of transfers.

    Attributes:
        timeout: seconds to wait for the headers of a response, and between two blocks of its body.
        window: seconds over which the speed is measured.
        min_speed: bytes per second below which a transfer is aborted.
        attempts: maximum number of requests for a file; each one resumes after the last byte received.
        patience: seconds without new bytes, counted over all attempts, after which requests are not retried.
        pause: seconds before the second attempt, doubled before each further one.
        parallel_files: number of files transferred at the same time.
    """

    timeout: float = 30.0
    window: float = 30.0
    min_speed: float = 2048.0
    attempts: int = 4
    patience: float = 30.0
    pause: float = 1.0
    parallel_files: int = 4

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if (
                not isinstance(value, int | float)
                or not 0 <= value < float("inf")
                or (value < 1 if name in ("attempts", "parallel_files") else value == 0 and name == "timeout")
            ):
                raise SettingsError(f"Limits.{name}: {quoted(value)} is not a valid limit")


class HttpClient:
    """An HTTP client for any number of threads, and a context manager that ends all open transfers.

    The timeouts of httpx are per packet, so a server that sends one byte at a time would block a caller
    forever. Therefore requests run as tasks of an event loop in a thread of this client, where a deadline can
    cancel them.

    Args:
        limits: timeouts and limits.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits, self.stopped = limits, threading.Event()
        self._start_lock = threading.Lock()
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
                if response.status not in REDIRECT_STATUSES:
                    if response.status in TRANSIENT_STATUSES:
                        raise BrokenTransferError(f"{public_url(url)}: {status_text(response.status)}")
                    yield response
                    return
                url = _redirect_target(url, response.header("Location"))
            finally:
                response.close()
        raise CatalogueError(f"{public_url(url)}: more than {MAX_REDIRECTS} redirects")

    def repeat(self, call: Callable[[], Result], received_bytes: Callable[[], int] = lambda: 0) -> Result:
        """Return the result of a request, which is retried within the limits if its transfer breaks.

        Args:
            call: sends the request.
            received_bytes: returns the number of bytes received so far; a retry keeps them.
        """
        latest_bytes, last_change = received_bytes(), time.monotonic()

        def may_succeed(error: Exception) -> bool:
            nonlocal latest_bytes, last_change
            if latest_bytes != received_bytes():
                latest_bytes, last_change = received_bytes(), time.monotonic()
            waiting_seconds = time.monotonic() - last_change
            return isinstance(error, BrokenTransferError) and waiting_seconds < self.limits.patience

        return retry(call, self.limits.attempts, self.limits.pause, may_succeed, self.stopped.wait)

    def stop(self) -> None:
        """End all transfers; threads that wait for one raise :class:`BrokenTransferError`."""
        self.stopped.set()
        with self._start_lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)

    def run(self, step: Coroutine[Any, Any, Result], seconds: float) -> Result:
        """Run one step of a transfer and return its result."""
        with self._start_lock:
            loop = self._loop
            if loop is None or self.stopped.is_set():
                step.close()
                raise BrokenTransferError("the transfer was stopped")
            future = asyncio.run_coroutine_threadsafe(asyncio.wait_for(step, seconds), loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise BrokenTransferError("the transfer was stopped") from None
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
            raise CatalogueError(f"{public_url(url)}: not a valid address ({error})") from None
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise UnreachableError(f"{public_url(url)}: cannot be reached: {reason(error)}") from None
        except (TimeoutError, httpx.TimeoutException):
            timeout_message = f"no answer within {self.limits.timeout:g} seconds"
            raise BrokenTransferError(f"{public_url(url)}: {timeout_message}") from None
        except (httpx.HTTPError, OSError) as error:
            raise BrokenTransferError(f"{public_url(url)}: no answer: {reason(error)}") from None

    def _open_client(self) -> httpx.AsyncClient:
        import httpx

        with self._start_lock:
            if self._client is None and not self.stopped.is_set():
                try:
                    self._client = httpx.AsyncClient(
                        headers=HEADERS,
                        verify=ssl.create_default_context(),
                        timeout=self.limits.timeout,
                        limits=httpx.Limits(max_connections=None, max_keepalive_connections=0),
                    )
                except (ImportError, ValueError) as error:  # the environment names an unusable proxy
                    raise CatalogueError(f"the environment's proxy cannot be used: {error}") from None
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=_run_loop, args=(self._loop,), daemon=True).start()
            if self._client is None:
                raise BrokenTransferError("the transfer was stopped")
            return self._client


class Response:
    """A response whose body has not been read yet.

    Attributes:
        status: the HTTP status.
        length: number of bytes of the body; None if the server does not send it.
        url: the URL of the response, after all redirects.
    """

    def __init__(self, client: HttpClient, response: httpx.Response, url: str) -> None:
        self._client, self._response, self.url = client, response, url
        self.status = response.status_code
        length_header = self.header("Content-Length")
        self.length = (
            int(length_header)
            if length_header.isascii() and length_header.isdigit() and len(length_header) < 19
            else None
        )

    def header(self, name: str) -> str:
        """Return the value of a header, or an empty string if it is missing."""
        return str(self._response.headers.get(name, ""))

    def chunks(self) -> Iterator[bytes]:
        """Yield the body in blocks."""
        import httpx

        limits, url = self._client.limits, public_url(self.url)
        body = self._response.aiter_raw()
        start, count, total = time.monotonic(), 0, 0
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
            if (elapsed := time.monotonic() - start) >= limits.window:
                if count < limits.min_speed * elapsed:
                    raise CatalogueError(
                        f"{url}: the transfer was too slow and was aborted: {count / elapsed:.0f} bytes per "
                        f"second, less than {limits.min_speed:g}"
                    )
                start, count = time.monotonic(), 0

    def _interruption(self, error: Exception, total: int) -> str:
        import httpx

        if isinstance(error, TimeoutError | httpx.TimeoutException):
            return f"nothing has arrived for {self._client.limits.timeout:g} seconds"
        if self.length is not None and total < self.length:
            return f"the transfer ended after {total} of {self.length} bytes"
        return f"the connection broke: {reason(error)}"

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(Exception):  # the connection is no longer needed
            self._client.run(self._response.aclose(), self._client.limits.timeout)


def is_http_url(location: str) -> bool:
    """Return whether a location is an HTTP URL; otherwise it is a path."""
    return location.lower().startswith(("http://", "https://"))


def check_url(url: str) -> str:
    """Return the URL unchanged; raise CatalogueError if it is not a valid HTTP URL."""
    try:
        parts = urllib.parse.urlsplit(url)
        is_valid = parts.scheme.lower() in ("http", "https") and parts.hostname and (parts.port or 1) > 0
    except ValueError:
        is_valid = False
    if not is_valid or not url.isascii() or any(char <= " " or char == "\x7f" for char in url):
        raise CatalogueError(
            f"{quoted(public_url(url))}: the address must begin with https:// or http://, name a host, and "
            "contain only ASCII characters without spaces"
        )
    return url


def public_url(location: str) -> str:
    """Return a URL without user, password and query, for messages and metadata; paths are unchanged."""
    if not is_http_url(location):
        return location
    try:
        address = _without_credentials(location)
    except ValueError:
        return location.partition("@")[2] or location
    return address.partition("?")[0]


def join_url(base: str, path: str) -> str:
    """Join a base URL or folder and a relative path, which must have been checked."""
    if not is_http_url(base):
        return str(Path(base, path))
    return base.rstrip("/") + "/" + urllib.parse.quote(path, safe="/~+=@")


def read_document(client: HttpClient, location: str, max_bytes: int) -> bytes:
    """Return the content of a small file at a URL or local path; more than ``max_bytes`` is an error."""
    if not is_http_url(location):
        return _read_file(location, max_bytes)
    return client.repeat(lambda: _read_body(client, location, max_bytes))


def status_text(status: int) -> str:
    """Return a message with an HTTP status and its standard reason phrase.

    The server's own reason phrase is not used, because it may contain any text.
    """
    phrase = http.HTTPStatus(status).phrase if status in list(http.HTTPStatus) else ""
    return f"the server answers {status} {phrase}".rstrip()


def reason(error: BaseException) -> str:
    """Return a short, printable reason why a connection failed."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TimeoutError) or type(cause).__name__.endswith("Timeout"):
            return "no answer in time"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted ({cause.verify_message})"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return quoted(str(error)) if str(error) else type(error).__name__


def to_json(values: object) -> bytes:
    """Return values as indented JSON in UTF-8, with a final line break."""
    return json.dumps(values, ensure_ascii=False, indent=2).encode("utf-8") + b"\n"


async def _collect(body: AsyncIterator[bytes], blocks: list[bytes]) -> None:
    """Append the next block of a body, and the blocks that follow within :data:`COLLECT_SECONDS` seconds."""
    end = time.monotonic() + COLLECT_SECONDS
    while block := await anext(body, b""):
        blocks.append(block)
        if len(blocks) == MAX_BLOCKS or time.monotonic() >= end:
            return


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    """Run an event loop until it is stopped, then cancel its tasks, which closes their connections."""
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


def _read_body(client: HttpClient, url: str, max_bytes: int) -> bytes:
    with client.open(url) as response:
        if response.status in (404, 410):
            raise NotFoundError(f"{public_url(url)}: {status_text(response.status)}")
        if response.status != http.HTTPStatus.OK:
            raise CatalogueError(f"{public_url(url)}: {status_text(response.status)}")
        content = bytearray()
        for chunk in response.chunks():
            content += chunk
            if len(content) > max_bytes:
                raise CatalogueError(f"{public_url(url)}: more than {max_bytes} bytes; the file is refused")
        return bytes(content)


def _read_file(location: str, max_bytes: int) -> bytes:
    try:
        return read_regular(Path(location), max_bytes)
    except FileNotFoundError:
        raise NotFoundError(f"{location}: no such file") from None
    except OSError as error:
        raise CatalogueError(f"{location}: cannot be read: {error.strerror or error}") from None


def _redirect_target(url: str, location: str) -> str:
    """Return the target of a redirect, without credentials; redirects from HTTPS to HTTP are errors."""
    try:
        target = urllib.parse.urljoin(_without_credentials(url), location)
    except ValueError:
        target = location
    check_url(target if location else "")
    if url.lower().startswith("https:") and not target.lower().startswith("https:"):
        raise CatalogueError(
            f"{public_url(url)}: redirects to {quoted(public_url(target))}, which is not encrypted; the "
            "redirect is refused"
        )
    return target
