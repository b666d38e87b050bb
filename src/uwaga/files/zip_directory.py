"""Zip files from strangers: what their list of members says is bounded before anything is unpacked.

Stored and deflated members alone are read: a few hundred bytes of bzip2 or LZMA stand for gigabytes that
their libraries unpack at once. zipfile gives out no more bytes of a member than the directory states,
inflates them piece by piece and holds their sum against the member's; what is stated is bounded here.
"""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from uwaga.errors import UwagaError, shown

PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ENCRYPTED = 1
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, EOFError, ValueError, TypeError, LookupError),
    *(NotImplementedError, RuntimeError, OverflowError),
)
"""What zipfile raises of files that are none."""


@dataclass(frozen=True)
class ZipRules:
    """What the zip files of one use may be, and how the errors about others end.

    Attributes:
        error: raised for a file that breaks a rule.
        most_members: of a file.
        largest_total: bytes of all members, unpacked; ``None`` is without bound.
        densest: bytes out of one byte in.
        slack: bytes that a member may have beyond ``densest``.
        folders: whether folders are members too.
        wrong_name: why a member's name is none, or nothing where it is one.
        too_many: the end of the message about too many members.
        locked: the same about a link or an encrypted member.
        packed: the same about another method of packing.
    """

    error: type[UwagaError]
    most_members: int
    largest_total: int | None
    densest: int
    slack: int
    folders: bool
    wrong_name: Callable[[zipfile.ZipInfo], str]
    too_many: str
    locked: str
    packed: str


def bounded_zip(file: BinaryIO, largest_directory: int) -> zipfile.ZipFile:
    """Open a zip file of whose list of members at most so many bytes are read.

    Raises:
        OSError: it cannot be read.
        zipfile.BadZipFile: damaged, or its list is larger; another of ``DAMAGE`` where the list is nonsense.
    """
    directory = _BoundedFile(file, largest_directory)
    opened = zipfile.ZipFile(directory)
    directory.most = None
    return opened


def sound_members(
    path: Path, members: list[zipfile.ZipInfo], size: int, rules: ZipRules
) -> dict[str, zipfile.ZipInfo]:
    """The members by name, each of them sound as far as the directory says.

    Args:
        path: of the file, for messages.
        members: as the directory has them.
        size: bytes of the file.
        rules: what it may be.

    Raises:
        UwagaError: of the kind of the rules: one of them is broken; names file and member.
    """
    if len(members) > rules.most_members:
        raise rules.error(f"{path}: holds {len(members)} members, {rules.too_many}")
    if sum(member.compress_size for member in members) > size:
        raise rules.error(f"{path}: its members overlap; refused")
    most = rules.largest_total
    if most is not None and sum(member.file_size for member in members) > most:
        raise rules.error(f"{path}: would unpack to more than {most >> 30} GiB; refused")
    found: dict[str, zipfile.ZipInfo] = {}
    for member in members:
        name = member.filename
        if name in found:
            raise rules.error(f"{path}: holds {shown(name)} twice; refused")
        wrong = rules.wrong_name(member) or _wrong(member, rules)
        if wrong:
            raise rules.error(f"{path}: {shown(name)} {wrong}")
        if rules.folders or not member.is_dir():
            found[name] = member
    return found


def _wrong(member: zipfile.ZipInfo, rules: ZipRules) -> str:
    if member.flag_bits & ENCRYPTED or stat.S_ISLNK(member.external_attr >> 16):
        return f"is a link or encrypted; {rules.locked}"
    if member.compress_type not in PACKED:
        return f"is packed by method {member.compress_type}; {rules.packed}"
    if member.file_size > rules.densest * member.compress_size + rules.slack:
        return f"would unpack from {member.compress_size} to {member.file_size} bytes; refused"
    return ""


class _BoundedFile(io.BufferedIOBase):
    """A file whose list of members, which zipfile reads at once, must not fill the memory."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file = file
        self.most: int | None = most

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = -1 if size is None else size
        if self.most is not None and wanted > self.most:
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
