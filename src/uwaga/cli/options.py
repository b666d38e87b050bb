"""Options that several verbs take, and what they share in reading and writing them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

Input = Annotated[
    Path | None,
    typer.Option("--input", "-i", help="A file of lines, plain, .gz, .zst or .xz.", show_default=False),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        help="A model folder or a Hugging Face name (owner/model); the bundled model if not given. "
        "Given again: models that work together, their probabilities averaged.",
        show_default=False,
    ),
]
AnyModel = Annotated[
    str,
    typer.Argument(
        help="A model folder, a Hugging Face name (owner/model) or an Argos package; `bundled` is the "
        "model that comes with uwaga.",
        show_default=False,
    ),
]
SourceLanguage = Annotated[
    str | None,
    typer.Option(
        "--from", help="The language of the sources, where the model knows several.", show_default=False
    ),
]
TargetLanguage = Annotated[
    str | None,
    typer.Option("--to", help="The language of the translations, likewise.", show_default=False),
]
Temperature = Annotated[
    float | None, typer.Option(help="Of sampling: below 1 is more cautious.", show_default="1")
]
TopK = Annotated[
    int | None, typer.Option(help="Of sampling: only the k likeliest tokens.", show_default="all")
]
TopP = Annotated[
    float | None,
    typer.Option(help="Of sampling: only the likeliest tokens of this total.", show_default="1"),
]
Seed = Annotated[
    int | None,
    typer.Option(help="Of sampling: the same seed draws the same.", show_default="new each time"),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
TorchDtype = Annotated[str, typer.Option(help="auto, float32, float16 or bfloat16.")]
Precision = Annotated[
    str,
    typer.Option(
        "--precision",
        "--dtype",
        help="auto, float32, bfloat16, int8 (CPU) or float16 (GPU).",
        show_default="auto",
    ),
]
Engine = Annotated[str, typer.Option(help="auto, native (CPU, Transformers) or torch (everything).")]
Threads = Annotated[int, typer.Option(help="CPU threads, 0 for all cores.", min=0)]

# What is measured.
References = Annotated[
    list[Path],
    typer.Option(
        "--reference",
        "-r",
        help="References: one per line, or a .tsv file with several per line. Give it again for more.",
        show_default=False,
    ),
]
Columns = Annotated[
    str, typer.Option(help="Columns of a .tsv that hold references, such as `2`, `2,4` or `2-`.")
]


def json_number(value: float) -> float | None:
    """JSON knows no infinity: an impossible token's score is null."""
    return round(value, 6) if math.isfinite(value) else None
