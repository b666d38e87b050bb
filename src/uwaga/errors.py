"""The errors a user can meet. Each message names the thing that is wrong and the way out."""


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


class CheckpointError(UwagaError):
    """A training checkpoint is missing, damaged or belongs to another run."""


class MissingExtraError(UwagaError):
    """A feature needs an optional dependency that is not installed."""


class RunInUseError(UwagaError):
    """Another process trains in the folder of a run."""
