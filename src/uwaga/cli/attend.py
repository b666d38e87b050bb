"""``uwaga attend``: where models look while they translate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from uwaga.cli import options as the
from uwaga.errors import SettingsError

BUNDLED = "bundled model"

Text = Annotated[str, typer.Argument(help="The text to translate.", show_default=False)]
NamedModels = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        help="A model folder or a Hugging Face name, with NAME= before it if you like; the bundled model "
        "if not given. Given again: models side by side.",
        show_default=False,
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        help="Lead the models along this translation, token by token.", show_default="each model's own"
    ),
]
Words = Annotated[bool, typer.Option("--words", help="Join the pieces of each word.")]
Drawing = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Draw it into this file, .png, .svg or .pdf; made whole or not at all.",
        show_default="the terminal",
    ),
]

AsJson = Annotated[
    bool, typer.Option("--json", help="One JSON object per model: title, source, target, weights.")
]


def attend(
    text: Text,
    model: NamedModels = None,
    target: Target = None,
    words: Words = False,
    output: Drawing = None,
    as_json: AsJson = False,
    device: the.Device = "auto",
    dtype: the.TorchDtype = "auto",
    threads: the.Threads = 0,
) -> None:
    """Show which source tokens each target token was made from: a matrix of attention weights.

    A row is a target token and sums to 1 over the source tokens: the darker, the more it looked there. Of a
    Transformer it is the mean over the heads of the last decoder layer's cross-attention. Without --output it
    is shown in the terminal, source tokens written from top to bottom.

    **Examples**

        uwaga attend "I want to buy a car."

        uwaga attend --words "I want to buy a car." --output car.svg

        uwaga attend "I want to buy a car." --target "Ich möchte ein Auto kaufen."

        uwaga attend --json "I want to buy a car." | jq .weights

        uwaga attend "a man rides a bicycle ." -m Bahdanau=runs/bahdanau/model -m runs/luong/model -o two.png
    """
    from uwaga import inspection
    from uwaga.cli.named import named

    models: dict[str, str | None] = dict(named(model, "--model")) if model else {BUNDLED: None}
    if output is not None and as_json:
        raise SettingsError("--json is printed: leave out --output, which draws")
    if output is not None:
        inspection.check_drawing(output)
    found = inspection.align_systems(
        models, text, target, words=words, device=device, dtype=dtype, threads=threads
    )
    if not model:
        found = [replace(one, title="") for one in found]
    if output is not None:
        inspection.save_figure(inspection.draw_alignments(found), output)
        return
    if as_json:
        typer.echo("\n".join(one.to_json() for one in found))
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print(inspection.heat_maps(found, console.width), soft_wrap=True)
