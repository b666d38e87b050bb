"""Untrusted zip archives: their directory is checked before anything is unpacked, and members are bounded.

Model files (``.npz``, ``pytorch_model.bin``, Argos packages) and documents (``.docx``, ``.epub``, ``.odt``)
are zip archives. Only stored and deflated members are read: a few hundred bytes of bzip2 or LZMA can expand
to gigabytes that their libraries unpack at once. :mod:`zipfile` returns no more bytes of a member than the
directory states, inflates them in blocks and verifies the checksum; this module bounds what the directory may
state.
"""

from __future__ import annotations

import contextlib
import copy
import io
import stat
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, BinaryIO

from uwaga.errors import ModelError, UwagaError, reason, shown
from uwaga.files.regular import open_regular

CHUNK = 1 << 20
UTF8 = 1 << 11
"""The flag of a member whose name is stored in UTF-8."""
ENCRYPTED = 1
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ZipMember = zipfile.ZipInfo
"""A member as the directory describes it."""
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, EOFError, ValueError, TypeError, LookupError),
    *(NotImplementedError, RuntimeError, OverflowError),
)
"""The exceptions of :mod:`zipfile` for damaged archives."""


@dataclass(frozen=True)
class ZipRules:
    """The bounds of one kind of archive, and the wording of its errors.

    Attributes:
        error: the class of the errors.
        max_members: members in an archive.
        max_directory: bytes of the directory.
        max_total: bytes of all members, unpacked; ``None`` for no bound.
        max_member: bytes of a member that is read whole; ``None`` for no bound.
        max_ratio: unpacked bytes for each packed byte.
        slack: unpacked bytes that a member may have beyond ``max_ratio``.
        folders: whether folders are listed among the members.
        problem: returns why a member is refused, or an empty string.
        too_many: ends the message about too many members.
        locked: ends the message about a link or an encrypted member.
        packed: ends the message about another compression method.
        too_large: ends the message about a member that is too large to read.
    """

    error: type[UwagaError]
    max_members: int
    max_directory: int
    max_total: int | None
    max_member: int | None
    max_ratio: int
    slack: int
    folders: bool
    problem: Callable[[ZipMember], str]
    too_many: str
    locked: str
    packed: str
    too_large: str = "refused"


class Archive:
    """An open archive whose directory has been checked.

    Attributes:
        path: the file.
        members: the members by name, in the order of the directory.
        comment: the comment of the archive.
    """

    def __init__(self, path: Path, file: zipfile.ZipFile, size: int, rules: ZipRules) -> None:
        self.path, self._file, self._rules = path, file, rules
        self.comment = file.comment
        self.members: Mapping[str, ZipMember] = MappingProxyType(
            _checked_members(path, file.infolist(), size, rules)
        )

    def __contains__(self, name: str) -> bool:
        return name in self.members

    @property
    def names(self) -> list[str]:
        """The names of all members that are not folders."""
        return [name for name, member in self.members.items() if not member.is_dir()]

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        """Open a member as a stream; its checksum is verified when all of it has been read."""
        try:
            try:
                stream = self._file.open(self.members[name])
            except OSError as error:  # the directory points outside the file
                raise zipfile.BadZipFile(str(error)) from None
            with stream:
                yield stream
        except DAMAGE as error:
            raise self._rules.error(
                f"{self.path}: {shown(name)} is damaged ({reason(error)}); fetch or save the file again"
            ) from None

    def read(self, name: str, most: int | None = None) -> bytes:
        """Return all bytes of a member.

        Args:
            name: the name of the member.
            most: bytes that it may have; by default those of the rules.
        """
        if name not in self.members:
            raise self._rules.error(f"{self.path}: lacks {shown(name)}, so it is incomplete")
        if (bound := self._rules.max_member if most is None else most) is not None:
            self.check_size(name, bound)
        with self.open(name) as stream:
            return stream.read()

    def check_size(self, name: str, most: int) -> None:
        """Refuse a member of more than ``most`` bytes."""
        size = self.members[name].file_size
        if size > most:
            raise self._rules.error(
                f"{self.path}: {shown(name)} has {size} bytes, more than {most}; {self._rules.too_large}"
            )

    def check_sums(self, *names: str) -> None:
        """Read members, by default all of them, and verify their checksums."""
        for name in names or self.members:
            with self.open(name) as stream:
                while stream.read(CHUNK):
                    pass


@contextmanager
def open_zip(path: Path, rules: ZipRules) -> Iterator[Archive]:
    """Open an archive for reading and check its directory."""
    with open_regular(path) as plain:
        size = plain.seek(0, io.SEEK_END)
        directory = _BoundedFile(plain, rules.max_directory)
        with zipfile.ZipFile(directory) as file:
            directory.most = None
            yield Archive(path, file, size, rules)


