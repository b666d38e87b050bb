"""``uwaga merge``: merge an adapter into its base model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uwaga.cli import options
from uwaga.cli.convert import print_shortlist_note

AdapterFolder = Annotated[Path, typer.Argument(help="Adapter folder of a run with adapt.lora.")]
ModelFolder = Annotated[Path, typer.Argument(help="Model folder to create.")]
Base = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", help="Base model of the adapter.", show_default="the one that the adapter names"
    ),
]


def merge(
    adapter: AdapterFolder, folder: ModelFolder, model: Base = None, force: options.Force = False
) -> None:
    """Merge a LoRA adapter into its base model.

    The new folder has the format of the base model, or is int8 if uwaga reads but does not write that format.
    Merging does not need torch.

    **Examples**

        uwaga merge runs/medical/adapter medical-model

        uwaga convert --int8 medical-model medical-int8
    """
    options.check_replaceable(folder, force)
    from uwaga.conversion.export import merge_adapter

    result = merge_adapter(adapter, folder, model)
    typer.echo(
        f"{folder}: {result.base} with {adapter} merged into it{', in int8' if result.quantised else ''}"
    )
    if result.quantised:
        print_shortlist_note(result.base)
