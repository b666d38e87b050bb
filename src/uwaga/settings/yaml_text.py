"""Untrusted YAML: settings files, and values on the command line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from uwaga.errors import SettingsError, shown

SHOWN = 120
"""Characters of an argument in a message."""
LARGEST = 1 << 18
"""Characters of a YAML text; a typical settings file has a few thousand."""
DEEPEST = 32
"""Levels of nested lists and mappings."""
LONGEST_NUMBER = 400
"""Characters of a scalar that is not text: a number, a date, a truth value."""
TEXT = "tag:yaml.org,2002:str"


def load_yaml(text: str) -> object:
    """Return the value of an untrusted YAML document.

    Aliases and anchors are refused, because a few hundred bytes of them can expand to gigabytes, and so are
    documents larger or deeper than any settings. ``1e-4`` is a number, as in YAML 1.2.
    """
    if len(text) > LARGEST:
        raise ValueError(f"larger than {LARGEST} characters")
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 (a safe loader)
    except yaml.MarkedYAMLError as error:
        where = f" at line {error.problem_mark.line + 1}" if error.problem_mark is not None else ""
        raise ValueError(f"{error.problem or error.context}{where}"[:200]) from None
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())[:200]) from None
    except RecursionError:
        raise ValueError("too deep") from None
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
        # raised by the constructors of dates, numbers and truth values
        raise ValueError(f"a value does not match its tag or form ({str(error)[:80]})") from None


class _Loader(yaml.SafeLoader):
    """The safe loader, within bounds."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose one node, after checking for aliases, anchors and depth."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise yaml.MarkedYAMLError(problem="aliases are not allowed", problem_mark=event.start_mark)
        self._depth += 1
        if self._depth > DEEPEST:
            raise yaml.MarkedYAMLError(problem=f"deeper than {DEEPEST} levels", problem_mark=event.start_mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(node, yaml.ScalarNode) and node.tag != TEXT and len(node.value) > LONGEST_NUMBER:
            raise yaml.MarkedYAMLError(
                problem=f"a number of more than {LONGEST_NUMBER} characters", problem_mark=event.start_mark
            )
        return node


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)$"),
    list("-+0123456789."),
)


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file, unchecked."""
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise SettingsError(
            f"{path}: no such settings file; `uwaga train --init {path}` writes one to start from"
        ) from None
    except IsADirectoryError:
        raise SettingsError(f"{path}: is a folder; name a settings file") from None
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
    """Change one raw value in place, as ``training.seed=2`` does: keys separated by dots, and a YAML value.

    ``model.score=dot`` also changes a model that a preset names.

    Args:
        values: the raw settings.
        change: the key and its new value.
        example: an example of a change, for the message.
    """
    key, equals, text = change.partition("=")
    if not equals or not key:
        raise SettingsError(f"{change[:SHOWN]}: expected KEY=VALUE, for example {example}")
    try:
        value = load_yaml(text)
    except ValueError as error:
        raise SettingsError(f"{key[:SHOWN]}: {shown(text)} is not a YAML value: {error}") from None
    *groups, last = key.split(".")
    for depth, group in enumerate(groups):
        inner = values.setdefault(group, {})
        if isinstance(inner, str) and (depth, group) == (0, "model"):
            inner = values[group] = {"preset": inner}
        if not isinstance(inner, dict):
            raise SettingsError(f"{change[:SHOWN]}: {group} holds a value, not a group of settings")
        values = inner
    values[last] = value
