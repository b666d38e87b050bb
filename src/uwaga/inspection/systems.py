"""Several models on the same text: what each makes of it, and where each looks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from uwaga.errors import SettingsError
from uwaga.inspection.matrices import Alignment, Selection, align, matrices
from uwaga.translator import MaskFiller, Request, TextGenerator, Translator, load

Models = Mapping[str, str | Path | None]
"""Folders or Hugging Face names, by the names that tables and figures show; None is the bundled model."""


def translate_systems(
    models: Models,
    sources: Sequence[str],
    *,
    beam: int | None = None,
    device: str = "auto",
    dtype: str = "auto",
    threads: int = 0,
    on_lines: Callable[[int], None] = lambda done: None,
) -> dict[str, list[str]]:
    """The translations of a text by each model, as :func:`uwaga.inspection.by_length` takes them.

    One model is in memory at a time.

    Args:
        models: the models by their names.
        sources: one line per sentence.
        beam: hypotheses searched; each model's own number if None.
        device: as :meth:`uwaga.translator.Translator.load` takes it.
        dtype: likewise.
        threads: likewise.
        on_lines: called with the number of lines done, those of all models counted.

    Raises:
        ModelError, SettingsError, MissingExtraError: a model cannot be loaded so.
        TextTooLongError: a line is longer than a model can take.
    """
    found: dict[str, list[str]] = {}
    done = 0
    for name, place in models.items():
        translator = Translator.load(place, device=device, dtype=dtype, threads=threads)
        found[name] = []
        lines = enumerate(sources, start=1)
        requests = (Request(text, search={"beam": beam}, name=f"line {number}") for number, text in lines)
        for translation in translator.run(requests):
            found[name].append(translation.text)
            done += 1
            on_lines(done)
    return found


def align_systems(
    models: Models,
    source: str,
    target: str | None = None,
    *,
    words: bool = False,
    select: Selection | None = None,
    device: str = "auto",
    dtype: str = "auto",
    threads: int = 0,
) -> list[Alignment]:
    """Where each model looks while it translates a text; the titles begin with the models' names.

    A model may also be one that reads the text alone: BERT's, or GPT-2's.

    Args:
        models: the models by their names.
        source: the text to translate, or to read.
        target: a translation to lead all of them along; each model's own if None.
        words: join the pieces of each word.
        select: the matrices to show; None is the one of :func:`uwaga.inspection.align`, of a model that reads
            alone the mean over the heads of its last layer.
        device: as :meth:`uwaga.translator.Translator.load` takes it.
        dtype: likewise.
        threads: likewise.

    Raises:
        SettingsError: a model has no attention, or none of what is selected, which names it; it cannot be
            loaded so, or it only reads and a translation is given.
        ModelError, MissingExtraError, TextTooLongError, DataError: as ``Translator.load`` and
            :meth:`uwaga.translator.Translator.attend`.
    """
    found = []
    for name, place in models.items():
        model = load(place, device=device, dtype=dtype, threads=threads)
        try:
            found += _looking(model, source, target, words, select, name)
        except SettingsError as error:
            raise SettingsError(f"{name}: {error}") from None
    return found


def _looking(
    model: Any, source: str, target: str | None, words: bool, select: Selection | None, name: str
) -> list[Alignment]:
    if isinstance(model, MaskFiller | TextGenerator):
        if target is not None:
            raise SettingsError("the model reads a text and translates none: leave out the target")
        return matrices(model.attend(source), select or Selection(), words=words, title=name)
    translation = model.attend(source, target)
    if select is None:
        return [align(translation, words=words, title=name)]
    return matrices(translation, select, words=words, title=name)