@contextmanager
def open_archive(path: Path, what: str) -> Iterator[Archive]:
    """Open a model file; damage that shows while the block parses its members is reported, too.

    Args:
        path: the file.
        what: a noun phrase for messages, such as "a .npz file".
    """
    try:
        with open_zip(path, MODEL_FILES) as archive:
            yield archive
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
    except DAMAGE as error:
        raise ModelError(f"{path}: damaged or not {what} ({reason(error)}); fetch it again") from None


def is_zip(path: Path) -> bool:
    """Return whether a file is a zip archive, judged by its end."""
    return zipfile.is_zipfile(path)


class ArchiveWriter:
    """Writes a new archive with the members of another one.

    Args:
        file: where the archive is written.
        comment: the comment of the archive.
    """

    def __init__(self, file: IO[bytes], comment: bytes) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
        self._zip.comment = comment

    @contextmanager
    def member(self, old: ZipMember) -> Iterator[IO[bytes]]:
        """Open a stream for the content of a member that has the name, date and attributes of ``old``."""
        fresh = copy.copy(old)
        fresh.extra = _without_zip64(old.extra)
        fresh.flag_bits &= UTF8
        with self._zip.open(fresh, "w", force_zip64=old.file_size > 1 << 30) as stream:
            yield stream

    def copy(self, archive: Archive, name: str) -> None:
        """Copy a member unchanged."""
        with archive.open(name) as old, self.member(archive.members[name]) as new:
            while block := old.read(CHUNK):
                new.write(block)

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write the directory. After an error the archive is discarded, so a second error is ignored."""
        with contextlib.suppress(*(() if kind is None else (OSError, *DAMAGE))):
            self._zip.close()


def _checked_members(
    path: Path, members: list[ZipMember], size: int, rules: ZipRules
) -> dict[str, ZipMember]:
    """Return the members by name after checking each against the rules; ``size`` is that of the file."""
    if len(members) > rules.max_members:
        raise rules.error(f"{path}: holds {len(members)} members, {rules.too_many}")
    if sum(member.compress_size for member in members) > size:
        raise rules.error(f"{path}: its members overlap; refused")
    most = rules.max_total
    if most is not None and sum(member.file_size for member in members) > most:
        raise rules.error(f"{path}: would unpack to more than {most >> 30} GiB; refused")
    checked: dict[str, ZipMember] = {}
    for member in members:
        name = member.filename
        if name in checked:
            raise rules.error(f"{path}: holds {shown(name)} twice; refused")
        if problem := rules.problem(member) or _member_problem(member, rules):
            raise rules.error(f"{path}: {shown(name)} {problem}")
        checked[name] = member
    return {name: member for name, member in checked.items() if rules.folders or not member.is_dir()}


def _member_problem(member: ZipMember, rules: ZipRules) -> str:
    if member.flag_bits & ENCRYPTED or stat.S_ISLNK(member.external_attr >> 16):
        return f"is a link or encrypted; {rules.locked}"
    if member.compress_type not in METHODS:
        return f"is compressed by method {member.compress_type}; {rules.packed}"
    if member.file_size > rules.max_ratio * member.compress_size + rules.slack:
        return f"would unpack from {member.compress_size} to {member.file_size} bytes; refused"
    return ""


def _without_zip64(extra: bytes) -> bytes:
    """Drop the ZIP64 field, which holds the old size, from a member's extra fields."""
    kept, at = b"", 0
    while at + 4 <= len(extra):
        end = at + 4 + int.from_bytes(extra[at + 2 : at + 4], "little")
        if extra[at : at + 2] != b"\x01\x00":
            kept += extra[at:end]
        at = end
    return kept


class _BoundedFile(io.BufferedIOBase):
    """A file that refuses reads of more than ``most`` bytes: :mod:`zipfile` reads the directory at once."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file = file
        self.most: int | None = most

    def read(self, size: int | None = -1, /) -> bytes:
        count = -1 if size is None else size
        if self.most is not None and count > self.most:
            raise zipfile.BadZipFile(f"a directory of {count} bytes")
        return self._file.read(count)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


def _model_name_problem(member: ZipMember) -> str:
    name = member.filename
    if member.orig_filename != name or not (member.flag_bits & UTF8 or name.isascii()):
        return "is not a name in UTF-8; refused"
    return ""


MODEL_FILES = ZipRules(
    error=ModelError,
    max_members=10_000,
    max_directory=1 << 21,
    max_total=None,
    max_member=None,
    max_ratio=200,  # weights compress less than tenfold
    slack=4096,
    folders=False,
    problem=_model_name_problem,
    too_many="not a supported model file",
    locked="refused",
    packed="only stored and deflated members are read: fetch it again, or repack it with a common zip tool",
)
"""Model files from any source."""
