"""Option records: dataclasses whose fields carry their own help, bounds and section.

A field of such a record is the only place where an option is described::

    beam: int = field(default=5, metadata=option("Beam size; 1 is greedy and fastest", minimum=1))

Its type and metadata give the check of its value (:func:`check_options`) and the description from which the
command line, the server and the reference are generated (:func:`option_fields`).
"""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from uwaga.decoder import MAX_TOKENS
from uwaga.errors import SettingsError, shown


def check_whole(name: str, value: object, least: int, most: int = MAX_TOKENS) -> None:
    """Require a whole number from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SettingsError(f"{name} must be a whole number, {least} or more, not {shown(value)}")
    if value > most:
        raise SettingsError(f"{name} must be {most} or less, not {shown(value)}")


def check_between(name: str, value: object, least: float, most: float = math.inf) -> None:
    """Require a number from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise SettingsError(f"{name} must be a number from {least:g} to {most:g}, not {shown(value)}")


def check_one_of(name: str, value: object, allowed: Sequence[object]) -> None:
    """Require one of the allowed values, which are words, True and False."""
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
        choices = ", ".join(choice if isinstance(choice, str) else repr(choice) for choice in allowed)
        raise SettingsError(f"{name} must be one of {choices}, not {shown(value)}")


def check_flag(name: str, value: object) -> None:
    """Require True or False."""
    if not isinstance(value, bool):
        raise SettingsError(f"{name} must be True or False, not {shown(value)}")


def check_word(name: str, value: object, what: str) -> None:
    """Require None or a string; ``what`` describes the string in the message."""
    if value is not None and not isinstance(value, str):
        raise SettingsError(f"{name} must be {what}, not {shown(value)}")


@dataclass(frozen=True)
class Option:
    """The metadata of one option.

    Attributes:
        help: one line of plain English, without a full stop.
        section: heading under which help pages list it.
        minimum: smallest value, or of a sequence's items.
        maximum: largest value.
        unset: what applies where the option isn't given, as help pages show it; empty for its default.
        internal: set by a model or by other options; not offered on the command line or by the server.
        kind: type of its values on the command line; None for the field's own.
    """

    help: str
    section: str = ""
    minimum: float | None = None
    maximum: float | None = None
    unset: str = ""
    internal: bool = False
    kind: Any = None


def option(
    help: str,  # noqa: A002 - the word that argparse, click and typer use
    *,
    section: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    unset: str = "",
    internal: bool = False,
    kind: Any = None,
) -> Mapping[str, Option]:
    """Return the ``metadata`` of a dataclass field that is an option; see :class:`Option`."""
    return {"option": Option(help, section, minimum, maximum, unset, internal, kind)}


@dataclass(frozen=True)
class OptionField:
    """An option of a record, with what its field's type says.

    Attributes:
        name: the name of the field.
        default: its default value.
        kinds: types of its values, without None and without the types of ``choices``: one of ``int``,
            ``float``, ``str``, ``list``, ``tuple`` or ``Path``; ``bool`` for a plain flag; empty where only
            ``choices`` are allowed.
        choices: every value allowed, for fields of a ``Literal`` type; empty for others.
        optional: True if None is allowed.
        option: the metadata.
    """

    name: str
    default: Any
    kinds: tuple[type, ...]
    choices: tuple[object, ...]
    optional: bool
    option: Option

    def check(self, value: object) -> None:
        """Check a value against the type and bounds of the option."""
        if value is None and self.optional:
            return
        if self.choices:
            check_one_of(self.name, value, self.choices)
        elif self.kinds == (bool,):
            check_flag(self.name, value)
        elif self.kinds == (tuple,):
            self._check_items(value)
        elif self.kinds == (int,):
            check_whole(self.name, value, *self._whole_bounds())
        elif self.kinds == (float,):
            least, most = self.option.minimum, self.option.maximum
            check_between(
                self.name, value, -math.inf if least is None else least, math.inf if most is None else most
            )
        elif not isinstance(value, self.kinds):
            types = " or ".join(kind.__name__ for kind in self.kinds)
            raise SettingsError(f"{self.name} must be of type {types}, not {shown(value)}")

    def _whole_bounds(self) -> tuple[int, int]:
        least, most = self.option.minimum, self.option.maximum
        return 0 if least is None else int(least), MAX_TOKENS if most is None else int(most)

    def _check_items(self, value: object) -> None:
        if not isinstance(value, (tuple, list)):
            raise SettingsError(f"{self.name} must be a tuple of whole numbers, not {shown(value)}")
        for item in value:
            check_whole(self.name, item, *self._whole_bounds())


def option_fields(record: type[Any]) -> dict[str, OptionField]:
    """Return the options of a dataclass by name, in the order of its fields.

    Args:
        record: a dataclass; fields without :func:`option` metadata are left out.
    """
    if record not in _FIELDS:
        _FIELDS[record] = _described_fields(record)
    return _FIELDS[record]


_FIELDS: dict[Any, dict[str, OptionField]] = {}


def _described_fields(record: type[Any]) -> dict[str, OptionField]:
    described: dict[str, tuple[Any, Option]] = {
        field.name: (field.default, field.metadata["option"])
        for field in fields(record)
        if "option" in field.metadata
    }
    types = {name: meta.kind for name, (_, meta) in described.items()}
    own_type = {name for name, kind in types.items() if kind is None}
    for base in reversed(record.__mro__):
        # The types of other fields may be unknown at run time.
        hints = {name: hint for name, hint in inspect.get_annotations(base).items() if name in own_type}
        types |= get_type_hints(type("", (), {"__annotations__": hints, "__module__": base.__module__}))
    return {
        name: OptionField(name, default, *_values_of(types[name]), meta)
        for name, (default, meta) in described.items()
    }


def check_options(record: Any) -> None:
    """Check the value of every option of a dataclass instance; defaults need no check."""
    for name, option_field in option_fields(record.__class__).items():
        value = getattr(record, name)
        if value is not option_field.default:
            option_field.check(value)


def given_options(record: type, values: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the values that are not None, after checking every name.

    Args:
        record: a dataclass with options.
        values: options by name; None stands for an option that isn't given.
        kind: the kind of option, for the message: ``unknown KIND option 'beams'; did you mean 'beam'?``
    """
    names = option_fields(record)
    for name in values:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(names)}"
            raise SettingsError(f"unknown {kind} option {name!r}; {hint}")
    return {name: value for name, value in values.items() if value is not None}


def _values_of(annotation: Any) -> tuple[tuple[type, ...], tuple[object, ...], bool]:
    """Return the types, the choices and whether None is allowed, of a field's type."""
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    choices = [value for each in members if get_origin(each) is Literal for value in get_args(each)]
    kinds = [get_origin(each) or each for each in members if get_origin(each) is not Literal]
    optional = NoneType in kinds
    kinds = [kind for kind in kinds if kind is not NoneType]
    if choices and bool in kinds:
        choices = [True, False, *choices]
        kinds.remove(bool)
    return tuple(kinds), tuple(choices), optional
