"""Download and unpack the files of models: resumable, with size limits and verification."""

from __future__ import annotations

import contextlib
import hashlib
import json
import lzma
import os
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from uwaga.errors import CatalogueError
from uwaga.files.handles import BINARY, NO_FOLLOW
from uwaga.files.http import (
    CHUNK,
    BrokenTransferError,
    HttpClient,
    NotFoundError,
    Response,
    is_url,
    public_url,
    status_text,
    to_json,
)
from uwaga.files.lines import open_decompressed
from uwaga.library.entry import RemoteFile

BLOCK_BYTES = 1 << 20
PACKING_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}


def split_packing(path: str) -> tuple[str, str]:
    """Split a file name into the name without its compression suffix, and the compression."""
    name = path.rpartition("/")[2]
    for suffix, packing in PACKING_SUFFIXES.items():
        if name.lower().endswith(suffix):
            return name[: -len(suffix)], packing
    return name, ""


def unpack(received: Path, target: Path, file: RemoteFile) -> tuple[int, str]:
    """Unpack a file, sync it to disk, and return its size in bytes and its SHA-256.

    A server may have unpacked it already: a file without the magic bytes of its format is copied unchanged.

    Args:
        received: the file as received.
        target: the path to write, which must not exist.
        file: its entry in the catalogue.
    """
    size, digest = 0, hashlib.sha256()
    with (
        received.open("rb") as packed,
        open_decompressed(packed, file.name) if file.packing else packed as source,
        target.open("xb") as out,
    ):
        while True:
            try:
                block = source.read(min(BLOCK_BYTES, file.max_bytes - size + 1))
            except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
                raise CatalogueError(
                    f"{file.name}: was damaged or truncated in transit: {str(error) or 'it ends prematurely'}"
                ) from None
            if not block:
                break
            size += len(block)
            if size > file.max_bytes:
                raise CatalogueError(
                    f"{file.name}: unpacks to more than the {file.max_bytes} bytes allowed; stopped"
                )
            digest.update(block)
            out.write(block)
        out.flush()
        os.fsync(out.fileno())
    _check(file, size, digest.hexdigest())
    return size, digest.hexdigest()


def _check(file: RemoteFile, size: int, sha256: str) -> None:
    if size == 0:
        raise CatalogueError(f"{file.name}: is empty; refused")
    if file.size is not None and size != file.size:
        raise CatalogueError(
            f"{file.name}: {size} bytes unpacked, but the catalogue says {file.size}; refused"
        )
    if file.sha256 is not None and sha256 != file.sha256:
        raise CatalogueError(
            f"{file.name}: its SHA-256 is {sha256}, but the catalogue says {file.sha256}; refused"
        )


CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.ASCII)
UNSATISFIED_RANGE = re.compile(r"bytes \*/(\d{1,18})", re.ASCII)
MAX_RECORD_BYTES = 1 << 16

ByteProgress = Callable[[int, int | None], None]
"""Called with the number of bytes received and the size of the file, None if unknown."""


@dataclass(frozen=True)
class Fetched:
    """A file as received.

    Attributes:
        path: its path on this machine.
        location: the URL or path of its source.
        resumed: True if part of it was downloaded by an earlier run.
        is_download: True for a download, which may be removed; False for a file of the user.
    """

    path: Path
    location: str
    resumed: bool
    is_download: bool


class Part:
    """A partial download, with a record of its origin in another file.

    Args:
        path: the file of the received bytes.
        location: the URL of the file; bytes from another location are discarded.
    """

    def __init__(self, path: Path, location: str) -> None:
        self.path, self.location = path, public_url(location)
        self._record_path = path.with_name(path.name + ".json")
        record: object = None
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if self._record_path.stat().st_size <= MAX_RECORD_BYTES and not self._record_path.is_symlink():
                record = json.loads(self._record_path.read_bytes())
        is_same_location = isinstance(record, dict) and record.get("location") == self.location
        validator = record.get("validator") if isinstance(record, dict) else None
        self.validator = (
            validator if is_same_location and isinstance(validator, str) and _is_header(validator) else ""
        )
        if not is_same_location or path.is_symlink():
            self.drop()

    @property
    def size(self) -> int:
        """Number of bytes received so far."""
        return self.path.stat().st_size if self.path.is_file() else 0

    def start(self, response: Response) -> None:
        """Record the validator of the response: a strong ETag, or Last-Modified (RFC 9110, 13.1.5)."""
        tag = response.header("ETag")
        validator = tag if tag.startswith('"') else response.header("Last-Modified")
        self.validator = validator if _is_header(validator) else ""
        self._record_path.write_bytes(to_json({"location": self.location, "validator": self.validator}))

    def drop(self) -> None:
        """Remove the partial download."""
        self.path.unlink(missing_ok=True)
        self._record_path.unlink(missing_ok=True)
        self.validator = ""


def fetch(client: HttpClient, file: RemoteFile, path: Path, progress: ByteProgress) -> Fetched:
    """Download a file, or locate it on this machine, and verify it against the catalogue.

    Args:
        client: the HTTP client.
        file: its entry in the catalogue.
        path: the file to download to; an existing one is resumed.
        progress: called with the progress.
    """
    failures = []
    for location in file.locations:
        try:
            return _fetch_from(client, file, location, path, progress)
        except CatalogueError as error:
            failures.append(error)
            if client.stopped.is_set():
                break
    raise (failures[0] if failures else CatalogueError(f"{file.name}: the catalogue lists no location"))


