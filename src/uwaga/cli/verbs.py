"""The verbs by name, each imported when it is asked for: a translation starts without the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Literal

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from uwaga.cli.errors import reported
from uwaga.cli.lines import TEXTS_ONLY

NAMES = (
    *(
        "translate",
        "translate-file",
        "batch",
        "train",
        "score",
        "evaluate",
        "align",
        "attend",
        "heads",
        "lengths",
    ),
    *("generate", "fill", "info", "convert", "shortlist", "average", "clean", "report"),
    *("distil", "backtranslate", "merge", "models", "serve"),
)
"""In the order of `--help`: each has a module and in it a function, or an app of several, of its name."""
MARKUP: Literal["markdown"] = "markdown"


class Verb(TyperCommand):
    """A command that remembers whether ``--`` stood among its arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the arguments apart."""
        TEXTS_ONLY.set("--" in args)
        return super().parse_args(ctx, args)


class Verbs(Mapping[str, Any]):
    """The commands by name."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in NAMES:
            raise KeyError(name)
        if name not in self._built:
            self._built[name] = _build(name)
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


class VerbGroup(TyperGroup):
    """A group that builds a command when it is looked up."""

    def __init__(self, **said: Any) -> None:
        super().__init__(**said)
        self.commands: Any = Verbs()


def _build(name: str) -> Any:
    module = name.replace("-", "_")
    verb = getattr(import_module(f"uwaga.cli.{module}"), module)
    if isinstance(verb, typer.Typer):
        return get_command(verb)
    alone = typer.Typer(add_completion=False, rich_markup_mode=MARKUP)
    alone.command(name, cls=Verb)(reported(verb))
    return get_command(alone)
