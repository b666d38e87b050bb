"""``uwaga convert``: a model in another format."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli import options as the
from uwaga.errors import SettingsError

if TYPE_CHECKING:
    from uwaga.conversion.quantise import Agreement


class ExportChoice(StrEnum):
    """What a model can be written as for other programs."""

    marian = "marian"
    pegasus = "pegasus"


NewFolder = Annotated[Path, typer.Argument(help="The folder to make.", show_default=False)]
To = Annotated[
    ExportChoice | None,
    typer.Option(
        help="A Hugging Face folder. marian: norms behind the blocks (MarianMTModel); pegasus: the same "
        "layout with norms before them (PegasusForConditionalGeneration).",
        show_default=False,
    ),
]
Int8 = Annotated[bool, typer.Option("--int8", help="Weights in int8, for the native engine.")]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        help="With --int8, matrices to leave in 16 bits, by pattern, such as output or 'decoder.0.*'; "
        "may be given again.",
        show_default=False,
    ),
]
Sample = Annotated[
    Path | None,
    typer.Option(
        help="With --int8, sentences to compare the two models on, one per line.",
        show_default="plain ones that come with uwaga",
    ),
]


def convert(
    model: the.AnyModel,
    folder: NewFolder,
    to: To = None,
    int8: Int8 = False,
    keep: Keep = None,
    sample: Sample = None,
) -> None:
    """Write a Transformer in int8, or as a folder that other programs load.

    ``--int8``: a quarter of the size, faster. A sample is translated (GPT-2: continued) in
    float32 and in int8, and how far they agree is printed.

    ``--to``: a Hugging Face folder, for transformers and CTranslate2's converter. It translates the same
    there: greedy and with a beam. What uwaga does with texts before they reach the model, and other programs
    do not, is said when the folder is made.

    **Examples**

        uwaga convert --int8 Helsinki-NLP/opus-mt-en-de opus-en-de-int8 --sample news.en

        uwaga convert --int8 bundled tatoeba-int8 --keep output

        uwaga convert --int8 openai-community/gpt2 gpt2-int8 --sample stories.txt

        uwaga convert runs/ende/model ende-marian --to marian

        uwaga convert bundled tatoeba-en-de --to pegasus

        ct2-transformers-converter --model tatoeba-en-de --output_dir tatoeba-ct2
    """
    if int8 == (to is not None):
        raise SettingsError("say what to convert to: --int8, --to marian or --to pegasus")
    if not int8 and (keep or sample is not None):
        raise SettingsError("--keep and --sample go with --int8")
    from uwaga.library.hub import find_model

    source = find_model(model)
    if to is None:
        _quantise(source, folder, tuple(keep or ()), sample)
        return
    from uwaga.conversion.export import export

    differences = export(source, folder, to.value)
    typer.echo(f"{folder}: written as {to.value}")
    for difference in differences:
        typer.echo(f"note: {difference}")


def _quantise(source: Path, folder: Path, keep: tuple[str, ...], sample: Path | None) -> None:
    from uwaga.conversion.quantise import quantise
    from uwaga.files.lines import text_lines

    found = quantise(source, folder, keep, None if sample is None else list(text_lines(sample)))
    typer.echo(f"{folder}: written in int8")
    typer.echo(f"{found.sentences} {found.measured_on}, greedy: {_alike(found)}")


def _alike(found: Agreement) -> str:
    done = "continued" if found.continued else "translated"
    return (
        f"{found.same:.1%} {done} alike, {found.tokens:.1%} of tokens; "
        f"log-probability of a token differs by {found.difference:.4f} on average, "
        f"by {found.largest:.4f} in the worst sentence"
    )
