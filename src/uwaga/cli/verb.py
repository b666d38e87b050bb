"""Verbs of the command line: their flags, their help, and the values that they convert."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from uwaga.cli.lines import TEXTS_ONLY

PANEL = "uwaga.panel"
TRUTH = ("true", "false")


def check_flags(context: Any, args: Sequence[str]) -> None:
    """Refuse ``--json true``: a flag takes no value, so the word would be taken as an argument."""
    parameters = [one for one in context.command.params if getattr(one, "is_flag", False)]
    flags = {name for one in parameters for name in (*one.opts, *one.secondary_opts)}
    given = args[: args.index("--")] if "--" in args else args
    for name, word in pairwise(given):
        if name in flags and word.lower() in TRUTH:
            instead = f"leave out {word!r}" if word.lower() == TRUTH[0] else f"leave out {name} {word}"
            context.fail(f"{name} takes no value: {instead}, or put -- before {word!r} if it is an argument")


def _repeated(context: Any, args: list[str]) -> list[str]:
    """Repeat an option that takes several files, ``--train a b``, before each of them."""
    several = {name for one in context.command.params if one.metavar == "FILE..." for name in one.opts}
    result: list[str] = []
    current = None
    for number, arg in enumerate(args):
        if arg.startswith("-"):
            current = arg if arg in several else None
        elif current is not None and args[number - 1] != current:
            result.append(current)
        result.append(arg)
    return result


def note_panel(context: Any, args: Sequence[str]) -> None:
    """Record the panel that is asked for by ``--help PANEL``."""
    for name, word in pairwise(args):
        if name in context.help_option_names and not word.startswith("-"):
            context.meta[PANEL] = word
            return


class Verb(TyperCommand):
    """A command that records whether ``--`` is among its arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments."""
        TEXTS_ONLY.set("--" in args)
        check_flags(ctx, args)
        note_panel(ctx, args)
        return super().parse_args(ctx, _repeated(ctx, args))

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, which convert few values."""
        return _convert_few(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line after the name."""
        from uwaga.cli.help import argument_name

        arguments = [one for one in self.params if one.param_type_name == "argument"]
        names = [(argument_name(one), one.required) for one in arguments]
        return ["[OPTIONS]", *(name if required else f"[{name}]" for name, required in names)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        from uwaga.cli.help import help_page

        formatter.write(help_page(ctx, ctx.meta.get(PANEL)))


class VerbGroup(TyperGroup):
    """A command with commands, which are listed under :attr:`headings`."""

    @property
    def headings(self) -> Mapping[str, Sequence[str]]:
        """Names of the commands by the heading under which the help page lists them."""
        return {"Commands": list(self.commands)}

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, which convert few values."""
        return _convert_few(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        from uwaga.cli.help import help_page

        formatter.write(help_page(ctx, ctx.meta.get(PANEL)))


def _convert_few(parameters: list[Any]) -> list[Any]:
    """Make parameters convert only values that are given and are not text.

    typer builds a validator of pydantic for each parameter that it converts, which takes longer than reading
    a model's settings.
    """

    def converted(parameter: Any, convert: Callable[..., Any], context: Any, value: Any) -> Any:
        source = context.get_parameter_source(parameter.name)
        is_default = source is not None and source.name == "DEFAULT" and not parameter.required
        kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
        if not is_default and (kind not in (str, list[str]) or not isinstance(value, str | list | tuple)):
            try:
                return convert(context, value)
            except typer.BadParameter as error:  # in the words of pydantic
                reason = error.message.removeprefix("Value error, ").partition(", unable to parse")[0]
                error.message = reason.replace("Input should", f"{value!r} should")
                raise
        return value if parameter.callback is None else parameter.callback(context, parameter, value)

    for parameter in parameters:
        if not isinstance(parameter.process_value, partial):
            parameter.process_value = partial(converted, parameter, parameter.process_value)
    return parameters
