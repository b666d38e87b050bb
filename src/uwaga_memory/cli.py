"""``uwaga memory``: create, fill, search and measure translation memories."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli.errors import INTERRUPTED, require_extra
from uwaga.cli.verb import Verb, VerbGroup
from uwaga.errors import DataError, SettingsError

if TYPE_CHECKING:
    from uwaga.cli.meter import Update
    from uwaga_memory import Pair
    from uwaga_memory.analysis import Bucket
    from uwaga_memory.files import TranslationFile

MAX_ORIGINS = 10
"""Maximum number of origins that ``stats`` prints; further origins are counted."""
EXIT_NOT_BETTER = 3
"""Exit status if the adapter is not kept because it is not better."""
PROGRESS_PAIRS = 500
"""Number of pairs between two updates of the progress display."""

memory = typer.Typer(
    name="memory",
    add_completion=False,
    cls=VerbGroup,
    no_args_is_help=True,
    help="Create, fill, search and measure translation memories.\n\n"
    "A memory is a file of sentences in one language and their translations in another. A look-up finds the "
    "sentences that are equal or similar to a new one, and reports their similarity in percent.\n\n"
    "**Examples**\n\n    uwaga memory create docs.uwm --from en --to de\n\n"
    "    uwaga memory import docs.uwm project.tmx messages.po\n\n"
    '    uwaga memory search docs.uwm "The file was saved."\n\n'
    "    uwaga memory analyse docs.uwm manual.html\n\n    uwaga memory export docs.uwm all.tmx\n\n"
    "    uwaga memory adapt docs.uwm docs-adapter",
    context_settings={"help_option_names": ["--help", "-h"]},
)


class CodesChoice(StrEnum):
    """How inline codes are imported."""

    KEEP = "keep"
    PLACEHOLDERS = "placeholders"
    DROP = "drop"


MemoryFile = Annotated[Path, typer.Argument(help="The file of the memory.", metavar="MEMORY")]
NewFile = Annotated[Path, typer.Argument(help="The file to create, such as docs.uwm.", metavar="MEMORY")]
SourceLanguage = Annotated[str, typer.Option("--from", help="Language of the sources, such as en.")]
TargetLanguage = Annotated[str, typer.Option("--to", help="Language of the translations, such as pt-BR.")]
Name = Annotated[str, typer.Option(help="Name of the memory.", show_default="that of the file")]
Files = Annotated[
    list[Path],
    typer.Argument(
        help="TMX, TSV, PO or XLIFF, plain or compressed; or a document, with --translation.",
        metavar="FILE...",
    ),
]
Format = Annotated[str, typer.Option("--format", help="tmx, tsv, po or xliff.", show_default="by file name")]
Codes = Annotated[
    CodesChoice,
    typer.Option(
        help="How to import inline codes of TMX and XLIFF: keep the markup that they represent, such as <b>; "
        "replace them with placeholders, such as <1>; or drop them."
    ),
]
Columns = Annotated[
    str,
    typer.Option(
        help="For TSV: columns of source, translation, origin and key, as numbers (2,3,1) or as names from "
        "the first line.",
        show_default="1,2, or the names in the first line",
    ),
]
InOrder = Annotated[
    bool | None,
    typer.Option(
        "--in-order/--any-order",
        help="Whether the pairs are in document order, so that the neighbours of a text are its context.",
        show_default="in order for XLIFF and documents",
    ),
]
Translation = Annotated[
    Path | None, typer.Option(help="The translated document, if FILE is a source document.")
]
Output = Annotated[Path, typer.Argument(help="The .tmx, .tsv, .po or .xlf file to write.", metavar="FILE")]
ContainedText = Annotated[
    str, typer.Option("--containing", help="Only pairs whose source or translation contains this text.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file.")]
Text = Annotated[str, typer.Argument(help="The text to look up.", metavar="TEXT")]
Threshold = Annotated[float, typer.Option(help="Minimum similarity, in percent.", min=1, max=100)]
Limit = Annotated[int, typer.Option(help="Maximum number of pairs.", min=1, max=1000)]
Key = Annotated[str, typer.Option(help="Key of the text in its document, such as a message id.")]
TextBefore = Annotated[str, typer.Option(help="The preceding text in the document.")]
TextAfter = Annotated[str, typer.Option(help="The following text in the document.")]
PrintJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Source = Annotated[str, typer.Argument(help="The source text.", metavar="SOURCE")]
Target = Annotated[str, typer.Argument(help="The translation of the source text.", metavar="TRANSLATION")]
Origin = Annotated[str, typer.Option(help="Where the pair comes from, such as a file name.")]
Ids = Annotated[list[int], typer.Argument(help="Numbers of pairs, as printed by search.", metavar="ID...")]
AdapterFolder = Annotated[Path, typer.Argument(help="The folder of the adapter.", metavar="ADAPTER")]
BaseModel = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="The model to adapt.",
        show_default="the base model of an existing adapter, otherwise the bundled model",
    ),
]
Changes = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a setting of `uwaga train`, such as `training.steps=1000`. Repeatable.",
    ),
]
Documents = Annotated[
    list[Path],
    typer.Argument(
        help="Documents in any format that `uwaga translate-file` supports, such as .txt.", metavar="FILE..."
    ),
]


def create(path: NewFile, source: SourceLanguage, target: TargetLanguage, name: Name = "") -> None:
    """Create an empty memory.

    **Examples**

        uwaga memory create docs.uwm --from en --to pt-BR
    """
    from uwaga_memory import Memory

    Memory.create(path, source, target, name).close()


def import_(
    path: MemoryFile,
    files: Files,
    format_: Format = "",
    codes: Codes = CodesChoice.KEEP,
    columns: Columns = "",
    in_order: InOrder = None,
    translation: Translation = None,
) -> None:
    """Add the pairs in the given files to a memory; an interrupted import adds no pairs of the current file.

    Pairs that are already in the memory with the same context are not added again. The number of pairs
    skipped for each reason is printed.

    **Examples**

        uwaga memory import docs.uwm project.tmx

        uwaga memory import docs.uwm corpus.tsv.gz --columns 2,3,1 --in-order

        uwaga memory import docs.uwm README.md --translation README.de.md
    """
    from uwaga.cli.meter import file_meter
    from uwaga_memory import Memory
    from uwaga_memory.files import FileOptions, TranslationFile, read_pairs

    if translation is not None and len(files) > 1:
        raise SettingsError("--translation names the translation of one document; give only one FILE")
    names = tuple(name.strip() for name in columns.split(",") if name.strip())
    options = FileOptions(format_, codes.value, names, in_order, translation)
    for file_path in files:
        meter = file_meter([file_path], f"importing {file_path.name}")
        with Memory(path) as store, meter as update:
            file = TranslationFile(file_path, store.languages, options)
            counts = store.add(_with_progress(read_pairs(file), file, update))
        typer.echo(f"{file_path}: {counts.new:,} new pairs, {counts.known:,} known")
        _print_skipped(file.skipped + counts.skipped)


def export(
    path: MemoryFile,
    output: Output,
    format_: Format = "",
    containing: ContainedText = "",
    force: Force = False,
) -> None:
    """Write the pairs of a memory to a file.

    TMX and TSV files keep all properties of a pair; PO and XLIFF files keep only the texts and keys.

    **Examples**

        uwaga memory export docs.uwm all.tmx

        uwaga memory export docs.uwm attention.tsv --containing attention
    """
    from uwaga_memory import Memory
    from uwaga_memory.files import write_pairs

    if output.exists() and output.is_file() and not force:
        raise SettingsError(f"{output}: already exists; add --force to replace it, or choose another file")
    count: Counter[str] = Counter()
    with Memory(path) as store:
        pairs = _count_pairs(store.pairs(containing), count)
        skipped = write_pairs(output, pairs, store.languages, format_)
    typer.echo(f"{output}: {count['pairs'] - skipped.total():,} pairs", err=True)
    _print_skipped(skipped)


def search(
    path: MemoryFile,
    text: Text,
    threshold: Threshold = 50.0,
    limit: Limit = 5,
    key: Key = "",
    before: TextBefore = "",
    after: TextAfter = "",
    as_json: PrintJson = False,
) -> None:
    """Print the pairs that are most similar to a text: number, similarity, source, translation.

    A similarity of 101 % means the same text in the same context (the same key, or both neighbours); 100 %
    means the same text.

    **Examples**

        uwaga memory search docs.uwm "The file was saved." --threshold 70
    """
    from uwaga_memory import Context, Memory

    with Memory(path) as store:
        matches = store.matches(text, Context(key, before, after), threshold=threshold, limit=limit)
    if as_json:
        typer.echo(json.dumps([vars(match) for match in matches], ensure_ascii=False))
        return
    for match in matches:
        origin = f"  ({match.origin})" if match.origin else ""
        typer.echo(f"{match.id:>7} {match.score:5.1f} %  {match.source}{origin}\n{'':17}{match.target}")
    if not matches:
        typer.echo(
            f"no pair with a similarity of at least {threshold:g} %; lower --threshold to find more", err=True
        )


def add(path: MemoryFile, source: Source, target: Target, key: Key = "", origin: Origin = "") -> None:
    """Add a pair to a memory.

    **Examples**

        uwaga memory add docs.uwm "The file was saved." "Die Datei wurde gespeichert."
    """
    from uwaga_memory import Memory, Pair

    with Memory(path) as store:
        counts = store.add([Pair(source, target, origin, key)])
    if counts.skipped:
        raise DataError(f"the pair was not added: {next(iter(counts.skipped))}")
    if counts.known:
        typer.echo("the memory already contains this pair", err=True)


def remove(path: MemoryFile, ids: Ids) -> None:
    """Remove pairs from a memory by their numbers.

    **Examples**

        uwaga memory remove docs.uwm 17 18
    """
    from uwaga_memory import Memory

    with Memory(path) as store:
        removed_count = store.remove(ids)
    typer.echo(f"{removed_count} of {len(set(ids))} pairs removed", err=True)


def stats(path: MemoryFile, as_json: PrintJson = False) -> None:
    """Print the number of pairs in a memory, and their origins.

    **Examples**

        uwaga memory stats docs.uwm
    """
    from uwaga_memory import Memory

    with Memory(path) as store:
        values = store.stats()
    if as_json:
        typer.echo(json.dumps(values.to_dict(), ensure_ascii=False))
        return
    typer.echo(f"{store.name}: {store.languages[0]} to {store.languages[1]}")
    typer.echo(f"{values.pairs:>10,} pairs of {values.sources:,} sources, {values.words:,} words")
    typer.echo(f"{values.bytes / 1e6:>10,.1f} MB")
    if values.pairs:
        typer.echo(f"           from {values.first} to {values.last}")
    for origin, count in list(values.origins.items())[:MAX_ORIGINS]:
        typer.echo(f"{count:>10,} from {origin or 'no file'}")
    if len(values.origins) > MAX_ORIGINS:
        typer.echo(f"           and {len(values.origins) - MAX_ORIGINS} more; --json lists all")


def analyse(path: MemoryFile, documents: Documents, as_json: PrintJson = False) -> None:
    """Print how many texts and words of documents a memory contains, by similarity.

    **Examples**

        uwaga memory analyse docs.uwm manual.html
    """
    from uwaga.cli.meter import texts_meter
    from uwaga_memory import Memory
    from uwaga_memory.analysis import analyse as analyse_texts
    from uwaga_memory.files.documents import document_sources
    from uwaga_memory.files.reading import with_neighbours

    sources = (pair for document in documents for pair in document_sources(document))
    texts = list(with_neighbours(sources))
    with Memory(path) as store, texts_meter("analysing", "texts") as progress:
        analysis = analyse_texts(store, texts, progress=progress)
    if as_json:
        typer.echo(json.dumps(analysis.to_dict(), ensure_ascii=False))
        return
    typer.echo(f"{'':15}{'texts':>9}{'words':>11}{'characters':>12}{'words':>8}")
    _print_buckets([*analysis.buckets, analysis.total], analysis.total.words)


def adapt(path: MemoryFile, adapter: AdapterFolder, model: BaseModel = None, set_: Changes = None) -> None:
    """Adapt a model to a memory: train an adapter on its pairs, and keep it if it translates better.

    About one source in 20 is held out from training; the same sources are held out every time. The adapter is
    kept if its chrF score on them is higher than that of the model and that of an existing adapter in the
    folder. Otherwise nothing changes, and the exit status is 3. To resume interrupted training, run the
    same command again.

    **Examples**

        uwaga memory adapt docs.uwm docs-adapter

        uwaga memory adapt docs.uwm docs-adapter --model Helsinki-NLP/opus-mt-en-de

        uwaga translate --adapter docs-adapter "The file was saved."
    """
    from uwaga_memory import Memory

    with require_extra("train", "adapting a model"):
        from uwaga_memory.adapting import adapt as adapt_model

        with Memory(path) as store:
            scores = adapt_model(store, adapter, model, set_ or [])
    if scores is None:
        raise typer.Exit(INTERRUPTED)
    typer.echo(f"{adapter}: {'kept' if scores.is_better else 'not kept'}: {scores}")
    if not scores.is_better:
        raise typer.Exit(EXIT_NOT_BETTER)


def _print_buckets(buckets: Iterable[Bucket], words: int) -> None:
    for bucket in buckets:
        share = f"{100 * bucket.words / words:.0f} %" if words else ""
        typer.echo(f"{bucket.name:15}{bucket.texts:>9,}{bucket.words:>11,}{bucket.characters:>12,}{share:>8}")


def _with_progress(pairs: Iterator[Pair], file: TranslationFile, update: Update) -> Iterator[Pair]:
    for number, pair in enumerate(pairs, start=1):
        if number % PROGRESS_PAIRS == 0:
            update(file.position, number)
        yield pair


def _count_pairs(pairs: Iterator[tuple[int, Pair]], count: Counter[str]) -> Iterator[Pair]:
    for _, pair in pairs:
        count["pairs"] += 1
        yield pair


def _print_skipped(skipped: Counter[str]) -> None:
    from uwaga_memory.files import skipped_summary

    if line := skipped_summary(skipped):
        typer.echo(line, err=True)


memory.command("create", cls=Verb)(create)
memory.command("import", cls=Verb)(import_)
memory.command("export", cls=Verb)(export)
memory.command("search", cls=Verb)(search)
memory.command("add", cls=Verb)(add)
memory.command("remove", cls=Verb)(remove)
memory.command("stats", cls=Verb)(stats)
memory.command("analyse", cls=Verb)(analyse)
memory.command("adapt", cls=Verb)(adapt)
