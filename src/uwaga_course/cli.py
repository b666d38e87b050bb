"""``uwaga learn``: show and check the exercises of the course."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uwaga.cli.verb import Verb, VerbGroup

if TYPE_CHECKING:
    from uwaga_course import Exercise

learn = typer.Typer(
    name="learn",
    add_completion=False,
    cls=VerbGroup,
    no_args_is_help=True,
    help="Show and check the exercises of the course on attention.\n\n"
    "The course is the first part of the documentation; its pages have the same exercises. They are shown in "
    "the language of the locale: English, Spanish, Polish or Chinese.\n\n"
    "**Examples**\n\n    uwaga learn list\n\n    uwaga learn show 3.1\n\n    uwaga learn check 3.1 0.438\n\n"
    "    uwaga learn hint 3.1\n\n    uwaga learn solution 3.1 --language es",
    context_settings={"help_option_names": ["--help", "-h"]},
)

QUESTION_WIDTH = 70
"""Maximum width, in columns, of a question in the list of a chapter."""

Number = Annotated[str, typer.Argument(help="Chapter and exercise, such as 3.1.", metavar="NUMBER")]
Numbers = Annotated[
    str, typer.Argument(help="Chapter and exercise, such as 3.1, or a chapter, such as 3.", metavar="NUMBER")
]
Answer = Annotated[
    list[str],
    typer.Argument(
        help="A number, such as -2.5, 2/7 or 50%; the numbers of a table, row by row; the number of an "
        "option; the numbers of the items in the right order; or a Python file.",
        metavar="ANSWER...",
    ),
]
Language = Annotated[
    str | None, typer.Option(help="en, es, pl or zh; by default the language of the locale.", metavar="CODE")
]


class _Check(Verb):
    """A command whose arguments may be negative numbers."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; words such as ``-1`` and ``-.5`` are read as numbers, not as options."""
        ctx.ignore_unknown_options = True
        known_options = {
            name
            for parameter in self.get_params(ctx)
            for name in (*parameter.opts, *parameter.secondary_opts)
        }
        for word in args[: args.index("--")] if "--" in args else args:
            name = word.partition("=")[0]
            if (
                name.startswith("-")
                and name not in known_options
                and not name[1:2].isdigit()
                and name[1:2] not in ".,"
            ):
                ctx.fail(f"No such option: {name}")
        return super().parse_args(ctx, args)


def list_all(language: Language = None) -> None:
    """List the exercises of each chapter, with a tick next to solved exercises."""
    from uwaga_course import all_exercises
    from uwaga_course.messages import choose_language, message_text
    from uwaga_course.progress import solved_exercises

    language_code, solved_numbers = choose_language(language), solved_exercises()
    chapters: dict[str, list[str]] = {}
    for number in all_exercises():
        chapters.setdefault(number.partition(".")[0], []).append(number)
    names = {chapter: message_text("chapter", language_code, number=chapter) for chapter in chapters}
    width = max(map(len, names.values())) + 2
    max_exercises = max(map(len, chapters.values()))
    for chapter, numbers in chapters.items():
        ticks = "".join(f"{number + (' ✓' if number in solved_numbers else ''):8}" for number in numbers)
        summary = message_text(
            "solved", language_code, solved=len(solved_numbers & set(numbers)), count=len(numbers)
        )
        typer.echo(f"{names[chapter]:{width}}{ticks:{8 * max_exercises}}{summary}")
    typer.echo(
        "\n"
        + message_text(
            "solved",
            language_code,
            solved=len(solved_numbers & set(all_exercises())),
            count=len(all_exercises()),
        )
    )


def show(number: Numbers, language: Language = None) -> None:
    """Show an exercise, or list the exercises of a chapter.

    **Examples**

        uwaga learn show 3.1

        uwaga learn show 3
    """
    from uwaga_course import all_exercises
    from uwaga_course.messages import choose_language
    from uwaga_course.terminal import plain_markdown, style_text
    from uwaga_course.translations import exercise_in

    language_code = choose_language(language)
    chapter = [name for name in all_exercises() if name.partition(".")[0] == number.rstrip(".")]
    if chapter:
        _show_chapter([exercise_in(language_code, name) for name in chapter], language_code)
        return
    exercise = exercise_in(language_code, number)
    typer.echo(
        style_text(plain_markdown(exercise.question) + "\n" + _answer_choices(exercise, language_code))
    )


