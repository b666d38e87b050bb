"""From a name, or several, to what a translator is made of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from uwaga.errors import SettingsError
from uwaga.translator.loading import LoadOptions, load_translator, model_names
from uwaga.translator.model import Model


def load_named(name: str | Path | Sequence[str | Path] | None, wanted: LoadOptions) -> Model:
    """One model, or an ensemble of several; errors are those of :meth:`Translator.load`."""
    if name is None or isinstance(name, (str, Path)):
        return load_translator(name, wanted)
    names = model_names(name)
    if len(names) < 2:
        return load_translator(names[0] if names else None, wanted)
    return _together(names, wanted)


def _together(names: Sequence[str], wanted: LoadOptions) -> Model:
    from uwaga.models.ensemble import Ensemble

    members = [load_translator(name, wanted) for name in names]
    first = members[0]
    for name, member in zip(names, members, strict=True):
        for side, ours, theirs in (
            ("source", first.source, member.source),
            ("target", first.target, member.target),
        ):
            if ours.model_bytes != theirs.model_bytes:
                raise SettingsError(
                    f"{name}: its {side} tokeniser is not that of {names[0]}; "
                    "the models of an ensemble must share their vocabularies"
                )
    ensemble = Ensemble([member.decoder for member in members], names)
    return first.with_decoder(ensemble)
