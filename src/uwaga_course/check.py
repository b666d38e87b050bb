"""Check answers to exercises, like page/src/exercise.ts in the browser."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from uwaga.child_processes import python_command
from uwaga.errors import SettingsError
from uwaga_course.exercises import (
    ChoiceExercise,
    CodeExercise,
    Exercise,
    NumberExercise,
    OrderExercise,
    TableExercise,
)

TIME_LIMIT_SECONDS = 60
"""Time limit for the tests of a program."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on an answer: whether it is right, and the remark."""

    right: bool
    remark: str


RIGHT = Verdict(True, "Right.")


def check(exercise: Exercise, answer: Sequence[str]) -> Verdict:
    """Return the verdict on an answer.

    Args:
        exercise: the exercise.
        answer: command line arguments: a number; the numbers of a table, row by row; the number of an
            option, from 1; the numbers of the items that :func:`shuffled` lists, from 1, in the right
            order; or the name of a Python file.
    """
    if isinstance(exercise, NumberExercise):
        return _check_number(exercise, _numbers(answer, 1, "a number")[0])
    if isinstance(exercise, TableExercise):
        width = len(exercise.columns)
        cells = _numbers(answer, len(exercise.rows) * width, "the numbers of the table, row by row")
        return _check_table(exercise, [cells[start : start + width] for start in range(0, len(cells), width)])
    if isinstance(exercise, ChoiceExercise):
        option = exercise.options[_item_indexes(answer, 1, len(exercise.options))[0]]
        return RIGHT if option.remark is None else Verdict(False, option.remark)
    if isinstance(exercise, OrderExercise):
        items = shuffled(exercise)
        return _check_order(
            exercise, [items[index] for index in _item_indexes(answer, len(items), len(items))]
        )
    if len(answer) != 1:
        raise SettingsError("give the name of one file of Python")
    try:
        program = Path(answer[0]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{answer[0]}: cannot be read: {error}") from None
    return check_program(exercise, program)


def shuffled(exercise: OrderExercise) -> list[str]:
    """Return the items in alphabetical order, in which they are shown."""
    return sorted(exercise.items)


def check_program(exercise: CodeExercise, program: str) -> Verdict:
    """Run a program, followed by the tests of an exercise, in a child process."""
    code = f"{program}\n\n{exercise.tests}\n"
    try:
        process = subprocess.run(  # noqa: S603 (the reader's own program, with the reader's own Python)
            python_command("-c", code),
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Verdict(False, f"It runs for more than {TIME_LIMIT_SECONDS} seconds.")
    if process.returncode == 0:
        return RIGHT
    lines = process.stderr.strip().splitlines()
    last = lines[-1] if lines else f"It ends with status {process.returncode}."
    return Verdict(False, last.removeprefix("AssertionError: "))


def _check_number(exercise: NumberExercise, answer: float) -> Verdict:
    if abs(answer - exercise.answer) <= exercise.tolerance:
        return RIGHT
    for mistake in exercise.wrong:
        if abs(answer - mistake.answer) <= exercise.tolerance:
            return Verdict(False, mistake.remark)
    return Verdict(False, exercise.otherwise)


def _check_table(exercise: TableExercise, answer: list[list[float]]) -> Verdict:
    def equal(expected: list[list[float]]) -> bool:
        pairs = zip(chain.from_iterable(answer), chain.from_iterable(expected), strict=True)
        return all(abs(cell - expected_cell) <= exercise.tolerance for cell, expected_cell in pairs)

    if equal(exercise.answer):
        return RIGHT
    for mistake in exercise.wrong:
        if equal(mistake.answer):
            return Verdict(False, mistake.remark)
    return Verdict(False, exercise.otherwise)


def _check_order(exercise: OrderExercise, answer: list[str]) -> Verdict:
    if answer == exercise.items:
        return RIGHT
    for mistake in exercise.wrong:
        if answer == mistake.answer:
            return Verdict(False, mistake.remark)
    return Verdict(False, exercise.otherwise)


def _numbers(answer: Sequence[str], count: int, description: str) -> list[float]:
    try:
        numbers = [float(word.replace(",", ".")) for word in answer]
    except ValueError as error:
        raise SettingsError(f"give {description}: {error}") from None
    if len(numbers) != count:
        raise SettingsError(f"give {description}: {count} of them, not {len(numbers)}")
    return numbers


def _item_indexes(answer: Sequence[str], count: int, limit: int) -> list[int]:
    error = SettingsError(
        f"give {'the number of an option' if count == 1 else 'all items once'}, 1 to {limit}"
    )
    if len(answer) != count or not all(word.isdecimal() and 1 <= int(word) <= limit for word in answer):
        raise error
    indexes = [int(word) - 1 for word in answer]
    if len(set(indexes)) < count:
        raise error
    return indexes
