"""``uwaga translate``: texts, files and pipes."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli import options as the
from uwaga.cli.nbest import NbestChoice, moses_lines
from uwaga.errors import SettingsError

if TYPE_CHECKING:
    from pathlib import Path

    from uwaga.cli.lines import Chunk
    from uwaga.contracts import Translation
    from uwaga.decoding import SearchOptions, SearchOverrides
    from uwaga.translator import Translator
    from uwaga.translator.segmentation import Split

NAMED = 3
"""Cut translations that are reported one by one; of the others only the number is."""

Texts = Annotated[
    list[str] | None,
    typer.Argument(help="Texts to translate; without any, lines are read.", show_default=False),
]
Nbest = Annotated[
    int, typer.Option("--nbest", "-n", help="Translations per line, with tabs between; at most the beam.")
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

EXAMPLES = """
        uwaga translate "I want to buy a car."

        uwaga translate --input talk.en --output talk.de

        tail -f chat.en | uwaga translate        # each line as it arrives

        uwaga translate --nbest 5 --json "I want to buy a car." | jq .alternatives

        uwaga translate --nbest 5 --nbest-format moses < test.en    # index ||| text ||| features ||| score

        uwaga translate --stream "It grows while you watch."

        uwaga translate --prefix "Ich möchte" "I want to buy a car."

        uwaga translate --sample --temperature 0.7 --seed 1 "Say it another way."

        uwaga translate --model runs/ende/model --beam 1 < big.en > big.de

        uwaga translate --model facebook/mbart-large-50-many-to-many-mmt --from en --to fr < test.en

        uwaga translate --model runs/rnn/model --model runs/transformer/model < test.en    # an ensemble
"""


@the.examples(EXAMPLES)
def translate(
    text: Texts = None,
    model: the.Models = None,
    input_: the.Input = None,
    output: the.Output = None,
    beam: the.Beam = None,
    nbest: Nbest = 1,
    nbest_format: NbestFormat = NbestChoice.tabs,
    as_json: AsJson = False,
    stream: the.Streaming = False,
    prefix: the.Prefix = None,
    length_penalty: the.LengthPenalty = None,
    min_length: the.MinLength = None,
    max_length: the.MaxLength = None,
    no_repeat_ngram: the.NoRepeatNgram = None,
    sample: the.Sample = None,
    temperature: the.Temperature = None,
    top_k: the.TopK = None,
    top_p: the.TopP = None,
    seed: the.Seed = None,
    split: the.Split = the.SplitChoice.auto,
    attention: the.Attention = False,
    batch_tokens: the.BatchTokens = None,
    source: the.SourceLanguage = None,
    target: the.TargetLanguage = None,
    shortlist: the.Shortlist = None,
    device: the.Device = "auto",
    dtype: the.Precision = "auto",
    engine: the.Engine = "auto",
    threads: the.Threads = 0,
) -> None:
    """Translate texts, a file, or whatever comes through a pipe: one line in, one line out."""
    from uwaga.cli.lines import chunks_of

    if attention and not as_json:
        raise SettingsError("--attention is shown by --json only: add it")
    moses = nbest_format is NbestChoice.moses
    if moses and (as_json or stream):
        raise SettingsError("--nbest-format moses is a format of its own: leave out --json and --stream")
    if stream:
        the.check_streaming(as_json, nbest, beam, sample)
    chunks = chunks_of(text, input_)
    from uwaga.translator import Translator

    lengths: SearchOverrides = {"length_penalty": length_penalty, "min_length": min_length}
    limits: SearchOverrides = {"max_length": max_length, "no_repeat_ngram": no_repeat_ngram}
    draws: SearchOverrides = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    kind: SearchOverrides = {"beam": beam, "nbest": nbest, "sample": sample, "attention": attention}
    asked: SearchOverrides = {**kind, **lengths, **limits, **draws, "batch_tokens": batch_tokens}
    loaded = Translator.load(model, device, dtype, threads, engine, source, target, shortlist)
    options = loaded.decoding.for_stream(asked) if stream else loaded.options(**asked)
    job = _Job(loaded, options, prefix, split.value, as_json, stream, "text" if text else "line", moses)
    job.run(chunks, input_, output)


@dataclass
class _Job:
    """What is done with each chunk of lines; ``cut`` are the lines whose translations a limit has cut."""

    translator: Translator
    options: SearchOptions
    prefix: str | None
    split: Split
    as_json: bool
    streams: bool
    unit: str
    moses: bool = False
    cut: list[int] = field(default_factory=list)

    def run(self, chunks: Iterator[Chunk], source: Path | None, output: Path | None) -> None:
        """Translate every chunk, and say at the end what was cut."""
        from uwaga.cli.lines import lines_out
        from uwaga.cli.meter import meter

        work = self._stream if self.streams else self._translate
        with lines_out(output) as write, meter(source, "translating") as advance:
            for chunk in chunks:
                work(chunk, write)
                advance(chunk)
        self._report()

    def _translate(self, chunk: Chunk, write: Callable[[str], None]) -> None:
        """One line out for each one in."""
        show = _json if self.as_json else _plain
        translations = list(
            self.translator.translate_lines(
                chunk.lines,
                self.options,
                prefix=self.prefix,
                split=self.split,
                chunk=len(chunk.lines),
                first=chunk.first,
                unit=self.unit,
            )
        )
        if self.moses:
            write("".join(moses_lines(one, at) for at, one in enumerate(translations, chunk.first - 1)))
        else:
            write("".join(show(translation) + "\n" for translation in translations))
        self.cut += [chunk.first + at for at, one in enumerate(translations) if one.truncated]

    def _stream(self, chunk: Chunk, write: Callable[[str], None]) -> None:
        """The same, word by word."""
        for number, line in enumerate(chunk.lines, start=chunk.first):
            name = f"{self.unit} {number}"
            pieces = self.translator.stream_line(
                line, self.options, prefix=self.prefix, split=self.split, name=name
            )
            if _written(pieces, write):
                self.cut.append(number)

    def _report(self) -> None:
        """Say on standard error which translations a limit has cut."""
        for number in self.cut[:NAMED]:
            typer.echo(
                f"warning: the translation of {self.unit} {number} was cut at the length limit "
                "(--max-length, or the model's)",
                err=True,
            )
        if len(self.cut) > NAMED:
            typer.echo(f"warning: and so were {len(self.cut) - NAMED} more", err=True)


def _written(pieces: Generator[str, None, bool], write: Callable[[str], None]) -> bool:
    while True:
        try:
            write(next(pieces))
        except StopIteration as end:
            write("\n")
            return bool(end.value)


def _plain(translation: Translation) -> str:
    """Alternatives stand on the same line, so that lines stay aligned with those that came in."""
    if not translation.alternatives:
        return translation.text
    ways = (translation, *translation.alternatives)
    return "\t".join(way.text.replace("\t", " ") for way in ways)


def _json(translation: Translation) -> str:
    return json.dumps(translation.to_dict(), ensure_ascii=False)
