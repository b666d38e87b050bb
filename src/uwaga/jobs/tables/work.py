"""What a worker does with the texts of a block, and what says that two workers do the same."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from uwaga import __version__
from uwaga import errors as known_errors
from uwaga.checkpoints.adapter import CONFIG
from uwaga.errors import ModelError, UwagaError
from uwaga.jobs.corpora.assemble import JobModels, file_sum
from uwaga.jobs.corpora.manifest import model_identity
from uwaga.jobs.tables.rows import TranslatedCell
from uwaga.library.hub import find_model
from uwaga.results.translation import Translation
from uwaga.search import SearchOptions, SearchOverrides
from uwaga.translator.by_language import ChosenModels, choose_for
from uwaga.translator.loading import LoadOptions, named_by
from uwaga.translator.marked import translate_marked
from uwaga.translator.pivot import PivotTranslator
from uwaga.translator.text_markup import TextMarkup
from uwaga.translator.translator import Translator

if TYPE_CHECKING:
    from uwaga.terms.apply import GlossaryMode

WINDOW, WINDOW_LETTERS = 2048, 1 << 19
"""Texts whose translations are in memory together, and their characters: enough to sort into even batches."""


@dataclass(frozen=True)
class Work:
    """How texts are translated.

    Attributes:
        models: which; without names the bundled one, that of an adapter, or what its two languages choose.
        alignment: whether words are linked.
        via: codes of the languages between those two.
        glossary: file of terms.
        glossary_mode: as :meth:`uwaga.translator.Translator.with_glossary` has it.
    """

    models: JobModels
    alignment: bool = False
    via: tuple[str, ...] = ()
    glossary: str | None = None
    glossary_mode: GlossaryMode = "forced"

    def to_dict(self) -> dict[str, Any]:
        """What JSON can hold of it."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "models"}
        load = self.models.load._asdict()
        load |= {name: str(value) for name, value in load.items() if isinstance(value, Path)}
        return {**own, "models": {**asdict(self.models), "load": load}}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Work:
        """From what :meth:`to_dict` gives."""
        models = dict(values["models"])
        models |= {"load": LoadOptions(**models["load"]), "names": tuple(models["names"])}
        return cls(**{**values, "models": JobModels(**models), "via": tuple(values["via"])})

    @property
    def names(self) -> list[str]:
        """The models that are named, by themselves or by an adapter."""
        adapter = self.models.load.adapter
        return list(self.models.names) or ([] if adapter is None else [str(named_by(adapter, None))])

    def chosen(self) -> ChosenModels | None:
        """The installed models that the two languages choose; None where they do not.

        Raises:
            ModelError, SettingsError: as :func:`uwaga.translator.by_language.choose_for`.
        """
        return choose_for(self.names or None, self.models.load, self.via or None)

    def places(self) -> list[tuple[str, Path]]:
        """Each model's name, and where it lies.

        Raises:
            ModelError, SettingsError: as :meth:`chosen`.
        """
        chosen = self.chosen()
        if chosen is not None:
            return [(leg.model.name, Path(leg.model.place)) for leg in chosen.legs]
        return [(name, find_model(name)) for name in self.names or ["bundled"]]

    def beside(self) -> dict[str, str | None]:
        """The sums of the files that bear on what models make of a text, None of what is not asked for.

        Raises:
            ModelError: one cannot be read.
        """
        adapter, shortlist = self.models.load.adapter, self.models.load.shortlist
        return {
            "adapter": None if adapter is None else file_sum(Path(adapter) / CONFIG),  # has its weights' sum
            "shortlist": file_sum(shortlist),
            "glossary": file_sum(self.glossary),
        }

    def load(self) -> tuple[Translator | PivotTranslator, SearchOptions]:
        """The models, with what is asked of their search.

        Raises:
            ModelError, SettingsError, DataError, MissingExtraError: as
                :meth:`uwaga.translator.Translator.load` and its ``with_glossary``.
        """
        chosen, wanted = self.chosen(), self.models.load
        loaded: Translator | PivotTranslator
        loaded = Translator.load(self.names or None, *wanted) if chosen is None else chosen.load(wanted)
        translator = loaded.between().with_glossary(self.glossary, self.glossary_mode)
        asked: SearchOverrides = {**self.models.search, "nbest": 1, "alignment": self.alignment}
        asked["batch_tokens"] = self.models.batch_tokens
        return translator, translator.options(**asked)


class Identity(NamedTuple):
    """What must be the same of all workers; ``where`` alone may differ.

    ``models`` are the sums of the models' files, ``beside`` those of the files beside them.
    """

    uwaga: str
    models: tuple[str, ...]
    beside: dict[str, str | None]
    where: str

    @classmethod
    def of(cls, values: Sequence[Any]) -> Identity:
        """From the values as they travel between processes."""
        version, models, beside, where = values
        return cls(version, tuple(models), dict(beside), where)

    def check(self, other: Identity) -> None:
        """Refuse a worker that would translate otherwise.

        Raises:
            ModelError: its version of uwaga is another, or its files are; names where it runs.
        """
        if other.uwaga != self.uwaga:
            raise ModelError(
                f"{other.where} has uwaga {other.uwaga}, and {self.where} {self.uwaga}: install "
                "the same on all nodes"
            )
        if len(other.models) != len(self.models):
            raise ModelError(
                f"{other.where} has other models for these languages ({len(other.models)} one after the "
                f"other, not {len(self.models)} as {self.where}): install the same on all nodes"
            )
        files = [("model", *sums) for sums in zip(self.models, other.models, strict=True)]
        files += [(what, one or "", other.beside.get(what) or "") for what, one in self.beside.items()]
        for what, ours, theirs in files:
            if ours != theirs:
                raise ModelError(
                    f"{other.where} has another {what} under this name ({theirs[:12]}, not {ours[:12]} as "
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
    models = tuple(model_identity(place) for _, place in work.places())
    return Identity(__version__, models, work.beside(), f"{socket.gethostname()} (process {os.getpid()})")


class BatchTranslator:
    """The models of a work, loaded.

    Raises:
        ModelError, SettingsError, DataError, MissingExtraError: as :meth:`Work.load`.
    """

    def __init__(self, work: Work) -> None:
        self._translator, self._options = work.load()
        self._split = work.models.split

    def translate(self, task: Task) -> list[TranslatedCell]:
        """(texts,) what became of each; one that cannot be translated does not hold up the others."""
        cells: list[TranslatedCell] = []
        for start, end in _windows(task.texts):
            made = translate_marked(
                self._translator,
                task.texts[start:end],
                [f"row {row}" for row in task.rows[start:end]],
                self._options,
                TextMarkup.of(),
                split=self._split,
                on_error="return",
            )
            cells += [_cell(one) for one in made]
        return cells


def _windows(texts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """From where to where texts are translated together."""
    start = letters = 0
    for at, text in enumerate(texts):
        letters += len(text)
        if at > start and (at - start >= WINDOW or letters > WINDOW_LETTERS):
            yield start, at
            start, letters = at, len(text)
    if texts:
        yield start, len(texts)


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
