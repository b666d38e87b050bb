"""``uwaga convert`` and ``uwaga merge``: write a model in another form, or with an adapter merged into it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from uwaga.cli import options
from uwaga.errors import SettingsError

if TYPE_CHECKING:
    from uwaga.conversion.quantise import Agreement


ExportChoice = Literal["marian", "pegasus"]
"""Formats of other programs that a model can be exported to."""

NewFolder = Annotated[Path, typer.Argument(help="Folder to create.")]
ExportFormat = Annotated[
    ExportChoice | None,
    typer.Option(
        help="Write a Hugging Face folder: marian (post-norm, MarianMTModel) or pegasus (the same layout "
        "with pre-norm, PegasusForConditionalGeneration)."
    ),
]
Int8 = Annotated[bool, typer.Option("--int8", help="Write int8 weights for the native engine.")]
Int4 = Annotated[
    bool, typer.Option("--int4", help="Write 4-bit weights for the native engine: half the size of int8.")
]
KeptMatrices = Annotated[
    list[str] | None,
    typer.Option(
        help="Pattern of matrices to keep in 16 bits (with --int8) or in int8 (with --int4), such as output "
        "or 'decoder.0.*'. Repeatable."
    ),
]
Sample = Annotated[
    Path | None,
    typer.Option(
        help="With --int8 and --int4: file of sentences to compare the two models on, one per line.",
        show_default="sentences that come with uwaga",
    ),
]
NoCheck = Annotated[
    bool, typer.Option("--no-check", help="With --int8 and --int4: do not compare the two models.")
]


def convert(
    model: options.AnyModel,
    folder: NewFolder,
    to: ExportFormat = None,
    int8: Int8 = False,
    int4: Int4 = False,
    keep: KeptMatrices = None,
    sample: Sample = None,
    no_check: NoCheck = False,
    force: options.Force = False,
) -> None:
    """Convert a model to int8, to int4, or to a folder that other programs load.

    ``--int8`` writes a faster model of a quarter of the size, ``--int4`` one of an eighth, in which decoding
    one text at a time is faster still. A sample is translated (GPT-2: continued) in float32 and in int8 or
    int4, and their agreement is printed with a verdict; ``--no-check`` skips that.

    ``--to`` writes a Hugging Face folder, for transformers and CTranslate2's converter, with the same greedy
    and beam translations. Text preprocessing that uwaga does and other programs do not is listed.

    **Examples**

        uwaga convert --int8 Helsinki-NLP/opus-mt-en-de opus-en-de-int8 --sample news.en

        uwaga convert --int8 bundled tatoeba-int8 --keep output

        uwaga convert --int8 openai-community/gpt2 gpt2-int8 --sample stories.txt

        uwaga convert --int4 openai-community/gpt2 gpt2-int4 --keep output

        uwaga convert runs/ende/model ende-marian --to marian

        uwaga convert bundled tatoeba-en-de --to pegasus

        ct2-transformers-converter --model tatoeba-en-de --output_dir tatoeba-ct2
    """
    if int8 + int4 + (to is not None) != 1:
        raise SettingsError("choose one format to convert to: --int8, --int4, --to marian or --to pegasus")
    if to is not None and (keep or sample is not None or no_check):
        raise SettingsError("--keep, --sample and --no-check need --int8 or --int4")
    if no_check and sample is not None:
        raise SettingsError("--sample cannot be combined with --no-check, which skips the comparison")
    options.check_replaceable(folder, force)
    from uwaga.library.hub import find_model

    source = find_model(model)
    if to is None:
        _quantise(source, folder, tuple(keep or ()), sample, "int4" if int4 else "int8", not no_check)
        return
    from uwaga.conversion.export import export

    differences = export(source, folder, to)
    typer.echo(f"{folder}: written as {to}")
    for difference in differences:
        typer.echo(f"note: {difference}")


def _quantise(
    source: Path,
    folder: Path,
    keep: tuple[str, ...],
    sample: Path | None,
    precision: Literal["int8", "int4"],
    check: bool,
) -> None:
    from uwaga.conversion.quantise import quantise
    from uwaga.files.lines import text_lines

    lines = None if sample is None else list(text_lines(sample))
    agreement = quantise(source, folder, keep, lines, precision, check)
    typer.echo(f"{folder}: written in {precision}")
    _print_shortlist_note(source)
    if agreement is None:
        return
    typer.echo(f"{agreement.sentences} {agreement.measured_on}, greedy: {_agreement_text(agreement)}")


def _print_shortlist_note(model: Path) -> None:
    """Print a note if the model has a shortlist, since the converted folder has none."""
    from uwaga.checkpoints.registry import has_shortlist

    if has_shortlist(model):
        typer.echo("note: the new folder has no shortlist: use the original model's with --shortlist FILE")


def _agreement_text(agreement: Agreement) -> str:
    results = "continuations" if agreement.continued else "translations"
    return (
        f"{agreement.same:.1%} identical {results}, {agreement.tokens:.1%} identical tokens; "
        f"token log-probabilities differ by {agreement.difference:.4f} on average, "
        f"by {agreement.largest:.4f} in the worst sentence\n{agreement.verdict}"
    )


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
        _print_shortlist_note(result.base)
