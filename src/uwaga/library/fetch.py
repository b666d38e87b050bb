"""Resumable download, verification and unpacking of model files, with limits on their size."""

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
    is_http_url,
    public_url,
    status_text,
    to_json,
)
from uwaga.files.lines import open_decompressed
from uwaga.library.entry import RemoteFile

BLOCK_BYTES = 1 << 20
PACKING_SUFFIXES = {".gz": "gzip", ".zst": "zstd"}


def split_packing(path: str) -> tuple[str, str]:
    """Return the file name in a path without the compression suffix, and the name of the compression."""
    name = path.rpartition("/")[2]
    for suffix, packing in PACKING_SUFFIXES.items():
        if name.lower().endswith(suffix):
            return name[: -len(suffix)], packing
    return name, ""


def unpack(path: Path, target: Path, file: RemoteFile) -> tuple[int, str]:
    """Unpack a file, sync it to disk, and return its size in bytes and its SHA-256.

    A file without the magic bytes of the compression is copied unchanged, since some servers unpack files.

    Args:
        path: path of the received file.
        target: path of the unpacked file, which must not exist.
        file: the file's entry in the catalogue.
    """
    size, digest = 0, hashlib.sha256()
    with (
        path.open("rb") as packed,
        open_decompressed(packed, file.name) if file.packing else packed as source,
        target.open("xb") as out,
    ):
        while True:
            try:
                block = source.read(min(BLOCK_BYTES, file.max_bytes - size + 1))
            except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
                raise CatalogueError(
                    f"{file.name}: the file was damaged or truncated in transit: "
                    f"{str(error) or 'it ends prematurely'}"
                ) from None
            if not block:
                break
            size += len(block)
            if size > file.max_bytes:
                raise CatalogueError(
                    f"{file.name}: unpacks to more than the {file.max_bytes} bytes allowed; unpacking was "
                    "stopped"
                )
            digest.update(block)
            out.write(block)
        out.flush()
        os.fsync(out.fileno())
    _check_unpacked(file, size, digest.hexdigest())
    return size, digest.hexdigest()


def _check_unpacked(file: RemoteFile, size: int, sha256: str) -> None:
    if size == 0:
        raise CatalogueError(f"{file.name}: the file is empty, so it is refused")
    if file.size is not None and size != file.size:
        raise CatalogueError(
            f"{file.name}: has {size} bytes when unpacked, but the catalogue states {file.size}; the file is "
            "refused"
        )
    if file.sha256 is not None and sha256 != file.sha256:
        raise CatalogueError(
            f"{file.name}: has the SHA-256 {sha256}, but the catalogue states {file.sha256}; the file is "
            "refused"
        )


CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.ASCII)
UNSATISFIED_RANGE = re.compile(r"bytes \*/(\d{1,18})", re.ASCII)
MAX_RECORD_BYTES = 1 << 16

ByteProgress = Callable[[int, int | None], None]
"""Type of callbacks, called with the number of bytes received and the size of the file, None if unknown."""


@dataclass(frozen=True)
class ReceivedFile:
    """A file that was received or is on this machine.

    Attributes:
        path: path of the file on this machine.
        location: URL or path from which the file was obtained.
        resumed: True if a part of the file was downloaded by an earlier run.
        is_download: True if the file was downloaded and may be removed, False if it belongs to the user.
    """

    path: Path
    location: str
    resumed: bool
    is_download: bool


class PartialDownload:
    """A partial download, whose origin is recorded in a separate file.

    Args:
        path: path of the file with the received bytes.
        location: URL of the file; bytes that were received from another URL are discarded.
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
            validator
            if is_same_location and isinstance(validator, str) and _is_header_value(validator)
            else ""
        )
        if not is_same_location or path.is_symlink():
            self.drop()

    @property
    def size(self) -> int:
        """Number of bytes received so far."""
        return self.path.stat().st_size if self.path.is_file() else 0

    def start(self, response: Response) -> None:
        """Store a response's validator: its ETag if that is strong, or Last-Modified (RFC 9110, 13.1.5)."""
        tag = response.header("ETag")
        validator = tag if tag.startswith('"') else response.header("Last-Modified")
        self.validator = validator if _is_header_value(validator) else ""
        self._record_path.write_bytes(to_json({"location": self.location, "validator": self.validator}))

    def drop(self) -> None:
        """Delete the received bytes and the file that records their origin."""
        self.path.unlink(missing_ok=True)
        self._record_path.unlink(missing_ok=True)
        self.validator = ""


