"""Generation of command-line options from dataclasses.

A subcommand declares a dataclass of options (:mod:`uwaga.settings.options`) as a single parameter, and
receives the values of the options as a single argument::

    @option_groups
    def translate(
        text: Texts = None,
        *,
        search: Annotated[SearchOverrides, Group(SearchOptions)],
    ) -> None: ...

Each field of the dataclass that is not ``internal`` becomes an option of the subcommand with the field's
name, type, help and section, so new fields appear in ``--help`` automatically.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

import typer

from uwaga.errors import SettingsError
from uwaga.settings.options import OptionField, option_fields

Verb = TypeVar("Verb", bound=Callable[..., None])

FLAGS = {
    "beam": ("--beam", "-b"),
    "nbest": ("--nbest", "-n"),
    "source": ("--from",),
    "target": ("--to",),
    "placeholders": ("--placeholder",),
    "LoadOptions.memory": ("--weights",),
}
"""Flags that differ from ``--`` plus the name of the field, by ``field`` or ``Dataclass.field``."""

OPTION_WORDS = {"on_error": {"raise": "stop", "return": "skip"}}
"""Command-line words for field values that have another name in Python, by field."""
NO_PATTERNS = "none"


@dataclass(frozen=True)
class Group:
    """The options of a subcommand that set the fields of a dataclass.

    Attributes:
        record: the dataclass.
        names: the fields to include, in this order; if empty, all fields that are not internal.
        without: the fields to exclude.
        help: help texts that override those of the dataclass, by field.
        unset: descriptions of defaults that override those of the dataclass, by field.
    """

    record: type[Any]
    names: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    help: Mapping[str, str] = field(default_factory=dict)
    unset: Mapping[str, str] = field(default_factory=dict)

    def options(self) -> dict[str, OptionField]:
        """Return the included fields by name."""
        fields = option_fields(self.record)
        names = self.names or [name for name, option in fields.items() if not option.option.internal]
        return {name: fields[name] for name in names if name not in self.without}


def option_groups(verb: Verb) -> Verb:
    """Replace each group in the signature of a subcommand with the options of the group's dataclass.

    A parameter annotated ``Annotated[T, Group(record)]`` receives an instance of ``record`` if ``T`` is that
    class; otherwise it receives a dict with the values of the options that the user gave.
    """
    hints = get_type_hints(verb, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[Group, bool]] = {}
    for parameter in inspect.signature(verb).parameters.values():
        hint = hints[parameter.name]
        group = next((annotation for annotation in get_args(hint)[1:] if isinstance(annotation, Group)), None)
        if group is None:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(annotation=hint, kind=kind))
            continue
        groups[parameter.name] = group, get_args(hint)[0] is group.record
        parameters += [_parameter(parameter.name, option, group) for option in group.options().values()]

    @functools.wraps(verb)
    def command(**values: Any) -> None:
        for name, (group, is_record) in groups.items():
            options = {option: values.pop(f"{name}_{option}") for option in group.options()}
            options = {
                option: _field_value(option, value) for option, value in options.items() if value is not None
            }
            values[name] = group.record(**options) if is_record else options
        verb(**values)

    del command.__wrapped__  # otherwise its signature would be the verb's
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command  # type: ignore[return-value]


def _parameter(prefix: str, option: OptionField, group: Group) -> inspect.Parameter:
    """Return the parameter of a subcommand that corresponds to an option.

    The parameter has the default of the option, or None if the default depends on the model or on other
    options.
    """
    metadata = option.option
    help_text = group.help.get(option.name, metadata.help)
    unset = group.unset.get(option.name, metadata.unset)
    flags = FLAGS.get(option.name, (f"--{option.name.replace('_', '-')}",))
    flags = FLAGS.get(f"{group.record.__name__}.{option.name}", flags)
    kind = _parameter_type(option)
    default = OPTION_WORDS.get(option.name, {}).get(option.default, option.default)
    if unset or kind == list[str]:
        default = None
    elif default is not None and (kind is bool or not option.choices):
        default = kind(default)
    if kind is bool:
        # A flag that a model may turn on can be turned off.
        flags = (f"{flags[0]}/--no-{flags[0][2:]}" if unset else flags[0], *flags[1:])
    info = typer.Option(
        *flags,
        help=f"{help_text}.",
        show_default=unset or (default not in (None, "") and kind is not bool),
        rich_help_panel=metadata.section or None,
    )
    annotation = kind if default is not None else kind | None
    return inspect.Parameter(
        f"{prefix}_{option.name}",
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[annotation, info],
    )


def _parameter_type(option: OptionField) -> Any:
    """Return the type of the parameter for an option."""
    if option.kinds == (bool,) or True in option.choices:  # other choices are available only in Python
        return bool
    if option.choices:
        return Literal[
            tuple(
                OPTION_WORDS.get(option.name, {}).get(choice, choice) for choice in map(str, option.choices)
            )
        ]
    if Path in option.kinds:
        return Path
    if option.kinds == (list,):
        return list[str]
    return option.kinds[0]


def _field_value(name: str, value: Any) -> Any:
    """Convert the value of an option to the value of the field that it sets."""
    if name == "placeholders":
        return _patterns(value)
    return next(
        (field_value for field_value, word in OPTION_WORDS.get(name, {}).items() if word == value), value
    )


def _patterns(values: list[str]) -> bool | list[str]:
    """Convert the values of ``--placeholder`` to the placeholders of a request."""
    if NO_PATTERNS in values and len(values) > 1:
        raise SettingsError("--placeholder none cannot be combined with other patterns")
    return False if values == [NO_PATTERNS] else values
