"""A model as a folder that other programs load: the one door to every format that uwaga writes for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.checkpoints.alignment_head import write_head
from uwaga.translator.loading import LoadOptions, load_translator

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
    loaded = load_translator(folder, LoadOptions("cpu", "float32", engine="torch"))
    # Behind the loading, which says what to install where torch is missing.
    from uwaga.checkpoints.formats.huggingface.export import write_hugging_face

    source, target = loaded.source, loaded.target
    lost = write_hugging_face(
        out, to, loaded.decoder, source, target, loaded.decoding, loaded.text, loaded.languages
    )
    if loaded.alignment_head is not None:
        write_head(out, loaded.alignment_head)
    return lost
