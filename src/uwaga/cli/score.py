"""``uwaga score``: compute the probability of translations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli import options
from uwaga.cli.lines import Files, open_output, read_pairs
from uwaga.cli.option_groups import Group, option_groups
from uwaga.settings.load_options import LoadOptions

if TYPE_CHECKING:
    from uwaga.translator import Score

Tokens = Annotated[bool, typer.Option("--tokens", help="Add each target token and its log-probability.")]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object per pair: log_prob, mean, perplexity, tokens...")
]
BatchTokens = Annotated[int, typer.Option(help="Batch size in tokens.", min=1)]


Load = Annotated[LoadOptions, Group(LoadOptions, without=("shortlist", "draft"))]


@option_groups
def score(
    files: Files = None,
    model: options.Models = None,
    output: options.Output = None,
    tokens: Tokens = False,
    as_json: AsJson = False,
    batch_tokens: BatchTokens = 4096,
    *,
    load: Load,
) -> None:
    r"""Print the model's log-probability of each translation, one line per pair.

    The first number is the natural logarithm of the target's probability given the source, the second its
    mean per token, including the end symbol. Values closer to 0 are more probable.

    **Examples**

        uwaga score pairs.tsv                     # source, tab, target

        uwaga score test.en test.de --tokens

        printf 'A cat.\tEine Katze.\n' | uwaga score --json

        uwaga score pairs.tsv --adapter runs/medical/adapter    # with its base model

        uwaga score crawl.tsv | paste - crawl.tsv | sort -k2,2gr | head    # the best pairs of a corpus
    """
    from uwaga.cli.meter import meter

    chunks = read_pairs(files or [])
    from uwaga.translator import Translator
    from uwaga.translator.loading import adapter_base, load_named

    translator = Translator(load_named(model or adapter_base(load.adapter, None), load))
    with open_output(output) as write, meter(files[0] if files else None, "scoring") as advance:
        for chunk, pairs in chunks:
            scores = translator.score(pairs, batch_tokens=batch_tokens, first=chunk.first)
            write(
                "".join(
                    (_format_json(pair_score) if as_json else _format_plain(pair_score, tokens)) + "\n"
                    for pair_score in scores
                )
            )
            advance(chunk)


def _format_plain(score: Score, tokens: bool) -> str:
    numbers = f"{score.log_prob:.4f}\t{score.mean:.4f}"
    if not tokens:
        return numbers
    names = (*score.tokens, "</s>")
    return (
        numbers
        + "\t"
        + " ".join(f"{name}:{value:.4f}" for name, value in zip(names, score.token_scores, strict=True))
    )


def _format_json(score: Score) -> str:
    return json.dumps(score.to_dict(), ensure_ascii=False)
