"""What can go wrong with what the server keeps for its clients. No message names a place on the server."""

from __future__ import annotations

from uwaga.errors import UwagaError


class NotStoredError(UwagaError):
    """There is no such glossary, dictionary or document, or it is somebody else's."""


class NotReadyError(UwagaError):
    """A document is asked for that is not translated yet."""


class QuotaError(UwagaError):
    """A client has used up what it may use or keep."""


class StorageError(UwagaError):
    """The server cannot keep it now: its disk is full, or its database does not answer."""
