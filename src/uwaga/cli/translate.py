"""``uwaga translate``: texts, files and pipes."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli.options import (
    Device,
    Engine,
    Input,
    Models,
    Precision,
    Seed,
    SourceLanguage,
    TargetLanguage,
    Temperature,
    Threads,
    TopK,
    TopP,
    json_number,
)
from uwaga.errors import SettingsError

if TYPE_CHECKING:
    from uwaga.cli.lines import Chunk
    from uwaga.contracts import Translation
    from uwaga.decoding import SearchOptions
    from uwaga.translator import Translator
    from uwaga.translator.segmentation import Split

NAMED = 3
"""Cut translations that are reported one by one; of the others only the number is."""


class SplitChoice(StrEnum):
    """When a line is translated sentence by sentence."""

    auto = "auto"
    sentences = "sentences"
    never = "never"


def translate(
    text: Annotated[
        list[str] | None,
        typer.Argument(help="Texts to translate; without any, lines are read.", show_default=False),
    ] = None,
    model: Models = None,
    input_: Input = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where the translations go; made whole or not at all.", show_default=False
        ),
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option(
            "--beam", "-b", help="Hypotheses searched; 1 is greedy and fastest.", show_default="the model's"
        ),
    ] = None,
    nbest: Annotated[
        int, typer.Option("--nbest", "-n", help="Translations per line, with tabs between; at most the beam.")
    ] = 1,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="One JSON object per line: text, score, tokens, token_scores, alternatives..."
        ),
    ] = False,
    stream: Annotated[
        bool, typer.Option("--stream", help="Show each word as soon as it is decided (greedy or --sample).")
    ] = False,
    prefix: Annotated[
        str | None, typer.Option(help="What every translation must begin with.", show_default=False)
    ] = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(
            help="Above the model's own: longer translations; below: shorter.", show_default="the model's"
        ),
    ] = None,
    min_length: Annotated[
        int | None, typer.Option(help="Fewest tokens of a sentence.", show_default="the model's")
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Most tokens of a sentence.", show_default="the model's")
    ] = None,
    no_repeat_ngram: Annotated[
        int | None,
        typer.Option(help="Forbid to repeat any n tokens in a row, 0 for off.", show_default="the model's"),
    ] = None,
    sample: Annotated[
        bool,
        typer.Option("--sample", help="Draw --nbest translations at random instead of searching the best."),
    ] = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    split: Annotated[
        SplitChoice,
        typer.Option(
            help="Translate a line sentence by sentence: when it is too long (auto), always, never."
        ),
    ] = SplitChoice.auto,
    attention: Annotated[
        bool, typer.Option("--attention", help="Add the attention matrix (target, source) to --json.")
    ] = False,
    batch_tokens: Annotated[
        int | None, typer.Option(help="Source tokens translated together.", show_default="4096")
    ] = None,
    source_language: SourceLanguage = None,
    target_language: TargetLanguage = None,
    shortlist: Annotated[
        Path | None,
        typer.Option(
            help="A file that `uwaga shortlist` made for this model: faster, fewer words to choose from.",
            show_default=False,
        ),
    ] = None,
    device: Device = "auto",
    dtype: Precision = "auto",
    engine: Engine = "auto",
    threads: Threads = 0,
) -> None:
    """Translate texts, a file, or whatever comes through a pipe: one line in, one line out.

    **Examples**

        uwaga translate "I want to buy a car."

        uwaga translate --input talk.en --output talk.de

        tail -f chat.en | uwaga translate        # each line as it arrives

        uwaga translate --nbest 5 --json "I want to buy a car." | jq .alternatives

        uwaga translate --stream "It grows while you watch."

        uwaga translate --prefix "Ich möchte" "I want to buy a car."

        uwaga translate --sample --temperature 0.7 --seed 1 "Say it another way."

        uwaga translate --model runs/ende/model --beam 1 < big.en > big.de

        uwaga translate --model facebook/mbart-large-50-many-to-many-mmt --from en --to fr < test.en

        uwaga translate --model runs/rnn/model --model runs/transformer/model < test.en    # an ensemble
    """
    from uwaga.cli.lines import chunks_of, lines_out
    from uwaga.cli.meter import meter

    _check_together(bool(text), input_, nbest, beam, sample, as_json, stream, attention)
    chunks = chunks_of(text, input_)
    from uwaga.translator import Translator

    translator = Translator.load(
        model,
        device=device,
        dtype=dtype,
        threads=threads,
        engine=engine,
        source_language=source_language,
        target_language=target_language,
        shortlist=shortlist,
    )
    options = translator.options(
        beam=1 if stream else beam,
        nbest=nbest,
        length_penalty=length_penalty,
        min_length=min_length,
        max_length=max_length,
        no_repeat_ngram=no_repeat_ngram,
        sample=sample,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        batch_tokens=batch_tokens,
        attention=attention,
    )
    job = _Job(translator, options, prefix, split.value, as_json, "text" if text else "line")
    with lines_out(output) as write, meter(input_, "translating") as advance:
        for chunk in chunks:
            if stream:
                job.stream(chunk, write)
            else:
                job.translate(chunk, write)
            advance(chunk)
    job.report()


class _Job:
    """What is done with each chunk of lines."""

    def __init__(
        self,
        translator: Translator,
        options: SearchOptions,
        prefix: str | None,
        split: Split,
        as_json: bool,
        unit: str,
    ) -> None:
        self.translator, self.options, self.prefix, self.split = translator, options, prefix, split
        self.show = _json if as_json else _plain
        self.unit = unit
        self.cut: list[int] = []

    def translate(self, chunk: Chunk, write: Callable[[str], None]) -> None:
        """One line out for each one in."""
        found = self.translator.translate_lines(
            chunk.lines,
            self.options,
            prefix=self.prefix,
            split=self.split,
            chunk=len(chunk.lines),
            first=chunk.first,
            unit=self.unit,
        )
        translations = list(found)
        write("".join(self.show(translation) + "\n" for translation in translations))
        self.cut += [chunk.first + at for at, one in enumerate(translations) if one.truncated]

    def stream(self, chunk: Chunk, write: Callable[[str], None]) -> None:
        """The same, word by word."""
        for number, line in enumerate(chunk.lines, start=chunk.first):
            name = f"{self.unit} {number}"
            pieces = self.translator.stream_line(
                line, self.options, prefix=self.prefix, split=self.split, name=name
            )
            if _written(pieces, write):
                self.cut.append(number)

    def report(self) -> None:
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
    return json.dumps(_document(translation), ensure_ascii=False)


def _document(translation: Translation) -> dict[str, object]:
    document: dict[str, object] = {
        "text": translation.text,
        "score": json_number(translation.score),
        "log_prob": json_number(translation.log_prob),
        "tokens": translation.tokens,
        "token_scores": [json_number(score) for score in translation.token_scores],
        "truncated": translation.truncated,
        "source_tokens": translation.source_tokens,
    }
    if translation.attention is not None:
        document["attention"] = [[round(float(one), 6) for one in row] for row in translation.attention]
    if translation.alternatives:
        document["alternatives"] = [_document(one) for one in translation.alternatives]
    return document


def _check_together(
    texts: bool,
    path: Path | None,
    nbest: int,
    beam: int | None,
    sample: bool,
    as_json: bool,
    stream: bool,
    attention: bool,
) -> None:
    if texts and path is not None:
        raise SettingsError("give texts or --input, not both")
    if attention and not as_json:
        raise SettingsError("--attention is shown by --json only: add it")
    if stream and (as_json or nbest != 1 or (beam not in (None, 1) and not sample)):
        raise SettingsError(
            "--stream shows one greedy or sampled translation as it grows: leave out "
            "--json, --nbest and --beam"
        )
