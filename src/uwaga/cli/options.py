"""Options that several verbs take, each with its name and its help, so that a verb lists them a line each."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Annotated, TypeVar

import typer

from uwaga.errors import SettingsError

Verb = TypeVar("Verb", bound=Callable[..., None])


class SplitChoice(StrEnum):
    """When a line is translated sentence by sentence."""

    auto = "auto"
    sentences = "sentences"
    never = "never"


class UtilityChoice(StrEnum):
    """What is meant by two texts being alike."""

    chrf = "chrf"
    bleu = "bleu"


class GlossaryChoice(StrEnum):
    """How a translation is made to hold the terms of a glossary."""

    forced = "forced"
    soft = "soft"


class ErrorChoice(StrEnum):
    """What happens where a line cannot be translated."""

    stop = "stop"
    skip = "skip"
    copy = "copy"


# What comes in and goes out.
Input = Annotated[
    Path | None,
    typer.Option("--input", "-i", help="A file of lines, plain, .gz, .zst, .xz or .bz2.", show_default=False),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="A file for what comes out, packed if called .gz, .zst, .xz or .bz2; made whole or not at all.",
        show_default=False,
    ),
]
OnError = Annotated[
    ErrorChoice,
    typer.Option(help="A line that cannot be translated: stop; skip it, an empty line; copy it."),
]
Resume = Annotated[
    bool,
    typer.Option("--resume", help="Go on with OUTPUT.part, which Ctrl-C has left of the same command."),
]
Streaming = Annotated[
    bool, typer.Option("--stream", help="Show each word as soon as it is decided (greedy or --sample).")
]
Prefix = Annotated[
    str | None, typer.Option(help="What every translation must begin with.", show_default=False)
]
Glossary = Annotated[
    Path | None,
    typer.Option(help="What terms must become: a .tsv, .csv or .tbx file.", show_default=False),
]
GlossaryMode = Annotated[
    GlossaryChoice,
    typer.Option(help="Terms of the glossary are in every translation (forced), or preferred (soft)."),
]
Split = Annotated[
    SplitChoice,
    typer.Option(help="Translate a line sentence by sentence: when it is too long (auto), always, never."),
]
Attention = Annotated[
    bool, typer.Option("--attention", help="Add the attention matrix (target, source) to --json.")
]

# The model.
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        help="A model folder or a Hugging Face name (owner/model); the bundled model if not given. "
        "Given again: models that work together, their probabilities averaged.",
        show_default=False,
    ),
]
AnyModel = Annotated[
    str,
    typer.Argument(
        help="A model folder, a Hugging Face name (owner/model) or an Argos package; `bundled` is the "
        "model that comes with uwaga.",
        show_default=False,
    ),
]
SourceLanguage = Annotated[
    str | None,
    typer.Option(
        "--from", help="The language of the sources, where the model knows several.", show_default=False
    ),
]
TargetLanguage = Annotated[
    str | None,
    typer.Option("--to", help="The language of the translations, likewise.", show_default=False),
]
FromLanguage = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="The language of the sources; auto finds it out. With --to and without --model: translate with "
        "the best installed model between the two, or with several one after the other.",
        show_default=False,
    ),
]
ToLanguage = Annotated[
    str | None, typer.Option("--to", help="The language of the translations.", show_default=False)
]
Via = Annotated[
    list[str] | None,
    typer.Option(
        help="With --from and --to, the language to translate through, with two models; again: with more.",
        show_default=False,
    ),
]
Adapter = Annotated[
    Path | None,
    typer.Option(
        help="A folder `adapter` that `uwaga train` made with adapt.lora; without --model, with the model "
        "that it was trained for.",
        show_default=False,
    ),
]
Shortlist = Annotated[
    Path | None,
    typer.Option(
        help="A file that `uwaga shortlist` made for this model: faster, fewer words to choose from. "
        "Models of Marian's and Firefox's run with the one beside them; `none` for all words.",
        show_default=False,
    ),
]

# The search. What is not given is as the model's own settings say.
Beam = Annotated[
    int | None,
    typer.Option(
        "--beam", "-b", help="Hypotheses searched; 1 is greedy and fastest.", show_default="the model's"
    ),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(help="Above the model's own: longer results; below: shorter.", show_default="the model's"),
]
MinLength = Annotated[
    int | None, typer.Option(help="Fewest tokens of a sentence.", show_default="the model's")
]
MaxLength = Annotated[int | None, typer.Option(help="Most tokens of a sentence.", show_default="the model's")]
FewestNew = Annotated[int | None, typer.Option(help="Fewest new tokens.", show_default="the model's")]
MostNew = Annotated[int | None, typer.Option(help="Most new tokens.", show_default="the model's, or 64")]
NoRepeatNgram = Annotated[
    int | None,
    typer.Option(help="Forbid to repeat any n tokens in a row, 0 for off.", show_default="the model's"),
]
Sample = Annotated[
    bool | None,
    typer.Option(
        "--sample",
        help="Draw --nbest results at random instead of searching the best.",
        show_default="the model's",
    ),
]
Temperature = Annotated[
    float | None, typer.Option(help="Of sampling: below 1 is more cautious.", show_default="1")
]
TopK = Annotated[
    int | None, typer.Option(help="Of sampling: only the k likeliest tokens.", show_default="all")
]
TopP = Annotated[
    float | None,
    typer.Option(help="Of sampling: only the likeliest tokens of this total.", show_default="1"),
]
Seed = Annotated[
    int | None,
    typer.Option(help="Of sampling: the same seed draws the same.", show_default="new each time"),
]
MinimumBayesRisk = Annotated[
    int | None,
    typer.Option(
        "--mbr",
        min=1,
        help="Draw so many samples and take the one most like all of them: minimum Bayes risk. 32 to 128.",
        show_default="off",
    ),
]
Utility = Annotated[
    UtilityChoice,
    typer.Option(help="What like means: chrf, the overlap of letters, or bleu, that of words."),
]
BatchTokens = Annotated[
    int | None, typer.Option(help="Source tokens translated together.", show_default="4096")
]

# Where and how it is computed.
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
TorchDtype = Annotated[str, typer.Option(help="auto, float32, float16 or bfloat16.")]
Precision = Annotated[
    str,
    typer.Option(
        "--precision",
        "--dtype",
        help="auto, float32, bfloat16, int8 (CPU) or float16 (GPU).",
        show_default="auto",
    ),
]
Engine = Annotated[str, typer.Option(help="auto, native (CPU, Transformers) or torch (everything).")]
Memory = Annotated[
    str,
    typer.Option(help="fast, or shared: an int8 folder's weights stay in its file, for several processes."),
]
Threads = Annotated[int, typer.Option(help="CPU threads, 0 for all cores.", min=0)]

# What is measured.
References = Annotated[
    list[Path],
    typer.Option(
        "--reference",
        "-r",
        help="References: one per line, or a .tsv file with several per line. Give it again for more.",
        show_default=False,
    ),
]
Columns = Annotated[
    str, typer.Option(help="Columns of a .tsv that hold references, such as `2`, `2,4` or `2-`.")
]


def check_resume(resume: bool, output: Path | None, alignments: Path | None = None) -> None:
    """Refuse to go on with a file that is not named, or beside links that are not kept.

    Raises:
        SettingsError: either is so.
    """
    if resume and alignments is not None:
        raise SettingsError("--resume has no links of the lines that are done: leave out it or --alignments")
    if resume and output is None:
        raise SettingsError("--resume goes on with a file: add the --output that was interrupted")


def check_streaming(as_json: bool, nbest: int, beam: int | None, sample: bool | None) -> None:
    """Refuse what does not go with ``--stream``.

    Raises:
        SettingsError: JSON or several results are asked for, or a beam, which decides at the end.
    """
    if as_json or nbest != 1 or (beam not in (None, 1) and not sample):
        raise SettingsError(
            "--stream shows one greedy or sampled text as it grows: leave out --json, --nbest and --beam"
        )


def examples(text: str) -> Callable[[Verb], Verb]:
    """Put examples behind what a verb says of itself in ``--help``."""

    def put(verb: Verb) -> Verb:
        verb.__doc__ = f"{inspect.cleandoc(verb.__doc__ or '')}\n\n**Examples**\n\n{text.strip(chr(10))}\n"
        return verb

    return put


def named(values: Sequence[str], option: str) -> dict[str, str]:
    """Paths by their names, in order; a path without a name is called after its last parts.

    A folder called ``model`` or a file of any name says little: of ``runs/bahdanau/model`` the name is
    ``bahdanau``, of ``out/luong.de`` it is ``luong``.

    Raises:
        SettingsError: an empty name or path, or a name that is given twice.
    """
    found: dict[str, str] = {}
    for value in values:
        name, equals, path = value.partition("=")
        if not equals or os.sep in name or os.path.exists(value):  # noqa: PTH110
            name, path = _called(value), value
        if not name or not path:
            raise SettingsError(f"{option} {value!r}: give NAME=PATH, or the path alone")
        if name in found:
            raise SettingsError(f"{option}: two are called {name!r}; tell them apart as NAME=PATH")
        found[name] = path
    return found


def _called(path: str) -> str:
    parts = PurePath(path).parts
    last = parts[-1] if parts else ""
    if last == "model" and len(parts) > 1:
        return parts[-2]
    return last.partition(".")[0] or last
