"""Models as folders for other programs, and adapters merged into their models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.adapter import adapted, read_adapter
from uwaga.checkpoints.alignment_head import write_head
from uwaga.checkpoints.rewrite import rewrite
from uwaga.errors import ModelError, SettingsError
from uwaga.library.hub import find_model
from uwaga.translator.loading import LoadOptions, load_model

if TYPE_CHECKING:
    from uwaga.checkpoints.formats.huggingface.export_config import ExportFormat


def export(folder: Path, out: Path, to: ExportFormat) -> list[str]:
    """Write the translation model of ``folder`` as the folder ``out`` in another format, whole or not at all.

    Args:
        folder: any model folder that uwaga translates with and torch runs.
        out: the folder to make.
        to: ``marian`` and ``pegasus`` are Hugging Face folders of one layout; norms stand behind the blocks
            in the one and before them in the other.

    Returns:
        What uwaga does with texts and a program that loads ``out`` does not, a sentence each.

    Raises:
        ModelError: the model cannot be read or has a feature that the format lacks; or ``out`` exists or
            cannot be written. Nothing is written then.
        SettingsError: the format cannot say how the model decodes.
        MissingExtraError: torch is not installed.
    """
    loaded = load_model(folder, LoadOptions("cpu", "float32", engine="torch"))
    # Behind the loading, which says what to install where torch is missing.
    from uwaga.checkpoints.formats.huggingface.export import write_hugging_face

    source, target = loaded.source, loaded.target
    lost = write_hugging_face(
        out, to, loaded.decoder, source, target, loaded.decoding, loaded.text, loaded.languages
    )
    if loaded.alignment_head is not None:
        write_head(out, loaded.alignment_head)
    return lost


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
