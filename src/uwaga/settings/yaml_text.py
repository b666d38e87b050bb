"""Parsing of untrusted YAML: settings files, and values on the command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from uwaga.errors import SettingsError, quoted

MAX_ARGUMENT_LENGTH = 120
"""Maximum number of characters of an argument in a message."""
MAX_YAML_LENGTH = 1 << 18
"""Maximum number of characters of a YAML text; a typical settings file has a few thousand."""
MAX_DEPTH = 32
"""Maximum number of levels of nested lists and mappings."""
MAX_SCALAR_LENGTH = 400
"""Maximum number of characters of a scalar that is not a string: a number, a date, a truth value."""
STRING_TAG = "tag:yaml.org,2002:str"


def load_yaml(text: str) -> object:
    """Return the value of an untrusted YAML document. ``1e-4`` is a number, as in YAML 1.2.

    Raises:
        ValueError: the text is not YAML; it exceeds the limits of this module; or it has aliases or anchors,
            with which a few hundred bytes can expand to gigabytes.
    """
    if len(text) > MAX_YAML_LENGTH:
        raise ValueError(f"longer than {MAX_YAML_LENGTH} characters")
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 (a safe loader)
    except yaml.MarkedYAMLError as error:
        position = f" at line {error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        raise ValueError(f"{error.problem or error.context}{position}"[:200]) from None
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())[:200]) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
        # raised by the constructors of dates, numbers and truth values
        raise ValueError(f"a value does not match its tag or form ({str(error)[:80]})") from None


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, with limits on nesting and long numbers, and without aliases."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next node, after checks for aliases, anchors and depth."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise yaml.MarkedYAMLError(
                problem="anchors and aliases are not allowed", problem_mark=event.start_mark
            )
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise yaml.MarkedYAMLError(
                problem=f"deeper than {MAX_DEPTH} levels", problem_mark=event.start_mark
            )
        node = super().compose_node(parent, index)
        self._depth -= 1
        if (
            isinstance(node, yaml.ScalarNode)
            and node.tag != STRING_TAG
            and len(node.value) > MAX_SCALAR_LENGTH
        ):
            raise yaml.MarkedYAMLError(
                problem=f"a number of more than {MAX_SCALAR_LENGTH} characters", problem_mark=event.start_mark
            )
        return node


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)$"),
    list("-+0123456789."),
)


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file, without checking its keys."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_YAML_LENGTH + 1)
    except FileNotFoundError:
        raise SettingsError(
            f"{path}: no such settings file; `uwaga train --init {path}` writes one to start from"
        ) from None
    except IsADirectoryError:
        raise SettingsError(f"{path}: is a folder; give a settings file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from None
    try:
        values = load_yaml(text)
    except ValueError as error:
        raise SettingsError(f"{path}: not valid YAML: {error}") from None
    if not isinstance(values, dict):
        raise SettingsError(f"{path}: expected a mapping of settings, found {type(values).__name__}")
    return values


def change_setting(values: dict[str, Any], change: str, example: str = "training.seed=2") -> None:
    """Apply a change such as ``training.seed=2`` to raw settings in place.

    The change consists of keys separated by dots, an equals sign, and a YAML value.

    ``model.score=dot`` also works if the model is given by the name of a preset.

    Args:
        values: the raw settings.
        change: the key and its new value.
        example: an example of a change, for messages.
    """
    key, equals, text = change.partition("=")
    if not equals or not key:
        raise SettingsError(f"{change[:MAX_ARGUMENT_LENGTH]}: expected KEY=VALUE, for example {example}")
    try:
        value = load_yaml(text)
    except ValueError as error:
        raise SettingsError(
            f"{key[:MAX_ARGUMENT_LENGTH]}: {quoted(text)} is not a YAML value: {error}"
        ) from None
    *groups, last_key = key.split(".")
    for depth, group in enumerate(groups):
        group_values = values.setdefault(group, {})
        if isinstance(group_values, str) and (depth, group) == (0, "model"):
            group_values = values[group] = {"preset": group_values}
        if not isinstance(group_values, dict):
            raise SettingsError(
                f"{change[:MAX_ARGUMENT_LENGTH]}: {group} holds a value, not a group of settings"
            )
        values = group_values
    values[last_key] = value
