"""One way to load whatever a folder holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

from uwaga.errors import SettingsError
from uwaga.translator.loading import (
    LoadOptions,
    load_filler,
    load_generator,
    load_translator,
    read_model,
)
from uwaga.translator.mask_filler import MaskFiller
from uwaga.translator.text_generator import TextGenerator
from uwaga.translator.translator import Translator


@overload
def load(
    name: None = ...,
    device: str = ...,
    dtype: str = ...,
    threads: int = ...,
    engine: str = ...,
    source_language: str | None = ...,
    target_language: str | None = ...,
    shortlist: str | Path | None = ...,
) -> Translator: ...


@overload
def load(
    name: str | Path | Sequence[str | Path],
    device: str = ...,
    dtype: str = ...,
    threads: int = ...,
    engine: str = ...,
    source_language: str | None = ...,
    target_language: str | None = ...,
    shortlist: str | Path | None = ...,
) -> Any: ...


def load(
    name: str | Path | Sequence[str | Path] | None = None,
    device: str = "auto",
    dtype: str = "auto",
    threads: int = 0,
    engine: str = "auto",
    source_language: str | None = None,
    target_language: str | None = None,
    shortlist: str | Path | None = None,
) -> Translator | TextGenerator | MaskFiller:
    """Load a model, whatever it does.

    Where types matter, ``Translator.load``, ``TextGenerator.load`` and ``MaskFiller.load`` say which it is.

    Args:
        name: a model folder, a Hugging Face name, several of them (an ensemble of translators), or None for
            the bundled model.
        device: as in :meth:`uwaga.translator.Translator.load`.
        dtype: as there.
        threads: as there.
        engine: as there; models that fill gaps run on torch.
        source_language: as there.
        target_language: as there.
        shortlist: as there; of translators alone.

    Returns:
        a ``TextGenerator`` for GPT-2, a ``MaskFiller`` for BERT, a ``Translator`` for all others.

    Raises:
        ModelError, SettingsError, MissingExtraError: as there.
    """
    if name is not None and not isinstance(name, (str, Path)):
        return Translator.load(
            name, device, dtype, threads, engine, source_language, target_language, shortlist
        )
    wanted = LoadOptions(device, dtype, threads, engine, source_language, target_language, shortlist)
    wanted.check()
    checkpoint = read_model(name)
    if checkpoint.task == "translate":
        return Translator(*load_translator(checkpoint, wanted))
    what = f"a model of the family {checkpoint.family!r}"
    if source_language is not None or target_language is not None:
        raise SettingsError(f"{name}: {what} takes no languages")
    if shortlist is not None:
        raise SettingsError(f"{name}: {what} takes no shortlist")
    if checkpoint.task == "generate":
        return TextGenerator(*load_generator(checkpoint, wanted))
    if engine == "native":
        raise SettingsError(f"{name}: {what} runs on torch; leave engine out")
    return MaskFiller(*load_filler(checkpoint, wanted))
