"""Conversion of checkpoints to models of the native engine. Does not import torch."""

from __future__ import annotations

from collections.abc import Sequence

from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.engine import NativeModel, PackedWeights, Precision, pack
from uwaga.engine.layout import EngineSettings, unsupported_reason
from uwaga.engine.packing import StoredForms
from uwaga.errors import ModelError, SettingsError


def runs_on_engine(checkpoint: Checkpoint) -> bool:
    """Return True if the engine supports a model's family and settings."""
    return unsupported_reason(checkpoint.settings) is None


def to_engine(
    checkpoint: Checkpoint,
    precision: Precision | None = None,
    threads: int = 1,
    packed: PackedWeights | None = None,
) -> NativeModel:
    """Return a model of the native engine for a checkpoint.

    Args:
        checkpoint: checkpoint of a Transformer, a decoder-only or a recurrent model.
        precision: precision of the computation; None for the precision of the stored weights if the model is
            quantised, and for float32 otherwise.
        threads: number of threads, see :class:`uwaga.engine.NativeModel`.
        packed: the packed weights; None to pack the checkpoint's weights.
    """
    settings = _engine_settings(checkpoint)
    if packed is None and checkpoint.packed is not None:
        if precision not in (None, checkpoint.packed.precision):
            raise SettingsError(
                f"{checkpoint.path}: this is an {checkpoint.packed.precision} model; {precision} requires "
                "the original model"
            )
        packed = checkpoint.packed
    packed = packed or pack_weights(checkpoint, precision or checkpoint.precision or "float32")
    sizes = (checkpoint.source_vocabulary, checkpoint.target_vocabulary)
    try:
        return NativeModel(settings, checkpoint.symbols, sizes, packed, threads)
    except ModelError as error:
        raise ModelError(f"{checkpoint.path}: {error}") from None


def pack_weights(checkpoint: Checkpoint, precision: Precision, keep: Sequence[str] = ()) -> PackedWeights:
    """Return the weights of a checkpoint, packed for the engine; see :func:`uwaga.engine.packing.pack`."""
    settings, weights = _engine_settings(checkpoint), checkpoint.weights
    if weights is None:
        raise ModelError(f"{checkpoint.path}: the model is already quantised; give the original model")
    sizes = (checkpoint.source_vocabulary, checkpoint.target_vocabulary)
    try:
        stored_forms = StoredForms(weights.integers, weights.rows)
        return pack(settings, sizes, weights.read, precision, keep, stored_forms=stored_forms)
    except ModelError as error:
        raise ModelError(f"{checkpoint.path}: {error}") from None


def _engine_settings(checkpoint: Checkpoint) -> EngineSettings:
    settings, reason = checkpoint.settings, unsupported_reason(checkpoint.settings)
    if reason is not None:
        raise ModelError(f"{checkpoint.path}: the native engine runs {reason}; use the engine torch")
    assert isinstance(settings, EngineSettings)
    return settings
