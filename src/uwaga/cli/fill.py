"""``uwaga fill``: the words that fit into gaps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli.options import Device, Input, Threads, TorchDtype
from uwaga.errors import SettingsError

if TYPE_CHECKING:
    from uwaga.translator import Filling


def fill(
    model: Annotated[
        str,
        typer.Argument(
            help="A BERT folder or a Hugging Face name (google-bert/bert-base-uncased).", show_default=False
        ),
    ],
    text: Annotated[
        list[str] | None,
        typer.Argument(
            help="Texts with [MASK] in each gap; without any, lines are read.", show_default=False
        ),
    ] = None,
    input_: Input = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where the words go; made whole or not at all.", show_default=False
        ),
    ] = None,
    top: Annotated[int, typer.Option("--top", "-k", help="Words for each gap.")] = 5,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="One JSON object per text: text, gaps with token, probability, text."),
    ] = False,
    device: Device = "auto",
    dtype: TorchDtype = "auto",
    threads: Threads = 0,
) -> None:
    """Print the words that fit best where a text has [MASK], with their probabilities: a line for each gap.

    **Examples**

        uwaga fill google-bert/bert-base-uncased "Paris is the [MASK] of France."

        uwaga fill bert-folder --top 3 --json "[MASK] is the capital of [MASK]." | jq .gaps

        uwaga fill bert-folder < cloze.txt
    """
    from uwaga.cli.lines import chunks_of, lines_out
    from uwaga.cli.meter import meter

    if text and input_ is not None:
        raise SettingsError("give texts or --input, not both")
    chunks = chunks_of(text, input_)
    from uwaga.translator import MaskFiller

    filler = MaskFiller.load(model, device=device, dtype=dtype, threads=threads)
    unit = "text" if text else "line"
    with lines_out(output) as write, meter(input_, "filling") as advance:
        for chunk in chunks:
            names = [f"{unit} {number}" for number in range(chunk.first, chunk.first + len(chunk.lines))]
            found = filler.fill_all(chunk.lines, top, names)
            for line, gaps in zip(chunk.lines, found, strict=True):
                write(_json(line, gaps) if as_json else _plain(gaps))
            advance(chunk)


def _plain(gaps: list[list[Filling]]) -> str:
    return "".join("\t".join(f"{one.token} {one.probability:.4f}" for one in gap) + "\n" for gap in gaps)


def _json(text: str, gaps: list[list[Filling]]) -> str:
    found = [
        [{"token": one.token, "probability": round(one.probability, 6), "text": one.text} for one in gap]
        for gap in gaps
    ]
    return json.dumps({"text": text, "gaps": found}, ensure_ascii=False) + "\n"
