"""The errors a user can meet. Each message names the thing that is wrong and the way out."""

SHOWN = 60
"""Characters of a value that a message quotes."""
LONGEST_REASON = 200
"""Characters of another library's message."""


def shown(value: object) -> str:
    """A value as messages quote it: short, whatever a stranger's file holds.

    Args:
        value: of any kind and size.
    """
    if isinstance(value, str | bytes):
        value = value[: SHOWN + 1]
    elif isinstance(value, int) and value.bit_length() > 4 * SHOWN:
        return f"a whole number of {value.bit_length()} bits"
    elif isinstance(value, dict | list | tuple | set) and len(value) > SHOWN:
        return f"a {type(value).__name__} of {len(value)}"
    try:
        text = repr(value)
    except Exception:  # a number of thousands of digits in it, or a stranger's own repr
        return f"a {type(value).__name__}"
    return text if len(text) <= SHOWN + 2 else f"{text[:SHOWN]}..."


def reason(error: BaseException) -> str:
    """What the error of another library says, in one short line: some quote a stranger's file at any length.

    Args:
        error: of any kind; one that says nothing is called by its name.
    """
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:LONGEST_REASON]


class UwagaError(Exception):
    """Base of every error that is the input's fault; the command line prints it without a traceback."""


class SettingsError(UwagaError):
    """A settings file or argument holds an unknown key or an impossible value."""


class DataError(UwagaError):
    """A corpus, sentence or text file cannot be read as what it should be."""


class TextTooLongError(DataError):
    """An input is longer than the model can take."""


class ModelError(UwagaError):
    """A model folder is incomplete, damaged or disagrees with itself."""


class NotInstalledError(ModelError):
    """No installed model translates between two languages; ``pairs`` (``en-pt``) are what is missing."""

    def __init__(self, message: str, pairs: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.pairs = pairs


class CheckpointError(UwagaError):
    """A training checkpoint is missing, damaged or belongs to another run."""


class CatalogueError(UwagaError):
    """A catalogue of models, or a file that it names, cannot be fetched or is not what it says."""


class MissingExtraError(UwagaError):
    """A feature needs an optional dependency that is not installed."""


class RunInUseError(UwagaError):
    """Another process works in the folder of a run, or of a job that writes shards."""


class RankLostError(UwagaError):
    """Another of the processes that train one run together has ended, or does not answer."""


class FailedElsewhereError(UwagaError):
    """Another of the processes that train one run together has failed, and has said why itself."""


class BusyError(UwagaError):
    """Too many requests wait already; ``retry_after`` is in how many seconds it may be worth trying again."""

    def __init__(self, message: str, retry_after: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class DeadlineError(UwagaError):
    """A request was not answered in the time that it had."""


class CancelledRequestError(UwagaError):
    """A request was taken back by who made it, or the translator was closed."""
