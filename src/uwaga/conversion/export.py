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
from uwaga.settings.load_options import LoadOptions
from uwaga.translator.loading import load_model

if TYPE_CHECKING:
    from uwaga.checkpoints.formats.huggingface.export import ExportFormat


def export(folder: Path, out: Path, to: ExportFormat) -> list[str]:
    """Write a translation model in the format of another program, atomically.

    Args:
        folder: any model folder that uwaga translates with in torch.
        out: the folder to create.
        to: ``marian`` and ``pegasus`` are Hugging Face folders of the same layout, with post-norm and
            pre-norm blocks.

    Returns:
        Notes, one sentence each, on preprocessing that uwaga does and other programs do not.

    Raises:
        ModelError: the model cannot be read or has a feature that the format lacks, or ``out`` exists or
            cannot be written. Nothing is written then.
        SettingsError: the format cannot express how the model decodes.
        MissingExtraError: torch is not installed.
    """
    loaded = load_model(folder, LoadOptions("cpu", "float32", engine="torch"))
    # Imported after loading, which reports what to install if torch is missing.
    from uwaga.checkpoints.formats.huggingface.export import write_hugging_face

    source, target = loaded.source, loaded.target
    lost = write_hugging_face(
        out, to, loaded.decoder, source, target, loaded.decoding, loaded.text, loaded.languages
    )
    if loaded.alignment_head is not None:
        write_head(out, loaded.alignment_head)
    return lost


def merge_adapter(adapter: Path, out: Path, model: str | Path | None = None) -> Path:
    """Merge an adapter into the weights of its base model: ``W + α/r · B A`` (Hu 2021 §4.1).

    Args:
        adapter: the adapter's folder.
        out: the folder to create, in the format of the base model; weights are float16 if all of the base
            model's are, otherwise float32.
        model: the base model; None for the one that the adapter names.

    Returns:
        The location of the base model.

    Raises:
        ModelError: the adapter or the model is missing or damaged, they do not belong together, or ``out``
            cannot be written. Nothing is changed then.
        SettingsError: the model is in int8, or ``out`` is the base model.
    """
    found = read_adapter(adapter)
    try:
        place = find_model(found.base if model is None else model)
    except ModelError as error:
        hint = "" if model is not None else "; it is the adapter's base model: give its location with --model"
        raise ModelError(f"{error}{hint}") from None
    if out.resolve() == Path(place).resolve():
        raise SettingsError(f"{out}: is the base model of the adapter; choose another folder")
    checkpoint = adapted(formats.read(place), found)
    weights = checkpoint.weights
    assert weights is not None
    half = all(weights.format(name) == "F16" for name in weights.names())
    card = checkpoint.card.text or f"# {place.name}\n"
    card += f"\nWith the adapter {adapter.resolve().name} of rank {found.rank}, merged by `uwaga merge`.\n"
    rewrite(checkpoint, out, weights.read, card, half)
    return place
