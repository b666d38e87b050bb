"""``uwaga align``: align the words of translations with those of their sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from uwaga.cli import options
from uwaga.cli.lines import Files, file_chunks, open_output, read_pairs
from uwaga.cli.option_groups import Group, option_groups
from uwaga.errors import DataError, SettingsError
from uwaga.settings.load_options import LoadOptions

if TYPE_CHECKING:
    from uwaga.inspection.head_selection import Links
    from uwaga.settings import AlignmentHead
    from uwaga.translator import Translator

MAX_PAIRS = 3000
MAX_LEARNED_PAIRS = 200_000
"""Maximum number of pairs for choosing a head and for training the aligner; more pairs make no difference."""
Pair = tuple[str, str]


Units = Literal["words", "spaces"]
"""The units that links refer to."""
Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="Model that computes the alignment; default: the bundled model."),
]
ReverseModel = Annotated[
    str | None,
    typer.Option(
        help="Model of the opposite direction: symmetrise the two alignments (grow-diag-final-and)."
    ),
]
Aligner = Annotated[
    bool,
    typer.Option(
        "--aligner", help="Use uwaga's own aligner, which learns from the pairs alone, instead of a model."
    ),
]
Words = Annotated[
    Units,
    typer.Option(
        help="Units that links refer to: words and punctuation marks, or tokens between spaces (Moses)."
    ),
]
ChooseHead = Annotated[
    bool,
    typer.Option(
        "--choose",
        help="Find the attention head that aligns these pairs best, print all heads, and store the choice in "
        "the model folder. A file of sources alone is translated first.",
    ),
]
Gold = Annotated[
    Path | None,
    typer.Option(
        help="With --choose: gold (manual) alignments, as in `uwaga evaluate --alignments`; default: the "
        "alignments of uwaga's own aligner."
    ),
]


Load = Annotated[LoadOptions, Group(LoadOptions, without=("shortlist", "draft"))]


@option_groups
def align(
    files: Files = None,
    model: Model = None,
    both: ReverseModel = None,
    aligner: Aligner = False,
    words: Words = "words",
    output: options.Output = None,
    choose: ChooseHead = False,
    gold: Gold = None,
    *,
    load: Load,
) -> None:
    """Print the word alignment of each pair in Moses format (``0-0 1-2``, words counted from 0).

    The model force-decodes the given translations, and links are read from the attention head that aligns
    best. --choose finds that head and stores it with the model; otherwise the mean of the penultimate layer's
    heads is used, which is less accurate.

    **Examples**

        uwaga align test.en test.de > test.links

        uwaga align pairs.tsv --words spaces -m models/ende    # source, tab, target; tokens between spaces

        uwaga align test.en test.de -m models/ende --both models/deen    # symmetrised

        uwaga align train.en train.de --aligner -o train.links    # no model; for a whole corpus

        uwaga align --choose dev.en dev.de -m models/ende    # print all heads and store the best

        uwaga align --choose dev.en -m models/ende    # the same, with the model's own translations

        uwaga align --choose test.en test.de --gold test.gold -m models/ende    # with manual alignments
    """
    _check_options(model, both, aligner, choose, gold)
    if aligner:
        _align_with_aligner(files or [], words, output)
        return
    from uwaga.library.hub import find_model
    from uwaga.translator import Translator
    from uwaga.translator.loading import adapter_base, load_named

    name = model or adapter_base(load.adapter, None)
    if choose:
        _check_writable(find_model(name))
    translator = Translator(load_named(name, load))
    if choose:
        _choose_head(translator, name, files or [], gold, words)
    else:
        _align_with_models(translator, both, load, files or [], words, output)


def _check_options(
    model: str | None, both: str | None, aligner: bool, choose: bool, gold: Path | None
) -> None:
    """Raise SettingsError for options that cannot be combined."""
    if aligner and (model is not None or both is not None or choose):
        raise SettingsError("--aligner uses no model: leave out --model, --both and --choose")
    if choose and both is not None:
        raise SettingsError("--choose needs a single model: run it for each model, then align with --both")
    if gold is not None and not choose:
        raise SettingsError("--gold needs --choose; to score alignments use `uwaga evaluate`")


def _check_writable(folder: Path) -> None:
    """Raise SettingsError for the bundled model, in whose folder a head cannot be stored."""
    from uwaga.checkpoints.formats.uwaga.names import BUNDLED

    if folder.resolve() == BUNDLED.resolve():
        raise SettingsError(
            "--choose stores the head in the model's folder, and the bundled model belongs to the installed "
            "package: choose your own model with --model, or a copy of the bundled one: "
            'cp -r "$(uwaga models path bundled)" my-model'
        )


def _align_with_models(
    translator: Translator,
    both: str | None,
    load: LoadOptions,
    files: list[Path],
    words: Units,
    output: Path | None,
) -> None:
    from uwaga.alignment import grow_diagonal
    from uwaga.cli.meter import meter
    from uwaga.translator import Translator
    from uwaga.translator.loading import load_named

    reverse = None
    if both is not None:
        reversed_load = replace(load, source=load.target, target=load.source, adapter=None)
        reverse = Translator(load_named(both, reversed_load))
    with open_output(output) as write, meter(files[0] if files else None, "aligning") as advance:
        for chunk, pairs in read_pairs(files):
            alignments = translator.align(pairs, words=words, first=chunk.first)
            links = [frozenset(alignment.links) for alignment in alignments]
            if reverse is not None:
                swapped_pairs = [(target, source) for source, target in pairs]
                reverse_alignments = reverse.align(swapped_pairs, words=words, first=chunk.first)
                reverse_links = [
                    frozenset((source, target) for target, source in alignment.links)
                    for alignment in reverse_alignments
                ]
                links = [
                    grow_diagonal(forward, backward)
                    for forward, backward in zip(links, reverse_links, strict=True)
                ]
            write("".join(_moses_line(pair_links) + "\n" for pair_links in links))
            advance(chunk)


def _align_with_aligner(files: list[Path], words: Units, output: Path | None) -> None:
    from uwaga.alignment import align_corpus
    from uwaga.alignment.words import split_words

    pairs = _all_pairs(files)
    tokens = [[split_words(pair[side], words) for pair in pairs] for side in (0, 1)]
    links = align_corpus(tokens[0], tokens[1])
    with open_output(output) as write:
        write("".join(_moses_line(pair_links) + "\n" for pair_links in links))


def _choose_head(
    translator: Translator, name: str | None, files: list[Path], gold: Path | None, words: Units
) -> None:
    """Measure every head, print the error rates, and store the best head in the model folder."""
    from uwaga.checkpoints.alignment_head import write_head
    from uwaga.cli.meter import count_meter
    from uwaga.evaluation.alignment_error import check_pairs, read_gold, select_lines
    from uwaga.inspection.head_selection import MIN_PAIRS, combine_heads, head_errors, training_links
    from uwaga.library.hub import find_model

    pairs = list(_pairs_or_translated(translator, files))
    unlabelled = pairs
    links: list[tuple[Links, Links]] = []
    if gold is not None:
        alignments = read_gold(gold)
        if any(alignment.checksum for alignment in alignments):
            check_pairs(alignments, [source for source, _ in pairs], [target for _, target in pairs])
        labelled_lines = {alignment.line for alignment in alignments}
        unlabelled = [pair for line, pair in enumerate(pairs, start=1) if line not in labelled_lines]
        pairs = select_lines(pairs, alignments, str(files[0]) if files else "the input")
        links = [(alignment.sure, alignment.possible) for alignment in alignments]
    trains_links = gold is None or len(unlabelled) >= MIN_PAIRS
    examples, reference_links, lexicon = pairs, links, None
    if trains_links:
        examples, reference_links, lexicon = training_links(unlabelled[:MAX_LEARNED_PAIRS], MAX_PAIRS, words)
    if gold is None:
        pairs, links = examples, reference_links
    count = 0
    with count_meter(len(pairs), "aligning") as update:

        def advance(pairs_aligned: int) -> None:
            nonlocal count
            count += pairs_aligned
            update(count)

        errors = head_errors(translator, pairs, links, words, advance)
    best_head = combine_heads(
        translator, errors, examples, reference_links, words, lexicon, retrain=trains_links
    )
    error = next(iter(errors.values()))
    reference_name = f"{gold}" if gold is not None else "uwaga's own aligner"
    typer.echo(f"alignment error rate of each head against {reference_name}, {len(pairs)} pairs:\n")
    _print_errors(errors)
    path = write_head(Path(find_model(name)), best_head)
    typer.echo(f"\nchosen: {best_head}, error {error:.3f} on its own; stored in {path}")


def _print_errors(errors: dict[AlignmentHead, float]) -> None:
    """Print one line per head and one column per step; mark the best."""
    best_head = next(iter(errors))
    table: dict[str, dict[str, str]] = {}
    for head, error in sorted(errors.items(), key=lambda item: (item[0].layer, item[0].head or 1 << 30)):
        mark = "*" if head == best_head else ""
        table.setdefault(f"{head.layer}.{head.head or 'mean'}", {})[head.step] = f"{error:.3f}{mark}"
    typer.echo(f"{'head':<9}{'predicting':<12}{'reading':<12}".rstrip())
    for label, row in table.items():
        typer.echo(f"{label:<9}{row['predicting']:<12}{row['reading']:<12}".rstrip())


def _pairs_or_translated(translator: Translator, files: list[Path]) -> Iterator[Pair]:
    """Yield the pairs of the files.

    If there is a single file without tabs, translate its lines and yield each line with its translation.
    """
    from uwaga.cli.meter import count_meter
    from uwaga.translator import Request

    if len(files) == 1:
        lines = [line for chunk in islice(file_chunks(files[0]), 2) for line in chunk.lines][:MAX_PAIRS]
        if lines and not any("\t" in line for line in lines):
            with count_meter(len(lines), "translating") as update:
                # Pairs are aligned unsplit: lines that are too long are left out.
                requests = (Request(line, split="never", on_error="return") for line in lines)
                for line_number, translation in enumerate(translator.run(requests, window=64), start=1):
                    update(line_number)
                    if translation.error is None:
                        yield lines[line_number - 1], translation.text
            return
    yield from _all_pairs(files)


def _all_pairs(files: list[Path]) -> list[Pair]:
    pairs = [pair for part in read_pairs(files) for pair in part.pairs]
    if not pairs:
        raise DataError("nothing to align: the input has no pairs")
    return pairs


def _moses_line(links: frozenset[tuple[int, int]] | Sequence[tuple[int, int]]) -> str:
    return " ".join(f"{source}-{target}" for source, target in sorted(links))
