"""Translations and attention matrices of several models for the same text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from uwaga.errors import SettingsError
from uwaga.generation import MaskFiller, TextGenerator
from uwaga.inspection.matrices import Alignment, Selection, align, matrices
from uwaga.loading import load
from uwaga.settings.load_options import Dtype
from uwaga.translator import Request, Translator

if TYPE_CHECKING:
    from uwaga.translator.call_options import FillerFields

Models = Mapping[str, str | Path | None]
"""Model folders or Hugging Face names, by display name; None stands for the bundled model."""


def translate_systems(
    models: Models,
    sources: Sequence[str],
    *,
    beam: int | None = None,
    device: str = "auto",
    dtype: Dtype = "auto",
    threads: int = 0,
    on_lines: Callable[[int], None] = lambda count: None,
) -> dict[str, list[str]]:
    """Return the translations of lines by each model, as input of :func:`uwaga.inspection.by_length`.

    Only one model is in memory at a time.

    Args:
        models: models by display name.
        sources: one sentence per line.
        beam: beam size; None for each model's default.
        device: as in :meth:`uwaga.translator.Translator.load`.
        dtype: as in :meth:`uwaga.translator.Translator.load`.
        threads: as in :meth:`uwaga.translator.Translator.load`.
        on_lines: function called with the number of lines translated so far by all models together.
    """
    translations: dict[str, list[str]] = {}
    completed_count = 0
    for name, path in models.items():
        translator = Translator.load(path, device=device, dtype=dtype, threads=threads)
        translations[name] = []
        lines = enumerate(sources, start=1)
        requests = (
            Request(text, search={"beam": beam}, name=f"line {line_number}") for line_number, text in lines
        )
        for translation in translator.run(requests):
            translations[name].append(translation.text)
            completed_count += 1
            on_lines(completed_count)
    return translations


def align_systems(
    models: Models,
    source: str,
    target: str | None = None,
    *,
    words: bool = False,
    select: Selection | None = None,
    **load_options: Unpack[FillerFields],
) -> list[Alignment]:
    """Return attention matrices of each model for a text; titles start with the models' names.

    Encoder-only and decoder-only models, such as BERT and GPT-2, only read the text and do not translate it.

    Args:
        models: models by display name.
        source: text to translate or read.
        target: translation that all models force-decode; None for each model's translation.
        words: whether to merge the pieces of each word.
        select: matrices to return; None for the matrix of :func:`uwaga.inspection.align` or, with models that
            do not translate, the mean over the heads of the last layer.
        **load_options: ``device``, ``dtype`` and ``threads``, as in
            :meth:`uwaga.translator.Translator.load`.
    """
    alignments = []
    for name, path in models.items():
        model = load(path, **load_options)
        try:
            alignments += _model_alignments(model, source, target, words, select, name)
        except SettingsError as error:
            raise SettingsError(f"{name}: {error}") from None
    return alignments


def _model_alignments(
    model: Any, source: str, target: str | None, words: bool, select: Selection | None, name: str
) -> list[Alignment]:
    if isinstance(model, MaskFiller | TextGenerator):
        if target is not None:
            raise SettingsError("the model only reads text and does not translate: leave out the target")
        return matrices(model.attend(source), select or Selection(), words=words, title=name)
    translation = model.attend(source, target)
    if select is None:
        return [align(translation, words=words, title=name)]
    return matrices(translation, select, words=words, title=name)
