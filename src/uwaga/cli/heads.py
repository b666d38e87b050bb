"""``uwaga heads``: which attention heads matter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uwaga.cli import options as the
from uwaga.errors import SettingsError

if TYPE_CHECKING:
    from uwaga.inspection import HeadImportance

Sources = Annotated[
    Path, typer.Option("--source", "-s", help="The sources, one per line.", show_default=False)
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="A folder or Hugging Face name of a Transformer.",
        show_default="the bundled model",
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="cross, encoder or decoder. Given again: several.", show_default="all three"),
]
Limit = Annotated[int, typer.Option(min=1, help="Sentence pairs that are scored, the first of the files.")]
Drawing = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Draw it into this file, .png, .svg or .pdf.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def heads(
    source: Sources,
    reference: the.References,
    model: Model = None,
    kind: Kinds = None,
    limit: Limit = 100,
    columns: the.Columns = "2-",
    output: Drawing = None,
    as_json: AsJson = False,
    device: the.Device = "auto",
    threads: the.Threads = 0,
) -> None:
    """Show which attention heads matter: what a model loses when one of them is silent (Michel 2019).

    Each head is silenced in turn, and known translations are scored. The figures are nats of log-probability
    per target token, layers downwards and heads across: 0 where a head can go, below 0 where the model does
    better without it. The model is a Transformer, run in torch.

    **Examples**

        uwaga heads -s test.en -r test.de

        uwaga heads -s test.en -r test.de --kind cross --output heads.svg

        uwaga heads -s test.en -r test.de -m runs/ende/model --limit 500 --json > heads.json
    """
    from uwaga import inspection
    from uwaga.cli.meter import counter
    from uwaga.evaluation.files import read_test_set
    from uwaga.inspection.interventions import head_counts
    from uwaga.translator import Translator

    kinds: Any = kind or ["encoder", "decoder", "cross"]
    for one in kinds:
        if one not in inspection.KINDS:
            raise SettingsError(f"--kind {one}: give encoder, decoder or cross")
    if output is not None:
        inspection.check_drawing(output)
    sources, references = read_test_set(source, reference, columns)
    known = [(text, ways[0]) for text, ways in zip(sources, references, strict=True) if text.strip() and ways]
    translator = Translator.load(model, engine="torch", device=device, threads=threads)
    total = sum(layers * heads for layers, heads in (head_counts(translator, one) for one in kinds))
    with counter(total, "Silencing heads") as on_head:
        found = inspection.measure_heads(translator, known[:limit], kinds, on_head)
    if output is not None:
        inspection.save_figure(inspection.draw_importance(found), output)
    if as_json:
        typer.echo(found.to_json())
    elif output is None:
        typer.echo(table(found))


def table(found: HeadImportance) -> str:
    """A block of lines for each kind of attention."""
    lines = [f"nats per target token that {found.pairs} pairs lose without a head"]
    for kind, lost in found.lost.items():
        lines += ["", f"{kind:<9}" + "".join(f"{f'head {head}':>9}" for head in range(1, lost.shape[1] + 1))]
        lines += [
            f"layer {layer:<3}" + "".join(f"{nats:>9.3f}" for nats in row)
            for layer, row in enumerate(lost.tolist(), start=1)
        ]
    return "\n".join(lines)
