"""Download a file of a model, resumed where it broke off, and unpack it: bounded and verified."""

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
    NotThereError,
    Response,
    is_url,
    public_url,
    status_text,
    to_json,
)
from uwaga.files.lines import decompressed
from uwaga.library.entry import RemoteFile

BLOCK = 1 << 20
PACKINGS = {".gz": "gzip", ".zst": "zstd"}


def packing_of(path: str) -> tuple[str, str]:
    """Split a file name into the name without its packing suffix, and the packing."""
    name = path.rpartition("/")[2]
    for suffix, packing in PACKINGS.items():
        if name.lower().endswith(suffix):
            return name[: -len(suffix)], packing
    return name, ""


def unpack(sent: Path, target: Path, file: RemoteFile) -> tuple[int, str]:
    """Unpack a file and sync it to disk; return its size in bytes and its SHA-256.

    A server may have unpacked it already: a file without the magic bytes of a packing is copied as it is.

    Args:
        sent: the file as received.
        target: the path to write, which must not exist.
        file: its entry in the catalogue.
    """
    size, digest = 0, hashlib.sha256()
    with (
        sent.open("rb") as packed,
        decompressed(packed, file.name) if file.packing else packed as source,
        target.open("xb") as out,
    ):
        while True:
            try:
                block = source.read(min(BLOCK, file.most - size + 1))
            except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
                raise CatalogueError(
                    f"{file.name}: is damaged or cut short as it was sent: {str(error) or 'it ends too soon'}"
                ) from None
            if not block:
                break
            size += len(block)
            if size > file.most:
                raise CatalogueError(
                    f"{file.name}: unpacks to more than the {file.most} bytes that it may have; stopped"
                )
            digest.update(block)
            out.write(block)
        out.flush()
        os.fsync(out.fileno())
    _check(file, size, digest.hexdigest())
    return size, digest.hexdigest()


def _check(file: RemoteFile, size: int, found: str) -> None:
    if size == 0:
        raise CatalogueError(f"{file.name}: is empty; refused")
    if file.size is not None and size != file.size:
        raise CatalogueError(f"{file.name}: {size} bytes unpacked, the catalogue says {file.size}; refused")
    if file.sha256 is not None and found != file.sha256:
        raise CatalogueError(
            f"{file.name}: its SHA-256 is {found}, the catalogue says {file.sha256}; refused"
        )


RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.ASCII)
BEYOND = re.compile(r"bytes \*/(\d{1,18})", re.ASCII)
NOTE_BYTES = 1 << 16

Seen = Callable[[int, int | None], None]
"""Called with the bytes of a file that are there, and how many it has, None while that is not known."""


@dataclass(frozen=True)
class Fetched:
    """A file as received.

    Attributes:
        path: its path on this machine.
        location: the URL or path that it came from.
        resumed: True if a part of it was downloaded by an earlier run.
        ours: True if it is a download, which may be removed, and not a user's own file.
    """

    path: Path
    location: str
    resumed: bool
    ours: bool


class Part:
    """A partial download: its bytes, and next to them a record of their origin.

    Args:
        path: file of the bytes.
        location: the URL they come from; bytes of another location are dropped.
    """

    def __init__(self, path: Path, location: str) -> None:
        self.path, self.location = path, public_url(location)
        self._note = path.with_name(path.name + ".json")
        stated: object = None
        with contextlib.suppress(OSError, ValueError, RecursionError):
            if self._note.stat().st_size <= NOTE_BYTES and not self._note.is_symlink():
                stated = json.loads(self._note.read_bytes())
        known = isinstance(stated, dict) and stated.get("location") == self.location
        validator = stated.get("validator") if isinstance(stated, dict) else None
        self.validator = validator if known and isinstance(validator, str) and _is_header(validator) else ""
        if not known or path.is_symlink():
            self.drop()

    @property
    def size(self) -> int:
        """Number of bytes received so far."""
        return self.path.stat().st_size if self.path.is_file() else 0

    def begin(self, answer: Response) -> None:
        """Record the validator of the bytes to come: a strong ETag, or Last-Modified (RFC 9110, 13.1.5)."""
        tag = answer.header("ETag")
        found = tag if tag.startswith('"') else answer.header("Last-Modified")
        self.validator = found if _is_header(found) else ""
        self._note.write_bytes(to_json({"location": self.location, "validator": self.validator}))

    def drop(self) -> None:
        """Remove the partial download."""
        self.path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)
        self.validator = ""


def fetch(web: HttpClient, file: RemoteFile, path: Path, seen: Seen) -> Fetched:
    """Download a file, or find it on this machine, and verify it against the catalogue.

    Args:
        web: opens its locations.
        file: its entry in the catalogue.
        path: file of the download; an existing one is resumed.
        seen: called with the progress.
    """
    failures = []
    for location in file.locations:
        try:
            return _fetch_from(web, file, location, path, seen)
        except CatalogueError as error:
            failures.append(error)
            if web.stopped.is_set():
                break
    raise (
        failures[0]
        if failures
        else CatalogueError(f"{file.name}: the catalogue gives no address that is read")
    )


