"""Functions have few parameters, and lists few parallels: values that belong together travel as a record."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
MOST_PARAMETERS = 7
MOST_ZIPS = 25
"""Calls of ``zip`` in the translator, each of which joins lists that were one list of records before."""


def long_signatures(path: Path) -> Iterator[str]:
    """Yield the functions of a file that have too many parameters, ``self`` and ``cls`` not counted."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            count = sum(parameter.arg not in ("self", "cls") for parameter in parameters)
            if count > MOST_PARAMETERS:
                yield f"{path.relative_to(SOURCES)}: {node.name} has {count} parameters"


def test_functions_have_few_parameters() -> None:
    """A command has a parameter for each of its options; all other functions get records."""
    files = [path for path in sorted(SOURCES.rglob("*.py")) if "cli" not in (path.parent.name, path.stem)]
    assert [signature for path in files for signature in long_signatures(path)] == []


def test_translator_has_few_parallel_lists() -> None:
    files = sorted((SOURCES / "uwaga/translator").rglob("*.py"))
    counts = {path.name: path.read_text("utf-8").count("zip(") for path in files}
    assert sum(counts.values()) <= MOST_ZIPS, counts
