"""``uwaga shortlist``: which words a model may choose from for each word of a source."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli import options as the
from uwaga.errors import SettingsError

if TYPE_CHECKING:
    from uwaga.conversion.shortlist import Trial

Sources = Annotated[
    Path,
    typer.Argument(help="Source sentences, one per line, plain, .gz, .zst, .xz or .bz2.", show_default=False),
]
Targets = Annotated[Path, typer.Argument(help="Their translations, line by line.", show_default=False)]
ShortlistFile = Annotated[
    Path, typer.Option("--output", "-o", help="The file to make, whole or not at all.", show_default=False)
]
Frequent = Annotated[
    int, typer.Option(min=1, help="Most frequent target tokens, in the list of every sentence.")
]
PerWord = Annotated[
    int, typer.Option(min=1, help="Likeliest target tokens of each source token, beside those.")
]
Sentences = Annotated[int, typer.Option(min=1, help="Most pairs to learn from.")]
HeldOut = Annotated[
    int, typer.Option(min=1, help="Pairs kept apart to try the shortlist on; at most a tenth of all.")
]
DevSource = Annotated[
    Path | None,
    typer.Option(help="Sentences to try the shortlist on instead of held-out ones.", show_default=False),
]
DevTarget = Annotated[Path | None, typer.Option(help="Their translations.", show_default=False)]
TrialBeam = Annotated[
    int | None, typer.Option("--beam", "-b", help="Of the trial.", show_default="the model's")
]
NativePrecision = Annotated[
    str, typer.Option("--precision", "--dtype", help="auto, float32, bfloat16 or int8.")
]


def shortlist(
    model: the.AnyModel,
    source: Sources,
    target: Targets,
    output: ShortlistFile,
    frequent: Frequent = 300,
    per_word: PerWord = 30,
    sentences: Sentences = 100_000,
    held_out: HeldOut = 500,
    dev_source: DevSource = None,
    dev_target: DevTarget = None,
    beam: TrialBeam = None,
    source_language: the.SourceLanguage = None,
    target_language: the.TargetLanguage = None,
    dtype: NativePrecision = "auto",
    threads: the.Threads = 0,
) -> None:
    """Make a vocabulary shortlist, with which `uwaga translate --shortlist` is faster.

    The model reads the translations of a parallel corpus; where its attention lies says which target tokens
    go with each source token. A sentence is then translated with the most frequent target tokens and those of
    its own source tokens. What that costs in BLEU and gains in speed is tried on sentences kept apart.

    **Examples**

        uwaga shortlist runs/ende/model train.en train.de --output ende.shortlist

        uwaga shortlist bundled train.en train.de -o list --dev-source dev.en --dev-target dev.de

        uwaga translate --model runs/ende/model --shortlist ende.shortlist < test.en
    """
    from uwaga.checkpoints.formats.uwaga.shortlist import write_shortlist
    from uwaga.cli.meter import counter
    from uwaga.conversion.shortlist import count_shortlist, read_corpus, try_shortlist
    from uwaga.translator import Translator

    corpus = read_corpus(source, target, sentences, held_out, _dev(dev_source, dev_target))
    translator = Translator.load(
        model,
        device="cpu",
        dtype=dtype,
        threads=threads,
        source=source_language,
        target=target_language,
    )
    with counter(len(corpus.learnt), "reading") as advance:
        counted = count_shortlist(translator, corpus.learnt, frequent, per_word, advance)
    write_shortlist(output, counted.shortlist, translator.source, translator.target, counted.pairs)
    typer.echo(f"{output}: {counted.summary()}")
    kind = "held-out" if dev_source is None else "dev"
    typer.echo(f"trying it on {len(corpus.tried):,} {kind} pairs ...", err=True)
    _print(try_shortlist(translator, counted.shortlist, corpus.tried, translator.options(beam=beam)))


def _dev(source: Path | None, target: Path | None) -> tuple[Path, Path] | None:
    if source is not None and target is not None:
        return source, target
    if source is not None or target is not None:
        raise SettingsError("give both of --dev-source and --dev-target, or neither")
    return None


def _print(trial: Trial) -> None:
    """BLEU and speed of both ways, and what the lists are like."""
    whole, short = trial.bleu()
    typer.echo(f"{'':17}{'BLEU':>6}{'tokens/s':>10}")
    typer.echo(f"{'whole vocabulary':<17}{whole.value:6.2f}{trial.whole.speed:10.0f}")
    typer.echo(f"{'shortlist':<17}{short.value:6.2f}{trial.short.speed:10.0f}")
    typer.echo(
        f"loss {whole.value - short.value:.2f} BLEU, {trial.speed_up:.2f} times the speed; "
        f"{trial.alike:,} of {len(trial.references):,} translations alike"
    )
    typer.echo(
        f"a sentence's list holds {trial.size:.0f} of {trial.vocabulary:,} tokens on average, and "
        f"{100 * trial.coverage:.1f}% of its reference's"
    )
    typer.echo(whole.signature)
