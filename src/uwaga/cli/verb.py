"""Base classes of commands, which check flags, show help pages and convert values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from uwaga.cli.completion import complete_values
from uwaga.cli.errors import report_errors
from uwaga.cli.lines import TEXTS_ONLY
from uwaga.errors import UnknownModelError

PANEL_KEY = "uwaga.panel"
BOOLEAN_WORDS = ("true", "false")
MODEL_OPTIONS = {"--model", "-m"}


def check_flags(context: Any, args: Sequence[str]) -> None:
    """Raise a usage error for a flag with a value, such as ``--json true``.

    A flag takes no value, so ``true`` would become an argument.
    """
    parameters = [parameter for parameter in context.command.params if getattr(parameter, "is_flag", False)]
    flags = {name for parameter in parameters for name in (*parameter.opts, *parameter.secondary_opts)}
    option_arguments = args[: args.index("--")] if "--" in args else args
    for name, word in pairwise(option_arguments):
        if name in flags and word.lower() in BOOLEAN_WORDS:
            advice = f"leave out {word!r}" if word.lower() == BOOLEAN_WORDS[0] else f"leave out {name} {word}"
            context.fail(f"{name} takes no value: {advice}, or put -- before {word!r} if it is an argument")


def _repeat_options(context: Any, args: list[str]) -> list[str]:
    """Expand an option with several files, ``--train a b``, to ``--train a --train b``."""
    repeatable = {
        name
        for parameter in context.command.params
        if parameter.metavar == "FILE..."
        for name in parameter.opts
    }
    result: list[str] = []
    current_option = None
    for index, arg in enumerate(args):
        if arg.startswith("-"):
            current_option = arg if arg in repeatable else None
        elif current_option is not None and args[index - 1] != current_option:
            result.append(current_option)
        result.append(arg)
    return result


def _models_first(context: Any, args: list[str]) -> list[str]:
    """Move the models of ``--model`` to the front, for a command whose model is a positional argument."""
    end = args.index("--") if "--" in args else len(args)
    models: list[str] = []
    remaining_arguments: list[str] = []
    words = iter(args[:end])
    for word in words:
        name, equals, value = word.partition("=")
        if name not in MODEL_OPTIONS:
            remaining_arguments.append(word)
        elif equals:
            models.append(value)
        elif model := next(words, None):
            models.append(model)
        elif not context.resilient_parsing:  # True while a shell completes the name
            context.fail(f"Option '{name}' requires a model.")
    return [*models, *remaining_arguments, *args[end:]]


def record_panel(context: Any, args: Sequence[str]) -> None:
    """Record the panel requested by ``--help PANEL``."""
    for name, word in pairwise(args):
        if name in context.help_option_names and not word.startswith("-"):
            context.meta[PANEL_KEY] = word
            return


class Verb(TyperCommand):
    """A command that reports errors, and records whether ``--`` is among its arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, after checking the flags; return the arguments that were not parsed."""
        TEXTS_ONLY.set("--" in args)
        check_flags(ctx, args)
        record_panel(ctx, args)
        args = _repeat_options(ctx, args)
        return super().parse_args(ctx, args if self.positional_model is None else _models_first(ctx, args))

    @property
    def positional_model(self) -> Any:
        """The argument that names the model, or None if no argument does or there is a ``--model`` option."""
        if any(MODEL_OPTIONS & set(parameter.opts) for parameter in self.params):
            return None
        arguments = (parameter for parameter in self.params if parameter.param_type_name == "argument")
        first_argument = next(arguments, None)
        return (
            first_argument if first_argument is not None and first_argument.name.startswith("model") else None
        )

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, patched by :func:`_convert_given_values`."""
        return _convert_given_values(super().get_params(ctx))

    def invoke(self, ctx: Any) -> None:
        """Run the command and report its errors."""
        with report_errors():
            try:
                super().invoke(ctx)
            except UnknownModelError as error:
                if self.positional_model is None:
                    raise
                usage = " ".join([ctx.command_path, *self.argument_names()])
                raise UnknownModelError(f"{error}; usage: {usage}") from None

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line after the name."""
        return ["[OPTIONS]", *self.argument_names()]

    def argument_names(self) -> list[str]:
        """Return the names of the arguments, in brackets if they may be omitted."""
        from uwaga.cli.help import argument_name

        arguments = [parameter for parameter in self.params if parameter.param_type_name == "argument"]
        names = [(argument_name(argument), argument.required) for argument in arguments]
        return [name if required else f"[{name}]" for name, required in names]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        from uwaga.cli.help import help_page

        formatter.write(help_page(ctx, ctx.meta.get(PANEL_KEY)))


class VerbGroup(TyperGroup):
    """A command with subcommands, which the help page lists under :attr:`headings`."""

    @property
    def headings(self) -> Mapping[str, Sequence[str]]:
        """Names of the subcommands by heading on the help page."""
        return {"Commands": list(self.commands)}

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, patched by :func:`_convert_given_values`."""
        return _convert_given_values(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        from uwaga.cli.help import help_page

        formatter.write(help_page(ctx, ctx.meta.get(PANEL_KEY)))


def _convert_given_values(parameters: list[Any]) -> list[Any]:
    """Return the parameters, patched so that typer converts only values that the user gave and that are
    neither text nor paths.

    typer builds a pydantic validator for each parameter that it converts, which takes longer than reading a
    model's settings.
    """

    def convert_given(parameter: Any, convert: Callable[..., Any], context: Any, value: Any) -> Any:
        source = context.get_parameter_source(parameter.name)
        is_default = source is not None and source.name == "DEFAULT" and not parameter.required
        kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
        if kind is Path and isinstance(value, str):
            value = Path(value)
        elif not is_default and (kind not in (str, list[str]) or not isinstance(value, str | list | tuple)):
            try:
                return convert(context, value)
            except typer.BadParameter as error:  # with pydantic's message
                reason = error.message.removeprefix("Value error, ").partition(", unable to parse")[0]
                error.message = reason.replace("Input should", f"{value!r} should")
                raise
        return value if parameter.callback is None else parameter.callback(context, parameter, value)

    for parameter in parameters:
        complete_values(parameter)
        if not isinstance(parameter.process_value, partial):
            parameter.process_value = partial(convert_given, parameter, parameter.process_value)
    return parameters
