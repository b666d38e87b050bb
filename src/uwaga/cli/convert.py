"""``uwaga convert``: a model in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uwaga.errors import SettingsError


def convert(
    model: Annotated[
        str,
        typer.Argument(
            help="A model folder or a Hugging Face name (owner/model); `bundled` is the model that comes "
            "with uwaga.",
            show_default=False,
        ),
    ],
    folder: Annotated[Path, typer.Argument(help="The folder to make.", show_default=False)],
    int8: Annotated[bool, typer.Option("--int8", help="Weights in int8, for the native engine.")] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Matrices to leave in 16 bits, by pattern, such as output or 'decoder.0.*'; may be given "
            "again.",
            show_default=False,
        ),
    ] = None,
    sample: Annotated[
        Path | None,
        typer.Option(help="Sentences to compare the two models on, one per line.", show_default=False),
    ] = None,
) -> None:
    """Write a Transformer as an int8 folder: a quarter of the size, memory-mapped, faster.

    A sample is translated in float32 and in int8, and how far they agree is printed.

    **Examples**

        uwaga convert --int8 Helsinki-NLP/opus-mt-en-de opus-en-de-int8 --sample news.en

        uwaga convert --int8 bundled tatoeba-int8 --keep output
    """
    if not int8:
        raise SettingsError("say what to convert to: --int8")
    from uwaga.checkpoints.hub import find_model
    from uwaga.data.lines import read_lines
    from uwaga.translator.quantising import quantise

    source = find_model(None if model == "bundled" and not Path(model).exists() else model)
    lines = None
    if sample is not None:
        lines = [line.decode("utf-8", "replace") for line in read_lines(sample) if line is not None]
    found = quantise(source, folder, tuple(keep or ()), lines)
    what = "sentences" if sample is not None else "sources drawn from the vocabulary (no --sample)"
    typer.echo(f"{folder}: written in int8")
    typer.echo(
        f"{found.sentences} {what}, greedy: {found.same:.1%} translated alike, {found.tokens:.1%} of tokens; "
        f"log-probability of a token differs by {found.difference:.4f} on average, "
        f"by {found.largest:.4f} in the worst sentence"
    )
