"""What has become of the terms of a glossary in a translation."""

from __future__ import annotations

from dataclasses import dataclass

from uwaga.results.record import JsonRecord


@dataclass(frozen=True)
class TermUse(JsonRecord):
    """A term of a glossary that stands in a source, and what it was to become.

    ``target`` is the form that stands in the translation, or the first one; ``applied`` whether one does.
    """

    source: str
    target: str
    applied: bool

    def to_dict(self) -> dict[str, object]:
        """The same names."""
        return dict(vars(self))
