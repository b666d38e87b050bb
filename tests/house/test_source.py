"""The laws of the source: circles of imports and private names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
COMPILED = "uwaga.engine._core"


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of the package by its full name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return found


def imports(tree: ast.Module) -> set[str]:
    """The modules of uwaga that a module names in its imports, those inside functions too."""
    known, found = modules().keys() | {COMPILED}, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports name the whole path"
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= whole & known
            if whole - known:
                found.add(str(node.module))
    return found & known


def circles(graph: dict[str, set[str]]) -> list[set[str]]:
    """The sets of nodes that reach each other (Tarjan 1972)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        path.append(node)
        for other in sorted(graph.get(node, ())):
            if other not in number:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in path:
                low[node] = min(low[node], number[other])
        if low[node] == number[node]:
            together = set(path[path.index(node) :])
            del path[path.index(node) :]
            if len(together) > 1 or node in graph.get(node, ()):
                found.append(together)

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return found


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": {"e"}, "e": set(), "f": {"f", "a"}}
    assert sorted(map(sorted, circles(graph))) == [["b", "c"], ["f"]]


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {name: imports(tree) for name, tree in modules().items()}
    assert sum(map(len, graph.values())) > 500
    assert not [" ↔ ".join(sorted(one)) for one in circles(graph)]


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def own_names(tree: ast.Module) -> set[str]:
    """The private names that a module gives to functions, classes, variables and members."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return {name for name in found if private(name)}


def borrowed(tree: ast.Module, anywhere: set[str]) -> Iterator[str]:
    """Private names of other modules of uwaga that a module imports or reads; a class's are its heirs'."""
    own = own_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "uwaga":
            for alias in node.names:
                if private(alias.name) and f"{node.module}.{alias.name}" != COMPILED:
                    yield f"{node.module}.{alias.name}"
        elif (
            isinstance(node, ast.Attribute)
            and node.attr in anywhere - own
            and ast.unparse(node.value) not in ("self", "cls", "super()")
        ):
            yield ast.unparse(node)


def test_private_names_stay_in_their_module() -> None:
    anywhere = set().union(*map(own_names, modules().values()))
    assert not [f"{name}: {one}" for name, tree in modules().items() for one in borrowed(tree, anywhere)]


def test_files_are_replaced_by_uwaga_files_alone() -> None:
    """``os.replace`` is part of atomic writes."""
    places = [
        f"{name}:{node.lineno}"
        for name, tree in modules().items()
        if not name.startswith("uwaga.files.")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) in ("os.replace", "os.rename")
    ]
    assert not places
