"""Checking of answers to exercises, as in page/src/lab/exercise.ts in the browser."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from uwaga.child_processes import python_command
from uwaga.errors import SettingsError
from uwaga_course import program as program_module
from uwaga_course.exercises import (
    ChoiceExercise,
    CodeExercise,
    Exercise,
    NumberExercise,
    OrderExercise,
    TableExercise,
)
from uwaga_course.messages import message_text
from uwaga_course.numbers import UnclearNumberError, read_number
from uwaga_course.program import MARK

TIME_LIMIT_SECONDS = 60
"""Time limit for running a program and its tests."""
MAX_OUTPUT_CHARACTERS = 4000
"""Maximum number of characters that are shown of a program's output, counted from its end."""
SEPARATORS = ",;()"
"""Characters that people write between numbers and around rows; a comma may also be part of a number."""


@dataclass(frozen=True)
class Verdict:
    """The verdict on an answer.

    Attributes:
        right: whether the answer is right.
        remark: a comment on a wrong answer, or an explanation of why a right answer is right.
        output: the output of a program.
    """

    right: bool
    remark: str
    output: str = ""


def check(exercise: Exercise, answer: Sequence[str], language: str = "en") -> Verdict:
    """Return the verdict on an answer.

    Args:
        exercise: the exercise, in any language.
        answer: command-line arguments: a number; the numbers of a table, row by row; the number of an
            option, from 1; the numbers of the items in :func:`alphabetical_items`, from 1, in the right
            order; or the name of a Python file. :mod:`uwaga_course.numbers` defines how numbers are written.
        language: the language of error messages, and of the verdict on a program that cannot be run.
    """
    if isinstance(exercise, NumberExercise):
        return _check_numbers(exercise, [_parse_number(" ".join(answer), language)], language)
    if isinstance(exercise, TableExercise):
        count = len(exercise.rows) * len(exercise.columns)
        words = [word.strip(SEPARATORS) for word in answer]
        if len(words) != count:
            words = re.findall(rf"[^\s{SEPARATORS}](?:,?[^\s{SEPARATORS}])*", " ".join(answer))
        if len(words) != count:
            raise SettingsError(message_text("numbers", language, count=count, given=len(words)))
        return _check_numbers(exercise, [_parse_number(word, language) for word in words], language)
    if isinstance(exercise, ChoiceExercise):
        option = exercise.options[_item_indexes(answer, 1, len(exercise.options), language)[0]]
        return _right_verdict(exercise) if option.remark is None else Verdict(False, option.remark)
    if isinstance(exercise, OrderExercise):
        items = alphabetical_items(exercise)
        indexes = _item_indexes(answer, len(items), len(items), language)
        return _check_order(exercise, [items[index] for index in indexes])
    if len(answer) != 1:
        raise SettingsError(message_text("file", language))
    try:
        program = Path(answer[0]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(message_text("unreadable", language, file=answer[0], error=error)) from None
    return check_program(exercise, program, language)


def alphabetical_items(exercise: OrderExercise) -> list[str]:
    """Return the items in alphabetical order, the order in which they are shown."""
    return sorted(exercise.items)


def check_program(exercise: CodeExercise, program: str, language: str = "en") -> Verdict:
    """Return the verdict on a program, which is run with the tests of an exercise in a child process."""
    task = json.dumps({"program": program, "tests": exercise.tests})
    try:
        process = subprocess.run(  # noqa: S603 (the reader's own program, with the reader's own Python)
            python_command(program_module.__file__),
            input=task.encode(),
            capture_output=True,
            timeout=TIME_LIMIT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Verdict(False, message_text("long", language, seconds=TIME_LIMIT_SECONDS))
    printed_text, mark, verdict = process.stdout.decode(errors="replace").rpartition(f"\n{MARK}")
    if not mark:
        return Verdict(
            False,
            message_text("ended", language, status=process.returncode),
            verdict[-MAX_OUTPUT_CHARACTERS:],
        )
    return describe(exercise, json.loads(verdict), printed_text[-MAX_OUTPUT_CHARACTERS:], language)


def describe(exercise: CodeExercise, outcome: dict[str, str | int], output: str, language: str) -> Verdict:
    """Return an outcome of :func:`uwaga_course.program.judge` as a verdict in the given language."""
    kind, text, line = outcome["kind"], str(outcome["text"]), outcome["line"]
    if kind == "right":
        return Verdict(True, exercise.because or "", output)
    if kind == "remark":
        return Verdict(False, exercise.messages.get(text, text), output)
    if kind == "ended":
        return Verdict(False, message_text("ended", language, status=text), output)
    key = "line" if line else "in tests"
    return Verdict(False, message_text(key, language, line=line, error=text), output)


def _right_verdict(exercise: Exercise) -> Verdict:
    return Verdict(True, exercise.because or "")


def _check_numbers(
    exercise: NumberExercise | TableExercise, answer: Sequence[float], language: str
) -> Verdict:
    """Return the verdict on a number, or on the cells of a table.

    A likely mistake is recognised by the cells in which it differs from the right answer; other cells may be
    wrong too. If several mistakes are recognised, the remark is about the mistake with the most cells.
    """

    def is_near(index: int, value: float) -> bool:
        return abs(answer[index] - value) <= exercise.tolerance

    right_values = _cells(exercise.answer)
    if all(is_near(index, value) for index, value in enumerate(right_values)):
        return _right_verdict(exercise)
    most_changed, remark = 0, exercise.otherwise
    for mistake in exercise.wrong:
        wrong_values = _cells(mistake.answer)
        changed_indices = [index for index, value in enumerate(wrong_values) if value != right_values[index]]
        if len(changed_indices) > most_changed and all(
            is_near(index, wrong_values[index]) for index in changed_indices
        ):
            most_changed, remark = len(changed_indices), mistake.remark
    if not most_changed and all(
        is_near(index, value) or _is_rounded(answer[index], value) for index, value in enumerate(right_values)
    ):
        remark = message_text("rounded", language)
    return Verdict(False, remark)


def _cells(answer: float | list[list[float]]) -> list[float]:
    return list(chain.from_iterable(answer)) if isinstance(answer, list) else [answer]


def _is_rounded(number: float, value: float) -> bool:
    """Return whether a number is a value of three or more digits rounded to one or two digits."""
    one_digit, two_digits = (float(f"{value:.{digits}g}") for digits in (1, 2))
    return not value.is_integer() and two_digits != value and number in (one_digit, two_digits)


def _check_order(exercise: OrderExercise, answer: list[str]) -> Verdict:
    if answer == exercise.items:
        return _right_verdict(exercise)
    for mistake in exercise.wrong:
        if answer == mistake.answer:
            return Verdict(False, mistake.remark)
    return Verdict(False, exercise.otherwise)


def _parse_number(word: str, language: str) -> float:
    if not word.strip():
        raise SettingsError(message_text("number", language))
    try:
        return read_number(word)
    except UnclearNumberError as error:
        if error.readings:
            first_reading, second_reading = error.readings
            raise SettingsError(
                message_text("two numbers", language, text=word, first=first_reading, second=second_reading)
            ) from None
        raise SettingsError(message_text("not a number", language, text=word)) from None


def _item_indexes(answer: Sequence[str], count: int, limit: int, language: str) -> list[int]:
    error = SettingsError(message_text("option" if count == 1 else "order", language, limit=limit))
    words = re.findall(rf"[^\s.{SEPARATORS}]+", " ".join(answer))
    if len(words) != count or not all(word.isdecimal() and 1 <= int(word) <= limit for word in words):
        raise error
    indexes = [int(word) - 1 for word in words]
    if len(set(indexes)) < count:
        raise error
    return indexes
