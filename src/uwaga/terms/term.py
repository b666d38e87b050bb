"""One term and what it is to become."""

from __future__ import annotations

from dataclasses import dataclass

SEPARATOR = "|"
"""Between the forms that a target may take."""


@dataclass(frozen=True)
class Term:
    """A term and the forms that its translation may take, the first one the usual; ``where`` it was written.

    ``kept``: it is not translated, and stays as it stands in the text.
    """

    source: str
    targets: tuple[str, ...]
    where: str

    @property
    def kept(self) -> bool:
        """Whether it stays as it is."""
        return self.targets == (self.source,)


def forms(target: str) -> tuple[str, ...]:
    """The forms of a target as files write them, ``|`` between; a form twice counts once."""
    return tuple(dict.fromkeys(" ".join(form.split()) for form in target.split(SEPARATOR) if form.strip()))
