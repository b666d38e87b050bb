"""``uwaga backtranslate``: sources for text of the target language."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli import jobs
from uwaga.cli import options as the

if TYPE_CHECKING:
    from uwaga.search import SearchOverrides

Backwards = Annotated[
    str,
    typer.Argument(
        help="A model of the other direction, from the language of the text to that of the sources; "
        "named as for `uwaga translate --model`.",
        show_default=False,
    ),
]
Monolingual = Annotated[
    list[Path],
    typer.Argument(
        metavar="TEXT...",
        help="Files of text in the target language, a sentence a line; plain, .gz, .zst or .xz.",
        show_default=False,
    ),
]
Column = Annotated[
    int, typer.Option(min=0, help="The column of a TSV that holds the text, from 1; 0 is the whole line.")
]
Tag = Annotated[
    str,
    typer.Option(help="A word that every source begins with, such as <BT>.", show_default="none"),
]

EXAMPLES = """
        uwaga backtranslate runs/deen/model news.de.gz --output backtranslated

        uwaga backtranslate runs/deen/model news.de.gz -o tagged --tag "<BT>" --join tagged.tsv.gz

        uwaga backtranslate runs/deen/model news.de.gz -o sampled --sample --seed 7

        uwaga backtranslate opus-mt-de-en wiki-*.de.zst -o wiki --sample --top-k 10 --shard-size 50000

        zcat pairs.tsv.gz wiki/part-*.tsv.gz | gzip > both.tsv.gz    # real pairs and synthetic ones
"""


@the.examples(EXAMPLES)
def backtranslate(
    model: Backwards,
    text: Monolingual,
    output: jobs.Shards,
    tag: Tag = "",
    column: Column = 0,
    beam: the.Beam = None,
    length_penalty: the.LengthPenalty = None,
    max_length: the.MaxLength = None,
    sample: the.Sample = None,
    temperature: the.Temperature = None,
    top_k: the.TopK = None,
    top_p: the.TopP = None,
    seed: jobs.DrawSeed = 1,
    split: the.Split = the.SplitChoice.auto,
    shard_size: jobs.ShardSize = 10_000,
    join: jobs.Joined = None,
    batch_tokens: the.BatchTokens = None,
    source: the.SourceLanguage = None,
    target: the.TargetLanguage = None,
    shortlist: the.Shortlist = None,
    device: the.Device = "auto",
    dtype: the.Precision = "auto",
    engine: the.Engine = "auto",
    threads: the.Threads = 0,
    memory: the.Memory = "fast",
) -> None:
    """Translate text of the target language back into the source language, as pairs to train on.

    The translation becomes the source, what people wrote stays the target. `--sample` draws translations
    instead of searching the best, which teaches more where there is much text; `--tag` lets the model tell
    synthetic sources from real ones. Line n of the shards is line n of the text; a job that was stopped is
    gone on with by the same command, and ends with the same bytes.
    """
    from uwaga.jobs.corpora.assemble import JobModels, backtranslate_job
    from uwaga.translator.loading import LoadOptions

    asked: SearchOverrides = {"beam": beam, "length_penalty": length_penalty, "max_length": max_length}
    asked |= {"sample": sample, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    wanted = LoadOptions(device, dtype, threads, engine, source, target, shortlist, memory)
    models = JobModels((model,), wanted, asked, split.value, batch_tokens)
    job = backtranslate_job(output, models, text, column=column, tag=tag, shard_size=shard_size)
    jobs.run(job, join, "translating back")
