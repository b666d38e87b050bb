"""Options shared by several subcommands, except for options that are generated from dataclasses."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from uwaga.errors import SettingsError

if TYPE_CHECKING:
    from uwaga.search import SearchOverrides

Verb = TypeVar("Verb", bound=Callable[..., None])


# Input and output.
Input = Annotated[
    Path | None,
    typer.Option(
        "--input", "-i", help="Input file, one text per line; may be compressed (.gz, .zst, .xz, .bz2)."
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Output file, written atomically; compressed if the name ends in .gz, .zst, .xz or .bz2.",
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume", help="Continue an interrupted run of the same command.", rich_help_panel="Output"
    ),
]
Streaming = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="Show each word as soon as it is decided (greedy or --sample).",
        rich_help_panel="Output",
    ),
]

# The model.
Models = Annotated[
    list[str] | None,
    typer.Option(
        "--model",
        "-m",
        help="A model folder or a Hugging Face name (owner/model); default: the bundled model. "
        "Repeat for an ensemble (probabilities are averaged).",
    ),
]
AnyModel = Annotated[
    str,
    typer.Argument(
        help="A model folder, a Hugging Face name (owner/model) or an Argos package; `bundled` for the "
        "bundled model."
    ),
]
Via = Annotated[
    list[str] | None, typer.Option(help="Pivot language between --from and --to; repeat for a longer chain.")
]

DETAIL_OPTIONS = ("attention", "entropy", "alignment", "coverage")
"""Search options that add details to a translation; they are not available for jobs and continuations."""

BatchTokens = Annotated[
    int | None,
    typer.Option(help="Batch size in source tokens.", show_default="4096", rich_help_panel="Computation"),
]


# Evaluation.
_REFERENCE = typer.Option(
    "--reference", "-r", help="References: one per line, or a .tsv file with several per line. Repeatable."
)
References = Annotated[list[Path], _REFERENCE]
OptionalReferences = Annotated[list[Path] | None, _REFERENCE]
Columns = Annotated[
    str, typer.Option(help="Columns of a .tsv that contain references, such as `2`, `2,4` or `2-`.")
]


LOAD_HELP = {
    "source": "Language of the texts; auto detects it. With --to and without --model: use the best "
    "installed model between the two, or a chain of models",
    "target": "Language of the translations",
    "adapter": "Folder `adapter` of a run with adapt.lora; default model: the one it was trained on",
}
"""Help texts of load options, for subcommands that choose a model by its languages."""

Force = Annotated[bool, typer.Option("--force", help="Replace a model in the folder.")]


def check_replaceable(folder: Path, force: bool) -> None:
    """Raise SettingsError if a folder contains files and ``force`` is False."""
    if not force and folder.is_dir() and any(folder.iterdir()):
        raise SettingsError(
            f"{folder}: the folder is not empty; add --force to replace its model, or choose another folder"
        )


def check_streaming(as_json: bool, search: SearchOverrides) -> None:
    """Raise SettingsError if another option conflicts with ``--stream``."""
    beam = 1 if search.get("sample") else search.get("beam", 1)
    if as_json or search["nbest"] != 1 or beam != 1:
        raise SettingsError("--stream shows a single greedy or sampled text: omit --json, --nbest and --beam")


def examples(text: str) -> Callable[[Verb], Verb]:
    """Return a decorator that appends examples to the docstring of a subcommand, which ``--help`` shows."""

    def append(verb: Verb) -> Verb:
        verb.__doc__ = f"{inspect.cleandoc(verb.__doc__ or '')}\n\n**Examples**\n\n{text.strip(chr(10))}\n"
        return verb

    return append


def parse_labels(values: Sequence[str], option: str) -> dict[str, str]:
    """Return the paths of arguments ``NAME=PATH``, by name.

    A path without a name is named after its last component other than ``model``: ``runs/bahdanau/model`` is
    named ``bahdanau``, and ``out/luong.de`` is named ``luong``.
    """
    paths: dict[str, str] = {}
    for value in values:
        name, equals, path = value.partition("=")
        if not equals or os.sep in name or os.path.exists(value):  # noqa: PTH110
            name, path = _default_label(value), value
        if not name or not path:
            raise SettingsError(f"{option} {value!r}: expected NAME=PATH or a path")
        if name in paths:
            raise SettingsError(
                f"{option}: two paths are named {name!r}; give them different names, NAME=PATH"
            )
        paths[name] = path
    return paths


def _default_label(path: str) -> str:
    parts = PurePath(path).parts
    last_part = parts[-1] if parts else ""
    if last_part == "model" and len(parts) > 1:
        return parts[-2]
    return last_part.partition(".")[0] or last_part
