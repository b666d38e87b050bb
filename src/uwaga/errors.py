"""The exceptions that users see. Their messages state the problem and how to solve it."""

from collections.abc import Iterable

MAX_QUOTED_CHARACTERS = 60
"""Maximum number of characters of a value quoted in a message."""
MAX_REASON_CHARACTERS = 200
"""Maximum number of characters of another library's message."""


def quoted(value: object) -> str:
    """Return a short representation of an untrusted value for messages.

    Args:
        value: a value of any type and size.
    """
    if isinstance(value, str | bytes):
        value = value[: MAX_QUOTED_CHARACTERS + 1]
    elif isinstance(value, int) and value.bit_length() > 4 * MAX_QUOTED_CHARACTERS:
        return f"a whole number of {value.bit_length()} bits"
    elif isinstance(value, dict | list | tuple | set) and len(value) > MAX_QUOTED_CHARACTERS:
        return f"a {type(value).__name__} of {len(value)}"
    try:
        text = repr(value)
    except Exception:  # an int of thousands of digits, or a broken __repr__
        return f"a {type(value).__name__}"
    return text if len(text) <= MAX_QUOTED_CHARACTERS + 2 else f"{text[:MAX_QUOTED_CHARACTERS]}..."


def reason(error: BaseException) -> str:
    """Return the message of another library's error, shortened to one line: it may quote a whole file.

    Args:
        error: any exception; if it has no message, its class name is returned.
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:MAX_REASON_CHARACTERS]


def suggestion(name: str, names: Iterable[str], otherwise: str) -> str:
    """Return ``did you mean 'beam'?`` with the most similar known name; ``otherwise`` if none is similar."""
    from difflib import get_close_matches  # not before it is needed

    matches = get_close_matches(name, list(names), n=1, cutoff=0.5)
    return f"did you mean {matches[0]!r}?" if matches else otherwise


def printable(path: object) -> str:
    """Return a path as text in UTF-8, for messages of the native core.

    Args:
        path: a path, which may contain any bytes.
    """
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")


class UwagaError(Exception):
    """Base class of errors caused by input; the command line prints them without a traceback."""


class SettingsError(UwagaError):
    """A settings file or argument has an unknown key or an invalid value."""


class NotInspectableError(SettingsError):
    """The model cannot be inspected: it is a chain, an ensemble, recurrent, or not on the native engine."""


class DataError(UwagaError):
    """A corpus, sentence or text file is invalid."""


class DamagedFileError(DataError):
    """A document is not a complete zip archive: it is truncated, encrypted or of another format."""


class TextTooLongError(DataError):
    """An input is too long for the model."""


class ModelError(UwagaError):
    """A model folder is incomplete, damaged or inconsistent."""


class UnknownModelError(ModelError):
    """No model has this name."""


class NotInstalledError(ModelError):
    """No installed model translates between two languages; ``pairs`` are the missing pairs, such as
    ``en-pt``.
    """

    def __init__(self, message: str, pairs: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.pairs = pairs


class CheckpointError(UwagaError):
    """A training checkpoint is missing or damaged, or belongs to another run."""


class CatalogueError(UwagaError):
    """A catalogue of models, or a file that it lists, cannot be fetched or is invalid."""


class MissingExtraError(UwagaError):
    """A feature needs an optional dependency that is not installed."""


class RunInUseError(UwagaError):
    """Another process is using the folder of a run or a job."""


class RankLostError(UwagaError):
    """Another process of a distributed training run has ended or does not respond."""


class FailedElsewhereError(UwagaError):
    """Another process of a distributed training run has failed and reported the error."""


class BusyError(UwagaError):
    """Too many requests are waiting; retry after ``retry_after`` seconds."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DeadlineError(UwagaError):
    """A request was not answered before its deadline."""


class CancelledRequestError(UwagaError):
    """A request was cancelled, or the translator was closed."""
