"""A model folder of a model and an adapter."""

from __future__ import annotations

from pathlib import Path

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.adapter import adapted, read_adapter
from uwaga.checkpoints.rewrite import rewrite
from uwaga.errors import ModelError, SettingsError
from uwaga.library.hub import find_model


def merge_adapter(adapter: Path, out: Path, model: str | Path | None = None) -> Path:
    """Write the model of an adapter, the adapter merged into its weights: ``W + α/r · B A`` (Hu 2021 §4.1).

    Args:
        adapter: the adapter's folder.
        out: the folder to make, of the model's format; weights in float16 where the model's all are, else in
            float32.
        model: what the adapter belongs to; None for what it names.

    Returns:
        the place of the model.

    Raises:
        ModelError: the adapter or the model is missing, damaged or another's, or ``out`` cannot be written.
            Nothing has changed then.
        SettingsError: the model is in int8, or ``out`` is that model.
    """
    found = read_adapter(adapter)
    try:
        place = find_model(found.base if model is None else model)
    except ModelError as error:
        hint = "" if model is not None else "; the adapter names it so: say where it is with --model"
        raise ModelError(f"{error}{hint}") from None
    if out.resolve() == Path(place).resolve():
        raise SettingsError(f"{out}: the model that the adapter belongs to; name another folder")
    checkpoint = adapted(formats.read(place), found)
    weights = checkpoint.weights
    assert weights is not None
    half = all(weights.format(name) == "F16" for name in weights.names())
    card = checkpoint.card.text or f"# {place.name}\n"
    card += f"\nThe adapter {adapter.resolve().name} of rank {found.rank} merged into it by `uwaga merge`.\n"
    rewrite(checkpoint, out, weights.read, card, half)
    return place
