"""Zip files from strangers: ``.npz``, Argos packages and ``pytorch_model.bin`` are such."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO

from uwaga.errors import ModelError, reason, shown
from uwaga.files.regular import open_regular
from uwaga.files.zip_directory import DAMAGE, ZipRules, bounded_zip, sound_members

MOST_MEMBERS = 10_000
LARGEST_DIRECTORY = 1 << 21
"""Bytes of the list of members."""
DENSEST = 200
"""Bytes out of one byte in; weights give less than 10."""
SLACK = 4096
CHUNK = 1 << 20
UTF8 = 1 << 11


class Archive:
    """An open zip file all of whose members have been looked at.

    Attributes:
        path: the file.
        members: what is in it, by name; folders are left out.
    """

    def __init__(self, path: Path, file: zipfile.ZipFile, size: int) -> None:
        self.path, self._file = path, file
        self.members: Mapping[str, zipfile.ZipInfo] = MappingProxyType(
            sound_members(path, file.infolist(), size, RULES)
        )

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
            with bounded_zip(plain, LARGEST_DIRECTORY) as file:
                yield Archive(path, file, size)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror or error}") from None
    except DAMAGE as error:
        raise ModelError(f"{path}: damaged or not {what} ({reason(error)}); fetch it again") from None


def _wrong_name(member: zipfile.ZipInfo) -> str:
    name = member.filename
    if member.orig_filename != name or not (member.flag_bits & UTF8 or name.isascii()):
        return "is not a name in UTF-8; refused"
    return ""


RULES = ZipRules(
    error=ModelError,
    most_members=MOST_MEMBERS,
    largest_total=None,
    densest=DENSEST,
    slack=SLACK,
    folders=False,
    wrong_name=_wrong_name,
    too_many="not a model that is read here",
    locked="refused",
    packed="only stored and deflated members are read: fetch it again, or pack it again with a usual zip",
)
