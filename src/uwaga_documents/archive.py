"""Documents in untrusted zip archives, opened with limits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from uwaga.errors import DamagedFileError, DataError, reason
from uwaga.files.zip import DAMAGE_ERRORS, Archive, ZipMember, ZipRules, open_zip
from uwaga_documents.document import MAX_DOCUMENT_BYTES


@contextmanager
def open_document(path: Path, max_member_bytes: int = MAX_DOCUMENT_BYTES) -> Iterator[Archive]:
    """Open a document for reading.

    Args:
        path: the file of the document.
        max_member_bytes: maximum number of bytes of a member that is read into memory.

    Raises:
        DamagedFileError: the file is not a complete zip archive.
        DataError: the file cannot be read, or a member exceeds a limit.
    """
    with contextlib.ExitStack() as stack:
        try:
            archive = stack.enter_context(
                open_zip(path, replace(DOCUMENT_RULES, max_member=max_member_bytes))
            )
        except OSError as error:
            raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
        except DAMAGE_ERRORS as error:
            raise DamagedFileError(
                f"{path}: not a complete zip archive ({reason(error)}); is the file truncated, encrypted "
                "or of another format?"
            ) from None
        yield archive


TEXT_SUFFIXES = (".xml", ".rels", ".xhtml", ".html", ".htm", ".ncx", ".opf")
TEXT_RATIO, TEXT_SLACK = 200, 1 << 23
"""A text may unpack to at most ``TEXT_RATIO`` times its packed size plus ``TEXT_SLACK`` bytes; a sheet of
equal cells unpacks to about 200 times its packed size."""


def _problem(member: ZipMember) -> str:
    """Return the reason why a member is refused, or an empty string."""
    name = member.filename
    if (
        name.lower().endswith(TEXT_SUFFIXES)
        and member.file_size > TEXT_RATIO * member.compress_size + TEXT_SLACK
    ):
        return (
            f"would unpack from {member.compress_size} to {member.file_size} bytes, more than "
            f"{TEXT_RATIO} times as many; refused: divide the document"
        )
    parts = name.replace("\\", "/").split("/")
    if member.orig_filename != name or ".." in parts or name.startswith(("/", "\\")) or ":" in parts[0]:
        return "is not a valid member name; refused"
    return ""


DOCUMENT_RULES = ZipRules(
    error=DataError,
    max_members=20_000,
    max_directory=1 << 23,
    max_total=1 << 32,
    max_member=MAX_DOCUMENT_BYTES,
    max_ratio=1000,  # about that of a blank picture
    slack=1 << 20,
    folders=True,
    problem=_problem,
    too_many_ending="more than a document has; refused",
    locked_ending="take the password off the document",
    compression_ending="refused",
    too_large_ending="divide the document into smaller ones",
)
"""The limits for office documents and e-books from untrusted sources."""
