"""``uwaga merge``: a model with an adapter in it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

AdapterFolder = Annotated[
    Path, typer.Argument(help="The folder `adapter` of a run with adapt.lora.", show_default=False)
]
ModelFolder = Annotated[Path, typer.Argument(help="The model folder to make.", show_default=False)]
Base = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", help="The model that the adapter belongs to.", show_default="as the adapter names it"
    ),
]


def merge(adapter: AdapterFolder, folder: ModelFolder, model: Base = None) -> None:
    """Make one model of a low-rank adapter and the model that it was trained for.

    The folder has the format of that model. It needs no torch.

    **Examples**

        uwaga merge runs/medical/adapter medical-model

        uwaga convert --int8 medical-model medical-int8
    """
    from uwaga.conversion.export import merge_adapter

    base = merge_adapter(adapter, folder, model)
    typer.echo(f"{folder}: {base} with {adapter} merged into it")