def fetch(client: HttpClient, file: RemoteFile, path: Path, progress: ByteProgress) -> ReceivedFile:
    """Download a file, or find it on this machine, and compare it with the catalogue.

    Args:
        client: the HTTP client.
        file: the file's entry in the catalogue.
        path: path to which the file is downloaded; a partial download at this path is resumed.
        progress: called whenever bytes have been received.
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
) -> ReceivedFile:
    if not is_http_url(location):
        local_path = Path(location)
        if not local_path.is_file():
            raise NotFoundError(f"{location}: no such file; the mirror is incomplete")
        _verify_received(file, local_path, location)
        progress(local_path.stat().st_size, local_path.stat().st_size)
        return ReceivedFile(local_path, location, False, False)
    part = PartialDownload(path, location)
    resumed = part.size > 0
    while True:
        _download_part(client, file, location, part, progress)
        try:
            _verify_received(file, path, location)
        except CatalogueError:
            part.drop()
            if not resumed:
                raise
            resumed = False  # the resumed part may be from another version
            continue
        return ReceivedFile(path, location, resumed, True)


def _download_part(
    client: HttpClient, file: RemoteFile, location: str, part: PartialDownload, progress: ByteProgress
) -> None:
    try:
        client.repeat(lambda: _request(client, file, location, part, progress), lambda: part.size)
    except CatalogueError as error:
        raise type(error)(f"{error}{_resume_hint(part)}") from None
    except OSError as error:
        raise CatalogueError(f"{part.path}: cannot be written: {error.strerror or error}") from None


def _resume_hint(part: PartialDownload) -> str:
    return (
        f"; {part.size} bytes were received and kept; repeat the download to resume it" if part.size else ""
    )


def _request(
    client: HttpClient, file: RemoteFile, location: str, part: PartialDownload, progress: ByteProgress
) -> None:
    """Request a file, or its missing range if possible, and append the response to the partial download."""
    received_bytes = part.size
    is_verifiable = bool(part.validator or file.packed_sha256 or file.sha256)
    if received_bytes > file.max_packed_bytes or not is_verifiable:
        part.drop()
        received_bytes = 0
    if received_bytes and received_bytes == file.packed_size:
        return
    headers = {"Range": f"bytes={received_bytes}-"} if received_bytes else {}
    if received_bytes and part.validator:
        headers["If-Range"] = part.validator
    with client.open(location, headers) as response:
        if response.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and received_bytes:
            match = UNSATISFIED_RANGE.fullmatch(response.header("Content-Range"))
            if match and int(match[1]) == received_bytes:
                return
            part.drop()
            raise BrokenTransferError(f"{public_url(location)}: the file has changed on the server")
        start, total = _response_range(response, location, part, received_bytes)
        if start == 0:
            part.drop()
            part.start(response)
        _check_total(file, location, total)
        _receive(client, response, file, part, start, lambda count: progress(count, total))


def _response_range(
    response: Response, location: str, part: PartialDownload, offset: int
) -> tuple[int, int | None]:
    """Return the file offset at which a response begins, and the size of the file, None if it is unknown."""
    if response.status == HTTPStatus.PARTIAL_CONTENT and offset:
        match = CONTENT_RANGE.fullmatch(response.header("Content-Range"))
        if not match or int(match[1]) != offset or int(match[2]) + 1 != int(match[3]):
            part.drop()
            raise BrokenTransferError(
                f"{public_url(location)}: the server did not send the requested bytes, which begin at offset "
                f"{offset}"
            )
        return offset, int(match[3])
    if response.status == HTTPStatus.OK:
        return 0, response.length
    text = f"{public_url(location)}: {status_text(response.status)}"
    if response.status in (404, 410):
        raise NotFoundError(f"{text}: the file that the catalogue lists does not exist")
    raise CatalogueError(text)


def _check_total(file: RemoteFile, location: str, total: int | None) -> None:
    if total is None:
        return
    if file.packed_size is not None and total != file.packed_size:
        raise CatalogueError(
            f"{public_url(location)}: has {total} bytes, but the catalogue states {file.packed_size}; the "
            "file is refused"
        )
    if total > file.max_packed_bytes:
        raise CatalogueError(
            f"{public_url(location)}: has {total} bytes, more than the {file.max_packed_bytes} allowed; the "
            "file is refused"
        )


def _receive(
    client: HttpClient,
    response: Response,
    file: RemoteFile,
    part: PartialDownload,
    start: int,
    progress: Callable[[int], None],
) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_FOLLOW | BINARY
    received_bytes = start
    with os.fdopen(os.open(part.path, flags, 0o644), "wb") as target:
        for chunk in response.chunks():
            received_bytes += len(chunk)
            if received_bytes > file.max_packed_bytes:
                part.drop()
                raise CatalogueError(
                    f"{public_url(response.url)}: the server sends more than the {file.max_packed_bytes} "
                    "bytes allowed; the download was stopped"
                )
            target.write(chunk)
            progress(received_bytes)
            if client.stopped.is_set():
                raise BrokenTransferError(f"{public_url(response.url)}: the download was stopped")


def _verify_received(file: RemoteFile, path: Path, location: str) -> None:
    """Raise CatalogueError if the size or the hash of a received file differs from the catalogue."""
    size = path.stat().st_size
    if file.packed_size is not None and size != file.packed_size:
        raise CatalogueError(
            f"{public_url(location)}: has {size} bytes, but the catalogue states {file.packed_size}; the "
            "file is refused"
        )
    if size > file.max_packed_bytes:
        raise CatalogueError(
            f"{public_url(location)}: has {size} bytes, more than the {file.max_packed_bytes} allowed; the "
            "file is refused"
        )
    if file.packed_sha256 is None:
        return
    digest = hashlib.sha256()
    with path.open("rb") as received_file:
        while block := received_file.read(CHUNK << 4):
            digest.update(block)
    if digest.hexdigest() != file.packed_sha256:
        raise CatalogueError(
            f"{public_url(location)}: has the SHA-256 {digest.hexdigest()}, but the catalogue states "
            f"{file.packed_sha256}; the file is refused"
        )


def _is_header_value(value: str) -> bool:
    """Return True if a text can safely be sent as the value of an HTTP header."""
    return value.isascii() and value.isprintable() and len(value) <= 200
