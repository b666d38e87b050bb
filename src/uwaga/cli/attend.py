"""``uwaga attend``: where models look while they translate, or read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uwaga.cli import options as the
from uwaga.errors import SettingsError

if TYPE_CHECKING:
    from uwaga.inspection import Alignment, Selection

BUNDLED = "bundled model"

Text = Annotated[str, typer.Argument(help="The text to translate, or to read.", show_default=False)]
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
Words = Annotated[
    bool,
    typer.Option(
        "--words",
        help="Join the pieces of each word: added up where they are looked at, averaged where they look.",
    ),
]
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
    bool,
    typer.Option("--json", help="One JSON object per matrix: title, source, target, weights, which it is."),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        help="cross (target at source), encoder (source at itself) or decoder (target at itself). Given "
        "again: several.",
        show_default="cross; of a model that reads alone its own",
    ),
]
Layers = Annotated[
    list[str] | None,
    typer.Option(
        "--layer", help="A layer's number from 1, last or all. Given again: several.", show_default="last"
    ),
]
Heads = Annotated[
    list[str] | None,
    typer.Option(
        "--head",
        help="A head's number from 1, all, or mean for their average. Given again: several.",
        show_default="mean",
    ),
]
Attribution = Annotated[
    str | None,
    typer.Option(
        help="Beside the attention, what each source token contributes to each target token's "
        "log-probability: `integrated` gradients, or `gradient_input`. Of a Transformer, in torch.",
        show_default=False,
    ),
]


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
    device: the.Device = "auto",
    dtype: the.Precision = "auto",
    threads: the.Threads = 0,
) -> None:
    """Show where a model looks while it translates: matrices of attention weights.

    Unless told otherwise it is the one that says which source tokens each target token was made from: a row
    is a target token and sums to 1 over the source tokens; the darker, the more it looked there. Of a
    Transformer that is the mean over the heads of the last decoder layer's cross-attention.

    --kind, --layer and --head show any other matrix: how source tokens look at each other in the encoder, or
    target tokens at those before them in the decoder; of BERT the encoder alone, of GPT-2 the decoder. In a
    picture (--output) they are small multiples, a row a layer and a column a head.

    **Examples**

        uwaga attend "I want to buy a car."

        uwaga attend "I want to buy a car." --target "Ich möchte ein Auto kaufen."

        uwaga attend --kind encoder --layer all --head all "I want to buy a car." -o every.png

        uwaga attend --attribution integrated --words "I want to buy a car." --output why.svg

        uwaga attend --model models/bert-base-uncased --layer 5 --head 10 "The cat sat on the mat."

        uwaga attend "a man rides a bicycle ." -m Bahdanau=runs/bahdanau/model -m runs/luong/model -o two.png
    """
    from uwaga import inspection
    from uwaga.cli.options import named

    models: dict[str, str | None] = dict(named(model, "--model")) if model else {BUNDLED: None}
    if output is not None and as_json:
        raise SettingsError("--json is printed: leave out --output, which draws")
    if output is not None:
        inspection.check_drawing(output)
    select = selection(kind, layer, head)
    if attribution is not None:
        if select is not None or dtype != "auto":
            raise SettingsError(
                "--attribution chooses what is shown: leave out --kind, --layer, --head, --dtype"
            )
        found = explained(models, text, target, attribution, words, device, threads)
    else:
        chosen: Any = {"select": select, "words": words, "device": device, "dtype": dtype, "threads": threads}
        found = inspection.align_systems(models, text, target, **chosen)
    if not model:
        found = [replace(one, title=one.title.removeprefix(BUNDLED).removeprefix(": ")) for one in found]
    show(found, output, as_json, multiples=select is not None)


def explained(
    models: dict[str, str | None],
    text: str,
    target: str | None,
    method: Any,
    words: bool,
    device: str,
    threads: int,
) -> list[Alignment]:
    """Attention and attribution of each model, side by side."""
    from uwaga import inspection
    from uwaga.translator import Translator

    found = []
    for name, place in models.items():
        translator = Translator.load(place, engine="torch", device=device, threads=threads)
        found += inspection.contributions(translator, text, target, method, words=words, title=name)
    return found


def show(found: list[Alignment], output: Path | None, as_json: bool, multiples: bool) -> None:
    """Draw matrices into a file, or print them as JSON or heat maps."""
    from uwaga import inspection

    if output is not None:
        draw = inspection.draw_matrices if multiples else inspection.draw_alignments
        inspection.save_figure(draw(found), output)
        return
    if as_json:
        typer.echo("\n".join(one.to_json() for one in found))
        return
    from rich.console import Console

    console = Console(highlight=False)
    console.print(inspection.heat_maps(found, console.width), soft_wrap=True)


def selection(kinds: list[str] | None, layers: list[str] | None, heads: list[str] | None) -> Selection | None:
    """What --kind, --layer and --head ask for; None where none of them is given.

    Raises:
        SettingsError: a value is none of those there are.
    """
    if not (kinds or layers or heads):
        return None
    from uwaga.inspection import KINDS, Selection

    for one in kinds or []:
        if one not in KINDS:
            raise SettingsError(f"--kind {one}: give {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    return Selection(kinds or (), _numbers("--layer", layers, "last"), _numbers("--head", heads, "mean"))


def _numbers(option: str, given: list[str] | None, word: str) -> Any:
    """Numbers, or the one word that stands for some of them."""
    if not given:
        return word
    for one in given:
        if one in (word, "all"):
            if len(given) > 1:
                raise SettingsError(f"{option} {one} goes with no other {option}")
            return one
        if not (one.isascii() and one.isdecimal() and int(one) > 0):
            raise SettingsError(f"{option} {one}: give a number from 1, {word} or all")
    return [int(one) for one in given]
