"""Reading untrusted zip archives: the directory is checked before anything is decompressed.

Model files (``.npz``, ``pytorch_model.bin``, Argos packages) and documents (``.docx``, ``.epub``, ``.odt``)
are zip archives. Only stored and deflated members are read, because a few hundred bytes of bzip2 or LZMA can
expand to gigabytes, which their libraries decompress at once. :mod:`zipfile` returns no more bytes of a
member than the directory states, inflates them in blocks and verifies the checksum. This module limits the
sizes that the directory may state.
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

from uwaga.errors import ModelError, UwagaError, quoted, reason
from uwaga.files.regular import open_regular

CHUNK = 1 << 20
UTF8_FLAG = 1 << 11
"""The flag of a member whose name is stored in UTF-8."""
ENCRYPTED_FLAG = 1
COMPRESSION_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
ZipMember = zipfile.ZipInfo
"""A member as described in the directory."""
DAMAGE_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, EOFError, ValueError, TypeError, LookupError),
    *(NotImplementedError, RuntimeError, OverflowError),
)
"""The exceptions of :mod:`zipfile` for damaged archives."""


@dataclass(frozen=True)
class ZipRules:
    """The limits for one kind of archive, and parts of its error messages.

    Attributes:
        error: the class of the errors.
        max_members: maximum number of members.
        max_directory: maximum bytes of the directory.
        max_total: maximum uncompressed bytes of all members; ``None`` for no limit.
        max_member: maximum bytes of a member that is read at once; ``None`` for no limit.
        max_ratio: maximum uncompressed bytes per compressed byte.
        slack: uncompressed bytes of a member allowed beyond ``max_ratio``.
        folders: whether folders are included in the members.
        problem: function that returns the reason to reject a member, or an empty string.
        too_many_ending: end of the message about too many members.
        locked_ending: end of the message about a link or an encrypted member.
        compression_ending: end of the message about an unsupported compression method.
        too_large_ending: end of the message about a member that is too large to read.
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
    too_many_ending: str
    locked_ending: str
    compression_ending: str
    too_large_ending: str = "the archive is refused"


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
        """Open a member as a stream; its checksum is verified at its end."""
        try:
            try:
                stream = self._file.open(self.members[name])
            except OSError as error:  # the directory points outside the file
                raise zipfile.BadZipFile(str(error)) from None
            with stream:
                yield stream
        except DAMAGE_ERRORS as error:
            raise self._rules.error(
                f"{self.path}: {quoted(name)} is damaged ({reason(error)}); fetch or save the file again"
            ) from None

    def read(self, name: str, max_bytes: int | None = None) -> bytes:
        """Return the content of a member.

        Args:
            name: the name of the member.
            max_bytes: maximum number of bytes; by default, the maximum in the rules.
        """
        if name not in self.members:
            raise self._rules.error(f"{self.path}: the archive is incomplete: it lacks {quoted(name)}")
        if (limit := self._rules.max_member if max_bytes is None else max_bytes) is not None:
            self.check_size(name, limit)
        with self.open(name) as stream:
            return stream.read()

    def check_size(self, name: str, max_bytes: int) -> None:
        """Check that a member has at most ``max_bytes`` bytes."""
        size = self.members[name].file_size
        if size > max_bytes:
            raise self._rules.error(
                f"{self.path}: {quoted(name)} has {size} bytes, more than {max_bytes}; "
                f"{self._rules.too_large_ending}"
            )

    def verify_checksums(self, *names: str) -> None:
        """Verify the checksums of the named members, or of all members if none are named."""
        for name in names or self.members:
            with self.open(name) as stream:
                while stream.read(CHUNK):
                    pass


@contextmanager
def open_zip(path: Path, rules: ZipRules) -> Iterator[Archive]:
    """Open an archive for reading and check its directory."""
    with open_regular(path) as plain_file:
        size = plain_file.seek(0, io.SEEK_END)
        directory = _BoundedFile(plain_file, rules.max_directory)
        with zipfile.ZipFile(directory) as file:
            directory.max_bytes = None
            yield Archive(path, file, size, rules)


@contextmanager
def open_archive(path: Path, kind: str) -> Iterator[Archive]:
    """Open a model file, and report damage as ModelError, even if it is found when the block parses members.

    Args:
        path: the file.
        kind: a noun phrase for messages, such as "a .npz file".
    """
    try:
        with open_zip(path, MODEL_FILES) as archive:
            yield archive
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
    except DAMAGE_ERRORS as error:
        raise ModelError(f"{path}: damaged or not {kind} ({reason(error)}); fetch it again") from None


