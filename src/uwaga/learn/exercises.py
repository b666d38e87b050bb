"""Exercises in files: one YAML file for each chapter of the course, ``en/03.yaml``.

A file is a mapping of ``exercises``, a list. Texts are Markdown with equations between dollar signs.
"""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from uwaga.errors import SettingsError
from uwaga.settings.parsing import StrictModel, parse
from uwaga.settings.yaml_text import read_yaml

FOLDER = Path(__file__).parent / "en"
Remark = Annotated[str, Field(min_length=1)]


class _Base(StrictModel):
    """The fields of every exercise.

    ``number`` is the chapter and the place in it, such as ``3.1``.
    """

    number: Annotated[str, Field(pattern=r"^\d+\.\d+$")]
    question: str
    hint: str
    solution: str


class WrongNumber(StrictModel):
    """A likely wrong answer and its remark."""

    answer: float
    remark: Remark


class NumberExercise(_Base):
    """A number, right within ``tolerance``; ``otherwise`` is the remark on other wrong answers."""

    kind: Literal["number"]
    answer: float
    tolerance: Annotated[float, Field(ge=0)]
    wrong: list[WrongNumber]
    otherwise: Remark


class WrongTable(StrictModel):
    """Likely wrong cells (rows, columns) and their remark."""

    answer: list[list[float]]
    remark: Remark


class TableExercise(_Base):
    """The cells of a table (rows, columns)."""

    kind: Literal["table"]
    rows: list[str]
    columns: list[str]
    answer: list[list[float]]
    tolerance: Annotated[float, Field(ge=0)]
    wrong: list[WrongTable]
    otherwise: Remark


class Option(StrictModel):
    """A statement to choose: right without a remark, otherwise wrong for the reason of the remark."""

    text: str
    remark: Remark | None = None


class ChoiceExercise(_Base):
    """One of several statements; exactly one is right."""

    kind: Literal["choice"]
    options: list[Option]


class WrongOrder(StrictModel):
    """A likely wrong order and its remark."""

    answer: list[str]
    remark: Remark


class OrderExercise(_Base):
    """Items to put in order; ``items`` are in the right one."""

    kind: Literal["order"]
    items: list[str]
    wrong: list[WrongOrder]
    otherwise: Remark


class WrongCode(StrictModel):
    """Code that fails the tests with the remark."""

    answer: str
    remark: Remark


class CodeExercise(_Base):
    """A function to write: ``start`` is given, and ``tests`` are statements that assert.

    The first failing assertion's message is the remark. ``program`` is a solution that passes.
    """

    kind: Literal["code"]
    start: str
    program: str
    tests: str
    wrong: list[WrongCode]


Exercise = NumberExercise | TableExercise | ChoiceExercise | OrderExercise | CodeExercise


class Chapter(StrictModel):
    """The exercises of a chapter."""

    exercises: list[Annotated[Exercise, Field(discriminator="kind")]]


@cache
def all_exercises() -> dict[str, Exercise]:
    """Return all exercises by their numbers, in the order of the course."""
    found: dict[str, Exercise] = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        for one in parse(Chapter, read_yaml(path), str(path)).exercises:
            found[one.number] = one
    return found


def find_exercise(number: str) -> Exercise:
    """Return the exercise with a number, such as ``3.1``."""
    known = all_exercises()
    if number in known:
        return known[number]
    near = difflib.get_close_matches(number[:20], known, n=1, cutoff=0.3)
    hint = f"did you mean {near[0]}? " if near else ""
    raise SettingsError(f"there is no exercise {number[:20]!r}; {hint}`uwaga learn list` shows all")
