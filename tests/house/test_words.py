"""Docstrings begin with an imperative or a noun phrase, and retired names do not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
BEGINNINGS = re.compile(r"(What|Whether|Who|Whose|Whence|Those|Such|Likewise|As what|How far)\b")
"""First words that hide a sentence's subject."""
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


def documented() -> Iterator[tuple[str, str, str]]:
    """Yield the file, the name and the docstring of everything that has one."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = ast.get_docstring(node)
                if docstring:
                    yield str(path.relative_to(SOURCE)), getattr(node, "name", ""), docstring


def test_docstrings_begin_with_an_imperative_or_a_noun_phrase() -> None:
    assert not [
        f"{file}: {name}: {docstring.splitlines()[0]}"
        for file, name, docstring in documented()
        if BEGINNINGS.match(docstring)
    ]


def test_retired_names_do_not_come_back() -> None:
    for path in sorted(SOURCE.rglob("*.py")):
        parts = set(path.relative_to(SOURCE).with_suffix("").parts)
        assert not parts & RETIRED_MODULES, path
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                assert node.name not in RETIRED, f"{path}: {node.name}"
