"""The exercises of the course: one YAML file for each chapter, such as ``en/03.yaml``.

A file is a mapping whose key ``exercises`` has a list of exercises. Texts are Markdown with equations between
dollar signs.
"""

from __future__ import annotations

import ast
import difflib
import re
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from uwaga.errors import SettingsError
from uwaga.settings.parsing import StrictModel, parse
from uwaga.settings.yaml_text import read_yaml
from uwaga_course.messages import message_text

FOLDER = Path(__file__).parent / "en"
Remark = Annotated[str, Field(min_length=1)]


class _BaseExercise(StrictModel):
    """The fields of every exercise.

    ``number`` consists of the number of the chapter and that of the exercise, such as ``3.1``. ``because`` is
    a sentence that explains why the right answer is right.
    """

    number: Annotated[str, Field(pattern=r"^\d+\.\d+$")]
    question: str
    hint: str
    solution: str
    because: Remark | None = None


class WrongNumber(StrictModel):
    """A common wrong answer, and the remark that is shown for it."""

    answer: float
    remark: Remark


class NumberExercise(_BaseExercise):
    """An exercise whose answer is a number, which may differ by at most ``tolerance``.

    ``otherwise`` is the remark on wrong answers that are not in ``wrong``.
    """

    kind: Literal["number"]
    answer: float
    tolerance: Annotated[float, Field(ge=0)]
    wrong: list[WrongNumber]
    otherwise: Remark


class WrongTable(StrictModel):
    """Likely wrong cells (rows, columns) and their remark."""

    answer: list[list[float]]
    remark: Remark


class TableExercise(_BaseExercise):
    """An exercise whose answer is the cells of a table (rows, columns)."""

    kind: Literal["table"]
    rows: list[str]
    columns: list[str]
    answer: list[list[float]]
    tolerance: Annotated[float, Field(ge=0)]
    wrong: list[WrongTable]
    otherwise: Remark


class Option(StrictModel):
    """A statement to choose. It is right if it has no remark; otherwise the remark explains why it
    is wrong.
    """

    text: str
    remark: Remark | None = None


class ChoiceExercise(_BaseExercise):
    """An exercise with several statements, of which exactly one is right."""

    kind: Literal["choice"]
    options: list[Option]


class WrongOrder(StrictModel):
    """A likely wrong order and its remark."""

    answer: list[str]
    remark: Remark


class OrderExercise(_BaseExercise):
    """An exercise whose items are to be sorted; ``items`` lists them in the right order."""

    kind: Literal["order"]
    items: list[str]
    wrong: list[WrongOrder]
    otherwise: Remark


class WrongCode(StrictModel):
    """A wrong program that fails the tests, and its remark."""

    answer: str
    remark: Remark


class CodeExercise(_BaseExercise):
    """An exercise in which a function is to be written.

    ``start`` is the code to complete, and ``program`` is a solution. ``tests`` are statements with
    assertions; the message of the first assertion that fails is the remark. ``messages`` contains these
    remarks in another language.
    """

    kind: Literal["code"]
    start: str
    program: str
    tests: str
    wrong: list[WrongCode]
    messages: dict[str, str] = Field(default_factory=dict)

    @property
    def remarks(self) -> list[str]:
        """The messages of the tests' assertions, without duplicates."""
        assertions = [node for node in ast.walk(ast.parse(self.tests)) if isinstance(node, ast.Assert)]
        assertions.sort(key=lambda node: node.lineno)
        messages = [node.msg.value for node in assertions if isinstance(node.msg, ast.Constant)]
        return list(dict.fromkeys(message for message in messages if isinstance(message, str)))

    @property
    def needs_uwaga(self) -> bool:
        """True if the program or its tests import uwaga, which is not available to Python in the page."""
        python = f"{self.tests}\n{self.program}"
        return re.search(r"^[ \t]*(import|from) uwaga\b", python, re.MULTILINE) is not None


Exercise = NumberExercise | TableExercise | ChoiceExercise | OrderExercise | CodeExercise


class Chapter(StrictModel):
    """The exercises of a chapter."""

    exercises: list[Annotated[Exercise, Field(discriminator="kind")]]


@cache
def all_exercises() -> dict[str, Exercise]:
    """Return all exercises by number, in the order of the course."""
    exercises: dict[str, Exercise] = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        for exercise in parse(Chapter, read_yaml(path), str(path)).exercises:
            exercises[exercise.number] = exercise
    return exercises


def find_exercise(number: str, language: str = "en") -> Exercise:
    """Return the exercise with the given number, such as ``3.1``; error messages are in ``language``."""
    exercises = all_exercises()
    if number in exercises:
        return exercises[number]
    close_matches = difflib.get_close_matches(number[:20], exercises, n=1, cutoff=0.3)
    hint = message_text("close", language, number=close_matches[0]) if close_matches else ""
    raise SettingsError(message_text("no exercise", language, number=number[:20], close=hint))
