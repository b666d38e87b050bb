"""``uwaga heads``: measure the importance of attention heads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uwaga.cli import options
from uwaga.cli.option_groups import Group, option_groups
from uwaga.errors import SettingsError
from uwaga.settings.load_options import LoadOptions

if TYPE_CHECKING:
    from uwaga.inspection import HeadImportance

Sources = Annotated[Path, typer.Option("--source", "-s", help="Source sentences, one per line.")]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="Folder or Hugging Face name of a Transformer.",
        show_default="the bundled model",
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind", help="Kind of attention: cross, encoder or decoder. Repeatable.", show_default="all three"
    ),
]
Limit = Annotated[
    int, typer.Option(min=1, help="Number of sentence pairs to score, from the start of the files.")
]
Drawing = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write a figure to this file (.png, .svg or .pdf).")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print a JSON object.")]

Load = Annotated[LoadOptions, Group(LoadOptions, names=("device", "threads"))]


@option_groups
def heads(
    source: Sources,
    reference: options.References,
    model: Model = None,
    kind: Kinds = None,
    limit: Limit = 100,
    columns: options.Columns = "2-",
    output: Drawing = None,
    as_json: AsJson = False,
    *,
    load: Load,
) -> None:
    """Show how much the model degrades when each attention head is masked (Michel 2019).

    Each head is masked in turn, and reference translations are scored. The table shows the loss in nats of
    log-probability per target token, with a row per layer and a column per head. If the loss is 0, the head
    can be pruned; if it is negative, the model improves without it. The model must be a Transformer.

    **Examples**

        uwaga heads -s test.en -r test.de

        uwaga heads -s test.en -r test.de --kind cross --output heads.svg

        uwaga heads -s test.en -r test.de -m runs/ende/model --limit 500 --json > heads.json
    """
    from uwaga import inspection
    from uwaga.cli.meter import count_meter
    from uwaga.evaluation.files import read_test_set
    from uwaga.inspection.interventions import head_counts
    from uwaga.translator import Translator

    kinds: Any = kind or ["encoder", "decoder", "cross"]
    for name in kinds:
        if name not in inspection.ATTENTION_KINDS:
            raise SettingsError(f"--kind {name}: give encoder, decoder or cross")
    if output is not None:
        inspection.check_drawing(output)
    sources, references = read_test_set(source, reference, columns)
    pairs = [
        (text, texts[0]) for text, texts in zip(sources, references, strict=True) if text.strip() and texts
    ]
    translator = Translator.load(model, device=load.device, threads=load.threads)
    total = sum(layers * heads for layers, heads in (head_counts(translator, name) for name in kinds))
    with count_meter(total, "masking heads") as advance:
        importance = inspection.measure_heads(translator, pairs[:limit], kinds, advance)
    if output is not None:
        inspection.save_figure(inspection.draw_importance(importance), output)
    if as_json:
        typer.echo(importance.to_json())
    elif output is None:
        typer.echo(table(importance))


def table(importance: HeadImportance) -> str:
    """Return a table with a block of rows for each kind of attention."""
    lines = [f"loss in nats per target token without each head, on {importance.pairs} pairs"]
    for kind, lost_log_probs in importance.lost.items():
        lines += [
            "",
            f"{kind:<9}" + "".join(f"{f'head {head}':>9}" for head in range(1, lost_log_probs.shape[1] + 1)),
        ]
        lines += [
            f"layer {layer:<3}" + "".join(f"{nats:>9.3f}" for nats in row)
            for layer, row in enumerate(lost_log_probs.tolist(), start=1)
        ]
    return "\n".join(lines)
