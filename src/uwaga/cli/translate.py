"""``uwaga translate``: translate texts, files and pipes."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import count, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from uwaga.cli import options
from uwaga.cli.errors import USER_ERROR
from uwaga.cli.lines import (
    DEMONSTRATION,
    Chunk,
    ChunkSize,
    input_chunks,
    is_complete,
    language_sample,
    open_output,
    with_contexts,
)
from uwaga.cli.loading import load_for_sample
from uwaga.cli.memory_counts import MemoryCounts, print_memory_note
from uwaga.cli.option_groups import Group, option_groups
from uwaga.errors import DataError, SettingsError
from uwaga.languages.detection import AUTO
from uwaga.results.confidence import Word, split_words
from uwaga.results.translation import DraftUse
from uwaga.search.options import SearchOptions, SearchOverrides
from uwaga.settings.load_options import LoadOptions
from uwaga.translator.memories import contexts_in_order
from uwaga.translator.request import Request

if TYPE_CHECKING:
    from uwaga.errors import UwagaError
    from uwaga.files.resume import Journal
    from uwaga.results.translation import Translation
    from uwaga.translator import Translator


def moses_lines(translation: Translation, index: int) -> str:
    """Return one line per hypothesis, best first, in the n-best format of Moses.

    The format is ``index ||| text ||| features ||| score``. The features are ``log_prob``, the natural
    log-probability, and ``tokens``, the number of tokens; ``score`` is the score by which the search ranks
    hypotheses. ``|||`` in a text, which would end its field, becomes ``|``.

    Args:
        translation: a translation with its alternatives.
        index: the index of its input line, from 0.
    """
    lines = []
    for hypothesis in (translation, *translation.alternatives):
        text = " ".join(hypothesis.text.split()).replace("|||", "|")
        features = f"log_prob= {hypothesis.log_prob:.6f} tokens= {len(hypothesis.tokens)}"
        lines.append(f"{index} ||| {text} ||| {features} ||| {hypothesis.score:.6f}\n")
    return "".join(lines)


UNSURE_THRESHOLD, DOUBTFUL_THRESHOLD = 0.3, 0.15
"""Mean token probabilities below which a word is marked, and marked strongly."""


def shows_colours(output: Path | None) -> bool:
    """Return True if the output is a terminal and NO_COLOR is not set (https://no-color.org)."""
    return output is None and sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def mark_uncertain_words(translation: Translation, colours: bool) -> str:
    """Return the text of a translation with its uncertain words marked, in colour or with their probability.

    A word is uncertain if the geometric mean probability of its pieces is below 0.3.

    Args:
        translation: the translation of one line.
        colours: whether to mark words in colour: yellow, or red and underlined below a probability of 0.15.
            Otherwise words are marked as in ``word[0.24]``.
    """
    parts = split_words(translation.text, translation.words)
    return "".join(part if word is None else _mark_word(word, colours) for part, word in parts)


def _mark_word(word: Word, colours: bool) -> str:
    if word.mean >= UNSURE_THRESHOLD:
        return word.text
    if not colours:
        return f"{word.text}[{word.mean:.2f}]"
    is_doubtful = word.mean < DOUBTFUL_THRESHOLD
    return typer.style(word.text, fg="red" if is_doubtful else "yellow", underline=is_doubtful or None)


MAX_NAMED_LINES = 3
"""Maximum number of lines that are named in warnings; further lines are counted."""


@dataclass
class Notes:
    """Reporter of warnings and errors about lines or texts, and of the drafts and the memory that were used.

    Every failed line is reported immediately. Of the lines with warnings or truncated translations,
    only the first few are named.

    Attributes:
        unit: ``line`` or ``text``.
        is_bundled: whether the model is the bundled one.
        truncated_lines: numbers of the lines whose translation was truncated.
        warning_count: number of lines with warnings.
        failed: number of lines that could not be translated.
        draft: use of drafts for all lines together.
        memory: counts of the pairs used from a translation memory; None without a memory.
        texts: number of translated lines.
    """

    unit: str
    is_bundled: bool = False
    truncated_lines: list[int] = field(default_factory=list)
    warning_count: int = 0
    failed: int = 0
    draft: DraftUse | None = None
    memory: MemoryCounts | None = None
    texts: int = 0
    _has_noted_demonstration: bool = False

    def add(self, line_number: int, translation: Translation) -> None:
        """Report the error and warnings for line ``line_number``, and count its drafts and memory pairs."""
        if translation.error is not None:
            self.fail(translation.error, bool(translation.text))
        self.warn(line_number, translation.warnings)
        if translation.truncated:
            self.truncated_lines.append(line_number)
        self.draft = DraftUse.total([self.draft, translation.draft])
        self.texts += 1
        if self.memory is not None:
            self.memory.add(translation.memory)

    def warn(self, line_number: int, warnings: tuple[str, ...]) -> None:
        """Report the warnings of line ``line_number``."""
        from uwaga.translator.checks import UNFAMILIAR_TEXT

        if not warnings:
            return
        self.warning_count += 1
        if self.warning_count <= MAX_NAMED_LINES:
            for warning in warnings:
                typer.echo(f"warning: {self.unit} {line_number}: {warning}", err=True)
        if (
            self.is_bundled
            and not self._has_noted_demonstration
            and any(warning.startswith(UNFAMILIAR_TEXT) for warning in warnings)
        ):
            self._has_noted_demonstration = True
            typer.echo(DEMONSTRATION, err=True)

    def fail(self, error: UwagaError, is_copied: bool) -> None:
        """Report that the line named in the error was copied or left empty instead of translated."""
        self.failed += 1
        typer.echo(f"error: {error}; {'copied' if is_copied else 'left empty'}", err=True)

    def finish(self) -> None:
        """Report the use of drafts and a memory, and the number of lines whose warnings were not shown."""
        if self.memory is not None:
            typer.echo(self.memory.line(self.texts), err=True)
        if self.draft is not None:
            typer.echo(
                f"drafts: {self.draft.share_accepted:.0%} of {self.draft.proposed} tokens accepted, "
                f"{self.draft.share_saved:.0%} of the model's passes saved",
                err=True,
            )
        if self.warning_count > MAX_NAMED_LINES:
            unlisted_count = self.warning_count - MAX_NAMED_LINES
            typer.echo(
                f"warning: and {unlisted_count} more such {self.unit}{'' if unlisted_count == 1 else 's'}",
                err=True,
            )
        for line_number in self.truncated_lines[:MAX_NAMED_LINES]:
            typer.echo(
                f"warning: the translation of {self.unit} {line_number} was cut at the length limit "
                "(--max-length, or the model's)",
                err=True,
            )
        if len(self.truncated_lines) > MAX_NAMED_LINES:
            typer.echo(
                f"warning: {len(self.truncated_lines) - MAX_NAMED_LINES} more translations were cut", err=True
            )
        if self.failed:
            plural = "" if self.failed == 1 else "s"
            typer.echo(f"error: {self.failed} {self.unit}{plural} could not be translated", err=True)
            raise typer.Exit(USER_ERROR)


Texts = Annotated[
    list[str] | None, typer.Argument(help="Texts to translate; if omitted, the lines of the input are used.")
]
NbestFormat = Annotated[
    Literal["tabs", "moses"],
    typer.Option(
        help="Format of --nbest: separated by tabs on one line, or one line each in Moses format.",
        rich_help_panel="Output",
    ),
]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON object per line: text, score, tokens, token_scores, alternatives..."
    ),
]

