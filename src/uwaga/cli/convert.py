"""``uwaga convert``: a model in another library's format."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """What a model can be written as."""

    marian = "marian"
    pegasus = "pegasus"


def convert(
    model: Annotated[
        str,
        typer.Argument(
            help="A model folder, a Hugging Face name (owner/model) or an Argos package; `bundled` is the "
            "model that comes with uwaga.",
            show_default=False,
        ),
    ],
    folder: Annotated[Path, typer.Argument(help="The folder to make.", show_default=False)],
    to: Annotated[
        Format,
        typer.Option(
            help="marian: norms behind the blocks (MarianMTModel); pegasus: the same layout with norms "
            "before them (PegasusForConditionalGeneration).",
            show_default=False,
        ),
    ],
) -> None:
    """Write a Transformer as a Hugging Face folder that transformers and CTranslate2's converter load.

    It translates the same there: greedy and with a beam. What uwaga does with texts before they reach the
    model, and other programs do not, is said when the folder is made.

    **Examples**

        uwaga convert runs/ende/model ende-marian --to marian

        uwaga convert bundled tatoeba-en-de --to pegasus

        ct2-transformers-converter --model tatoeba-en-de --output_dir tatoeba-ct2
    """
    from uwaga.checkpoints.hub import find_model
    from uwaga.translator.loading import Wanted, load_parts

    name = str(find_model(None)) if model == "bundled" and not Path(model).exists() else model
    parts = load_parts(name, Wanted("cpu", "float32", engine="torch"))
    from uwaga.checkpoints.marian_out import write_hugging_face

    differences = write_hugging_face(
        folder, to.value, parts.decoder, parts.source, parts.target, parts.decoding, parts.languages
    )
    typer.echo(f"{folder}: written as {to.value}")
    for difference in differences:
        typer.echo(f"note: {difference}")
