"""The installed models that translate between two languages."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.checkpoints.languages import UNKNOWN, resolve_languages
from uwaga.errors import NotInstalledError, SettingsError, shown
from uwaga.languages.codes import same_language
from uwaga.settings.load_options import NO_SHORTLIST, LoadOptions
from uwaga.translator.loading import load_model, read_model
from uwaga.translator.translator import Translator

if TYPE_CHECKING:
    from uwaga.library.installed import InstalledModel
    from uwaga.library.routes import RouteStep

CODE = re.compile(r"[a-z]{2,3}([-_]([A-Z][a-z]{3}|[A-Z]{2}|[0-9]{3}))?")
"""A language as the name of a pair has it: ``pt``, ``pt-BR``, ``por_Latn``."""
ANY_CODE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8}){0,3}", re.ASCII)
MOST_SHOWN = 8
"""Pairs of languages in a message."""


@dataclass(frozen=True)
class ChosenModels:
    """Installed models, read and checked, that translate one after the other; usually one."""

    legs: tuple[RouteStep[InstalledModel], ...]
    checkpoints: tuple[Checkpoint, ...]

    def __str__(self) -> str:
        codes = (self.legs[0].source, *(leg.target for leg in self.legs))
        return f"{' → '.join(codes)} by {', '.join(leg.model.name for leg in self.legs)}"

    def load(self, wanted: LoadOptions) -> Translator:
        """Load the translator; a model that translates twice is loaded once.

        Args:
            wanted: how to load every model; its languages are not looked at.

        Raises:
            ModelError, SettingsError, MissingExtraError: as :meth:`uwaga.translator.Translator.load`; or
                a shortlist is named for several models.
        """
        if len(self.legs) > 1 and wanted.shortlist is not None and str(wanted.shortlist) != NO_SHORTLIST:
            raise SettingsError(
                f"a shortlist works with a single model, but this is a chain of {len(self.legs)}: {self}; "
                "omit it, or name the model"
            )
        loaded: dict[str, Translator] = {}
        steps = []
        for leg, checkpoint in zip(self.legs, self.checkpoints, strict=True):
            if leg.model.place not in loaded:
                own = replace(wanted, source=leg.source, target=leg.target)
                loaded[leg.model.place] = Translator(load_model(checkpoint, own))
            steps.append(loaded[leg.model.place].between(leg.source, leg.target))
        return steps[0].then(*steps[1:])


def choose_for(
    name: str | Path | Sequence[str | Path] | None,
    wanted: LoadOptions,
    via: str | Sequence[str] | None = None,
) -> ChosenModels | None:
    """Choose models by a pair of languages; None if a model is named, or the bundled one is meant.

    Args:
        name: as :meth:`uwaga.translator.Translator.load` has it, or a pair of languages such as ``en-pt``.
        wanted: its two languages choose the models where nothing is named.
        via: as :func:`choose_models` has it.

    Raises:
        ModelError, SettingsError: as :func:`choose_models`; or something is named twice.
    """
    named = [name] if isinstance(name, (str, Path)) else list(name) if isinstance(name, Sequence) else []
    languages = (wanted.source, wanted.target)
    pair = language_pair(named[0]) if len(named) == 1 else None
    if pair is not None and wanted.adapter is not None:
        raise SettingsError(
            f"{named[0]!r} chooses an installed model, and an adapter belongs to one: leave the name out, "
            "for the adapter knows its own, or give that model's"
        )
    if pair is not None and languages == (None, None):
        return choose_models(*pair, via, wanted.memory)
    if pair is not None:
        raise SettingsError(f"{named[0]!r} names both languages already: leave out the others")
    source, target = languages
    free = not named and wanted.adapter is None  # an adapter names its model
    if free and source is not None and target is not None:
        return choose_models(source, target, via, wanted.memory)
    if free and (source is not None or target is not None) and BUNDLED.is_dir():
        _check_bundled(source, target)
    if via is not None:
        raise SettingsError("via chooses among installed models: give both languages with it, and no model")
    return None


def _check_bundled(source: str | None, target: str | None) -> None:
    """Check that the only language given is the bundled model's.

    Raises:
        SettingsError: it is another.
    """
    codes = formats.describe(BUNDLED).languages
    try:
        resolve_languages((codes[0][0], codes[1][0]), source, target, "the bundled model")
    except SettingsError as error:
        raise SettingsError(f"{error}; or give both languages, which choose an installed one") from None


def language_pair(name: object) -> tuple[str, str] | None:
    """Return the languages of a name such as ``en-pt``, or None if it means something else."""
    if not isinstance(name, str) or os.path.lexists(name):
        return None
    parts = name.split("-")
    pairs = [("-".join(parts[:at]), "-".join(parts[at:])) for at in range(1, len(parts))]
    pair = next((pair for pair in pairs if all(map(CODE.fullmatch, pair))), None)
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
        source: code of a language.
        target: code of a language.
        via: codes of the languages between: one, or several in their order; None for any or none.
        memory: as :meth:`uwaga.translator.Translator.load` has it.
        environment: where the variables that place the models are looked up.

    Raises:
        NotInstalledError: no installed model translates so; says what to install.
        ModelError: the one that is chosen is damaged.
        SettingsError: a code is none, or source and target are one language and nothing is between.
    """
    if not isinstance(via, str | Sequence | None):
        raise SettingsError(f"via must be the code of a language, or several in a list, not {shown(via)}")
    between = [via] if isinstance(via, str) else list(via or ())
    for code in (source, target, *between):
        if not isinstance(code, str) or not ANY_CODE.fullmatch(code):
            raise SettingsError(f"{shown(code)} is not a language code such as 'en' or 'pt_BR'")
    if same_language(source, target) and not between:
        raise SettingsError(
            f"{source} and {target} are one language; name one to go through with via (--via), or another"
        )
    from uwaga.library.installed import installed_models
    from uwaga.library.routes import find_route

    models = installed_models((), environment)
    usable = list(models)
    while route := find_route(source, target, usable, between):
        read = [(leg, read_model(Path(leg.model.place), memory=memory)) for leg in route]
        false = [leg for leg, checkpoint in read if not _does(checkpoint, leg)]
        if not false:
            return ChosenModels(route, tuple(checkpoint for _, checkpoint in read))
        usable = [one for one in usable if one not in [leg.model for leg in false]]
    raise _nothing((source, *between, target), models)