Confident = Annotated[
    bool,
    typer.Option(
        "--confidence",
        help="Mark words of low probability: in colour on a terminal, otherwise with their probability; "
        "with --json, add all words, entropies and quality estimates.",
        rich_help_panel="Output",
    ),
]

Alignments = Annotated[
    Path | None,
    typer.Option(
        help="File for word alignments in Moses format (0-0 1-2), a line for each input line; words and "
        "punctuation marks are numbered from 0.",
        rich_help_panel="Output",
    ),
]

RequestValues = Annotated[dict[str, Any], Group(Request)]
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
Load = Annotated[LoadOptions, Group(LoadOptions, help=options.LOAD_HELP)]


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

        uwaga translate --from auto --to en < letters.txt    # detects the language

        uwaga translate --model big --draft small < test.en    # greedy: faster, with equal results

        uwaga translate --memory memory.uwm --threshold 85 < test.en    # from similar texts

        uwaga translate --adapter runs/medical/adapter < test.en    # with its base model

        uwaga translate --model runs/rnn/model --model runs/transformer/model < test.en    # an ensemble
"""


@option_groups
@options.examples(EXAMPLES)
def translate(
    text: Texts = None,
    model: options.Models = None,
    input_: options.Input = None,
    output: options.Output = None,
    nbest_format: NbestFormat = "tabs",
    as_json: AsJson = False,
    confidence: Confident = False,
    stream: options.Streaming = False,
    resume: options.Resume = False,
    alignments: Alignments = None,
    via: options.Via = None,
    *,
    request: RequestValues,
    search: Search,
    load: Load,
) -> None:
    """Translate texts, a file or standard input: one line in, one line out."""
    output_format = _OutputFormat(as_json, stream, nbest_format == "moses", confidence, shows_colours(output))
    output_format.check(search)
    if request["format"] != "text" and stream:
        raise SettingsError("--format needs complete translations: leave out --stream")
    if request["format"] != "text" and alignments is not None:
        raise SettingsError("--alignments numbers the words of plain text: leave out --format")
    if resume and output is None:
        raise SettingsError("--resume needs the --output of the interrupted run")
    chunk_size = ChunkSize() if sys.stderr.isatty() else None
    chunks, sample = input_chunks(text, input_, chunk_size), list[str]()
    if load.source == AUTO:
        sample, chunks = language_sample(chunks)
    search |= {"entropy": as_json and confidence, "alignment": alignments is not None}
    template = Request("", search=search, **request)
    template.check()
    translator, is_bundled = load_for_sample(model, load, via, sample)
    template = translator.prepare(template, streaming=stream)
    print_memory_note(template.memory)
    memory = None if template.memory is None else MemoryCounts()
    if memory is not None and is_complete(text, input_):
        chunks = with_contexts(chunks)
    notes = Notes("text" if text else "line", is_bundled, memory=memory)
    with open_results(translator, template, output_format, output, resume) as journal:
        job = _Job(translator, template, output_format, notes, chunk_size, journal, load.source == AUTO)
        job.run(chunks, input_, output, alignments)
    notes.finish()


class _OutputFormat(NamedTuple):
    """The format of the output: JSON, streamed, a Moses n-best list, or plain text.

    If ``confident`` is True, uncertain words are marked, in ``colours`` or with their probability.
    """

    as_json: bool
    streams: bool
    moses: bool
    confident: bool
    colours: bool

    def check(self, search: SearchOverrides) -> None:
        """Raise SettingsError if options conflict."""
        if self.streams:
            options.check_streaming(self.as_json, search)
        if search.get("attention") and not self.as_json:
            raise SettingsError("--attention needs --json")
        if self.confident and (self.streams or self.moses):
            raise SettingsError(
                "--confidence cannot be combined with --stream or --nbest-format moses; omit one of them"
            )
        if self.moses and (self.as_json or self.streams):
            raise SettingsError("--nbest-format moses cannot be combined with --json or --stream")

    def show(self, translation: Translation, index: int) -> str:
        """Return the output for a translation and its alternatives: one line, or several in Moses format.

        Args:
            translation: a translation with its alternatives.
            index: the index of its input line, from 0.
        """
        if self.moses:
            return moses_lines(translation, index)
        if self.as_json:
            return json.dumps(translation.to_dict(confidence=self.confident), ensure_ascii=False) + "\n"
        hypotheses = (translation, *translation.alternatives)
        texts = [
            mark_uncertain_words(hypothesis, self.colours) if self.confident else hypothesis.text
            for hypothesis in hypotheses
        ]
        return (
            "\t".join(text.replace("\t", " ") for text in texts) if len(hypotheses) > 1 else texts[0]
        ) + "\n"


@contextlib.contextmanager
def open_results(
    translator: Translator, request: Request, output_format: _OutputFormat, output: Path | None, resume: bool
) -> Iterator[Journal | None]:
    """Open the journal of an output file, which lets an interrupted run resume.

    Yield None for standard output, a pipe or a device, which have no journal.
    """
    if output is None or (output.exists() and not output.is_file()):
        yield None
        return
    from uwaga.files.resume import journal_path, open_journal

    job_settings = translator.translation_settings(request) | {
        "format": request.format,
        "prefix": request.prefix,
        "ignore_tags": list(request.ignore_tags),
        "on_error": request.on_error,
        "output": output_format._asdict(),
    }
    if not resume and journal_path(output).is_file():
        typer.echo(f"note: {output}: without --resume, an interrupted run's results are discarded", err=True)
    with open_journal(output, job_settings, resume) as journal:
        try:
            yield journal
        except BaseException:
            if journal.count:
                typer.echo(f"{output}: {journal.count} finished lines are kept for --resume", err=True)
            raise
        journal.remove()


class Result(NamedTuple):
    """The output for a line, as stored in the journal.

    ``line`` is a checksum of the input line; ``text`` and ``links`` are the output.
    """

    line: int
    text: str
    links: str


@dataclass
class _Job:
    """The translation of all chunks of lines to the output files.

    If ``detects_language`` is True, lines that are already in the target language are copied.
    """

    translator: Translator
    request: Request
    output_format: _OutputFormat
    notes: Notes
    chunk_size: ChunkSize | None
    journal: Journal | None
    detects_language: bool = False

    def run(
        self, chunks: Iterator[Chunk], source: Path | None, output: Path | None, alignments: Path | None
    ) -> None:
        """Translate every chunk, except for the lines that an interrupted run finished."""
        from uwaga.cli.meter import meter

        with contextlib.ExitStack() as files:
            write = files.enter_context(open_output(output))
            write_links = None if alignments is None else files.enter_context(open_output(alignments))
            advance = files.enter_context(meter(source, "translating"))
            for chunk in chunks:
                start = time.monotonic()
                earlier_results = self._replay(chunk)
                remaining_chunk = chunk.without(len(earlier_results))
                write("".join(result.text for result in earlier_results))
                if self.output_format.streams:
                    results = self._stream(remaining_chunk, write)
                else:
                    results = self._translate(remaining_chunk)
                    write("".join(result.text for result in results))
                if write_links is not None:
                    write_links("".join(result.links for result in (*earlier_results, *results)))
                if self.journal is not None and results:
                    self.journal.add(results)
                advance(chunk)
                if self.chunk_size is not None:
                    self.chunk_size.adjust(time.monotonic() - start)
            if self.journal is not None and self.journal.replay(1):
                raise self._input_mismatch_error("which has more lines")

    def _replay(self, chunk: Chunk) -> list[Result]:
        """Return the results that an interrupted run stored for the first lines of a chunk."""
        if self.journal is None:
            return []
        results = [Result(*values) for values in self.journal.replay(len(chunk.lines))]
        for line_number, (result, line) in enumerate(zip(results, chunk.lines, strict=False), chunk.first):
            if result.line != _checksum(line):
                raise self._input_mismatch_error(f"whose line {line_number} differs")
        return results

    def _input_mismatch_error(self, difference: str) -> DataError:
        assert self.journal is not None
        return DataError(
            f"{self.journal.path}: the journal is for a different input, {difference}; resume with that "
            "input, or omit --resume to start over"
        )

    def _translate(self, chunk: Chunk) -> list[Result]:
        """Translate the lines of a chunk together, and return the results."""
        from uwaga.translator.layers.untranslated import copy_text

        requests = self._requests(chunk)
        are_in_target = [self._is_in_target(request.text) for request in requests]
        pending_requests = [
            request for request, is_in_target in zip(requests, are_in_target, strict=True) if not is_in_target
        ]
        translations = self.translator.run(pending_requests, window=max(len(pending_requests), 1))
        results = []
        for line_number, line, is_in_target in zip(
            count(chunk.first), chunk.lines, are_in_target, strict=False
        ):
            translation = copy_text(line) if is_in_target else next(translations)
            self.notes.add(line_number, translation)
            text = self.output_format.show(translation, line_number - 1)
            results.append(Result(_checksum(line), text, f"{translation.alignment or ''}\n"))
        return results

    def _is_in_target(self, line: str) -> bool:
        """Return True if a line is already in the target language."""
        if not self.detects_language:
            return False
        from uwaga.translator.plan import needs_no_translation

        source, target = self.translator.languages
        return needs_no_translation(line, (source,), target)

    def _stream(self, chunk: Chunk, write: Callable[[str], None]) -> list[Result]:
        """Write each translation word by word, and return the results."""
        results = []
        for line_number, request in enumerate(self._requests(chunk), start=chunk.first):
            written_texts: list[str] = []
            try:
                for piece in self._pieces(line_number, request):
                    written_texts.append(piece)
                    write(piece)
            except DataError as error:
                if request.on_error == "raise" or written_texts:
                    raise
                is_copied = request.on_error == "copy"
                written_texts.append((request.text if is_copied else "") + "\n")
                write(written_texts[-1])
                self.notes.fail(error, is_copied)
            results.append(Result(_checksum(request.text), "".join(written_texts), "\n"))
        return results

    def _pieces(self, line_number: int, request: Request) -> Iterator[str]:
        if self._is_in_target(request.text):
            yield request.text + "\n"
            return
        is_truncated = yield from self.translator.run_stream(request)
        yield "\n"
        if is_truncated:
            self.notes.truncated_lines.append(line_number)
        self.notes.warn(line_number, self.translator.input_warnings(request.text, request.split))

    def _requests(self, chunk: Chunk) -> list[Request]:
        contexts = repeat(None) if chunk.context is None else contexts_in_order(chunk.lines, chunk.context)
        return [
            replace(self.request, text=line, name=f"{self.notes.unit} {line_number}", context=context)
            for line_number, line, context in zip(count(chunk.first), chunk.lines, contexts, strict=False)
        ]


def _checksum(line: str) -> int:
    return zlib.crc32(line.encode("utf-8", "surrogatepass"))
