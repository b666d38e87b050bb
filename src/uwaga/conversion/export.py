"""Export of models for other programs, and merging of adapters into models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.adapter import apply_adapter, read_adapter
from uwaga.checkpoints.alignment_head import write_head
from uwaga.checkpoints.formats.uwaga.int8 import write_quantised
from uwaga.checkpoints.rewrite import can_rewrite, rewrite
from uwaga.checkpoints.to_engine import pack_weights
from uwaga.errors import ModelError, SettingsError
from uwaga.library.hub import find_model
from uwaga.settings.load_options import LoadOptions
from uwaga.translator.loading import load_model

if TYPE_CHECKING:
    from uwaga.checkpoints.formats.huggingface.export import ExportFormat


def export(folder: Path, out: Path, to: ExportFormat) -> list[str]:
    """Write a translation model in the format of another program, atomically.

    Args:
        folder: a model that uwaga can run with PyTorch.
        out: the folder to create.
        to: the format, ``marian`` for models with post-norm blocks or ``pegasus`` for models with pre-norm
            blocks. Both formats are Hugging Face folders with the same layout.

    Returns:
        descriptions of how uwaga's translations differ from those of programs that load the folder, one
        sentence each.

    Raises:
        ModelError: if the model cannot be read or has a feature that the format cannot express, or if ``out``
            exists or cannot be written. Nothing is then written.
        SettingsError: if the format cannot express the model's search options.
        MissingExtraError: if PyTorch is not installed.
    """
    model = load_model(folder, LoadOptions("cpu", "float32", engine="torch"))
    # Imported after loading, which reports what to install if torch is missing.
    from uwaga.checkpoints.formats.huggingface.export import write_hugging_face

    notes = write_hugging_face(out, to, model)
    if model.alignment_head is not None:
        write_head(out, model.alignment_head)
    return notes


class MergeResult(NamedTuple):
    """The result of merging an adapter.

    Attributes:
        base: folder or file of the base model.
        quantised: True if the merged model was written as an int8 folder.
    """

    base: Path
    quantised: bool


def merge_adapter(adapter: Path, out: Path, model: str | Path | None = None) -> MergeResult:
    """Merge an adapter into the weights of its base model: ``W + α/r · B A`` (Hu 2021 §4.1).

    Args:
        adapter: the adapter's folder.
        out: the folder to create. It has the format of the base model, with weights in float16 if all weights
            of the base model are float16, otherwise in float32. If uwaga cannot write this format, as for
            Firefox's models, it is an int8 folder.
        model: name or path of the base model; None for the model named in the adapter.

    Raises:
        ModelError: if the adapter or the model is missing or damaged, if they do not match, or if ``out``
            cannot be written. Nothing is then changed.
        SettingsError: if the model is quantised, or ``out`` is the base model.
    """
    loaded_adapter = read_adapter(adapter)
    try:
        location = find_model(loaded_adapter.base if model is None else model)
    except ModelError as error:
        hint = (
            ""
            if model is not None
            else "; this is the base model of the adapter: give its location with --model"
        )
        raise ModelError(f"{error}{hint}") from None
    if out.resolve() == Path(location).resolve():
        raise SettingsError(f"{out}: this is the base model of the adapter; choose another folder")
    checkpoint = apply_adapter(formats.read(location), loaded_adapter)
    weights = checkpoint.weights
    assert weights is not None
    card = checkpoint.card.text or f"# {location.name}\n"
    name, rank = adapter.resolve().name, loaded_adapter.rank
    card += f"\nWith the adapter {name} of rank {rank}, merged by `uwaga merge`.\n"
    if not can_rewrite(checkpoint):
        write_quantised(out, checkpoint, pack_weights(checkpoint, "int8"), card)
        return MergeResult(location, quantised=True)
    half_precision = all(weights.format(name) == "F16" for name in weights.names())
    rewrite(checkpoint, out, weights.read, card, half_precision)
    return MergeResult(location, quantised=False)
