"""Documents that are untrusted zip archives, opened within bounds."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from uwaga.errors import DataError, reason
from uwaga.files.zip import DAMAGE, Archive, ZipMember, ZipRules, open_zip


@contextmanager
def open_document(path: Path) -> Iterator[Archive]:
    """Open a document for reading.

    Raises:
        DataError: the file is missing or damaged, is not a zip archive, or would unpack beyond the bounds.
    """
    with contextlib.ExitStack() as stack:
        try:
            archive = stack.enter_context(open_zip(path, DOCUMENTS))
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
        except DAMAGE as error:
            raise DataError(
                f"{path}: not a complete zip archive ({reason(error)}); is the file truncated, encrypted "
                "or of another format?"
            ) from None
        yield archive


def _name_problem(member: ZipMember) -> str:
    name = member.filename
    parts = name.replace("\\", "/").split("/")
    if member.orig_filename != name or ".." in parts or name.startswith(("/", "\\")) or ":" in parts[0]:
        return "is not a valid member name; refused"
    return ""


DOCUMENTS = ZipRules(
    error=DataError,
    max_members=20_000,
    max_directory=1 << 23,
    max_total=1 << 32,
    max_member=1 << 28,  # of text
    max_ratio=1000,  # a spreadsheet of equal cells reaches about 200
    slack=1 << 20,
    folders=True,
    name_problem=_name_problem,
    too_many="more than a document has; refused",
    locked="take the password off the document",
    packed="refused",
)
"""Office documents and e-books from any source."""
