"""Choice of the installed models that translate between two languages."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.checkpoints.languages import UNSTATED_LANGUAGES, resolve_languages
from uwaga.errors import NotInstalledError, SettingsError, quoted
from uwaga.languages.codes import same_language
from uwaga.library.hub import find_model
from uwaga.settings.load_options import DRAFT_SHORTLIST, NO_SHORTLIST, LoadOptions
from uwaga.translator.loading import adapter_base, load_model, load_named, model_names, read_model
from uwaga.translator.translator import Translator

if TYPE_CHECKING:
    from uwaga.library.installed import InstalledModel
    from uwaga.library.routes import RouteStep

PAIR_CODE = re.compile(r"[a-z]{2,3}([-_]([A-Z][a-z]{3}|[A-Z]{2}|[0-9]{3}))?")
"""A language code in the name of a pair: ``pt``, ``pt-BR``, ``por_Latn``."""
LANGUAGE_CODE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8}){0,3}", re.ASCII)
"""A language code as an argument, in any spelling."""
MAX_LISTED_PAIRS = 8
"""Maximum number of language pairs listed in a message."""


class ChosenStep(NamedTuple):
    """A step of a chain: an installed model whose files have been read and checked."""

    step: RouteStep[InstalledModel]
    checkpoint: Checkpoint


class ChosenModels(NamedTuple):
    """Models chosen by name, or a chain of installed models whose files have been read and checked.

    Attributes:
        names: the name of a model, or the names of an ensemble's members; empty for the bundled model, or if
            there are ``steps``.
        steps: the steps of a chain of installed models, usually a single step.
    """

    names: tuple[str, ...] = ()
    steps: tuple[ChosenStep, ...] = ()

    @property
    def is_bundled(self) -> bool:
        """True if only the bundled model translates."""
        if self.steps:
            return all(step.model.kind == "bundled" for step, _ in self.steps)
        return self.names in ((), ("bundled",))

    def locations(self) -> list[tuple[str, Path]]:
        """Return the name and location of each model."""
        if self.steps:
            return [(step.model.name, Path(step.model.path)) for step, _ in self.steps]
        return [(name, find_model(name)) for name in self.names or ("bundled",)]

    def __str__(self) -> str:
        if not self.steps:
            return ", ".join(self.names or ("bundled",))
        codes = (self.steps[0].step.source, *(step.target for step, _ in self.steps))
        return f"{' → '.join(codes)} by {', '.join(step.model.name for step, _ in self.steps)}"

    def load(self, options: LoadOptions) -> Translator:
        """Load the translator; a model that occurs twice in the chain is loaded once.

        Args:
            options: how to load every model; its languages apply only to models given by name.

        Raises:
            ModelError, SettingsError, MissingExtraError: as in :meth:`uwaga.translator.Translator.load`; or
                a shortlist or a draft model is given for several models.
        """
        if not self.steps:
            return Translator(load_named(self.names or None, options))
        if len(self.steps) > 1 and options.shortlist is not None and str(options.shortlist) != NO_SHORTLIST:
            raise SettingsError(
                f"a shortlist works with a single model, but this is a chain of {len(self.steps)}: {self}; "
                "omit the shortlist, or choose a single model by name"
            )
        if len(self.steps) > 1 and options.draft is not None and str(options.draft) != DRAFT_SHORTLIST:
            raise SettingsError(
                f"a draft model works with a single model, but this is a chain of {len(self.steps)}: {self}; "
                "omit the draft model, or choose a single model by name"
            )
        loaded_translators: dict[str, Translator] = {}
        translators = []
        for step, checkpoint in self.steps:
            if step.model.path not in loaded_translators:
                step_options = replace(options, source=step.source, target=step.target)
                loaded_translators[step.model.path] = Translator(load_model(checkpoint, step_options))
            translators.append(loaded_translators[step.model.path].between(step.source, step.target))
        return translators[0].then(*translators[1:])


def choose_for(
    name: str | Path | Sequence[str | Path] | None,
    options: LoadOptions,
    via: str | Sequence[str] | None = None,
) -> ChosenModels:
    """Choose models by their names, by the base model of an adapter, or by a language pair.

    Args:
        name: see :meth:`uwaga.translator.Translator.load`; or a language pair such as ``en-pt``.
        options: load options; without a name, their two languages choose the models.
        via: see :func:`choose_models`.

    Raises:
        ModelError, SettingsError: as in :func:`choose_models`; or the arguments conflict.
    """
    names = [] if name is None else model_names([name] if isinstance(name, (str, Path)) else name)
    languages = (options.source, options.target)
    pair = language_pair(names[0]) if len(names) == 1 else None
    if pair is not None and options.adapter is not None:
        raise SettingsError(
            f"{names[0]!r} chooses an installed model, but an adapter works only with its base model: omit "
            "the name, or give the name of the base model"
        )
    if pair is not None and languages == (None, None):
        return choose_models(*pair, via, options.memory)
    if pair is not None:
        raise SettingsError(f"{names[0]!r} already names both languages: omit the source and the target")
    source, target = languages
    is_unnamed = not names and options.adapter is None  # an adapter names its model
    if is_unnamed and source is not None and target is not None:
        return choose_models(source, target, via, options.memory)
    if is_unnamed and (source is not None or target is not None) and BUNDLED.is_dir():
        _check_bundled(source, target)
    if via is not None:
        raise SettingsError("via chooses among installed models: give both languages, and no model name")
    return ChosenModels(tuple(names) if is_unnamed or names else (str(adapter_base(options.adapter, None)),))


def _check_bundled(source: str | None, target: str | None) -> None:
    """Raise SettingsError if only one language is given and the bundled model does not support it."""
    codes = formats.describe(BUNDLED).languages
    try:
        resolve_languages((codes[0][0], codes[1][0]), source, target, "the bundled model")
    except SettingsError as error:
        raise SettingsError(f"{error}; or give both languages to choose an installed model") from None


def language_pair(name: object) -> tuple[str, str] | None:
    """Return the two languages of a name such as ``en-pt``, or None if the name is not a language pair."""
    if not isinstance(name, str) or os.path.lexists(name):
        return None
    parts = name.split("-")
    pairs = [("-".join(parts[:index]), "-".join(parts[index:])) for index in range(1, len(parts))]
    pair = next((pair for pair in pairs if all(map(PAIR_CODE.fullmatch, pair))), None)
    if pair is None:
        return None
    from uwaga.library.installed import find_installed_folder

    return pair if find_installed_folder(name) is None else None


def choose_models(
    source: str,
    target: str,
    via: str | Sequence[str] | None = None,
    memory: str = "fast",
    environment: Mapping[str, str] = os.environ,
) -> ChosenModels:
    """Choose the best installed models between two languages; see :func:`uwaga.library.routes.find_route`.

    Args:
        source: code of the source language.
        target: code of the target language.
        via: code of the pivot language, or several codes in order; None for any pivot or none.
        memory: see :meth:`uwaga.translator.Translator.load`.
        environment: environment variables, which locate the models.

    Raises:
        NotInstalledError: no installed model or chain of models translates between the languages; the
            message says what to install.
        ModelError: a chosen model is damaged.
        SettingsError: a code is invalid, or source and target are the same language and there is no pivot.
    """
    if not isinstance(via, str | Sequence | None):
        raise SettingsError(f"via must be a language code or a list of them, not {quoted(via)}")
    pivots = [via] if isinstance(via, str) else list(via or ())
    for code in (source, target, *pivots):
        if not isinstance(code, str) or not LANGUAGE_CODE.fullmatch(code):
            raise SettingsError(f"{quoted(code)} is not a language code such as 'en' or 'pt_BR'")
    if same_language(source, target) and not pivots:
        raise SettingsError(
            f"{source} and {target} are the same language; choose another, or give a pivot language (--via)"
        )
    from uwaga.library.installed import installed_models
    from uwaga.library.routes import find_route

    models = installed_models((), environment)
    usable_models = list(models)
    while route := find_route(source, target, usable_models, pivots):
        steps = [ChosenStep(step, read_model(Path(step.model.path), memory=memory)) for step in route]
        mismatched_models = [step.model for step, checkpoint in steps if not _supports_pair(checkpoint, step)]
        if not mismatched_models:
            return ChosenModels((), tuple(steps))
        usable_models = [model for model in usable_models if model not in mismatched_models]
    raise _not_installed_error((source, *pivots, target), models)


def _supports_pair(checkpoint: Checkpoint, step: RouteStep[InstalledModel]) -> bool:
    """Return True if a model supports the languages of a step, according to its files or the catalogue."""
    if checkpoint.task != "translate":
        return False
    origin, languages = step.model.origin, checkpoint.languages.stated
    if origin is not None and origin.source_languages and languages == UNSTATED_LANGUAGES:
        return True  # the catalogue states what its files omit
    return checkpoint.languages.supports(step.source, step.target)


def _not_installed_error(codes: Sequence[str], models: Sequence[InstalledModel]) -> NotInstalledError:
    """Return the error for languages without an installed model; its message says what to install."""
    from uwaga.library.routes import PIVOT

    source, *pivots, target = codes
    detail = f" via {', '.join(pivots)}" if pivots else ", and no chain of models does"
    missing_pairs = _missing_pairs(codes, models) if pivots else [(source, target)]
    commands = _download_commands(missing_pairs)
    if not pivots and not any(same_language(code, PIVOT) for code in codes):
        missing_pairs = _missing_pairs((source, PIVOT, target), models)
        commands += f", or, to pivot through {PIVOT}, with {_download_commands(missing_pairs)}"
    parts = [
        f"no installed model translates {source} to {target}{detail}",
        f"download a model with {commands}, or give your own (--model)",
    ]
    available_pairs = sorted(
        {
            f"{source_code[0]} to {target_code[0]}"
            for source_code, target_code in map(_single_pair, models)
            if source_code and target_code
        }
    )
    if available_pairs:
        suffix = (
            f" and {len(available_pairs) - MAX_LISTED_PAIRS} more"
            if available_pairs[MAX_LISTED_PAIRS:]
            else ""
        )
        parts.append(f"installed: {', '.join(available_pairs[:MAX_LISTED_PAIRS])}{suffix}")
    damaged_models = [model for model in models if model.is_damaged]
    if damaged_models:
        parts.append(f"{damaged_models[0].name} is damaged: {damaged_models[0].problems[0]}")
    return NotInstalledError("; ".join(parts), tuple("-".join(pair) for pair in missing_pairs))


def _download_commands(pairs: Sequence[tuple[str, str]]) -> str:
    return " and ".join(
        f"`uwaga models download {source_code}-{target_code}`" for source_code, target_code in pairs
    )


def _single_pair(model: InstalledModel) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the source and target language of a model that has only one pair; otherwise empty tuples."""
    return model.languages if all(len(codes) == 1 for codes in model.languages) else ((), ())


def _missing_pairs(codes: Sequence[str], models: Sequence[InstalledModel]) -> list[tuple[str, str]]:
    """Return the pairs of consecutive languages without an installed model, or all if none lacks one."""
    from uwaga.library.routes import find_route

    pairs = list(pairwise(codes))
    return [pair for pair in pairs if len(find_route(*pair, models) or ()) != 1] or pairs