def hint(number: Number, language: Language = None) -> None:
    """Show the hint of an exercise.

    **Examples**

        uwaga learn hint 3.1
    """
    typer.echo(_exercise_text(number, "hint", language))


def solution(number: Number, language: Language = None) -> None:
    """Show the solution of an exercise.

    **Examples**

        uwaga learn solution 3.1
    """
    typer.echo(_exercise_text(number, "solution", language))


def check(number: Number, answer: Answer, language: Language = None) -> None:
    """Check an answer; exit with status 1 if it is wrong.

    Numbers are written as -2.5, 0,5, 2/7, 50%, 1048576 or 1 048 576; answers that are not whole numbers need
    three digits. Code is run in a separate process.

    **Examples**

        uwaga learn check 3.1 0.438

        uwaga learn check 7.5 answer.py
    """
    from uwaga_course import check as check_answer
    from uwaga_course.messages import choose_language, message_text
    from uwaga_course.progress import mark_solved
    from uwaga_course.terminal import plain_text, style_text
    from uwaga_course.translations import exercise_in

    language_code = choose_language(language)
    exercise = exercise_in(language_code, number)
    verdict = check_answer(exercise, answer, language_code)
    if verdict.output.strip():
        typer.echo(message_text("printed", language_code) + "\n" + verdict.output.rstrip() + "\n")
    # The remark on a program is plain text, with exceptions of Python.
    remark = (
        verdict.remark
        if exercise.kind == "code" and not verdict.right
        else style_text(plain_text(verdict.remark))
    )
    if not verdict.right:
        typer.echo(remark)
        raise typer.Exit(1)
    typer.echo(" ".join(filter(None, [message_text("right", language_code), remark])))
    mark_solved(number)


def _exercise_text(number: str, name: str, language: str | None) -> str:
    from uwaga_course.messages import choose_language
    from uwaga_course.terminal import plain_markdown, style_text
    from uwaga_course.translations import exercise_in

    return style_text(plain_markdown(str(getattr(exercise_in(choose_language(language), number), name))))


def _show_chapter(exercises: Sequence[Exercise], language: str) -> None:
    """Print each exercise with its kind and the start of its question."""
    from uwaga_course.messages import message_text
    from uwaga_course.progress import solved_exercises
    from uwaga_course.terminal import plain_text, shorten, style_text

    solved_numbers = solved_exercises()
    for exercise in exercises:
        kind = message_text(f"{exercise.kind} of", language)
        question = shorten(plain_text(" ".join(exercise.question.split())), QUESTION_WIDTH)
        tick = "✓" if exercise.number in solved_numbers else " "
        typer.echo(style_text(f"{exercise.number:5}{tick} {question} [{kind}]"))


def _answer_choices(exercise: Exercise, language: str) -> str:
    """Return the options, items, rows and columns, or code that an answer refers to, as text."""
    from uwaga_course.check import alphabetical_items
    from uwaga_course.messages import message_text
    from uwaga_course.terminal import plain_text

    if exercise.kind == "choice":
        options = [plain_text(option.text) for option in exercise.options]
    elif exercise.kind == "order":
        options = [plain_text(item) for item in alphabetical_items(exercise)]
    elif exercise.kind == "table":
        rows, columns = (", ".join(map(plain_text, names)) for names in (exercise.rows, exercise.columns))
        lines = message_text("rows", language, names=rows), message_text("columns", language, names=columns)
        return f"\n{lines[0]}\n{lines[1]}"
    else:
        return f"\n{exercise.start.rstrip()}" if exercise.kind == "code" else ""
    return "".join(f"\n{number}. {text}" for number, text in enumerate(options, start=1))


learn.command("list", cls=Verb)(list_all)
learn.command("show", cls=Verb)(show)
learn.command("check", cls=_Check)(check)
learn.command("hint", cls=Verb)(hint)
learn.command("solution", cls=Verb)(solution)
