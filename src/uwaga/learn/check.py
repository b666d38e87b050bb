"""Checks of answers to exercises; page/src/exercise.ts does the same in a page."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from uwaga.child_processes import python_command
from uwaga.errors import SettingsError
from uwaga.learn.exercises import (
    ChoiceExercise,
    CodeExercise,
    Exercise,
    NumberExercise,
    OrderExercise,
    TableExercise,
)

SECONDS = 60
"""Limit of the time that the tests of a program take."""


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
        answer: words: a number; the numbers of a table row by row; the number of an option from 1; the
            numbers of the items, as :func:`shuffled` lists them from 1, in their right order; the name of a
            file of Python.
    """
    if isinstance(exercise, NumberExercise):
        return _check_number(exercise, _numbers(answer, 1, "a number")[0])
    if isinstance(exercise, TableExercise):
        width = len(exercise.columns)
        cells = _numbers(answer, len(exercise.rows) * width, "the numbers of the table, row by row")
        return _check_table(exercise, [cells[at : at + width] for at in range(0, len(cells), width)])
    if isinstance(exercise, ChoiceExercise):
        chosen = exercise.options[_places(answer, 1, len(exercise.options))[0]]
        return RIGHT if chosen.remark is None else Verdict(False, chosen.remark)
    if isinstance(exercise, OrderExercise):
        items = shuffled(exercise)
        return _check_order(exercise, [items[at] for at in _places(answer, len(items), len(items))])
    if len(answer) != 1:
        raise SettingsError("give the name of one file of Python")
    try:
        program = Path(answer[0]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{answer[0]}: cannot be read: {error}") from None
    return check_program(exercise, program)


def shuffled(exercise: OrderExercise) -> list[str]:
    """Return the items in the order in which they are shown: of the alphabet."""
    return sorted(exercise.items)


def check_program(exercise: CodeExercise, program: str) -> Verdict:
    """Run a program and the tests of an exercise after it, in a process of its own."""
    code = f"{program}\n\n{exercise.tests}\n"
    try:
        done = subprocess.run(  # noqa: S603 (the reader's own program, with the reader's own Python)
            python_command("-c", code), capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return Verdict(False, f"It runs for more than {SECONDS} seconds.")
    if done.returncode == 0:
        return RIGHT
    lines = done.stderr.strip().splitlines()
    last = lines[-1] if lines else f"It ends with status {done.returncode}."
    return Verdict(False, last.removeprefix("AssertionError: "))


def _check_number(exercise: NumberExercise, answer: float) -> Verdict:
    if abs(answer - exercise.answer) <= exercise.tolerance:
        return RIGHT
    for one in exercise.wrong:
        if abs(answer - one.answer) <= exercise.tolerance:
            return Verdict(False, one.remark)
    return Verdict(False, exercise.otherwise)


def _check_table(exercise: TableExercise, answer: list[list[float]]) -> Verdict:
    def equal(wanted: list[list[float]]) -> bool:
        pairs = zip(chain.from_iterable(answer), chain.from_iterable(wanted), strict=True)
        return all(abs(one - other) <= exercise.tolerance for one, other in pairs)

    if equal(exercise.answer):
        return RIGHT
    for one in exercise.wrong:
        if equal(one.answer):
            return Verdict(False, one.remark)
    return Verdict(False, exercise.otherwise)


def _check_order(exercise: OrderExercise, answer: list[str]) -> Verdict:
    if answer == exercise.items:
        return RIGHT
    for one in exercise.wrong:
        if answer == one.answer:
            return Verdict(False, one.remark)
    return Verdict(False, exercise.otherwise)


def _numbers(answer: Sequence[str], count: int, what: str) -> list[float]:
    try:
        found = [float(word.replace(",", ".")) for word in answer]
    except ValueError as error:
        raise SettingsError(f"give {what}: {error}") from None
    if len(found) != count:
        raise SettingsError(f"give {what}: {count} of them, not {len(found)}")
    return found


def _places(answer: Sequence[str], count: int, most: int) -> list[int]:
    wrong = SettingsError(
        f"give {'the number of an option' if count == 1 else 'all items once'}, 1 to {most}"
    )
    if len(answer) != count or not all(word.isdecimal() and 1 <= int(word) <= most for word in answer):
        raise wrong
    places = [int(word) - 1 for word in answer]
    if len(set(places)) < count:
        raise wrong
    return places
