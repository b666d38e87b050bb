"""``uwaga translate``: texts, files and pipes."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from uwaga.cli import options as the
from uwaga.cli.chosen import load_for_texts
from uwaga.cli.confidence import confident_text, shows_colours
from uwaga.cli.lines import resolve_source
from uwaga.cli.nbest import NbestChoice, moses_lines
from uwaga.cli.notes import Notes
from uwaga.cli.option_groups import Group, option_groups
from uwaga.cli.text_format import (
    FormatChoice,
    IgnoreTags,
    MorePlaceholders,
    TextFormat,
    kept_patterns,
)
from uwaga.errors import DataError, SettingsError
from uwaga.search.options import SearchOptions, SearchOverrides
from uwaga.settings.load_options import LoadOptions

if TYPE_CHECKING:
    from uwaga.cli.lines import Chunk, Pace
    from uwaga.results.translation import Translation
    from uwaga.search import SearchOverrides
    from uwaga.translator import Request, Translator
    from uwaga.translator.request import OnError

ON_ERROR: dict[the.ErrorChoice, OnError] = {
    the.ErrorChoice.stop: "raise",
    the.ErrorChoice.skip: "return",
    the.ErrorChoice.copy: "copy",
}

Texts = Annotated[
    list[str] | None,
    typer.Argument(help="Texts to translate; without any, lines are read.", show_default=False),
]
NbestFormat = Annotated[
    NbestChoice,
    typer.Option(help="Translations of a line with tabs between, or a line each as Moses has them."),
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="One JSON object per line: text, score, tokens, token_scores, alternatives..."
    ),
]

Confident = Annotated[
    bool,
    typer.Option(
        "--confidence",
        help="Mark the words that the model was unsure of: in colours on a terminal, else with their "
        "probability; with --json, all words, entropies and estimates of the quality.",
    ),
]

Alignments = Annotated[
    Path | None,
    typer.Option(
        help="A file for word links, a line each as Moses has them (0-0 1-2): words and punctuation "
        "marks, from 0.",
        show_default=False,
    ),
]

Search = Annotated[
    SearchOverrides,
    Group(
        SearchOptions,
        without=("entropy", "alignment"),
        help={
            "nbest": "Translations per line, separated by tabs; at most the beam size",
            "attention": "Add the attention matrix (target, source) to --json",
        },
    ),
]
Load = Annotated[LoadOptions, Group(LoadOptions, help=the.LOAD_HELP)]


EXAMPLES = r"""
        uwaga translate "I want to buy a car."

        uwaga translate --input talk.en --output talk.de

        tail -f chat.en | uwaga translate        # each line as it arrives

        uwaga translate --nbest 5 --json "I want to buy a car." | jq .alternatives

        uwaga translate --nbest 5 --nbest-format moses < test.en    # index ||| text ||| features ||| score

        uwaga translate --stream "It grows while you watch."

        uwaga translate --prefix "Ich möchte" "I want to buy a car."

        uwaga translate --sample --temperature 0.7 --seed 1 "Say it another way."

        uwaga translate --format html "A man in a <b>blue shirt</b> sings."

        uwaga translate --placeholder 'ACME-\d+' "Open {file} with ACME-17."

        uwaga translate --confidence "I want to buy a car."

        uwaga translate --input talk.en --output talk.de --alignments talk.links

        uwaga translate --mbr 64 --seed 1 "The sample that agrees with the others."

        uwaga translate --model runs/ende/model --beam 1 < big.en > big.de

        uwaga translate --model facebook/mbart-large-50-many-to-many-mmt --from en --to fr < test.en

        uwaga translate --from en --to pt < test.en      # the best installed model, or a chain of them

        uwaga translate --from pt --to es --via en < test.pt

        uwaga translate --from auto --to en < letters.txt    # in whatever language they are

        uwaga translate --adapter runs/medical/adapter < test.en    # with the model that it was trained for

        uwaga translate --model runs/rnn/model --model runs/transformer/model < test.en    # an ensemble
