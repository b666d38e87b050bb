"""``uwaga generate``: continue texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli import options
from uwaga.cli.option_groups import Group, option_groups
from uwaga.errors import SettingsError
from uwaga.search.options import SearchOptions, SearchOverrides
from uwaga.settings.load_options import LoadOptions

if TYPE_CHECKING:
    from uwaga.cli.lines import Chunk
    from uwaga.generation import Continuation, TextGenerator
    from uwaga.tokenizers.chat_template import Message

Model = Annotated[
    str,
    typer.Argument(
        help="A folder or GGUF file of a language model, or a Hugging Face name (openai-community/gpt2)."
    ),
]
Prompts = Annotated[
    list[str] | None, typer.Argument(help="Texts to continue; if omitted, the lines of the input are used.")
]
ChatMode = Annotated[
    bool,
    typer.Option(
        "--chat",
        help="Answer in a chat: each text or line is the user's next message, in the model's chat template.",
    ),
]
System = Annotated[
    str | None, typer.Option(help="With --chat: the system message, before the first message.")
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON object per prompt: prompt, text, score, tokens...")
]
Search = Annotated[
    SearchOverrides,
    Group(
        SearchOptions,
        without=("max_ratio", "max_extra", "mbr", "utility", *options.DETAIL_OPTIONS, "batch_tokens"),
        help={
            "nbest": "Number of continuations of each prompt, one per line",
            "min_length": "Minimum number of new tokens",
            "max_length": "Maximum number of new tokens",
        },
        unset={"max_length": "the model's, or 64"},
    ),
]
Load = Annotated[
    LoadOptions, Group(LoadOptions, names=("device", "dtype", "threads", "engine", "memory", "draft"))
]

EXAMPLES = """
        uwaga generate openai-community/gpt2 "Once upon a time" --sample --top-p 0.9

        uwaga generate gpt2-folder "The answer is" --max-length 8 --beam 4 --nbest 4

        uwaga generate gpt2-folder --sample --seed 1 --stream "It grows while you watch"

        uwaga generate gpt2-folder --input prompts.txt --json | jq -r .text

        uwaga generate Qwen2.5-7B --draft Qwen2.5-0.5B "The answer is"    # greedy, faster

        uwaga generate SmolLM2-135M-Instruct.gguf --chat --system "Answer in one sentence."
"""


@option_groups
@options.examples(EXAMPLES)
def generate(
    model: Model,
    prompt: Prompts = None,
    input_: options.Input = None,
    output: options.Output = None,
    chat: ChatMode = False,
    system: System = None,
    stream: options.Streaming = False,
    as_json: AsJson = False,
    *,
    search: Search,
    load: Load,
) -> None:
    """Continue texts: print each prompt with its continuation.

    Each line of input is a prompt and gives one line of output: line breaks in continuations become spaces,
    except for texts given as arguments, --stream and --json. Greedy and beam search tend to repeat
    themselves; use --sample.

    With --chat, each text or line is a message, and its answer is printed as it grows; --json prints one
    object per answer. Empty lines are skipped.
    """
    from uwaga.cli.lines import input_chunks, open_output
    from uwaga.cli.meter import meter

    if system is not None and not chat:
        raise SettingsError("--system needs --chat: it gives the system message of a chat")
    stream = stream or (chat and not as_json)
    if stream:
        options.check_streaming(as_json, search)
    chunks = input_chunks(prompt, input_)
    from uwaga.generation import TextGenerator

    generator = TextGenerator.load(model, **vars(load))
    search_options = generator.decoding.for_stream(search) if stream else generator.options(**search)
    if chat:
        generator.check_chats()
    messages: list[Message] = [] if system is None else [{"role": "system", "content": system}]
    unit = "prompt" if prompt else "line"
    with open_output(output) as write, meter(input_, "continuing") as advance:
        for chunk in chunks:
            if chat:
                _answers(generator, chunk, messages, search_options, unit, as_json, write)
            elif stream:
                _stream(generator, chunk, search_options, unit, write)
            else:
                for continuation in generator.continue_all(chunk.lines, search_options, chunk.names(unit)):
                    write(
                        _format_json(continuation)
                        if as_json
                        else _format_plain(continuation, prompt is not None)
                    )
            advance(chunk)


def _stream(
    generator: TextGenerator,
    chunk: Chunk,
    search_options: SearchOptions,
    unit: str,
    write: Callable[[str], None],
) -> None:
    for line_number, line in enumerate(chunk.lines, start=chunk.first):
        pieces = generator.stream_prompt(line, search_options, f"{unit} {line_number}")
        write(line)
        for piece in pieces:
            write(piece)
        write("\n")


def _answers(
    generator: TextGenerator,
    chunk: Chunk,
    messages: list[Message],
    search_options: SearchOptions,
    unit: str,
    as_json: bool,
    write: Callable[[str], None],
) -> None:
    """Add each line to the messages of a chat, followed by the model's answer, and write the answer."""
    for name, line in zip(chunk.names(unit), chunk.lines, strict=True):
        if not line.strip():
            continue
        messages.append({"role": "user", "content": line})
        name = f"the chat up to {name}"
        if as_json:
            [continuation] = generator.continue_all([messages], search_options, [name])
            answer = continuation.text
            write(_format_json(continuation))
        else:
            answer = ""
            for piece in generator.stream_prompt(messages, search_options, name):
                answer += piece
                write(piece)
            write("\n")
        messages.append({"role": "assistant", "content": answer})


def _format_plain(continuation: Continuation, keep_lines: bool) -> str:
    texts = [hypothesis.full_text for hypothesis in (continuation, *continuation.alternatives)]
    return "".join((text if keep_lines else " ".join(text.splitlines())) + "\n" for text in texts)


def _format_json(continuation: Continuation) -> str:
    return json.dumps(continuation.to_dict(), ensure_ascii=False) + "\n"
