"""Options of the command line generated from option records.

A verb declares a whole record of options (:mod:`uwaga.settings.options`) as one parameter, and receives their
values as one argument::

    @option_groups
    def translate(
        text: Texts = None,
        *,
        search: Annotated[SearchOverrides, Group(SearchOptions)],
    ) -> None: ...

Every field of the record that is not ``internal`` becomes an option of the verb, with the field's name, type,
help, and section. A new field therefore appears in ``--help`` without a change here.
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
}
"""Options that are not simply named ``--`` and their field's name."""

WORDS = {"on_error": {"raise": "stop", "return": "skip"}}
"""Values that have another word on the command line, by field."""
NOTHING = "none"


@dataclass(frozen=True)
class Group:
    """The options of a record in a verb.

    Attributes:
        record: a dataclass with options.
        names: fields to offer, in this order; empty for all that are not internal.
        without: fields not to offer.
        help: help texts that replace those of the record, by field.
        unset: values to show in place of those of the record for options that are not given, by field.
    """

    record: type[Any]
    names: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    help: Mapping[str, str] = field(default_factory=dict)
    unset: Mapping[str, str] = field(default_factory=dict)

    def options(self) -> dict[str, OptionField]:
        """Return the fields that the verb offers, by name."""
        fields = option_fields(self.record)
        names = self.names or [name for name, each in fields.items() if not each.option.internal]
        return {name: fields[name] for name in names if name not in self.without}


def option_groups(verb: Verb) -> Verb:
    """Replace the groups in a verb's signature by the options of their records.

    A parameter annotated ``Annotated[T, Group(record)]`` receives a ``record`` if ``T`` is the record, and
    otherwise a dict with the values of the options that are given.
    """
    hints = get_type_hints(verb, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups: dict[str, tuple[Group, bool]] = {}
    for parameter in inspect.signature(verb).parameters.values():
        hint = hints[parameter.name]
        group = next((each for each in get_args(hint)[1:] if isinstance(each, Group)), None)
        if group is None:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(annotation=hint, kind=kind))
            continue
        groups[parameter.name] = group, get_args(hint)[0] is group.record
        parameters += [_parameter(parameter.name, each, group) for each in group.options().values()]

    @functools.wraps(verb)
    def command(**values: Any) -> None:
        for name, (group, whole) in groups.items():
            given = {each: values.pop(f"{name}_{each}") for each in group.options()}
            given = {each: _plain(each, value) for each, value in given.items() if value is not None}
            values[name] = group.record(**given) if whole else given
        verb(**values)

    del command.__wrapped__  # else its signature would be the verb's
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    return command  # type: ignore[return-value]


def _parameter(prefix: str, option: OptionField, group: Group) -> inspect.Parameter:
    """Return the parameter of a verb for an option.

    It has the option's default, or None if that depends on the model or on other options.
    """
    described = option.option
    words = group.help.get(option.name, described.help)
    unset = group.unset.get(option.name, described.unset)
    flags = FLAGS.get(option.name, (f"--{option.name.replace('_', '-')}",))
    kind = _type_of(option)
    default = WORDS.get(option.name, {}).get(option.default, option.default)
    if unset or kind == list[str]:
        default = None
    elif default is not None and (kind is bool or not option.choices):
        default = kind(default)
    if kind is bool:
        # An option that a model may switch on can be switched off.
        flags = (f"{flags[0]}/--no-{flags[0][2:]}" if unset else flags[0], *flags[1:])
    info = typer.Option(
        *flags,
        help=f"{words}.",
        show_default=unset or (default not in (None, "") and kind is not bool),
        rich_help_panel=described.section or None,
    )
    annotation = kind if default is not None else kind | None
    return inspect.Parameter(
        f"{prefix}_{option.name}",
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[annotation, info],
    )


def _type_of(option: OptionField) -> Any:
    """Return the type of a parameter."""
    if option.kinds == (bool,) or True in option.choices:  # further choices are for Python only
        return bool
    if option.choices:
        return Literal[tuple(WORDS.get(option.name, {}).get(each, each) for each in map(str, option.choices))]
    if Path in option.kinds:
        return Path
    if option.kinds == (list,):
        return list[str]
    return option.kinds[0]


def _plain(name: str, value: Any) -> Any:
    """Return the value of a field for that of its option."""
    if name == "placeholders":
        return _patterns(value)
    return next((own for own, word in WORDS.get(name, {}).items() if word == value), value)


def _patterns(values: list[str]) -> bool | list[str]:
    """Return the placeholders of a request from the values of ``--placeholder``."""
    if NOTHING in values and len(values) > 1:
        raise SettingsError("--placeholder none cannot be combined with other patterns")
    return False if values == [NOTHING] else values