def _fetch_from(web: HttpClient, file: RemoteFile, location: str, path: Path, seen: Seen) -> Fetched:
    if not is_url(location):
        found = Path(location)
        if not found.is_file():
            raise NotThereError(f"{location}: no such file; the mirror is not whole")
        _verify(file, found, location)
        seen(found.stat().st_size, found.stat().st_size)
        return Fetched(found, location, False, False)
    part = Part(path, location)
    resumed = part.size > 0
    while True:
        _complete(web, file, location, part, seen)
        try:
            _verify(file, path, location)
        except CatalogueError:
            part.drop()
            if not resumed:
                raise
            resumed = False  # the resumed part may be of another version
            continue
        return Fetched(path, location, resumed, True)


def _complete(web: HttpClient, file: RemoteFile, location: str, part: Part, seen: Seen) -> None:
    try:
        web.repeat(lambda: _attempt(web, file, location, part, seen), lambda: part.size)
    except CatalogueError as error:
        raise type(error)(f"{error}{_kept(part)}") from None
    except OSError as error:
        raise CatalogueError(f"{part.path}: cannot be written: {error.strerror or error}") from None


def _kept(part: Part) -> str:
    return f"; {part.size} bytes have come and are kept: run it again to go on" if part.size else ""


def _attempt(web: HttpClient, file: RemoteFile, location: str, part: Part, seen: Seen) -> None:
    """Send one request, for the missing range only if the server supports that."""
    done = part.size
    sure = bool(part.validator or file.packed_sha256 or file.sha256)
    if done > file.most_sent or not sure:
        part.drop()
        done = 0
    if done and done == file.packed_size:
        return
    headers = {"Range": f"bytes={done}-"} if done else {}
    if done and part.validator:
        headers["If-Range"] = part.validator
    with web.open(location, headers) as answer:
        if answer.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and done:
            beyond = BEYOND.fullmatch(answer.header("Content-Range"))
            if beyond and int(beyond[1]) == done:
                return
            part.drop()
            raise BrokenTransferError(f"{public_url(location)}: has changed on the server")
        begin, total = _extent(answer, location, part, done)
        if begin == 0:
            part.drop()
            part.begin(answer)
        _check_total(file, location, total)
        _receive(web, answer, file, part, begin, lambda now: seen(now, total))


def _extent(answer: Response, location: str, part: Part, done: int) -> tuple[int, int | None]:
    """Return the offset at which the bytes of a response begin, and the size of the file."""
    if answer.status == HTTPStatus.PARTIAL_CONTENT and done:
        found = RANGE.fullmatch(answer.header("Content-Range"))
        if not found or int(found[1]) != done or int(found[2]) + 1 != int(found[3]):
            part.drop()
            raise BrokenTransferError(
                f"{public_url(location)}: asked for the bytes from {done} on, the server gives others"
            )
        return done, int(found[3])
    if answer.status == HTTPStatus.OK:
        return 0, answer.length
    text = f"{public_url(location)}: {status_text(answer.status)}"
    if answer.status in (404, 410):
        raise NotThereError(f"{text}: the file in the catalogue does not exist")
    raise CatalogueError(text)


def _check_total(file: RemoteFile, location: str, total: int | None) -> None:
    if total is None:
        return
    if file.packed_size is not None and total != file.packed_size:
        raise CatalogueError(
            f"{public_url(location)}: has {total} bytes, the catalogue says {file.packed_size}; refused"
        )
    if total > file.most_sent:
        raise CatalogueError(
            f"{public_url(location)}: has {total} bytes, more than {file.most_sent}; refused"
        )


def _receive(
    web: HttpClient, answer: Response, file: RemoteFile, part: Part, begin: int, seen: Callable[[int], None]
) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | NO_FOLLOW | BINARY
    now = begin
    with os.fdopen(os.open(part.path, flags, 0o644), "wb") as target:
        for chunk in answer.chunks():
            now += len(chunk)
            if now > file.most_sent:
                part.drop()
                raise CatalogueError(
                    f"{public_url(answer.url)}: sends more than the {file.most_sent} bytes "
                    "that it may have; stopped"
                )
            target.write(chunk)
            seen(now)
            if web.stopped.is_set():
                raise BrokenTransferError(f"{public_url(answer.url)}: stopped")


def _verify(file: RemoteFile, path: Path, location: str) -> None:
    """Compare the received file with the size and hash that the catalogue states."""
    size = path.stat().st_size
    if file.packed_size is not None and size != file.packed_size:
        raise CatalogueError(
            f"{public_url(location)}: {size} bytes, the catalogue says {file.packed_size}; refused"
        )
    if size > file.most_sent:
        raise CatalogueError(f"{public_url(location)}: {size} bytes, more than {file.most_sent}; refused")
    if file.packed_sha256 is None:
        return
    digest = hashlib.sha256()
    with path.open("rb") as sent:
        while block := sent.read(CHUNK << 4):
            digest.update(block)
    if digest.hexdigest() != file.packed_sha256:
        raise CatalogueError(
            f"{public_url(location)}: its SHA-256 is {digest.hexdigest()}, the catalogue says "
            f"{file.packed_sha256}; refused"
        )


def _is_header(value: str) -> bool:
    """Return True if a value is safe to send as a header."""
    return value.isascii() and value.isprintable() and len(value) <= 200
