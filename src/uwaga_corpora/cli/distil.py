"""``uwaga distil``: translate a corpus with a teacher model to train a student model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from uwaga.cli import options
from uwaga.cli.option_groups import option_groups
from uwaga.errors import SettingsError
from uwaga.translator.request import Request
from uwaga_corpora.cli import jobs

ModelsAndCorpus = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL... CORPUS",
        help="The teacher, or several as an ensemble; then the corpus: a TSV of source and reference, TMX, "
        "JSON Lines, Parquet, a file of sources, or a Moses prefix; may be compressed.",
    ),
]
Reference = Annotated[
    Path | None,
    typer.Option("--reference", "-r", help="File of references, aligned with a corpus of sources."),
]
Choose = Annotated[
    Literal["reference", "mbr", "model"],
    typer.Option(
        help="Which candidate becomes the target: the one closest to the reference, the one with minimum "
        "Bayes risk (closest to the other candidates), or the model's best."
    ),
]
Utility = Annotated[
    Literal["bleu", "chrf"] | None,
    typer.Option(
        help="Similarity metric: bleu (words) or chrf (characters).", show_default="bleu; chrf for mbr"
    ),
]
Candidates = Annotated[
    int, typer.Option("--nbest", "-n", min=1, help="Candidates per source; the beam is at least as large.")
]
Pool = Annotated[
    bool,
    typer.Option(
        "--pool",
        help="Search with each model alone and pool the candidates, instead of searching with an ensemble; "
        "for models that do not share a vocabulary.",
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


@option_groups
@options.examples(EXAMPLES)
def distil(
    models_and_corpus: ModelsAndCorpus,
    output: jobs.Parts,
    reference: Reference = None,
    choose: Choose = "reference",
    utility: Utility = None,
    nbest: Candidates = 8,
    pool: Pool = False,
    seed: jobs.SamplingSeed = 1,
    part_rows: jobs.PartRows = 10_000,
    join: jobs.Join = None,
    batch_tokens: options.BatchTokens = None,
    *,
    request: jobs.CorpusRequest,
    search: jobs.CorpusSearch,
    load: jobs.CorpusLoad,
) -> None:
    """Translate a corpus with a teacher model, to train a smaller model (sequence-level distillation).

    The candidate of the teacher's n-best list that is closest to the reference becomes the target. Line n of
    the parts is line n of the corpus; a line that cannot be translated has no target, and training skips it.
    Rerun the same command to resume an interrupted job; the result is byte-identical.
    """
    from uwaga_corpora.jobs.corpus import distil_job
    from uwaga_corpora.jobs.distillation import TargetChoice
    from uwaga_corpora.jobs.translation import TranslationSpec

    *models, corpus = models_and_corpus
    if not models:
        raise SettingsError(f"only one argument, {corpus!r}: give one or more models, and then the corpus")
    search["seed"] = seed
    spec = TranslationSpec(
        tuple(models),
        load,
        search,
        batch_tokens=batch_tokens,
        request=Request("", **request),
        choice=TargetChoice(choose, utility, nbest, pool),
    )
    jobs.run_corpus(distil_job(output, spec, Path(corpus), reference, part_rows), join, "distilling")
