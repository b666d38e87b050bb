"""Error responses: :class:`ApiError`, and the conversion of other exceptions to it."""

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
    DamagedFileError,
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
    """Raised if an owner has no glossary, dictionary, document, memory or job with the requested id."""


class UnknownLanguageError(UwagaError):
    """Raised if none of the server's languages is detected in a text."""


class NotReadyError(UwagaError):
    """Raised if the translation of a document is requested before it is complete."""


class QuotaError(UwagaError):
    """Raised if a request would exceed a client's character quota or a limit on stored data."""


class StorageError(UwagaError):
    """Raised if the server cannot store data, because the disk is full or the database is unavailable."""


Result = TypeVar("Result")
MODEL_UNAVAILABLE = "the model for these languages cannot be loaded; the server's log says why"
MAX_MESSAGE_LENGTH = 600
"""Maximum number of characters of an error message, since some messages quote untrusted input."""
DEFAULT_RETRY_AFTER = 30.0
"""Default value of ``Retry-After`` in seconds, for errors with status 503, such as a full disk."""


@dataclass(eq=False)
class ApiError(Exception):
    """An error response to a request.

    Attributes:
        status: HTTP status.
        code: error code for programs, such as ``text_too_long``.
        message: error message for users, in English, which says how to fix the request.
        parameter: name of the invalid request parameter; empty if the error concerns no parameter.
        retry_after: seconds after which a retry may succeed; None if retrying does not help. Defaults to
            :data:`DEFAULT_RETRY_AFTER` for status 503.
        allow: the methods that the path supports, for status 405.
    """

    status: int
    code: str
    message: str
    parameter: str = ""
    retry_after: float | None = None
    allow: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.status == 503 and self.retry_after is None:
            self.retry_after = DEFAULT_RETRY_AFTER

    def __str__(self) -> str:
        return self.message

    @property
    def headers(self) -> dict[str, str]:
        """The response headers ``Allow`` and ``Retry-After``, which are the same in every dialect."""
        headers = {"allow": ", ".join(self.allow)} if self.allow else {}
        if self.retry_after is not None:
            headers["retry-after"] = str(max(1, math.ceil(self.retry_after)))
        return headers


def api_error(error: BaseException) -> ApiError:
    """Return the :class:`ApiError` for an exception.

    If a model cannot be loaded, the message omits paths on the server, which are logged instead.

    Args:
        error: the exception; an unexpected exception becomes ``internal_error`` without details.
    """
    if isinstance(error, ApiError):
        return error
    for kind, status, code in _ERROR_CODES:
        if isinstance(error, kind):
            message = _FIXED_MESSAGES.get(code) or str(error)[:MAX_MESSAGE_LENGTH]
            retry_after = error.retry_after if isinstance(error, BusyError) else None
            return ApiError(status, code, message, retry_after=retry_after)
    message = "server error; the server's log has details under the id of the request"
    return ApiError(500, "internal_error", message)


@contextmanager
def as_api_error() -> Iterator[None]:
    """Convert exceptions raised in the block to :class:`ApiError`."""
    try:
        yield
    except ApiError:
        raise
    except Exception as error:
        raise api_error(error) from error


async def run_in_thread(function: Callable[..., Result], *args: object) -> Result:
    """Run a function in a thread, since it may block on a disk or a database, and return its result.

    Exceptions are converted to :class:`ApiError`.
    """

    def run() -> Result:
        try:
            return function(*args)
        except ApiError:
            raise
        except BaseException as error:  # SystemExit would stop the event loop, StopIteration would be lost
            raise api_error(error) from error

    return await asyncio.to_thread(run)


_ERROR_CODES: tuple[tuple[type[UwagaError], int, str], ...] = (
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
    (DamagedFileError, 400, "damaged_file"),
    (DataError, 400, "invalid_text"),
    (UwagaError, 400, "refused"),
)
_FIXED_MESSAGES = {"model_unavailable": MODEL_UNAVAILABLE}
