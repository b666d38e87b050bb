"""The core of the toolkit is eight short files, which docs/architecture.md lists in reading order."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src/uwaga"
PAGE = ROOT / "docs/architecture.md"
CORE = (
    "models/layers/attention.py", "models/layers/multihead.py", "models/blocks.py", "models/transformer.py",
    "search/search.py", "search/beam_batch.py", "training/step.py", "training/train.py",
)  # fmt: skip
MAX_LINES = 2500
MAX_TRANSFORMER_LINES = 260
FEATURES = re.compile(r"phrase|bank|draft(?!er)|alignment|coverage", re.IGNORECASE)


def test_core_files_stay_within_line_limits() -> None:
    lines = {file: len((SOURCE / file).read_text("utf-8").splitlines()) for file in CORE}
    assert sum(lines.values()) <= MAX_LINES, lines
    assert lines["models/transformer.py"] <= MAX_TRANSFORMER_LINES


@pytest.mark.parametrize("file", CORE)
def test_core_docstrings_state_what_is_unusual_and_out_of_scope(file: str) -> None:
    docstring = ast.get_docstring(ast.parse((SOURCE / file).read_text("utf-8"))) or ""
    assert re.search(r"^Unusual: ", docstring, re.MULTILINE)
    assert "This file does not depend on" in " ".join(docstring.split())


def test_documentation_lists_core_files_in_reading_order() -> None:
    [section] = re.findall(r"^## Read the code\n(.*?)^## ", PAGE.read_text("utf-8"), re.M | re.S)
    assert tuple(re.findall(r"^\| `([\w/]+\.py)`", section, re.MULTILINE)) == CORE


def test_search_module_does_not_refer_to_optional_features() -> None:
    tree = ast.parse((SOURCE / "search/search.py").read_text("utf-8"))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not {name for name in names if FEATURES.search(name)}


def test_search_functions_have_few_parameters() -> None:
    for file in (SOURCE / "search").glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef):
                arguments = node.args
                names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
                count = len([name for name in names if name.arg not in ("self", "cls")])
                assert count < 8, f"{file.name}: {node.name} has {count} parameters"
