"""``uwaga attend``: show the attention of models on a text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uwaga.cli import options
from uwaga.cli.option_groups import Group, option_groups
from uwaga.errors import SettingsError
from uwaga.settings.load_options import LoadOptions

if TYPE_CHECKING:
    from uwaga.inspection import Alignment, Selection

BUNDLED_TITLE = "bundled model"

Text = Annotated[str, typer.Argument(help="Text to translate or to read.")]
NamedModels = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        help="Model folder or Hugging Face name, optionally NAME=FOLDER; default: the bundled model. "
        "Repeat to compare models.",
    ),
]
Target = Annotated[
    str | None, typer.Option(help="Translation to force-decode.", show_default="each model's translation")
]
Words = Annotated[
    bool,
    typer.Option(
        "--words", help="Merge the pieces of each word: sum over source pieces, average over target pieces."
    ),
]
Drawing = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Write a figure to this file (.png, .svg or .pdf).",
        show_default="the terminal",
    ),
]

AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object per matrix: title, source, target, weights, kind."),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        help="Kind of attention: cross, encoder or decoder (self-attention). Repeatable.",
        show_default="cross; for encoder- or decoder-only models, their self-attention",
    ),
]
Layers = Annotated[
    list[str] | None,
    typer.Option(
        "--layer", help="Number of a layer from 1, or last, or all. Repeatable.", show_default="last"
    ),
]
Heads = Annotated[
    list[str] | None,
    typer.Option(
        "--head",
        help="Number of a head from 1, or mean (average of all heads), or all. Repeatable.",
        show_default="mean",
    ),
]
Attribution = Annotated[
    str | None,
    typer.Option(
        help="Also show the contribution of each source token to each target token's log-probability: "
        "`integrated` (integrated gradients) or `gradient_input`. For a Transformer, in torch."
    ),
]

Load = Annotated[LoadOptions, Group(LoadOptions, names=("device", "dtype", "threads"))]


@option_groups
def attend(
    text: Text,
    model: NamedModels = None,
    target: Target = None,
    kind: Kinds = None,
    layer: Layers = None,
    head: Heads = None,
    words: Words = False,
    attribution: Attribution = None,
    output: Drawing = None,
    as_json: AsJson = False,
    *,
    load: Load,
) -> None:
    """Show the attention weights of a model on a text, as a heat map or a figure.

    By default this is cross-attention: each row is a target token, and its weights over the source tokens
    sum to 1; darker is larger. For a Transformer it is the mean over the heads of the last decoder layer.

    --kind, --layer and --head select other matrices: self-attention of the encoder or the decoder (BERT has
    only the first, GPT-2 only the second), and single layers and heads. In a figure (--output) they are small
    multiples, with a row per layer and a column per head.

    **Examples**

        uwaga attend "I want to buy a car."

        uwaga attend "I want to buy a car." --target "Ich möchte ein Auto kaufen."

        uwaga attend --kind encoder --layer all --head all "I want to buy a car." -o every.png

        uwaga attend --attribution integrated --words "I want to buy a car." --output why.svg

        uwaga attend --model models/bert-base-uncased --layer 5 --head 10 "The cat sat on the mat."

        uwaga attend "a man rides a bicycle ." -m Bahdanau=runs/bahdanau/model -m runs/luong/model -o two.png
    """
    from uwaga import inspection

    models: dict[str, str | None] = (
        dict(options.parse_labels(model, "--model")) if model else {BUNDLED_TITLE: None}
    )
    if output is not None and as_json:
        raise SettingsError("--json cannot be combined with --output, which draws a figure")
    if output is not None:
        inspection.check_drawing(output)
    select = selection(kind, layer, head)
    if attribution is not None:
        if select is not None or load.dtype != "auto":
            raise SettingsError("--attribution cannot be combined with --kind, --layer, --head or --dtype")
        matrices = attributions(models, text, target, attribution, words, load)
    else:
        arguments: Any = {"select": select, "words": words, "device": load.device, "dtype": load.dtype}
        arguments["threads"] = load.threads
        matrices = inspection.align_systems(models, text, target, **arguments)
    if not model:
        matrices = [
            replace(matrix, title=matrix.title.removeprefix(BUNDLED_TITLE).removeprefix(": "))
            for matrix in matrices
        ]
    show_matrices(matrices, output, as_json, multiples=select is not None)


def attributions(
    models: dict[str, str | None], text: str, target: str | None, method: Any, words: bool, load: LoadOptions
) -> list[Alignment]:
    """Return the attention and attributions of each model."""
    from uwaga import inspection
    from uwaga.translator import Translator

    matrices = []
    for name, path in models.items():
        translator = Translator.load(path, engine="torch", device=load.device, threads=load.threads)
        matrices += inspection.contributions(translator, text, target, method, words=words, title=name)
    return matrices


def show_matrices(matrices: list[Alignment], output: Path | None, as_json: bool, multiples: bool) -> None:
    """Draw matrices to a file, or print them as JSON or as heat maps."""
    from uwaga import inspection

    if output is not None:
        draw = inspection.draw_matrices if multiples else inspection.draw_alignments
        inspection.save_figure(draw(matrices), output)
        return
    if as_json:
        typer.echo("\n".join(matrix.to_json() for matrix in matrices))
        return
    from rich.console import Console

    # click's stream is UTF-8 even in the C locale, whose encoding, ASCII, lacks the characters of the map.
    console = Console(file=typer.get_text_stream("stdout"), highlight=False)
    console.print(inspection.heat_maps(matrices, console.width), soft_wrap=True)


def selection(kinds: list[str] | None, layers: list[str] | None, heads: list[str] | None) -> Selection | None:
    """Return the matrices that --kind, --layer and --head select; None if none of these options is given."""
    if not (kinds or layers or heads):
        return None
    from uwaga.inspection import ATTENTION_KINDS, Selection

    for kind in kinds or []:
        if kind not in ATTENTION_KINDS:
            raise SettingsError(
                f"--kind {kind}: give {', '.join(ATTENTION_KINDS[:-1])} or {ATTENTION_KINDS[-1]}"
            )
    return Selection(kinds or (), _numbers("--layer", layers, "last"), _numbers("--head", heads, "mean"))


def _numbers(option: str, values: list[str] | None, word: str) -> Any:
    """Return an option's values as a list of numbers, or one word: ``all`` or ``word``, the default."""
    if not values:
        return word
    for value in values:
        if value in (word, "all"):
            if len(values) > 1:
                raise SettingsError(f"{option} {value} cannot be combined with another {option}")
            return value
        if not (value.isascii() and value.isdecimal() and int(value) > 0):
            raise SettingsError(f"{option} {value}: give a number from 1, {word} or all")
    return [int(value) for value in values]
