"""The function :func:`load`, which loads a model of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

from uwaga.errors import SettingsError
from uwaga.generation import MaskFiller, TextGenerator
from uwaga.settings.load_options import LoadOptions
from uwaga.translator.choose_models import choose_for
from uwaga.translator.loading import load_filler, load_generator, load_model, read_model
from uwaga.translator.translator import Translator

if TYPE_CHECKING:
    from uwaga.translator.call_options import LoadFields


@overload
def load(
    name: None = ..., *, via: str | Sequence[str] | None = ..., **options: Unpack[LoadFields]
) -> Translator: ...


@overload
def load(
    name: str | Path | Sequence[str | Path],
    *,
    via: str | Sequence[str] | None = ...,
    **options: Unpack[LoadFields],
) -> Translator | Any: ...


def load(
    name: str | Path | Sequence[str | Path] | None = None,
    *,
    via: str | Sequence[str] | None = None,
    **options: Unpack[LoadFields],
) -> Translator | TextGenerator | MaskFiller:
    """Load a model of any kind.

    A type checker cannot know the kind of a model. It assumes a ``Translator``, the most common kind, so that
    it checks the options of ``load(name).translate``. For the other kinds, use ``TextGenerator.load`` and
    ``MaskFiller.load``.

    Args:
        name: a model folder, a Hugging Face name, a sequence of them (an ensemble of translators), None for
            the bundled model, or a pair of languages (``en-pt``) for the best installed model. None with
            ``source`` and ``target`` is equivalent to a pair.
        via: if no name is given, the intermediate language to translate through, or several in order.
        **options: fields of :class:`uwaga.settings.LoadOptions` by name: ``device``, ``dtype``,
            ``threads``, ``engine``, ``source``, ``target``, ``shortlist``, ``memory``, ``adapter``,
            ``draft``.

    Returns:
        a ``MaskFiller`` for BERT, a ``TextGenerator`` for a decoder-only model if no language is given, and a
        ``Translator`` for any other model.

    Raises:
        ModelError: there is no such model or no model for the languages, or the model or shortlist is
            damaged.
        SettingsError: an option is invalid, the models have different tokenisers, or a language is missing.
        MissingExtraError: the model needs torch or another library that is not installed.
    """
    load_options = LoadOptions.from_mapping(options)
    choice = choose_for(name, load_options, via)
    if choice.steps or len(choice.names) > 1:
        return choice.load(load_options)
    name = next(iter(choice.names), None)
    checkpoint = read_model(name, memory=load_options.memory, adapter=load_options.adapter)
    has_languages = load_options.source is not None or load_options.target is not None
    if checkpoint.task == "translate" or (has_languages and checkpoint.task == "generate"):
        return Translator(load_model(checkpoint, load_options))
    description = f"a model of the family {checkpoint.family!r}"
    if has_languages:
        raise SettingsError(f"{name}: {description} takes no languages")
    if load_options.shortlist is not None:
        raise SettingsError(f"{name}: {description} takes no shortlist")
    if load_options.adapter is not None:
        raise SettingsError(f"{name}: {description} cannot take an adapter")
    if checkpoint.task == "generate":
        return TextGenerator(**load_generator(checkpoint, load_options)._asdict())
    if load_options.draft is not None:
        raise SettingsError(f"{name}: {description} takes no draft")
    if load_options.engine == "native":
        raise SettingsError(f"{name}: {description} runs on torch; leave out engine")
    return MaskFiller(*load_filler(checkpoint, load_options))
