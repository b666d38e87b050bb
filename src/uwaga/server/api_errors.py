"""Errors of a request: ApiError, and the library's and the store's errors as ApiErrors."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from uwaga.errors import (
    BusyError,
    CancelledRequestError,
    DataError,
    DeadlineError,
    MissingExtraError,
    ModelError,
    NotInspectableError,
    NotInstalledError,
    SettingsError,
    TextTooLongError,
    UwagaError,
)


class NotStoredError(UwagaError):
    """The owner has no such glossary, dictionary or document."""


class UnknownLanguageError(UwagaError):
    """The language of a text was not detected among those of the server."""


class NotReadyError(UwagaError):
    """The document is not translated yet."""


class QuotaError(UwagaError):
    """A client's limit is reached."""


class StorageError(UwagaError):
    """The server cannot store something now: its disk is full, or its database is unavailable."""


Result = TypeVar("Result")
MODEL_UNAVAILABLE = "the model for these languages cannot be loaded; the server's log says why"
LONGEST_MESSAGE = 600
"""Maximum characters of a message: some quote untrusted input."""
RETRY_AFTER = 30.0
"""Seconds after which to try again what failed for a reason of the server's, such as a full disk."""


@dataclass(eq=False)
class ApiError(Exception):
    """An error response to a request.

    Attributes:
        status: HTTP status.
        code: for programs, such as ``text_too_long``.
        message: for people, in English; names the way out.
        parameter: the wrong parameter of the request; empty if none is.
        retry_after: seconds after which the same request may succeed; None if it will not. A status of 503
            has :data:`RETRY_AFTER` if nothing better is known.
        allow: methods of the path, where the request's is not among them.
    """

    status: int
    code: str
    message: str
    parameter: str = ""
    retry_after: float | None = None
    allow: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.status == 503 and self.retry_after is None:
            self.retry_after = RETRY_AFTER

    def __str__(self) -> str:
        return self.message

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the response in every dialect."""
        headers = {"allow": ", ".join(self.allow)} if self.allow else {}
        if self.retry_after is not None:
            headers["retry-after"] = str(max(1, math.ceil(self.retry_after)))
        return headers


def api_error(error: BaseException) -> ApiError:
    """Return an error as an error response.

    Messages about the server itself omit its paths; the log has them.

    Args:
        error: any error; a bug becomes ``internal_error`` without details.
    """
    if isinstance(error, ApiError):
        return error
    for kind, status, code in _KINDS:
        if isinstance(error, kind):
            message = _TOLD.get(code) or str(error)[:LONGEST_MESSAGE]
            again = error.retry_after if isinstance(error, BusyError) else None
            return ApiError(status, code, message, retry_after=again)
    return ApiError(500, "internal_error", "server error; its log has details under the request's id")


@contextmanager
def as_api_error() -> Iterator[None]:
    """Raise what fails in the block as an :class:`ApiError`, and an ApiError as it is."""
    try:
        yield
    except ApiError:
        raise
    except Exception as error:
        raise api_error(error) from error


async def in_thread(work: Callable[..., Result], *args: object) -> Result:
    """Run a function that may block on a disk or a database in a thread, and return its result."""

    def run() -> Result:
        try:
            return work(*args)
        except ApiError:
            raise
        except BaseException as error:  # SystemExit would end the event loop, StopIteration never reach it
            raise api_error(error) from error

    return await asyncio.to_thread(run)


_KINDS: tuple[tuple[type[UwagaError], int, str], ...] = (
    (BusyError, 503, "busy"),
    (DeadlineError, 504, "deadline_exceeded"),
    (CancelledRequestError, 503, "stopping"),
    (NotStoredError, 404, "not_found"),
    (NotReadyError, 409, "not_ready"),
    (UnknownLanguageError, 400, "unknown_language"),
    (QuotaError, 403, "quota_exceeded"),
    (StorageError, 503, "storage_unavailable"),
    (TextTooLongError, 400, "text_too_long"),
    (NotInstalledError, 400, "unsupported_languages"),
    (ModelError, 503, "model_unavailable"),
    (MissingExtraError, 501, "not_available"),
    (NotInspectableError, 400, "not_inspectable"),
    (SettingsError, 400, "invalid_option"),
    (DataError, 400, "invalid_text"),
    (UwagaError, 400, "refused"),
)
_TOLD = {"model_unavailable": MODEL_UNAVAILABLE}
