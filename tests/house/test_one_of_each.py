"""Options have one home: the fields of SearchOptions, LoadOptions and Request."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import pytest

from uwaga.search import SearchOptions
from uwaga.settings import LoadOptions
from uwaga.translator import Request

SOURCE = Path(__file__).parents[2] / "src/uwaga"
MOST = 4
WIRE = ("server/dialects/",)
"""Bodies of requests, which convert to a Request in one function."""
FORMATS = {"DecodingSettings", "ModelSettings", "BeamRules"}
"""Schemas of settings files, and what the native engine is told of a search."""


@pytest.mark.parametrize("record", [SearchOptions, LoadOptions, Request])
def test_no_other_class_repeats_the_fields(record: type) -> None:
    names = {field.name for field in dataclasses.fields(record)}  # type: ignore[arg-type]
    repeated = []
    for path in SOURCE.rglob("*.py"):
        where = path.relative_to(SOURCE).as_posix()
        if where.startswith(WIRE):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef) and node.name not in {record.__name__, *FORMATS}:
                fields = [item.target for item in node.body if isinstance(item, ast.AnnAssign)]
                own = {field.id for field in fields if isinstance(field, ast.Name)} & names
                if len(own) > MOST:
                    repeated.append(f"{where}: {node.name} repeats {', '.join(sorted(own))}")
    assert not repeated
