"""What a worker does with the texts of a block, and what says that two workers do the same."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from uwaga import __version__
from uwaga import errors as known_errors
from uwaga.batch.rows import TranslatedCell
from uwaga.contracts import Translation
from uwaga.errors import ModelError, UwagaError
from uwaga.synthetic.assemble import JobModels
from uwaga.translator.loading import LoadOptions
from uwaga.translator.marked import translate_marked
from uwaga.translator.text_markup import TextMarkup

WINDOW = 2048
"""Texts whose translations are in memory together: enough to sort into even batches."""


@dataclass(frozen=True)
class Work:
    """How texts are translated: with which models, and whether words are linked."""

    models: JobModels
    alignment: bool = False

    def to_dict(self) -> dict[str, Any]:
        """What JSON can hold of it."""
        return {**asdict(self.models), "load": self.models.load._asdict(), "alignment": self.alignment}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Work:
        """From what :meth:`to_dict` gives."""
        own = {**values, "load": LoadOptions(**values["load"]), "names": tuple(values["names"])}
        alignment = bool(own.pop("alignment"))
        return cls(JobModels(**own), alignment)


class Identity(NamedTuple):
    """What must be the same of all workers; ``where`` alone may differ."""

    uwaga: str
    models: tuple[str, ...]
    where: str

    def check(self, other: Identity) -> None:
        """Refuse a worker that would translate otherwise.

        Raises:
            ModelError: its version of uwaga is another, or its models are; names where it runs.
        """
        if other.uwaga != self.uwaga:
            raise ModelError(
                f"{other.where} has uwaga {other.uwaga}, and {self.where} {self.uwaga}: install "
                "the same on all nodes"
            )
        for ours, theirs in zip(self.models, other.models, strict=True):
            if ours != theirs:
                raise ModelError(
                    f"{other.where} has another model under this name ({theirs[:12]}, not {ours[:12]} as "
                    f"{self.where}): copy the same to all nodes"
                )


class Task(NamedTuple):
    """Texts of a block: (texts,) their rows, by which messages call them, and themselves."""

    number: int
    rows: list[int]
    texts: list[str]


def identity(work: Work) -> Identity:
    """What this process would translate with.

    Raises:
        ModelError: there is no such model.
    """
    models = tuple(one.sha256 for one in work.models.stored())
    return Identity(__version__, models, f"{socket.gethostname()} (process {os.getpid()})")


class BatchTranslator:
    """The models of a work, loaded.

    Raises:
        ModelError, SettingsError, MissingExtraError: as :meth:`uwaga.translator.Translator.load`.
    """

    def __init__(self, work: Work) -> None:
        [way] = work.models.ways(lambda options: replace(options, nbest=1, alignment=work.alignment))
        self._translator = way.translator.between()
        self._options = way.options
        self._split = way.split

    def translate(self, task: Task) -> list[TranslatedCell]:
        """(texts,) what became of each; one that cannot be translated does not hold up the others."""
        cells: list[TranslatedCell] = []
        for start in range(0, len(task.texts), WINDOW):
            texts = task.texts[start : start + WINDOW]
            names = [f"row {row}" for row in task.rows[start : start + WINDOW]]
            made = translate_marked(
                self._translator,
                texts,
                names,
                self._options,
                TextMarkup.of(),
                split=self._split,
                on_error="return",
            )
            cells += [_cell(one) for one in made]
        return cells


def _cell(made: Translation) -> TranslatedCell:
    if made.error is not None:
        return TranslatedCell(None, error=str(made.error))
    links = None if made.alignment is None else str(made.alignment)
    return TranslatedCell(made.text, made.score, links, cut=made.truncated)


def packed_error(error: UwagaError) -> list[str]:
    """An error as it travels between processes."""
    return [type(error).__name__, str(error)]


def unpacked_error(packed: Sequence[str]) -> UwagaError:
    """From what :func:`packed_error` gives."""
    kind = getattr(known_errors, packed[0], UwagaError)
    known = isinstance(kind, type) and issubclass(kind, UwagaError)
    made: UwagaError = kind(packed[1]) if known else UwagaError(packed[1])
    return made
