"""``uwaga shortlist``: learn a vocabulary shortlist, the likely target tokens of each source token."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli import options
from uwaga.cli.option_groups import Group, option_groups
from uwaga.errors import SettingsError
from uwaga.settings.load_options import LoadOptions

if TYPE_CHECKING:
    from uwaga.conversion.shortlist import ShortlistTrial

Sources = Annotated[Path, typer.Argument(help="Source sentences, one per line; may be compressed.")]
Targets = Annotated[Path, typer.Argument(help="Their translations, line by line.")]
ShortlistFile = Annotated[Path, typer.Option("--output", "-o", help="Shortlist file to write.")]
Frequent = Annotated[
    int, typer.Option(min=1, help="Number of frequent target tokens in the list of every sentence.")
]
PerWord = Annotated[int, typer.Option(min=1, help="Number of further target tokens per source token.")]
Sentences = Annotated[int, typer.Option(min=1, help="Maximum number of training pairs.")]
HeldOut = Annotated[
    int, typer.Option(min=1, help="Number of pairs to hold out for evaluation; at most a tenth of all.")
]
DevSource = Annotated[
    Path | None, typer.Option(help="Source sentences to evaluate on instead of held-out pairs.")
]
DevTarget = Annotated[Path | None, typer.Option(help="Their translations.")]
TrialBeam = Annotated[
    int | None, typer.Option("--beam", "-b", help="Beam size of the evaluation.", show_default="the model's")
]

Load = Annotated[LoadOptions, Group(LoadOptions, names=("dtype", "threads", "source", "target"))]


@option_groups
def shortlist(
    model: options.AnyModel,
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
    *,
    load: Load,
) -> None:
    """Learn a vocabulary shortlist, which speeds up `uwaga translate --shortlist`.

    The model force-decodes the translations of a parallel corpus, and its attention shows which target tokens
    belong to each source token. A sentence is then translated using only the most frequent target tokens and
    those of its source tokens. The loss in BLEU and the speed-up are measured on held-out sentences.

    **Examples**

        uwaga shortlist runs/ende/model train.en train.de --output ende.shortlist

        uwaga shortlist bundled train.en train.de -o list --dev-source dev.en --dev-target dev.de

        uwaga translate --model runs/ende/model --shortlist ende.shortlist < test.en
    """
    from uwaga.checkpoints.formats.uwaga.shortlist import write_shortlist
    from uwaga.cli.meter import count_meter
    from uwaga.conversion.shortlist import evaluate_shortlist, learn_shortlist, read_corpus
    from uwaga.translator import Translator

    corpus = read_corpus(source, target, sentences, held_out, _dev_files(dev_source, dev_target))
    translator = Translator.load(model, **vars(replace(load, device="cpu")))
    with count_meter(len(corpus.training), "reading") as advance:
        shortlist = learn_shortlist(translator, corpus.training, frequent, per_word, advance)
    write_shortlist(output, shortlist.shortlist, translator.source, translator.target, shortlist.pairs)
    typer.echo(f"{output}: {shortlist.summary()}")
    kind = "held-out" if dev_source is None else "dev"
    typer.echo(f"evaluating on {len(corpus.held_out_pairs):,} {kind} pairs ...", err=True)
    _print(
        evaluate_shortlist(
            translator, shortlist.shortlist, corpus.held_out_pairs, translator.options(beam=beam)
        )
    )


def _dev_files(source: Path | None, target: Path | None) -> tuple[Path, Path] | None:
    if source is not None and target is not None:
        return source, target
    if source is not None or target is not None:
        raise SettingsError("give both --dev-source and --dev-target, or neither")
    return None


def _print(trial: ShortlistTrial) -> None:
    """Print BLEU and speed with and without the shortlist, and the size and coverage of the lists."""
    full_score, shortlist_score = trial.bleu()
    typer.echo(f"{'':17}{'BLEU':>6}{'tokens/s':>10}")
    typer.echo(f"{'whole vocabulary':<17}{full_score.value:6.2f}{trial.full.speed:10.0f}")
    typer.echo(f"{'shortlist':<17}{shortlist_score.value:6.2f}{trial.shortlisted.speed:10.0f}")
    typer.echo(
        f"loss {full_score.value - shortlist_score.value:.2f} BLEU, {trial.speedup:.2f} times the speed; "
        f"{trial.equal_count:,} of {len(trial.references):,} translations identical"
    )
    typer.echo(
        f"mean list: {trial.size:.0f} of {trial.vocabulary:,} tokens, with {100 * trial.coverage:.1f}% of "
        "the tokens of the references"
    )
    typer.echo(full_score.signature)
