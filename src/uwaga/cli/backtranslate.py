"""``uwaga backtranslate``: translate text of the target language back, as sources for training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli import jobs
from uwaga.cli import options as the

if TYPE_CHECKING:
    from uwaga.search import SearchOverrides

ReverseModel = Annotated[
    str,
    typer.Argument(
        help="A model of the opposite direction, from the language of the text to that of the sources; "
        "named as for `uwaga translate --model`.",
        show_default=False,
    ),
]
Monolingual = Annotated[
    list[Path],
    typer.Argument(
        metavar="TEXT...",
        help="Text files in the target language, one sentence per line; plain, .gz, .zst or .xz.",
        show_default=False,
    ),
]
Column = Annotated[
    int, typer.Option(min=0, help="Column of a TSV file with the text, counted from 1; 0 is the whole line.")
]
Tag = Annotated[
    str, typer.Option(help="Word to put at the start of every source, such as <BT>.", show_default="none")
]

EXAMPLES = """
        uwaga backtranslate runs/deen/model news.de.gz --output backtranslated

        uwaga backtranslate runs/deen/model news.de.gz -o tagged --tag "<BT>" --join tagged.tsv.gz

        uwaga backtranslate runs/deen/model news.de.gz -o sampled --sample --seed 7

        uwaga backtranslate opus-mt-de-en wiki-*.de.zst -o wiki --sample --top-k 10 --part-rows 50000

        zcat pairs.tsv.gz wiki/part-*.tsv.gz | gzip > both.tsv.gz    # real and synthetic pairs
"""


@the.examples(EXAMPLES)
def backtranslate(
    model: ReverseModel,
    text: Monolingual,
    output: jobs.Parts,
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
    part_rows: jobs.PartRows = 10_000,
    join: jobs.Join = None,
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

    The translation becomes the source, and the human-written text stays the target. `--sample` draws
    translations instead of searching for the best, which teaches more when there is much text; `--tag` lets
    the model tell synthetic sources from real ones. Line n of the parts is line n of the text. Rerun the same
    command to resume an interrupted job; the result has the same bytes.
    """
    from uwaga.jobs.corpus import backtranslate_job
    from uwaga.jobs.translation import TranslationSpec
    from uwaga.translator.loading import LoadOptions

    search: SearchOverrides = {"beam": beam, "length_penalty": length_penalty, "max_length": max_length}
    search |= {"sample": sample, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    load = LoadOptions(device, dtype, threads, engine, source, target, shortlist, memory)
    spec = TranslationSpec((model,), load, search, split.value, batch_tokens)
    job = backtranslate_job(output, spec, text, column=column, tag=tag, part_rows=part_rows)
    jobs.run_corpus(job, join, "back-translating")
