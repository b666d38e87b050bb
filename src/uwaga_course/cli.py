"""``uwaga learn``: show and check the exercises of the course."""

from __future__ import annotations

from textwrap import shorten
from typing import TYPE_CHECKING, Annotated

import typer

from uwaga.cli.errors import report_errors
from uwaga.cli.verb import Verb, VerbGroup

if TYPE_CHECKING:
    from uwaga_course import Exercise

learn = typer.Typer(
    name="learn",
    add_completion=False,
    cls=VerbGroup,
    no_args_is_help=True,
    help="Show and check the exercises of the course on attention.\n\n"
    "The course is the first part of the documentation; its pages have the same exercises.\n\n"
    "**Examples**\n\n    uwaga learn list\n\n    uwaga learn show 3.1\n\n    uwaga learn check 3.1 0.438\n\n"
    "    uwaga learn hint 3.1\n\n    uwaga learn solution 3.1",
    context_settings={"help_option_names": ["--help", "-h"]},
)

QUESTION_WIDTH = 90
"""Width of a question in the list."""

Number = Annotated[str, typer.Argument(help="Chapter and exercise, such as 3.1.", metavar="NUMBER")]
Answer = Annotated[
    list[str],
    typer.Argument(
        help="A number; the numbers of a table, row by row; the number of an option; the numbers of the "
        "items in their right order; or a file of Python.",
        metavar="ANSWER...",
    ),
]


def list_all() -> None:
    """List the exercises with the start of each question."""
    from uwaga_course import all_exercises

    for exercise in all_exercises().values():
        typer.echo(f"{exercise.number:5} {shorten(exercise.question, QUESTION_WIDTH, placeholder=' …')}")


def show(number: Number) -> None:
    """Show an exercise.

    **Examples**

        uwaga learn show 3.1
    """
    from uwaga_course import find_exercise

    exercise = find_exercise(number)
    typer.echo(exercise.question.rstrip() + "\n" + _answer_choices(exercise))


def hint(number: Number) -> None:
    """Show the hint of an exercise.

    **Examples**

        uwaga learn hint 3.1
    """
    from uwaga_course import find_exercise

    typer.echo(find_exercise(number).hint.rstrip())


def solution(number: Number) -> None:
    """Show the solution of an exercise.

    **Examples**

        uwaga learn solution 3.1
    """
    from uwaga_course import find_exercise

    typer.echo(find_exercise(number).solution.rstrip())


def check(number: Number, answer: Answer) -> None:
    """Check an answer; exit with status 1 if it is wrong.

    Code is run in a separate process of this Python.

    **Examples**

        uwaga learn check 3.1 0.438

        uwaga learn check 6.4 answer.py
    """
    from uwaga_course import check as check_answer
    from uwaga_course import find_exercise

    verdict = check_answer(find_exercise(number), answer)
    typer.echo(verdict.remark)
    if not verdict.right:
        raise typer.Exit(1)


def _answer_choices(exercise: Exercise) -> str:
    """Return the options, items, cells or code that an answer refers to."""
    from uwaga_course.check import shuffled

    if exercise.kind == "choice":
        return "".join(
            f"\n{number}. {option.text}" for number, option in enumerate(exercise.options, start=1)
        )
    if exercise.kind == "order":
        return "".join(f"\n{number}. {item}" for number, item in enumerate(shuffled(exercise), start=1))
    if exercise.kind == "table":
        return f"\nrows: {', '.join(exercise.rows)}\ncolumns: {', '.join(exercise.columns)}"
    return f"\n{exercise.start.rstrip()}" if exercise.kind == "code" else ""


learn.command("list", cls=Verb)(report_errors(list_all))
learn.command("show", cls=Verb)(report_errors(show))
learn.command("check", cls=Verb)(report_errors(check))
learn.command("hint", cls=Verb)(report_errors(hint))
learn.command("solution", cls=Verb)(report_errors(solution))
