"""``uwaga shortlist``: which words a model may choose from for each word of a source."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli.options import SourceLanguage, TargetLanguage, Threads
from uwaga.errors import DataError, SettingsError

if TYPE_CHECKING:
    from uwaga.shortlists.trial import Trial

Pair = tuple[str, str]

MOST_HELD_OUT = 10
"""At most one pair in so many is held out."""


def shortlist(
    model: Annotated[
        str,
        typer.Argument(
            help="A model folder or a Hugging Face name (owner/model); `bundled` is the model that comes "
            "with uwaga.",
            show_default=False,
        ),
    ],
    source: Annotated[
        Path,
        typer.Argument(help="Source sentences, one per line, plain, .gz, .zst or .xz.", show_default=False),
    ],
    target: Annotated[Path, typer.Argument(help="Their translations, line by line.", show_default=False)],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="The file to make, whole or not at all.", show_default=False),
    ],
    frequent: Annotated[
        int, typer.Option(min=1, help="Most frequent target tokens, in the list of every sentence.")
    ] = 300,
    per_word: Annotated[
        int, typer.Option(min=1, help="Likeliest target tokens of each source token, beside those.")
    ] = 30,
    sentences: Annotated[int, typer.Option(min=1, help="Most pairs to learn from.")] = 100_000,
    held_out: Annotated[
        int, typer.Option(min=1, help="Pairs kept apart to try the shortlist on; at most a tenth of all.")
    ] = 500,
    dev_source: Annotated[
        Path | None,
        typer.Option(help="Sentences to try the shortlist on instead of held-out ones.", show_default=False),
    ] = None,
    dev_target: Annotated[Path | None, typer.Option(help="Their translations.", show_default=False)] = None,
    beam: Annotated[
        int | None, typer.Option("--beam", "-b", help="Of the trial.", show_default="the model's")
    ] = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    dtype: Annotated[
        str, typer.Option("--precision", "--dtype", help="auto, float32, bfloat16 or int8.")
    ] = "auto",
    threads: Threads = 0,
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
    if (dev_source is None) != (dev_target is None):
        raise SettingsError("give both of --dev-source and --dev-target, or neither")
    from uwaga.checkpoints.uwaga.shortlist import write_shortlist
    from uwaga.shortlists.build import count_shortlist
    from uwaga.shortlists.trial import try_shortlist
    from uwaga.translator import Translator
    from uwaga.translator.shortlisting import native_of

    learnt, tried = _corpus(source, target, sentences, held_out, dev_source, dev_target)
    translator = Translator.load(
        model,
        device="cpu",
        dtype=dtype,
        threads=threads,
        source_language=source_language,
        target_language=target_language,
    )
    native_of(translator.decoder)
    with _progress(len(learnt)) as advance:
        counted = count_shortlist(translator, learnt, frequent, per_word, advance)
    found = counted.shortlist
    write_shortlist(output, found, translator.source, translator.target, counted.pairs)
    left_out = f" ({counted.skipped:,} left out: empty or too long)" if counted.skipped else ""
    typer.echo(
        f"{output}: {len(found.common):,} common tokens, {len(found.targets):,} entries of "
        f"{found.source_vocabulary:,} source tokens, from {counted.pairs:,} pairs{left_out}"
    )
    typer.echo(
        f"trying it on {len(tried):,} {'held-out' if dev_source is None else 'dev'} pairs ...", err=True
    )
    _show(try_shortlist(translator, found, tried, translator.options(beam=beam)), tried, found.vocabulary)


def _corpus(
    source: Path,
    target: Path,
    sentences: int,
    held_out: int,
    dev_source: Path | None,
    dev_target: Path | None,
) -> tuple[list[Pair], list[Pair]]:
    """The pairs to learn from and those to try the shortlist on, which are none of them.

    Raises:
        DataError: a file cannot be read, the two sides differ in length, or there are too few pairs.
    """
    if dev_source is not None and dev_target is not None:
        tried = _pairs(dev_source, dev_target, None)
        learnt = _pairs(source, target, sentences)
    else:
        whole = _pairs(source, target, sentences + held_out)
        count = min(held_out, len(whole) // MOST_HELD_OUT)
        if not count:
            raise DataError(
                f"{source}: {len(whole)} pairs are too few to hold any out; "
                "give --dev-source and --dev-target"
            )
        step = len(whole) // count
        tried = whole[::step][:count]
        learnt = whole
    apart = {one for one, _ in tried}
    learnt = [pair for pair in learnt if pair[0] not in apart]
    if not learnt or not tried:
        raise DataError(f"{source}: no pairs are left to {'learn from' if tried else 'try the shortlist on'}")
    return learnt, tried


def _pairs(source: Path, target: Path, most: int | None) -> list[Pair]:
    """The first pairs of two aligned files, all if ``most`` is None."""
    from uwaga.cli.lines import file_chunks

    def lines(path: Path) -> Iterator[str]:
        return (line for chunk in file_chunks(path) for line in chunk.lines)

    pairs: list[Pair] = []
    for ours, theirs in islice(zip_longest(lines(source), lines(target)), most):
        if ours is None or theirs is None:
            shorter, longer = (source, target) if ours is None else (target, source)
            raise DataError(f"{shorter} has {len(pairs)} lines and {longer} more: they must be aligned")
        pairs.append((ours, theirs))
    return pairs


@contextlib.contextmanager
def _progress(pairs: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on standard error, where somebody sees it."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("reading", total=pairs)
        yield lambda done: progress.update(task, completed=done)


def _show(trial: Trial, tried: list[Pair], vocabulary: int) -> None:
    """BLEU and speed of both ways, and what the lists are like."""
    from uwaga.evaluation import evaluate

    references = [(reference,) for _, reference in tried]
    scores = [
        evaluate([one.text for one in run.translations], references, ["bleu"])["bleu"]
        for run in (trial.whole, trial.short)
    ]
    typer.echo(f"{'':17}{'BLEU':>6}{'tokens/s':>10}")
    for name, score, run in zip(
        ("whole vocabulary", "shortlist"), scores, (trial.whole, trial.short), strict=True
    ):
        typer.echo(f"{name:<17}{score.value:6.2f}{run.speed:10.0f}")
    faster = trial.short.speed / trial.whole.speed
    typer.echo(
        f"loss {scores[0].value - scores[1].value:.2f} BLEU, {faster:.2f} times the speed; "
        f"{trial.alike:,} of {len(tried):,} translations alike"
    )
    typer.echo(
        f"a sentence's list holds {trial.size:.0f} of {vocabulary:,} tokens on average, and "
        f"{100 * trial.coverage:.1f}% of its reference's"
    )
    typer.echo(scores[0].signature)
