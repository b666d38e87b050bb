"""``uwaga generate``: texts continued."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli.options import (
    Device,
    Engine,
    Input,
    Precision,
    Seed,
    Temperature,
    Threads,
    TopK,
    TopP,
    json_number,
)
from uwaga.errors import SettingsError

if TYPE_CHECKING:
    from uwaga.cli.lines import Chunk
    from uwaga.decoding import SearchOptions
    from uwaga.translator import Continuation, TextGenerator


def generate(
    model: Annotated[
        str,
        typer.Argument(
            help="A GPT-2 folder, an int8 one too, or a Hugging Face name (openai-community/gpt2).",
            show_default=False,
        ),
    ],
    prompt: Annotated[
        list[str] | None,
        typer.Argument(help="Texts to continue; without any, lines are read.", show_default=False),
    ] = None,
    input_: Input = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Where the texts go; made whole or not at all.", show_default=False
        ),
    ] = None,
    max_length: Annotated[
        int | None, typer.Option(help="Most new tokens.", show_default="the model's, or 64")
    ] = None,
    min_length: Annotated[
        int | None, typer.Option(help="Fewest new tokens.", show_default="the model's")
    ] = None,
    beam: Annotated[
        int | None,
        typer.Option("--beam", "-b", help="Hypotheses searched; 1 is greedy.", show_default="the model's"),
    ] = None,
    nbest: Annotated[
        int,
        typer.Option("--nbest", "-n", help="Continuations of each prompt, a line each; at most the beam."),
    ] = 1,
    no_repeat_ngram: Annotated[
        int | None,
        typer.Option(
            help="Forbid to repeat any n new tokens in a row, 0 for off.", show_default="the model's"
        ),
    ] = None,
    length_penalty: Annotated[
        float | None,
        typer.Option(help="Of a beam: above 1 longer, below shorter.", show_default="the model's"),
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Draw --nbest continuations at random instead of the likeliest.")
    ] = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Show the text as it grows (greedy or --sample).")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object per prompt: prompt, text, score, tokens...")
    ] = False,
    device: Device = "auto",
    dtype: Precision = "auto",
    engine: Engine = "auto",
    threads: Threads = 0,
) -> None:
    """Continue texts: each is printed with what the model writes behind it.

    A line is a prompt, and a line comes out for it: line breaks that the model writes become spaces (but for
    texts given here, --stream and --json). The likeliest text repeats itself; --sample does not.

    **Examples**

        uwaga generate openai-community/gpt2 "Once upon a time" --sample --top-p 0.9

        uwaga generate gpt2-folder "The answer is" --max-length 8 --beam 4 --nbest 4

        uwaga generate gpt2-folder --sample --seed 1 --stream "It grows while you watch"

        uwaga generate gpt2-folder --input prompts.txt --json | jq -r .text
    """
    from uwaga.cli.lines import chunks_of, lines_out
    from uwaga.cli.meter import meter

    if prompt and input_ is not None:
        raise SettingsError("give texts or --input, not both")
    if stream and (as_json or nbest != 1 or beam not in (None, 1)):
        raise SettingsError(
            "--stream shows one greedy or sampled text as it grows: leave out --json, --nbest and --beam"
        )
    chunks = chunks_of(prompt, input_)
    from uwaga.translator import TextGenerator

    generator = TextGenerator.load(model, device=device, dtype=dtype, threads=threads, engine=engine)
    options = generator.options(
        max_length=max_length,
        min_length=min_length,
        beam=1 if stream else beam,
        nbest=nbest,
        no_repeat_ngram=no_repeat_ngram,
        length_penalty=length_penalty,
        sample=sample or None,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
    )
    unit = "prompt" if prompt else "line"
    with lines_out(output) as write, meter(input_, "continuing") as advance:
        for chunk in chunks:
            if stream:
                _stream(generator, chunk, options, unit, write)
            else:
                names = [f"{unit} {number}" for number in range(chunk.first, chunk.first + len(chunk.lines))]
                for found in generator.continue_all(chunk.lines, options, names):
                    write(_json(found) if as_json else _plain(found, prompt is not None))
            advance(chunk)


def _stream(
    generator: TextGenerator, chunk: Chunk, options: SearchOptions, unit: str, write: Callable[[str], None]
) -> None:
    for number, line in enumerate(chunk.lines, start=chunk.first):
        pieces = generator.stream_prompt(line, options, f"{unit} {number}")
        write(line)
        for piece in pieces:
            write(piece)
        write("\n")


def _plain(found: Continuation, as_it_is: bool) -> str:
    texts = [one.whole for one in (found, *found.alternatives)]
    return "".join((text if as_it_is else " ".join(text.splitlines())) + "\n" for text in texts)


def _json(found: Continuation) -> str:
    return json.dumps(_document(found), ensure_ascii=False) + "\n"


def _document(found: Continuation) -> dict[str, object]:
    document: dict[str, object] = {
        "prompt": found.prompt,
        "text": found.text,
        "score": json_number(found.score),
        "log_prob": json_number(found.log_prob),
        "tokens": found.tokens,
        "token_scores": [json_number(score) for score in found.token_scores],
        "truncated": found.truncated,
    }
    if found.alternatives:
        document["alternatives"] = [_document(one) for one in found.alternatives]
    return document
