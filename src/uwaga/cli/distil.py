"""``uwaga distil``: a teacher's translations as targets for a student."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli import jobs
from uwaga.cli import options as the
from uwaga.errors import SettingsError

if TYPE_CHECKING:
    from uwaga.search import SearchOverrides


class ChooseBy(StrEnum):
    """Which candidate becomes the target."""

    reference = "reference"
    mbr = "mbr"
    model = "model"


ModelsAndCorpus = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL... CORPUS",
        help="The teacher, or several, which work together; last the corpus: a TSV of source and reference, "
        "TMX, JSON Lines, Parquet, a file of sources, or a Moses prefix; compressed or not.",
        show_default=False,
    ),
]
Reference = Annotated[
    Path | None,
    typer.Option(
        "--reference", "-r", help="The references, line by line, of a corpus of sources.", show_default=False
    ),
]
Choose = Annotated[
    ChooseBy,
    typer.Option(
        help="The candidate that becomes the target: the one most like the reference; the one most like all "
        "others, by minimum Bayes risk; the model's own best."
    ),
]
Utility = Annotated[
    the.UtilityChoice | None,
    typer.Option(
        help="What like means: bleu, of words, or chrf, of letters.", show_default="bleu; chrf for mbr"
    ),
]
Candidates = Annotated[
    int, typer.Option("--nbest", "-n", min=1, help="Candidates of a source; a beam is widened to as many.")
]
Pool = Annotated[
    bool,
    typer.Option(
        "--pool",
        help="Put the candidates of several models together instead of averaging their probabilities: for "
        "models that do not share a vocabulary.",
    ),
]

EXAMPLES = """
        uwaga distil runs/big/model corpus.tsv --output distilled

        uwaga distil runs/big-1/model runs/big-2/model corpus.tsv.gz -o distilled --join taught.tsv.gz

        uwaga distil opus-mt-en-de firefox-en-de train.en -r train.de -o distilled --pool --choose mbr

        uwaga distil bundled wiki.en.zst -o distilled --choose model    # no references: the beam's best

        uwaga distil bundled wiki.en -o distilled --choose mbr --sample --nbest 32

        uwaga train student.yaml --set 'data.train=[taught.tsv.gz]'
"""


@the.examples(EXAMPLES)
def distil(
    models_and_corpus: ModelsAndCorpus,
    output: jobs.Shards,
    reference: Reference = None,
    choose: Choose = ChooseBy.reference,
    utility: Utility = None,
    nbest: Candidates = 8,
    pool: Pool = False,
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
    """Translate a corpus with a teacher, for a smaller student to learn from (sequence-level distillation).

    Of a teacher's n-best list the candidate most like the reference becomes the target: what the teacher can
    say, and near to what a person said. Line n of the shards is line n of the corpus; a line that cannot be
    translated has no target, which training leaves out. A job that was stopped is gone on with by the same
    command, and ends with the same bytes.
    """
    from uwaga.jobs.corpora.assemble import Choosing, JobModels, distil_job
    from uwaga.translator.loading import LoadOptions

    *models, corpus = models_and_corpus
    if not models:
        raise SettingsError(f"one argument, {corpus!r}: give a model, or several, and last the corpus")
    asked: SearchOverrides = {"beam": beam, "length_penalty": length_penalty, "max_length": max_length}
    asked |= {"sample": sample, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    wanted = LoadOptions(device, dtype, threads, engine, source, target, shortlist, memory)
    teachers = JobModels(tuple(models), wanted, asked, split.value, batch_tokens, pool)
    how = Choosing(choose.value, utility.value if utility else None, nbest)
    jobs.run(distil_job(output, teachers, Path(corpus), reference, how, shard_size), join, "distilling")
