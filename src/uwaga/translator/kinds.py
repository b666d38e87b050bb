"""One way to load whatever a folder holds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

from uwaga.errors import SettingsError, shown
from uwaga.translator.by_language import choose_for
from uwaga.translator.loading import (
    LoadOptions,
    load_filler,
    load_generator,
    load_translator,
    named_by,
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
    *,
    shortlist: str | Path | None = ...,
    adapter: str | Path | None = ...,
) -> Translator: ...


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
    memory: str = ...,
    *,
    source: str | None = ...,
    target: str | None = ...,
    via: str | Sequence[str] | None = ...,
    adapter: str | Path | None = ...,
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
    memory: str = ...,
    *,
    source: str | None = ...,
    target: str | None = ...,
    via: str | Sequence[str] | None = ...,
    adapter: str | Path | None = ...,
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
    memory: str = "fast",
    *,
    source: str | None = None,
    target: str | None = None,
    via: str | Sequence[str] | None = None,
    adapter: str | Path | None = None,
) -> Translator | TextGenerator | MaskFiller:
    """Load a model, whatever it does.

    Where types matter, ``Translator.load``, ``TextGenerator.load`` and ``MaskFiller.load`` say which it is.

    Args:
        name: a model folder, a Hugging Face name, several of them (an ensemble of translators), None for
            the bundled model, or a pair of languages (``en-pt``) for the best installed model.
        device: ``auto`` (a GPU where there is one), ``cpu``, ``cuda`` or ``cuda:N``.
        dtype: what to compute in: ``float32``, ``float16`` (torch's alone), ``bfloat16``, ``int8`` (the
            native engine's alone) or ``auto``, which is what an int8 folder holds and float32 for all others.
        threads: CPU threads of a call; 0 is all cores that the process may use.
        engine: ``native`` (CPU; Transformers and GPT-2), ``torch`` or ``auto``, which is native if it can be.
        source_language: code of the language to translate from unless a call says otherwise; None where the
            model states or needs none, or each call chooses. Of translators alone.
        target_language: code of the language to translate to, likewise.
        source: short for ``source_language``.
        target: short for ``target_language``.
        via: without a name, the language to translate through, or several in their order.
        shortlist: a file of ``uwaga shortlist``, or Marian's: a sentence becomes only what its list lets it.
            None is the one beside a model of Marian's, ``"none"`` not even that. Of the native engine.
        memory: ``fast`` copies the weights; ``shared`` maps those of an int8 folder for several processes.
        adapter: the folder of a translator's low-rank adapter, merged into the model; it names one itself.

    Returns:
        a ``TextGenerator`` for GPT-2, a ``MaskFiller`` for BERT, a ``Translator`` for all others.

    Raises:
        ModelError: there is no such model, or none of the languages; it or the shortlist is damaged.
        SettingsError: an impossible value, models of different tokenisers, or a language that is missing.
        MissingExtraError: the model needs torch or another library that is not installed.
    """
    source_language = _agreed("source", source, source_language)
    target_language = _agreed("target", target, target_language)
    languages = source_language, target_language
    wanted = LoadOptions(device, dtype, threads, engine, *languages, shortlist, memory, adapter)
    wanted.check()
    name = named_by(adapter, name)
    chosen = choose_for(name, wanted, via)
    if chosen is not None:
        return chosen.load(wanted)
    if name is not None and not isinstance(name, (str, Path)):
        return Translator.load(name, *wanted)
    return _load_one(name, wanted)


def _load_one(name: str | Path | None, wanted: LoadOptions) -> Translator | TextGenerator | MaskFiller:
    """A single model that is named, whatever it does."""
    checkpoint = read_model(name, memory=wanted.memory, adapter=wanted.adapter)
    if checkpoint.task == "translate":
        return Translator(load_translator(checkpoint, wanted))
    what = f"a model of the family {checkpoint.family!r}"
    if wanted.source_language is not None or wanted.target_language is not None:
        raise SettingsError(f"{name}: {what} takes no languages")
    if wanted.shortlist is not None:
        raise SettingsError(f"{name}: {what} takes no shortlist")
    if wanted.adapter is not None:
        raise SettingsError(f"{name}: {what} takes no adapter")
    if checkpoint.task == "generate":
        return TextGenerator(*load_generator(checkpoint, wanted))
    if wanted.engine == "native":
        raise SettingsError(f"{name}: {what} runs on torch; leave engine out")
    return MaskFiller(*load_filler(checkpoint, wanted))


def _agreed(side: str, short: str | None, long: str | None) -> str | None:
    """The language of a side, which has two names.

    Raises:
        SettingsError: they say different things.
    """
    if short is not None and long is not None and short != long:
        raise SettingsError(
            f"{side} is {shown(short)} and {side}_language {shown(long)}: leave out one of them"
        )
    return short if long is None else long