"""


@option_groups
@the.examples(EXAMPLES)
def translate(
    text: Texts = None,
    model: the.Models = None,
    input_: the.Input = None,
    output: the.Output = None,
    nbest_format: NbestFormat = NbestChoice.tabs,
    as_json: AsJson = False,
    confidence: Confident = False,
    stream: the.Streaming = False,
    prefix: the.Prefix = None,
    glossary: the.Glossary = None,
    glossary_mode: the.GlossaryMode = the.GlossaryChoice.forced,
    split: the.Split = the.SplitChoice.auto,
    on_error: the.OnError = the.ErrorChoice.stop,
    resume: the.Resume = False,
    alignments: Alignments = None,
    format_: TextFormat = FormatChoice.text,
    ignore_tags: IgnoreTags = None,
    placeholder: MorePlaceholders = None,
    via: the.Via = None,
    *,
    search: Search,
    load: Load,
) -> None:
    """Translate texts, a file, or whatever comes through a pipe: one line in, one line out."""
    from uwaga.translator.request import Request

    shape = _Shape(as_json, stream, nbest_format is NbestChoice.moses, confidence, shows_colours(output))
    shape.check(search)
    if format_ is not FormatChoice.text and stream:
        raise SettingsError("--format puts tags back after the whole translation: leave out --stream")
    if format_ is not FormatChoice.text and alignments is not None:
        raise SettingsError("--alignments counts the words of plain lines: leave out --format")
    (source, chunks), pace = _watched(text, input_, load.source, (resume, output, alignments))
    search |= {"entropy": as_json and confidence, "alignment": alignments is not None}
    request = Request(
        "",
        format=format_.value,
        prefix=prefix or "",
        glossary=glossary,
        glossary_mode=glossary_mode.value,
        split=split.value,
        placeholders=kept_patterns(placeholder),
        ignore_tags=ignore_tags or (),
        search=search,
        on_error=ON_ERROR[on_error],
    )
    request.check()
    translator, bundled = load_for_texts(model, replace(load, source=source), via)
    request = translator.prepare(request, streaming=stream)
    notes = Notes("text" if text else "line", bundled)
    _Job(translator, request, shape, notes, pace, alignments).run(chunks, input_, output, resume)


def _watched(
    text: list[str] | None,
    path: Path | None,
    source: str | None,
    resuming: tuple[bool, Path | None, Path | None],
) -> tuple[tuple[str | None, Iterator[Chunk]], Pace | None]:
    """What is to be translated with its language, and the pace at which somebody watches that, if anybody."""
    from uwaga.cli.lines import Pace, chunks_of

    the.check_resume(*resuming)
    pace = Pace() if sys.stderr.isatty() else None
    return resolve_source(source, chunks_of(text, path, pace)), pace


class _Shape(NamedTuple):
    """How translations are printed: as JSON, as they grow, as an n-best list of Moses; or plainly.

    ``confident`` says how sure the model was of the words, by ``colours`` or by marks.
    """

    as_json: bool
    streams: bool
    moses: bool
    confident: bool
    colours: bool

    def check(self, search: SearchOverrides) -> None:
        """Refuse what does not go together.

        Raises:
            SettingsError: names the options.
        """
        if self.streams:
            the.check_streaming(self.as_json, search)
        if search.get("attention") and not self.as_json:
            raise SettingsError("--attention is shown by --json only: add it")
        if self.confident and (self.streams or self.moses):
            raise SettingsError("--confidence marks whole lines: leave out --stream and --nbest-format moses")
        if self.moses and (self.as_json or self.streams):
            raise SettingsError("--nbest-format moses is a format of its own: leave out --json and --stream")

    def show(self, translation: Translation) -> str:
        """A translation as one line; alternatives stand on it too, so that lines stay aligned."""
        if self.as_json:
            return json.dumps(translation.to_dict(confidence=self.confident), ensure_ascii=False)
        ways = (translation, *translation.alternatives)
        texts = [confident_text(one, self.colours) if self.confident else one.text for one in ways]
        return "\t".join(text.replace("\t", " ") for text in texts) if len(ways) > 1 else texts[0]


@dataclass
class _Job:
    """What is done with each chunk of lines."""

    translator: Translator
    request: Request
    shape: _Shape
    notes: Notes
    pace: Pace | None
    alignments: Path | None = None
    write_links: Callable[[str], None] | None = None

    def run(self, chunks: Iterator[Chunk], source: Path | None, output: Path | None, resume: bool) -> None:
        """Translate every chunk, with ``resume`` not what an interrupted call has done; end with notes."""
        from uwaga.cli.lines import copy_lines, lines_out, partial_of
        from uwaga.cli.meter import meter

        partial = None if output is None else partial_of(output)
        if partial is not None and not resume and partial.is_file():
            typer.echo(f"note: {partial} is of an interrupted call, which --resume goes on with", err=True)
        work = self._stream if self.shape.streams else self._translate
        done = 0
        try:
            with contextlib.ExitStack() as files:
                write = files.enter_context(lines_out(output, partial))
                advance = files.enter_context(meter(source, "translating"))
                if self.alignments is not None:
                    self.write_links = files.enter_context(lines_out(self.alignments))
                if partial is not None and resume:
                    done = copy_lines(partial, write)
                last = 0
                for chunk in chunks:
                    started = time.monotonic()
                    last = chunk.first - 1 + len(chunk.lines)
                    if last > done:
                        work(chunk.after(done), write)
                    advance(chunk)
                    if self.pace is not None:
                        self.pace.took(time.monotonic() - started)
                if last < done:
                    raise DataError(f"{partial} has {done} lines, the input {last}: it is of another input")
        except KeyboardInterrupt:
            if partial is not None and partial.is_file():
                typer.echo(f"{partial} holds the lines done; add --resume to go on with them", err=True)
            raise
        if partial is not None and resume:
            partial.unlink(missing_ok=True)
        self.notes.finish()

    def _translate(self, chunk: Chunk, write: Callable[[str], None]) -> None:
        """One line out for each one in."""
        translations = list(self.translator.run(self._requests(chunk), window=len(chunk.lines)))
        if self.shape.moses:
            write("".join(moses_lines(one, at) for at, one in enumerate(translations, chunk.first - 1)))
        else:
            write("".join(self.shape.show(translation) + "\n" for translation in translations))
        if self.write_links is not None:
            self.write_links("".join(f"{one.alignment or ''}\n" for one in translations))
        for number, translation in enumerate(translations, start=chunk.first):
            self.notes.take(number, translation)

    def _stream(self, chunk: Chunk, write: Callable[[str], None]) -> None:
        """The same, word by word."""
        for number, request in enumerate(self._requests(chunk), start=chunk.first):
            try:
                pieces = self.translator.run_stream(request)
            except DataError as error:
                if request.on_error == "raise":
                    raise
                copied = request.on_error == "copy"
                write((request.text if copied else "") + "\n")
                self.notes.fail(error, copied)
                continue
            if _written(pieces, write):
                self.notes.cut.append(number)
            self.notes.doubt(number, self.translator.input_warnings(request.text, request.split))

    def _requests(self, chunk: Chunk) -> list[Request]:
        return [
            replace(self.request, text=line, name=f"{self.notes.unit} {number}")
            for number, line in enumerate(chunk.lines, start=chunk.first)
        ]


def _written(pieces: Generator[str, None, bool], write: Callable[[str], None]) -> bool:
    while True:
        try:
            write(next(pieces))
        except StopIteration as end:
            write("\n")
            return bool(end.value)
