"""``uwaga fill``: fill the gaps of a text with a masked language model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli import options
from uwaga.cli.option_groups import Group, option_groups
from uwaga.settings.load_options import LoadOptions

if TYPE_CHECKING:
    from uwaga.generation import Filling

Model = Annotated[
    str, typer.Argument(help="A BERT folder or a Hugging Face name (google-bert/bert-base-uncased).")
]
Texts = Annotated[
    list[str] | None,
    typer.Argument(help="Texts with [MASK] in each gap; if omitted, the lines of the input are used."),
]
Top = Annotated[int, typer.Option("--top", "-k", help="Number of words for each gap.")]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object per text: text, gaps with token, probability, text."),
]


Load = Annotated[LoadOptions, Group(LoadOptions, names=("device", "dtype", "threads"))]


@option_groups
def fill(
    model: Model,
    text: Texts = None,
    input_: options.Input = None,
    output: options.Output = None,
    top: Top = 5,
    as_json: AsJson = False,
    *,
    load: Load,
) -> None:
    """Print the most probable words for each [MASK] of a text, with their probabilities: one line per gap.

    **Examples**

        uwaga fill google-bert/bert-base-uncased "Paris is the [MASK] of France."

        uwaga fill bert-folder --top 3 --json "[MASK] is the capital of [MASK]." | jq .gaps

        uwaga fill bert-folder < cloze.txt
    """
    from uwaga.cli.lines import input_chunks, open_output
    from uwaga.cli.meter import meter

    chunks = input_chunks(text, input_)
    from uwaga.generation import MaskFiller

    filler = MaskFiller.load(model, device=load.device, dtype=load.dtype, threads=load.threads)
    unit = "text" if text else "line"
    with open_output(output) as write, meter(input_, "filling") as advance:
        for chunk in chunks:
            results = filler.fill_all(chunk.lines, top, chunk.names(unit))
            for line, gaps in zip(chunk.lines, results, strict=True):
                write(_format_json(line, gaps) if as_json else _format_plain(gaps))
            advance(chunk)


def _format_plain(gaps: list[list[Filling]]) -> str:
    return "".join(
        "\t".join(f"{filling.token} {filling.probability:.4f}" for filling in gap) + "\n" for gap in gaps
    )


def _format_json(text: str, gaps: list[list[Filling]]) -> str:
    document = {"text": text, "gaps": [[filling.to_dict() for filling in gap] for gap in gaps]}
    return json.dumps(document, ensure_ascii=False) + "\n"