def _does(checkpoint: Checkpoint, leg: RouteStep[InstalledModel]) -> bool:
    """Return True if a model's files support what its description says."""
    if checkpoint.task != "translate":
        return False
    origin, stated = leg.model.origin, checkpoint.languages.stated
    if origin is not None and origin.source_languages and stated == UNKNOWN:
        return True  # the catalogue says what its files do not
    return checkpoint.languages.knows(leg.source, leg.target)


def _nothing(codes: Sequence[str], models: Sequence[InstalledModel]) -> NotInstalledError:
    """Return the error for languages without models, with what to install."""
    from uwaga.library.routes import PIVOT

    source, *between, target = codes
    way = f" by way of {', '.join(between)}" if between else ", nor do several one after the other"
    missing = _missing(codes, models) if between else [(source, target)]
    fetched = _download(missing)
    if not between and not any(same_language(code, PIVOT) for code in codes):
        missing = _missing((source, PIVOT, target), models)
        fetched += f", or to go through {PIVOT} {_download(missing)}"
    notes = [
        f"no installed model translates {source} to {target}{way}",
        f"download a model with {fetched}, or name your own (--model)",
    ]
    known = sorted({f"{one[0]} to {other[0]}" for one, other in map(_pair, models) if one and other})
    if known:
        more = f" and {len(known) - MOST_SHOWN} more" if known[MOST_SHOWN:] else ""
        notes.append(f"installed: {', '.join(known[:MOST_SHOWN])}{more}")
    broken = [one for one in models if one.damaged]
    if broken:
        notes.append(f"{broken[0].name} is damaged: {broken[0].problems[0]}")
    return NotInstalledError("; ".join(notes), tuple("-".join(pair) for pair in missing))


def _download(pairs: Sequence[tuple[str, str]]) -> str:
    return " and ".join(f"`uwaga models download {one}-{other}`" for one, other in pairs)


def _pair(model: InstalledModel) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the languages of a model of one pair, else none."""
    return model.languages if all(len(codes) == 1 for codes in model.languages) else ((), ())


def _missing(codes: Sequence[str], models: Sequence[InstalledModel]) -> list[tuple[str, str]]:
    """Return the parts of a route without a model."""
    from uwaga.library.routes import find_route

    parts = list(pairwise(codes))
    direct = [len(find_route(*part, models) or ()) == 1 for part in parts]
    return [part for part, there in zip(parts, direct, strict=True) if not there] or parts
