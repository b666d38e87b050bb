"""``uwaga attend``: where models look while they translate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli.options import Device, Threads, TorchDtype
from uwaga.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uwaga.inspection import Alignment

BUNDLED = "bundled model"


def attend(
    text: Annotated[str, typer.Argument(help="The text to translate.", show_default=False)],
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="A model folder or a Hugging Face name, with NAME= before it if you like; the bundled model "
            "if not given. Given again: models side by side.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Lead the models along this translation, token by token.", show_default="each model's own"
        ),
    ] = None,
    words: Annotated[bool, typer.Option("--words", help="Join the pieces of each word.")] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Draw it into this file, .png, .svg or .pdf; made whole or not at all.",
            show_default="the terminal",
        ),
    ] = None,
    device: Device = "auto",
    dtype: TorchDtype = "auto",
    threads: Threads = 0,
) -> None:
    """Show which source tokens each target token was made from: a matrix of attention weights.

    A row is a target token and sums to 1 over the source tokens: the darker, the more it looked there. Of a
    Transformer it is the mean over the heads of the last decoder layer's cross-attention. Without --output it
    is shown in the terminal, source tokens written from top to bottom.

    **Examples**

        uwaga attend "I want to buy a car."

        uwaga attend --words "I want to buy a car." --output car.svg

        uwaga attend "I want to buy a car." --target "Ich möchte ein Auto kaufen."

        uwaga attend "a man rides a bicycle ." -m Bahdanau=runs/bahdanau/model -m runs/luong/model -o two.png
    """
    from uwaga.cli.named import named
    from uwaga.inspection.pictures import check_format, new_figure

    models: dict[str, str | None] = dict(named(model, "--model")) if model else {BUNDLED: None}
    if output is not None:
        check_format(output)
        new_figure(1, 1)  # says so at once if matplotlib is missing
    from uwaga.inspection import align
    from uwaga.translator import Translator

    found = []
    for name, place in models.items():
        translator = Translator.load(place, device=device, dtype=dtype, threads=threads)
        try:
            translation = translator.attend(text, target)
        except SettingsError as error:
            raise SettingsError(f"{name}: {error}") from None
        found.append(align(translation, words=words, title=name if model else ""))
    if output is None:
        _print(found)
        return
    from uwaga.inspection import draw_alignments, save_figure

    save_figure(draw_alignments(found), output)


def _print(found: Sequence[Alignment]) -> None:
    from rich.console import Console

    from uwaga.inspection import heat_map

    console = Console(highlight=False)
    for number, one in enumerate(found):
        if number:
            console.print()
        console.print(heat_map(one, console.width), soft_wrap=True)
