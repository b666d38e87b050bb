"""Options as dataclasses, whose fields have help texts, bounds and sections as metadata.

An option is described only by its field::

    beam: int = field(default=5, metadata=option("Beam size; 1 is greedy and fastest", minimum=1))

The field's type and metadata determine how values are checked (:func:`check_options`). The command line, the
server and the reference are generated from the fields (:func:`option_fields`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from uwaga.decoder import MAX_TOKENS
from uwaga.errors import SettingsError, quoted, suggestion


def check_integer(name: str, value: object, minimum: int, maximum: int = MAX_TOKENS) -> None:
    """Check that a value is an integer from ``minimum`` to ``maximum``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise SettingsError(f"{name} must be a whole number, {minimum} or more, not {quoted(value)}")
    if value > maximum:
        raise SettingsError(f"{name} must be {maximum} or less, not {quoted(value)}")


def check_number(name: str, value: object, minimum: float, maximum: float = math.inf) -> None:
    """Check that a value is a number from ``minimum`` to ``maximum``."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not minimum <= value <= maximum:
        raise SettingsError(f"{name} must be a number from {minimum:g} to {maximum:g}, not {quoted(value)}")


def check_choice(name: str, value: object, allowed: Sequence[object]) -> None:
    """Check that a value is one of the allowed values, each of which is a string, True or False."""
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
        choices = ", ".join(choice if isinstance(choice, str) else repr(choice) for choice in allowed)
        raise SettingsError(f"{name} must be one of {choices}, not {quoted(value)}")


def check_flag(name: str, value: object) -> None:
    """Check that a value is True or False."""
    if not isinstance(value, bool):
        raise SettingsError(f"{name} must be True or False, not {quoted(value)}")


def check_string(name: str, value: object, expected: str) -> None:
    """Check that a value is None or a string; ``expected`` describes the string in the message."""
    if value is not None and not isinstance(value, str):
        raise SettingsError(f"{name} must be {expected}, not {quoted(value)}")


class Option(NamedTuple):
    """The metadata of an option.

    Attributes:
        help: one line that describes the option, without a full stop.
        section: heading under which help pages list the option.
        minimum: minimum value, or minimum of the elements of a sequence.
        maximum: maximum value.
        unset: what help pages say about an option that is not given; empty for its default.
        internal: whether only models or other options set it; if so, it is not available on the command line
            or in the server.
        kind: type of the option's values on the command line; None for the type of the field.
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


class OptionField(NamedTuple):
    """An option: a field of a dataclass, with the parsed type of the field.

    Attributes:
        name: the name of the field.
        default: the default value of the option.
        kinds: types of the option's values, without None and without the types of ``choices``: ``int``,
            ``float``, ``str``, ``list``, ``tuple`` or ``Path``; only ``bool`` for a flag; empty if only
            ``choices`` are allowed.
        choices: all allowed values of a field of a ``Literal`` type; empty for other fields.
        optional: whether None is allowed.
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
            check_choice(self.name, value, self.choices)
        elif self.kinds == (bool,):
            check_flag(self.name, value)
        elif self.kinds == (tuple,):
            self._check_elements(value)
        elif self.kinds == (int,):
            check_integer(self.name, value, *self._integer_bounds())
        elif self.kinds == (float,):
            minimum, maximum = self.option.minimum, self.option.maximum
            check_number(
                self.name,
                value,
                -math.inf if minimum is None else minimum,
                math.inf if maximum is None else maximum,
            )
        elif not isinstance(value, self.kinds):
            types = " or ".join(kind.__name__ for kind in self.kinds)
            raise SettingsError(f"{self.name} must be of type {types}, not {quoted(value)}")

    def _integer_bounds(self) -> tuple[int, int]:
        minimum, maximum = self.option.minimum, self.option.maximum
        return 0 if minimum is None else int(minimum), MAX_TOKENS if maximum is None else int(maximum)

    def _check_elements(self, value: object) -> None:
        if not isinstance(value, (tuple, list)):
            raise SettingsError(f"{self.name} must be a tuple of whole numbers, not {quoted(value)}")
        for element in value:
            check_integer(self.name, element, *self._integer_bounds())


def option_fields(record: type[Any]) -> dict[str, OptionField]:
    """Return the options of a dataclass by name, in the order of its fields.

    Args:
        record: a dataclass; fields without :func:`option` metadata are omitted.
    """
    if record not in _CACHED_FIELDS:
        _CACHED_FIELDS[record] = _read_fields(record)
    return _CACHED_FIELDS[record]


_CACHED_FIELDS: dict[Any, dict[str, OptionField]] = {}


def _read_fields(record: type[Any]) -> dict[str, OptionField]:
    options: dict[str, tuple[Any, Option]] = {
        field.name: (field.default, field.metadata["option"])
        for field in fields(record)
        if "option" in field.metadata
    }
    types = {name: meta.kind for name, (_, meta) in options.items()}
    without_kind = {name for name, kind in types.items() if kind is None}
    for base in reversed(record.__mro__):
        # The types of other fields may be unknown at run time.
        hints = {name: hint for name, hint in inspect.get_annotations(base).items() if name in without_kind}
        types |= get_type_hints(type("", (), {"__annotations__": hints, "__module__": base.__module__}))
    return {
        name: OptionField(name, default, *_parse_annotation(types[name]), meta)
        for name, (default, meta) in options.items()
    }


def check_options(record: Any) -> None:
    """Check the values of all options of a dataclass instance, except values that are the defaults."""
    for name, option_field in option_fields(record.__class__).items():
        value = getattr(record, name)
        if value is not option_field.default:
            option_field.check(value)


def checked_options(record: type, values: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Check the names of options, and return the values that are not None.

    Args:
        record: a dataclass with options.
        values: options by name; None for an option that is not given.
        kind: the kind of option, for messages: ``unknown KIND option 'beams'; did you mean 'beam'?``
    """
    names = option_fields(record)
    for name in values:
        if name not in names:
            hint = suggestion(name, names, f"the options are {', '.join(names)}")
            raise SettingsError(f"unknown {kind} option {name!r}; {hint}")
    return {name: value for name, value in values.items() if value is not None}


def _parse_annotation(annotation: Any) -> tuple[tuple[type, ...], tuple[object, ...], bool]:
    """Return the types and the choices in a field's annotation, and whether it allows None."""
    members = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    choices = [value for member in members if get_origin(member) is Literal for value in get_args(member)]
    kinds = [get_origin(member) or member for member in members if get_origin(member) is not Literal]
    optional = NoneType in kinds
    kinds = [kind for kind in kinds if kind is not NoneType]
    if choices and bool in kinds:
        choices = [True, False, *choices]
        kinds.remove(bool)
    return tuple(kinds), tuple(choices), optional
