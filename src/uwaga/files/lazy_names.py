"""Lazy imports of the names of a package (PEP 562)."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def lazy_names(package: str, file: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return ``__getattr__``, ``__dir__`` and ``__all__`` for a package that imports its names on first use.

    The stub ``__init__.pyi`` lists the names, both for this function and for type checkers.

    Args:
        package: the package's ``__name__``.
        file: the package's ``__file__``; the stub is in the same folder.
    """
    stub = ast.parse(Path(file).with_suffix(".pyi").read_bytes())
    modules = {
        alias.name: str(line.module)
        for line in stub.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }
    names = sorted(modules)

    def get(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name]), name)

    return get, names.copy, names
