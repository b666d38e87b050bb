"""Rules for the source code: private names, options, docstrings, retired names, number of parameters.

The import contracts of pyproject.toml hold the rest: layers, circles, where each library is used.
"""

import ast
import dataclasses
import gc
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
MAX_REPEATED_FIELDS = 4
MAX_PARAMETERS = 7
MAX_ZIPS = 25
"""Maximum number of calls of ``zip`` in the translator, where a list of records would be clearer."""
WIRE_SCHEMAS = ("uwaga_server.dialects.", "uwaga_server.mcp.schema")
"""Schemas of request bodies, each of which is converted to a Request in one function."""
CALL_OPTIONS = "uwaga.translator.call_options"
"""Types of keyword arguments; test_typed_calls compares them with the fields of the records."""
SETTINGS_SCHEMAS = {"DecodingSettings", "ModelSettings", "BeamRules"}
"""Schemas of settings files, and the search rules of the native engine."""
UNCLEAR_BEGINNING = re.compile(r"(What|Whether|Who|Whose|Whence|Those|Such|Likewise|As what|How far)\b")
"""First words of docstrings that are neither verbs nor nouns."""
PROCESS_STARTS = re.compile(
    r"subprocess\.(run|Popen|call|check_call|check_output|getoutput)|multiprocessing\.\w+|ray\.init|Supervisor"
    r"|os\.(system|popen|spawn\w+|exec\w+|posix_spawn\w*)|asyncio\.create_subprocess_\w+|ProcessPoolExecutor"
)
"""Calls that start processes."""
RETIRED_CLASSES = {
    *("Atlas", "Bench", "Claimant", "Gate", "Hop", "Identity", "Judges", "KeptStores", "KnownTargets"),
    *("Leg", "LinesOptions", "Offer", "PivotOptions", "PivotTranslator", "Places", "Problem", "TextPath"),
    *("TextRequest", "Toll", "Trained", "UsualScore", "Visit"),
}
"""Former names that were metaphors or duplicates; each is now a standard term."""
RETIRED_MODULES = {
    *("admission", "alike", "by_language", "collected_batch", "dealing", "decoding", "doubts", "exchange"),
    *("guards", "here", "isolated", "kept", "kinds", "lifting", "marked", "muted", "named", "nesting"),
    *("notices", "placing", "plausible", "shared_decoder", "shelf", "synthetic", "usual", "whence"),
}


@cache
def modules() -> dict[str, list[ast.AST]]:
    """Return the syntax nodes of all modules of the package by full name."""
    gc.disable()
    nodes = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        nodes[name] = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))))
    assert len(nodes) > 300
    gc.freeze()
    gc.enable()
    return nodes


def classes() -> Iterator[tuple[str, ast.ClassDef]]:
    for name, nodes in modules().items():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                yield name, node


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_names(nodes: list[ast.AST]) -> set[str]:
    """Return the private names of a module's functions, classes, variables and members."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.attr)
    return {name for name in names if private(name)}


def foreign_private_names(nodes: list[ast.AST], foreign: set[str]) -> Iterator[str]:
    """Yield the private names of other modules that a module uses, except through self and cls."""
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


def test_private_names_are_not_imported_by_other_modules() -> None:
    private_by_module = {name: private_names(nodes) for name, nodes in modules().items()}
    all_private = set().union(*private_by_module.values())
    assert not [
        f"{name}: {private_name}"
        for name, nodes in modules().items()
        for private_name in foreign_private_names(nodes, all_private - private_by_module[name])
    ]


def test_only_uwaga_files_package_calls_os_replace() -> None:
    """``os.replace`` is part of atomic writes."""
    assert not [
        f"{name}:{node.lineno}"
        for name, nodes in modules().items()
        if not name.startswith("uwaga.files.")
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr in ("replace", "rename")
        if ast.unparse(node.value) == "os"
    ]


def test_processes_are_started_safely() -> None:
    """Modules start processes with :mod:`uwaga.child_processes`, except one that starts git."""
    safe = {"uwaga.child_processes", "uwaga.cli.version"}
    assert not [
        f"{name}:{node.lineno}: {ast.unparse(node)[:60]}"
        for name, nodes in modules().items()
        if name not in safe and not imports_from(nodes, "uwaga.child_processes")
        for node in nodes
        if isinstance(node, ast.Call) and PROCESS_STARTS.fullmatch(ast.unparse(node.func))
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
def test_record_fields_are_not_repeated_in_other_classes(record: type) -> None:
    names = {field.name for field in dataclasses.fields(record)}  # type: ignore[arg-type]
    repeated = []
    for name, node in classes():
        if not name.startswith((*WIRE_SCHEMAS, CALL_OPTIONS)) and node.name not in {
            record.__name__,
            *SETTINGS_SCHEMAS,
        }:
            fields = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
            repeated_fields = {field.id for field in fields if isinstance(field, ast.Name)} & names
            if len(repeated_fields) > MAX_REPEATED_FIELDS:
                repeated.append(f"{name}: {node.name} repeats {', '.join(sorted(repeated_fields))}")
    assert not repeated


def test_docstrings_begin_with_an_imperative_or_a_noun_phrase() -> None:
    assert not [
        f"{name}: {getattr(node, 'name', '')}: {docstring.splitlines()[0]}"
        for name, nodes in modules().items()
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if UNCLEAR_BEGINNING.match(docstring := ast.get_docstring(node) or "")
    ]


def test_retired_names_are_not_reused() -> None:
    assert not [name for name in modules() if RETIRED_MODULES & {*name.split(".")}]
    assert not [f"{name}: {node.name}" for name, node in classes() if node.name in RETIRED_CLASSES]


def test_patterns_have_no_possessive_quantifier_after_a_group() -> None:
    """Python before 3.11.5, as in Debian 12, matches too much (gh-106052); use ``(?>(?:...)*)`` instead."""
    possessive = re.compile(r"\)(?:[*+?]|\{+\d*,?\d*\}+)\+")
    library = SOURCE / "uwaga/checkpoints/formats/gguf/tokeniser.py"  # patterns of `tokenizers`
    paths = [path for path in SOURCE.rglob("*.py") if path != library]
    assert [str(path) for path in paths if possessive.search(path.read_text(encoding="utf-8"))] == []


def test_functions_other_than_commands_have_few_parameters() -> None:
    """Commands have a parameter for each option; all other functions take options objects."""
    assert not [
        f"{name}: {node.name} has {count} parameters"
        for name, nodes in modules().items()
        if "cli" not in name.split(".")[-2:]
        for node in nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (count := count_parameters(node.args)) > MAX_PARAMETERS
    ]


def count_parameters(arguments: ast.arguments) -> int:
    """Return the number of parameters except ``self`` and ``cls``."""
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return sum(parameter.arg not in ("self", "cls") for parameter in parameters)


def test_translator_code_zips_few_parallel_lists() -> None:
    files = sorted((SOURCE / "uwaga/translator").rglob("*.py"))
    counts = {path.name: path.read_text("utf-8").count("zip(") for path in files}
    assert sum(counts.values()) <= MAX_ZIPS, counts
