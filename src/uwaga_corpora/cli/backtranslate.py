"""``uwaga backtranslate``: translate target-language text into sources for training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uwaga.cli import options
from uwaga.cli.option_groups import option_groups
from uwaga.translator.request import Request
from uwaga_corpora.cli import jobs

ReverseModel = Annotated[
    str,
    typer.Argument(
        help="A model of the opposite direction, from the language of the text to that of the sources; "
        "named as for `uwaga translate --model`."
    ),
]
Monolingual = Annotated[
    list[Path],
    typer.Argument(
        metavar="TEXT...",
        help="Text files in the target language, one sentence per line; plain, .gz, .zst or .xz.",
    ),
]
Column = Annotated[
    int, typer.Option(min=0, help="Column of a TSV file with the text, counted from 1; 0 is the whole line.")
]
Tag = Annotated[
    str, typer.Option(help="Word to put at the start of every source, such as `<BT>`.", show_default="none")
]

EXAMPLES = """
        uwaga backtranslate runs/deen/model news.de.gz --output backtranslated

        uwaga backtranslate runs/deen/model news.de.gz -o tagged --tag "<BT>" --join tagged.tsv.gz

        uwaga backtranslate runs/deen/model news.de.gz -o sampled --sample --seed 7

        uwaga backtranslate opus-mt-de-en wiki-*.de.zst -o wiki --sample --top-k 10 --part-rows 50000

        zcat pairs.tsv.gz wiki/part-*.tsv.gz | gzip > both.tsv.gz    # real and synthetic pairs
"""


@option_groups
@options.examples(EXAMPLES)
def backtranslate(
    model: ReverseModel,
    text: Monolingual,
    output: jobs.Parts,
    tag: Tag = "",
    column: Column = 0,
    seed: jobs.SamplingSeed = 1,
    part_rows: jobs.PartRows = 10_000,
    join: jobs.Join = None,
    batch_tokens: options.BatchTokens = None,
    *,
    request: jobs.CorpusRequest,
    search: jobs.CorpusSearch,
    load: jobs.CorpusLoad,
) -> None:
    """Translate target-language text back into the source language, to create training pairs.

    The translation becomes the source, and the human-written text stays the target. `--sample` draws
    translations instead of searching for the best, which gives better results with large amounts of text;
    `--tag` lets the model distinguish synthetic from real sources. Line n of the parts is line n of the text.
    Rerun the same command to resume an interrupted job; the result is byte-identical.
    """
    from uwaga_corpora.jobs.corpus import backtranslate_job
    from uwaga_corpora.jobs.translation import TranslationSpec

    search["seed"] = seed
    spec = TranslationSpec((model,), load, search, batch_tokens=batch_tokens, request=Request("", **request))
    job = backtranslate_job(output, spec, text, column=column, tag=tag, part_rows=part_rows)
    jobs.run_corpus(job, join, "back-translating")
