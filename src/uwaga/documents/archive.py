"""Documents that are zip archives from strangers: read within bounds, written with all else as it was."""

from __future__ import annotations

import contextlib
import copy
import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from uwaga.errors import DataError, reason, shown
from uwaga.files.regular import open_regular
from uwaga.files.zip_directory import DAMAGE, ZipRules, bounded_zip, sound_members

MOST_MEMBERS = 20_000
LARGEST_DIRECTORY = 1 << 23
"""Bytes of the list of members."""
LARGEST_MEMBER = 1 << 28
"""Bytes of a member that holds text."""
LARGEST_TOTAL = 1 << 32
"""Bytes of all members, unpacked."""
DENSEST, SLACK = 1000, 1 << 20
"""Bytes out of one byte in, beyond the first MiB; a sheet of equal cells gives about 200."""
CHUNK = 1 << 20


class DocumentArchive:
    """An open archive, all of whose members have been looked at.

    Attributes:
        path: the file.
        members: in the order of the archive, folders too.
    """

    def __init__(self, path: Path, file: zipfile.ZipFile, size: int) -> None:
        self.path, self._file = path, file
        self.members = file.infolist()
        self.comment = file.comment
        self._names = sound_members(path, self.members, size, RULES)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    @property
    def names(self) -> list[str]:
        """The names of all members that are no folders."""
        return [info.filename for info in self.members if not info.is_dir()]

    def read(self, name: str) -> bytes:
        """All bytes of a member that holds text.

        Raises:
            DataError: there is none, it is damaged, or larger than any text.
        """
        if name not in self._names:
            raise DataError(f"{self.path}: lacks {shown(name)}, so it is no whole document of its format")
        info = self._names[name]
        if info.file_size > LARGEST_MEMBER:
            raise DataError(f"{self.path}: {shown(name)} has {info.file_size} bytes; refused")
        with self.open(info) as stream:
            return stream.read()

    def check(self, info: zipfile.ZipInfo) -> None:
        """Read a member once and hold it against its sum.

        Raises:
            DataError: it is damaged.
        """
        with self.open(info) as stream:
            while stream.read(CHUNK):
                pass

    def _opened(self, info: zipfile.ZipInfo) -> IO[bytes]:
        try:
            return self._file.open(info)
        except OSError as error:  # its place is none in the file
            raise zipfile.BadZipFile(str(error)) from None

    @contextmanager
    def open(self, info: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
        """A member's bytes, held against their sum when all have been read.

        Raises:
            DataError: it is damaged.
        """
        try:
            with self._opened(info) as stream:
                yield stream
        except DAMAGE as error:
            raise DataError(f"{self.path}: {shown(info.filename)} is damaged ({reason(error)})") from None


@contextmanager
def open_document(path: Path) -> Iterator[DocumentArchive]:
    """Open an archive to read.

    Raises:
        DataError: missing, no zip file, damaged, or one that would unpack without bound.
    """
    try:
        plain = open_regular(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
    with plain:
        size = plain.seek(0, io.SEEK_END)
        try:
            file = bounded_zip(plain, LARGEST_DIRECTORY)
        except (OSError, *DAMAGE) as error:
            raise DataError(
                f"{path}: no whole archive, which such documents are ({reason(error)}); is the file cut "
                "short, encrypted, or of another format?"
            ) from None
        with file:
            yield DocumentArchive(path, file, size)


class ArchiveWriter:
    """A new archive of the same members, written one after the other."""

    def __init__(self, file: IO[bytes], comment: bytes) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
        self._zip.comment = comment

    @contextmanager
    def member(self, info: zipfile.ZipInfo) -> Iterator[IO[bytes]]:
        """A stream for the content of a member that is described as the old one."""
        fresh = copy.copy(info)
        fresh.extra = _kept_extra(info.extra)
        fresh.flag_bits &= 1 << 11
        with self._zip.open(fresh, "w", force_zip64=info.file_size > 1 << 30) as stream:
            yield stream

    def copy(self, archive: DocumentArchive, info: zipfile.ZipInfo) -> None:
        """Write a member again as it is."""
        with archive.open(info) as old, self.member(info) as new:
            while block := old.read(CHUNK):
                new.write(block)

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write the list of members; after an error nobody reads it any more."""
        with contextlib.suppress(*(() if kind is None else (OSError, *DAMAGE))):
            self._zip.close()


def _kept_extra(extra: bytes) -> bytes:
    """A member's extra fields without that of its size, which is written anew."""
    kept, at = b"", 0
    while at + 4 <= len(extra):
        end = at + 4 + int.from_bytes(extra[at + 2 : at + 4], "little")
        if extra[at : at + 2] != b"\x01\x00":
            kept += extra[at:end]
        at = end
    return kept


def _wrong_name(member: zipfile.ZipInfo) -> str:
    name = member.filename
    parts = name.replace("\\", "/").split("/")
    if member.orig_filename != name or ".." in parts or name.startswith(("/", "\\")) or ":" in parts[0]:
        return "is no name inside a document; refused"
    return ""


RULES = ZipRules(
    error=DataError,
    most_members=MOST_MEMBERS,
    largest_total=LARGEST_TOTAL,
    densest=DENSEST,
    slack=SLACK,
    folders=True,
    wrong_name=_wrong_name,
    too_many="more than a document; refused",
    locked="take the password off the document",
    packed="refused",
)
