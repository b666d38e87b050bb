"""Zip files from strangers: ``.npz``, Argos packages and ``pytorch_model.bin`` are such.

Stored and deflated members alone are read: a few hundred bytes of bzip2 or LZMA stand for gigabytes that
their libraries unpack at once. zipfile gives out no more bytes of a member than the directory states,
inflates them piece by piece and holds their sum against the member's; what is stated is bounded here.
"""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO, BinaryIO

from uwaga.errors import ModelError, reason, shown
from uwaga.text.regular_file import open_regular

MOST_MEMBERS = 10_000
LARGEST_DIRECTORY = 1 << 21
"""Bytes of the list of members."""
DENSEST = 200
"""Bytes out of one byte in; weights give less than 10."""
SLACK = 4096
CHUNK = 1 << 20
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
UTF8, ENCRYPTED = 1 << 11, 1
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, EOFError, ValueError, TypeError, LookupError),
    *(NotImplementedError, RuntimeError, OverflowError),
)
"""What zipfile raises of files that are none."""


class Archive:
    """An open zip file all of whose members have been looked at.

    Attributes:
        path: the file.
        members: what is in it, by name; folders are left out.
    """

    def __init__(self, path: Path, file: zipfile.ZipFile, size: int) -> None:
        self.path, self._file = path, file
        self.members: Mapping[str, zipfile.ZipInfo] = MappingProxyType(_checked(path, file.infolist(), size))

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """A member's bytes, unpacked piece by piece and held against their sum when all have been read."""
        with self._file.open(self.members[name]) as stream:
            yield stream

    def read(self, name: str, most: int) -> bytes:
        """All bytes of a member.

        Raises:
            ModelError: it has more than ``most``.
        """
        self.bound(name, most)
        with self.open(name) as stream:
            return stream.read()

    def bound(self, name: str, most: int) -> None:
        """Refuse a member of more than ``most`` bytes.

        Raises:
            ModelError: it has more.
        """
        size = self.members[name].file_size
        if size > most:
            raise ModelError(f"{self.path}: {shown(name)} has {size} bytes, more than {most}; refused")

    def check_sums(self) -> None:
        """Read everything once and hold it against the sums that are stored with it."""
        for name in self.members:
            with self.open(name) as stream:
                while stream.read(CHUNK):
                    pass


@contextmanager
def open_archive(path: Path, what: str) -> Iterator[Archive]:
    """Open a zip file; also what is done with it is held against damage.

    Args:
        path: the file.
        what: what it should be, for messages.

    Raises:
        ModelError: missing, damaged, packed in a way that is not read here, or it would unpack to far more
            than such files hold.
    """
    try:
        with open_regular(path) as plain:
            size = plain.seek(0, io.SEEK_END)
            directory = _Directory(plain)
            with zipfile.ZipFile(directory) as file:
                directory.bounded = False
                yield Archive(path, file, size)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
    except DAMAGE as error:
        raise ModelError(f"{path}: damaged or not {what} ({reason(error)}); fetch it again") from None


class _Directory(io.BufferedIOBase):
    """A file whose list of members, which zipfile reads at once, must not fill the memory."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.bounded = True

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = -1 if size is None else size
        if self.bounded and wanted > LARGEST_DIRECTORY:
            raise zipfile.BadZipFile(f"a list of members of {wanted} bytes")
        return self._file.read(wanted)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


def _checked(path: Path, members: list[zipfile.ZipInfo], size: int) -> dict[str, zipfile.ZipInfo]:
    """The members by name, each of them sound as far as the directory says."""
    if len(members) > MOST_MEMBERS:
        raise ModelError(f"{path}: holds {len(members)} members, not a model that is read here")
    if sum(member.compress_size for member in members) > size:
        raise ModelError(f"{path}: its members overlap; refused")
    found: dict[str, zipfile.ZipInfo] = {}
    for member in members:
        name = member.filename
        if member.orig_filename != name or not (member.flag_bits & UTF8 or name.isascii()):
            raise ModelError(f"{path}: {shown(name)} is not a name in UTF-8; refused")
        if name in found:
            raise ModelError(f"{path}: holds {shown(name)} twice; refused")
        if member.flag_bits & ENCRYPTED or stat.S_ISLNK(member.external_attr >> 16):
            raise ModelError(f"{path}: {shown(name)} is a link or encrypted; refused")
        if member.compress_type not in PACKED:
            raise ModelError(
                f"{path}: {shown(name)} is packed by method {member.compress_type}; only stored and deflated "
                "members are read: fetch it again, or pack it again with a usual zip"
            )
        if member.file_size > DENSEST * member.compress_size + SLACK:
            raise ModelError(
                f"{path}: {shown(name)} would unpack from {member.compress_size} to {member.file_size} "
                "bytes; refused"
            )
        if not member.is_dir():
            found[name] = member
    return found
