"""Registries of named implementations, and the plugins that add to them.

A plugin is a Python file or module that adds implementations to registries when it is imported. Plugins are
named only by the user: on the command line, in the environment, or in a settings file, never in a model
folder.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from uwaga.errors import SettingsError, quoted

PLUGINS_VARIABLE = "UWAGA_PLUGINS"
"""The environment variable that names the plugins of a process and of its child processes."""

T = TypeVar("T")
Value = TypeVar("Value")


class Registry(Mapping[str, T]):
    """The implementations of one kind of object by name, imported on first use.

    Implementations added by plugins come first, then those of uwaga, then the entry points of installed
    packages.

    Args:
        kind: the noun that messages use for an implementation, such as "metric".
        group: the group of entry points.
        table: the implementations of uwaga, as ``module:attribute`` by name; those whose package is not
            installed are ignored.
    """

    def __init__(self, kind: str, group: str, table: Mapping[str, str] | None = None) -> None:
        self.kind, self._group = kind, group
        self._table = {name: target for name, target in (table or {}).items() if _is_installed(target)}
        self._added: dict[str, T] = {}
        self._imported: dict[str, T] = {}

    def register(self, name: str) -> Callable[[Value], Value]:
        """Return a decorator that adds a class or function under a name, replacing any earlier one."""

        def add(value: Value) -> Value:
            self._added[name] = value  # type: ignore[assignment]
            return value

        return add

    def __getitem__(self, name: str) -> T:
        _load_environment_plugins()
        if name in self._added:
            return self._added[name]
        if name not in self._imported:
            target = self._table[name] if name in self._table else self._entry_points[name]
            module, _, attribute = target.partition(":")
            self._imported[name] = getattr(importlib.import_module(module), attribute)
        return self._imported[name]

    def __iter__(self) -> Iterator[str]:
        _load_environment_plugins()
        yield from self._added
        yield from (name for name in self._table if name not in self._added)
        yield from (
            name for name in self._entry_points if name not in self._added and name not in self._table
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return any(name == registered_name for registered_name in self)

    def find(self, name: str) -> T:
        """Return the implementation registered under a name.

        Raises:
            SettingsError: as in :meth:`check`.
        """
        self.check(name)
        return self[name]

    def check(self, name: str) -> None:
        """Check that a name is registered, without importing the implementation.

        Raises:
            SettingsError: the name is not registered; the message lists all names and suggests the most
                similar.
        """
        if name in self:
            return
        matches = difflib.get_close_matches(str(name)[:80], list(self), n=1, cutoff=0.5)
        hint = f"did you mean {matches[0]!r}? " if matches else ""
        names = ", ".join(sorted(self))
        raise SettingsError(
            f"no {self.kind} is named {quoted(name)}; {hint}available: {names}. If a plugin adds it, name "
            f"the plugin with `uwaga --plugin FILE`, {PLUGINS_VARIABLE} or `plugins` in the settings"
        )

    @cached_property
    def _entry_points(self) -> Mapping[str, str]:
        """The entry points of the group, cached: reading the metadata of all packages takes milliseconds."""
        from importlib.metadata import entry_points

        return {entry_point.name: entry_point.value for entry_point in entry_points(group=self._group)}


def load_listed_plugins(values: Mapping[str, object], location: str) -> None:
    """Load the ``plugins`` of a user's settings file, before the other values are checked.

    Raises:
        SettingsError: as in :func:`load_plugins`, or ``plugins`` is not a list of names.
    """
    names = values.get("plugins", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SettingsError(
            f"{location}: plugins must be a list of Python files, such as [myscore.py], not {quoted(names)}"
        )
    load_plugins(names)


def load_plugins(names: Iterable[str | Path]) -> None:
    """Import each plugin once, and add the plugins to the environment variable for child processes.

    Args:
        names: Python files, which end in ``.py``, or names of modules.

    Raises:
        SettingsError: a plugin does not exist or raises an error; the message gives the line number.
    """
    paths = [str(Path(name).resolve()) if str(name).endswith(".py") else str(name) for name in names]
    for path in paths:
        if path not in _loaded_plugins:
            _import_plugin(path)
    os.environ[PLUGINS_VARIABLE] = os.pathsep.join(dict.fromkeys([*_environment_plugins(), *paths]))


_loaded_plugins: set[str] = set()


def _import_plugin(path: str) -> None:
    if path.endswith(".py") and not Path(path).is_file():
        raise SettingsError(f"plugin {path}: no such file")
    _loaded_plugins.add(path)  # before the plugin uses a registry, which would import it again
    try:
        if path.endswith(".py"):
            _import_file(path)
        else:
            importlib.import_module(path)
    except Exception as error:
        _loaded_plugins.discard(path)
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
        line = f", line {frames[-1].lineno}" if frames else ""
        raise SettingsError(f"plugin {path}{line}: {type(error).__name__}: {error}") from error


def _import_file(path: str) -> None:
    name = f"uwaga_plugin_{len(_loaded_plugins)}_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def _environment_plugins() -> list[str]:
    return [path for path in os.environ.get(PLUGINS_VARIABLE, "").split(os.pathsep) if path]


def _load_environment_plugins() -> None:
    for path in _environment_plugins():
        if path not in _loaded_plugins:
            load_plugins([path])


def _is_installed(target: str) -> bool:
    """Return whether the package that contains ``module:attribute`` is installed."""
    return importlib.util.find_spec(target.partition(":")[0].partition(".")[0]) is not None