def is_zip(path: Path) -> bool:
    """Return whether a file ends with the directory of a zip archive."""
    return zipfile.is_zipfile(path)


class ArchiveWriter:
    """A writer of a new archive, whose members take names and attributes from members of another archive.

    Args:
        file: the file to write.
        comment: the comment of the archive.
    """

    def __init__(self, file: IO[bytes], comment: bytes) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED)
        self._zip.comment = comment

    @contextmanager
    def member(self, old_member: ZipMember) -> Iterator[IO[bytes]]:
        """Open a stream for the content of a member with the name, date and attributes of ``old_member``."""
        new_member = copy.copy(old_member)
        new_member.extra = _without_zip64(old_member.extra)
        new_member.flag_bits &= UTF8_FLAG
        with self._zip.open(new_member, "w", force_zip64=old_member.file_size > 1 << 30) as stream:
            yield stream

    def copy(self, archive: Archive, name: str) -> None:
        """Copy a member unchanged."""
        with archive.open(name) as old_file, self.member(archive.members[name]) as new_file:
            while block := old_file.read(CHUNK):
                new_file.write(block)

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write the directory. After an error the archive is discarded, so further errors are ignored."""
        with contextlib.suppress(*(() if kind is None else (OSError, *DAMAGE_ERRORS))):
            self._zip.close()


def _checked_members(
    path: Path, members: list[ZipMember], size: int, rules: ZipRules
) -> dict[str, ZipMember]:
    """Check the members against the rules and return them by name; ``size`` is the size of the file."""
    if len(members) > rules.max_members:
        raise rules.error(f"{path}: the archive holds {len(members)} members, {rules.too_many_ending}")
    if sum(member.compress_size for member in members) > size:
        raise rules.error(f"{path}: members of the archive overlap; the archive is refused")
    max_total = rules.max_total
    if max_total is not None and sum(member.file_size for member in members) > max_total:
        raise rules.error(
            f"{path}: the archive would unpack to more than {max_total >> 30} GiB; it is refused"
        )
    members_by_name: dict[str, ZipMember] = {}
    for member in members:
        name = member.filename
        if name in members_by_name:
            raise rules.error(f"{path}: the archive holds {quoted(name)} twice; it is refused")
        if problem := rules.problem(member) or _member_problem(member, rules):
            raise rules.error(f"{path}: {quoted(name)} {problem}")
        members_by_name[name] = member
    return {name: member for name, member in members_by_name.items() if rules.folders or not member.is_dir()}


def _member_problem(member: ZipMember, rules: ZipRules) -> str:
    if member.flag_bits & ENCRYPTED_FLAG or stat.S_ISLNK(member.external_attr >> 16):
        return f"is a link or encrypted; {rules.locked_ending}"
    if member.compress_type not in COMPRESSION_METHODS:
        return f"is compressed by method {member.compress_type}; {rules.compression_ending}"
    if member.file_size > rules.max_ratio * member.compress_size + rules.slack:
        return f"would unpack from {member.compress_size} to {member.file_size} bytes; the archive is refused"
    return ""


def _without_zip64(extra: bytes) -> bytes:
    """Return the extra fields of a member without the ZIP64 field, which contains the old size."""
    fields, position = b"", 0
    while position + 4 <= len(extra):
        end = position + 4 + int.from_bytes(extra[position + 2 : position + 4], "little")
        if extra[position : position + 2] != b"\x01\x00":
            fields += extra[position:end]
        position = end
    return fields


class _BoundedFile(io.BufferedIOBase):
    """A file that limits the size of a read, because :mod:`zipfile` reads the directory in one call."""

    def __init__(self, file: BinaryIO, max_bytes: int) -> None:
        self._file = file
        self.max_bytes: int | None = max_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        count = -1 if size is None else size
        if self.max_bytes is not None and count > self.max_bytes:
            raise zipfile.BadZipFile(f"a directory of {count} bytes is too large")
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
    if member.orig_filename != name or not (member.flag_bits & UTF8_FLAG or name.isascii()):
        return "is not a name in UTF-8; the archive is refused"
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
    too_many_ending="too many for a supported model file",
    locked_ending="the archive is refused",
    compression_ending="only stored and deflated members are read: fetch it again, or repack it with a "
    "common zip tool",
)
"""The rules for model files, from any source."""
