"""The laws of the source: private names, options in one place, first words of docstrings, retired names.

The import contracts of pyproject.toml hold the rest: layers, circles, where each library is used.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from uwaga.search import SearchOptions
from uwaga.settings import LoadOptions
from uwaga.translator import Request

SOURCE = Path(__file__).parents[2] / "src"
COMPILED = "uwaga.engine._core"
MOST = 4
WIRE = ("uwaga.server.dialects.", "uwaga.server.mcp.schema")
"""Bodies of requests, which convert to a Request in one function."""
FORMATS = {"DecodingSettings", "ModelSettings", "BeamRules"}
"""Schemas of settings files, and what the native engine is told of a search."""
BEGINNINGS = re.compile(r"(What|Whether|Who|Whose|Whence|Those|Such|Likewise|As what|How far)\b")
"""First words that hide a sentence's subject."""
STARTS = re.compile(
    r"subprocess\.(run|Popen|call|check_call|check_output|getoutput)|multiprocessing\.\w+|ray\.init|Supervisor"
    r"|os\.(system|popen|spawn\w+|exec\w+|posix_spawn\w*)|asyncio\.create_subprocess_\w+|ProcessPoolExecutor"
)
"""Calls that start processes."""
RETIRED = {
    *("Atlas", "Bench", "Claimant", "Gate", "Hop", "Identity", "Judges", "KeptStores", "KnownTargets"),
    *("Leg", "LinesOptions", "Offer", "PivotOptions", "PivotTranslator", "Places", "Problem", "TextPath"),
    *("TextRequest", "Toll", "Trained", "UsualScore", "Visit"),
}
"""Private metaphors and second versions of one thing, each replaced by a term of the field."""
RETIRED_MODULES = {
    *("admission", "alike", "by_language", "collected_batch", "dealing", "decoding", "doubts", "exchange"),
    *("guards", "here", "isolated", "kept", "kinds", "lifting", "marked", "muted", "named", "nesting"),
    *("notices", "placing", "plausible", "shared_decoder", "shelf", "synthetic", "usual", "whence"),
}


@cache
def modules() -> dict[str, list[ast.AST]]:
    """The nodes of every module of the package, by its full name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))))
    assert len(found) > 300
    return found


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for name, nodes in modules().items():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                yield name, node


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def own_names(nodes: list[ast.AST]) -> set[str]:
    """The private names that a module gives to functions, classes, variables and members."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
    return {name for name in found if private(name)}


def borrowed(nodes: list[ast.AST], foreign: set[str]) -> Iterator[str]:
    """Private names of other modules of uwaga that a module imports or reads; a class's are its heirs'."""
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "uwaga":
            for alias in node.names:
                if private(alias.name) and f"{node.module}.{alias.name}" != COMPILED:
                    yield f"{node.module}.{alias.name}"
        elif (
            isinstance(node, ast.Attribute)
            and node.attr in foreign
            and ast.unparse(node.value) not in ("self", "cls", "super()")
        ):
            yield ast.unparse(node)


def test_private_names_stay_in_their_module() -> None:
    own = {name: own_names(nodes) for name, nodes in modules().items()}
    anywhere = set().union(*own.values())
    assert not [
        f"{name}: {one}" for name, nodes in modules().items() for one in borrowed(nodes, anywhere - own[name])
    ]


def test_files_are_replaced_by_uwaga_files_alone() -> None:
    """``os.replace`` is part of atomic writes."""
    assert not [
        f"{name}:{node.lineno}"
        for name, nodes in modules().items()
        if not name.startswith("uwaga.files.")
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr in ("replace", "rename")
        if ast.unparse(node.value) == "os"
    ]


def test_children_of_python_import_nothing_from_the_current_folder() -> None:
    """Each module that starts processes starts them by :mod:`uwaga.child_processes`; one starts git alone."""
    safe = {"uwaga.child_processes", "uwaga.cli.version"}
    assert not [
        f"{name}:{node.lineno}: {ast.unparse(node)[:60]}"
        for name, nodes in modules().items()
        if name not in safe and not imports_from(nodes, "uwaga.child_processes")
        for node in nodes
        if isinstance(node, ast.Call) and STARTS.fullmatch(ast.unparse(node.func))
    ]
    assert not [
        f"{name}:{node.lineno}"
        for name, nodes in modules().items()
        if name not in safe
        for node in nodes
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable"
    ]


def imports_from(nodes: list[ast.AST], module: str) -> bool:
    return any(isinstance(node, ast.ImportFrom) and node.module == module for node in nodes)


@pytest.mark.parametrize("record", [SearchOptions, LoadOptions, Request])
def test_no_other_class_repeats_the_fields(record: type) -> None:
    names = {field.name for field in dataclasses.fields(record)}  # type: ignore[arg-type]
    repeated = []
    for name, node in classes():
        if not name.startswith(WIRE) and node.name not in {record.__name__, *FORMATS}:
            fields = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
            own = {field.id for field in fields if isinstance(field, ast.Name)} & names
            if len(own) > MOST:
                repeated.append(f"{name}: {node.name} repeats {', '.join(sorted(own))}")
    assert not repeated


def test_docstrings_begin_with_an_imperative_or_a_noun_phrase() -> None:
    assert not [
        f"{name}: {getattr(node, 'name', '')}: {docstring.splitlines()[0]}"
        for name, nodes in modules().items()
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if BEGINNINGS.match(docstring := ast.get_docstring(node) or "")
    ]


def test_retired_names_do_not_come_back() -> None:
    assert not [name for name in modules() if RETIRED_MODULES & {*name.split(".")}]
    assert not [f"{name}: {node.name}" for name, node in classes() if node.name in RETIRED]


def test_no_possessive_quantifier_follows_a_group() -> None:
    """Python before 3.11.5, as that of Debian 12, matches too much (gh-106052); ``(?>(?:...)*)`` is right."""
    possessive = re.compile(r"\)(?:[*+?]|\{+\d*,?\d*\}+)\+")
    library = SOURCE / "uwaga/checkpoints/formats/gguf/tokeniser.py"  # patterns of `tokenizers`
    paths = [path for path in SOURCE.rglob("*.py") if path != library]
    assert [str(path) for path in paths if possessive.search(path.read_text(encoding="utf-8"))] == []
