"""A sent file unpacked: never to more bytes than are stated, its size and SHA-256 verified."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zlib
from pathlib import Path
from typing import IO, Any, cast

from uwaga.errors import CatalogueError, MissingExtraError
from uwaga.library.entry import RemoteFile

CHUNK = 1 << 20
LARGEST_WINDOW = 1 << 27
"""Bytes that a zstd frame may ask to be kept in memory."""
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
PACKINGS = {".gz": "gzip", ".zst": "zstd"}


def packing_of(path: str) -> tuple[str, str]:
    """A file's name without the end that says how it is packed, and how."""
    name = path.rpartition("/")[2]
    for suffix, packing in PACKINGS.items():
        if name.lower().endswith(suffix):
            return name[: -len(suffix)], packing
    return name, ""


def need_unpacker(packing: str) -> None:
    """Look that a packing can be read here, before anything is fetched.

    Raises:
        MissingExtraError: it cannot.
    """
    if packing == "zstd":
        _zstandard()


def unpack(sent: Path, target: Path, file: RemoteFile) -> tuple[int, str]:
    """Write a file unpacked and synced; gives its bytes and its SHA-256.

    A server may unpack gzip on the way: what does not begin as gzip does is taken as it is.

    Args:
        sent: as it was sent.
        target: does not exist yet.
        file: what the catalogue says of it.

    Raises:
        CatalogueError: it is cut short, damaged, larger than it may be, or not the file that the catalogue
            says.
        OSError: it cannot be written.
    """
    size, digest = 0, hashlib.sha256()
    with sent.open("rb") as packed, target.open("xb") as out:
        first = packed.read(4)
        packed.seek(0)
        source, broken = _opened(packed, first, file)
        while True:
            try:
                block = source.read(min(CHUNK, file.most - size + 1))
            except broken as error:
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


def _opened(
    packed: io.BufferedReader, first: bytes, file: RemoteFile
) -> tuple[IO[bytes], tuple[type[Exception], ...]]:
    """A reader that never gives more bytes than are asked for, and what it raises of damage."""
    if file.packing == "gzip" and first.startswith(GZIP):
        return cast(IO[bytes], gzip.GzipFile(fileobj=packed)), (OSError, EOFError, zlib.error)
    if file.packing == "zstd" and first.startswith(ZSTD):
        library = _zstandard()
        reader = library.ZstdDecompressor(max_window_size=LARGEST_WINDOW).stream_reader(packed)
        return reader, (library.ZstdError,)
    return packed, (OSError,)


def _zstandard() -> Any:
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError(
            "models of this source are packed with zstd, which needs zstandard: pip install 'uwaga[zstd]'"
        ) from None
    return zstandard