def _fetch_from(
    client: HttpClient, file: RemoteFile, location: str, path: Path, progress: ByteProgress
) -> Fetched:
    if not is_url(location):
        local_path = Path(location)
        if not local_path.is_file():
            raise NotFoundError(f"{location}: no such file; the mirror is incomplete")
        _verify(file, local_path, location)
        progress(local_path.stat().st_size, local_path.stat().st_size)
        return Fetched(local_path, location, False, False)
    part = Part(path, location)
    resumed = part.size > 0
    while True:
        _download_part(client, file, location, part, progress)
        try:
            _verify(file, path, location)
        except CatalogueError:
            part.drop()
            if not resumed:
                raise
            resumed = False  # the resumed part may be from another version
            continue
        return Fetched(path, location, resumed, True)


def _download_part(
    client: HttpClient, file: RemoteFile, location: str, part: Part, progress: ByteProgress
) -> None:
    try:
        client.repeat(lambda: _request(client, file, location, part, progress), lambda: part.size)
    except CatalogueError as error:
        raise type(error)(f"{error}{_resume_hint(part)}") from None
    except OSError as error:
        raise CatalogueError(f"{part.path}: cannot be written: {error.strerror or error}") from None


def _resume_hint(part: Part) -> str:
    return f"; {part.size} bytes were received and kept: run it again to resume" if part.size else ""


def _request(client: HttpClient, file: RemoteFile, location: str, part: Part, progress: ByteProgress) -> None:
    """Send a request, for the missing range if possible, and append the response to the part."""
    received = part.size
    is_verifiable = bool(part.validator or file.packed_sha256 or file.sha256)
    if received > file.max_packed_bytes or not is_verifiable:
        part.drop()
        received = 0
    if received and received == file.packed_size:
        return
    headers = {"Range": f"bytes={received}-"} if received else {}
    if received and part.validator:
        headers["If-Range"] = part.validator
    with client.open(location, headers) as response:
        if response.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and received:
            match = UNSATISFIED_RANGE.fullmatch(response.header("Content-Range"))
            if match and int(match[1]) == received:
                return
            part.drop()
            raise BrokenTransferError(f"{public_url(location)}: has changed on the server")
        start, total = _response_range(response, location, part, received)
        if start == 0:
            part.drop()
            part.start(response)
        _check_total(file, location, total)
        _receive(client, response, file, part, start, lambda count: progress(count, total))


def _response_range(response: Response, location: str, part: Part, offset: int) -> tuple[int, int | None]:
    """Return the offset of the first byte of a response, and the size of the file."""
    if response.status == HTTPStatus.PARTIAL_CONTENT and offset:
        match = CONTENT_RANGE.fullmatch(response.header("Content-Range"))
        if not match or int(match[1]) != offset or int(match[2]) + 1 != int(match[3]):
            part.drop()
            raise BrokenTransferError(
                f"{public_url(location)}: the server did not send the requested bytes from {offset} on"
            )
        return offset, int(match[3])
    if response.status == HTTPStatus.OK:
        return 0, response.length
    text = f"{public_url(location)}: {status_text(response.status)}"
    if response.status in (404, 410):
        raise NotFoundError(f"{text}: the file in the catalogue does not exist")
    raise CatalogueError(text)


def _check_total(file: RemoteFile, location: str, total: int | None) -> None:
    if total is None:
        return
    if file.packed_size is not None and total != file.packed_size:
        raise CatalogueError(
            f"{public_url(location)}: has {total} bytes, but the catalogue says {file.packed_size}; refused"
        )
    if total > file.max_packed_bytes:
        raise CatalogueError(
            f"{public_url(location)}: has {total} bytes, more than {file.max_packed_bytes}; refused"
        )


def _receive(
    client: HttpClient,
    response: Response,
    file: RemoteFile,
    part: Part,
    start: int,
    progress: Callable[[int], None],
) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_FOLLOW | BINARY
    received = start
    with os.fdopen(os.open(part.path, flags, 0o644), "wb") as target:
        for chunk in response.chunks():
            received += len(chunk)
            if received > file.max_packed_bytes:
                part.drop()
                raise CatalogueError(
                    f"{public_url(response.url)}: sends more than the {file.max_packed_bytes} bytes allowed; "
                    f"stopped"
                )
            target.write(chunk)
            progress(received)
            if client.stopped.is_set():
                raise BrokenTransferError(f"{public_url(response.url)}: stopped")


def _verify(file: RemoteFile, path: Path, location: str) -> None:
    """Compare the received file with the size and hash in the catalogue."""
    size = path.stat().st_size
    if file.packed_size is not None and size != file.packed_size:
        raise CatalogueError(
            f"{public_url(location)}: {size} bytes, but the catalogue says {file.packed_size}; refused"
        )
    if size > file.max_packed_bytes:
        raise CatalogueError(
            f"{public_url(location)}: {size} bytes, more than {file.max_packed_bytes}; refused"
        )
    if file.packed_sha256 is None:
        return
    digest = hashlib.sha256()
    with path.open("rb") as received:
        while block := received.read(CHUNK << 4):
            digest.update(block)
    if digest.hexdigest() != file.packed_sha256:
        raise CatalogueError(
            f"{public_url(location)}: its SHA-256 is {digest.hexdigest()}, but the catalogue says "
            f"{file.packed_sha256}; refused"
        )


def _is_header(value: str) -> bool:
    """Return True if a value is safe to send as a header."""
    return value.isascii() and value.isprintable() and len(value) <= 200
