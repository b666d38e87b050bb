"""Right answers to exercises pass, likely wrong ones get a remark, in Python and in the page."""

import contextlib
import io
import json
import re
import shutil
import subprocess
import traceback
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from uwaga.cli.main import app
from uwaga_course import all_exercises, check, find_exercise
from uwaga_course.check import RIGHT, Verdict, check_program, shuffled
from uwaga_course.exercises import ChoiceExercise, CodeExercise, NumberExercise, OrderExercise, TableExercise

ROOT = Path(__file__).resolve().parents[2]
ALL = list(all_exercises().values())
CODE_EXERCISES = [exercise for exercise in ALL if isinstance(exercise, CodeExercise)]
OTHER_EXERCISES = [exercise for exercise in ALL if not isinstance(exercise, CodeExercise)]


def command_words(exercise, answer):
    """Return an answer as command line arguments."""
    if isinstance(exercise, OrderExercise):
        return [str(shuffled(exercise).index(item) + 1) for item in answer]
    if isinstance(exercise, TableExercise):
        return [str(cell) for row in answer for cell in row]
    return [str(answer)]


def answers(exercise):
    """Return the right answer, and the wrong ones with their remarks."""
    if isinstance(exercise, ChoiceExercise):
        numbered = list(enumerate(exercise.options, start=1))
        [right] = [index for index, option in numbered if option.remark is None]
        return right, [(index, option.remark) for index, option in numbered if option.remark]
    right = exercise.items if isinstance(exercise, OrderExercise) else exercise.answer
    return right, [(mistake.answer, mistake.remark) for mistake in exercise.wrong]


def exercise_parameter(exercise):
    """Return a test parameter; exercises that train a model are slow."""
    marks = [pytest.mark.slow] if "train(" in exercise.tests else []
    return pytest.param(exercise, id=exercise.number, marks=marks)


@pytest.mark.parametrize("exercise", OTHER_EXERCISES, ids=lambda exercise: exercise.number)
def test_right_answer_passes_and_wrong_answers_have_remarks(exercise):
    right, wrong = answers(exercise)
    assert check(exercise, command_words(exercise, right)).right
    assert len(wrong) >= 2
    for answer, remark in wrong:
        verdict = check(exercise, command_words(exercise, answer))
        assert (verdict.right, verdict.remark) == (False, remark)
    assert len({remark for _, remark in wrong}) == len(wrong)
    if isinstance(exercise, NumberExercise):
        assert check(exercise, ["12345.678"]).remark == exercise.otherwise


def check_in_this_process(exercise, program):
    """Return the verdict of :func:`check_program`."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), torch.enable_grad():
            exec(compile(f"{program}\n\n{exercise.tests}\n", "answer", "exec"), {"__name__": "__main__"})
    except Exception as error:
        last = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1]
        return Verdict(False, last.removeprefix("AssertionError: "))
    return RIGHT


@pytest.mark.parametrize("exercise", [exercise_parameter(exercise) for exercise in CODE_EXERCISES])
def test_solution_passes_and_wrong_programs_fail(exercise, tmp_path):
    assert check_in_this_process(exercise, exercise.program).right
    assert not check_in_this_process(exercise, exercise.start).right
    for mistake in exercise.wrong:
        assert check_in_this_process(exercise, mistake.answer) == Verdict(False, mistake.remark)


def test_programs_run_in_a_child_process():
    exercise = CODE_EXERCISES[0]
    programs = [exercise.program, exercise.wrong[0].answer, "import sys; sys.exit(3)", "1 +"]
    assert [check_program(exercise, program) for program in programs] == [
        RIGHT,
        Verdict(False, exercise.wrong[0].remark),
        Verdict(False, "It ends with status 3."),
        Verdict(False, "SyntaxError: invalid syntax"),
    ]


def test_chapters_have_enough_exercises():
    chapters = sorted((ROOT / "docs/learn").glob("[0-9]*.md"))
    for page in chapters:
        number = str(int(page.name[:2]))
        chapter_exercises = [exercise for exercise in ALL if exercise.number.split(".")[0] == number]
        numbers = re.findall(r"^```exercise\n(\S+)\n```$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert 3 <= len(chapter_exercises) <= 6
        assert [exercise.number for exercise in chapter_exercises] == numbers
        mistakes = sum(
            len(exercise.wrong if hasattr(exercise, "wrong") else answers(exercise)[1])
            for exercise in chapter_exercises
        )
        assert mistakes >= 9, page


def test_course_has_enough_exercises():
    mistakes = sum(
        len(exercise.wrong if hasattr(exercise, "wrong") else answers(exercise)[1]) for exercise in ALL
    )
    assert len(list((ROOT / "docs/learn").glob("[0-9]*.md"))) == 19
    assert len(ALL) >= 60 and mistakes >= 180


def test_learn_command_checks_and_shows_exercises():
    def run(*arguments):
        result = CliRunner().invoke(app, ["learn", *arguments])
        return result.exit_code, result.output

    assert run("check", "3.1", "0,5") == (0, "Right.\n")
    code, output = run("check", "3.1", "0.693")
    assert (code, output) == (
        1,
        "That is the score itself. A weight is exp of the score, divided by the sum of all three.\n",
    )
    assert "1. $v = (1, -2)$" in run("show", "3.3")[1]
    assert run("hint", "3.1")[1] == find_exercise("3.1").hint.strip() + "\n"
    assert "0.5" in run("solution", "3.1")[1]
    assert len(run("list")[1].splitlines()) == len(ALL)
    repeated = ("check", "3.4", "1", "1", "2", "3")
    too_many = ("check", "3.1", "1", "2")
    for invalid in (("show", "99.9"), ("check", "3.1", "many"), too_many, ("check", "3.3", "9"), repeated):
        code, output = run(*invalid)
        assert code == 1 and output.startswith("error: "), invalid


CHECK = """
import { check } from "BUILT";
import { readFileSync } from "node:fs";
const verdicts = JSON.parse(readFileSync(0, "utf8")).map(([exercise, answer]) => check(exercise, answer));
console.log(JSON.stringify(verdicts));
"""


def test_page_gives_the_same_verdicts_as_python(tmp_path):
    esbuild = ROOT / "page/node_modules/.bin/esbuild"
    if shutil.which("node") is None or not esbuild.exists():
        pytest.skip("node or esbuild is missing: npm --prefix page ci")
    bundle = tmp_path / "exercise.mjs"
    source = ROOT / "page/src/lab/exercise.ts"
    command = [esbuild, source, "--bundle", "--format=esm", f"--outfile={bundle}", "--log-level=error"]
    subprocess.run(command, check=True)
    cases, expected = [], []
    for exercise in OTHER_EXERCISES:
        right, wrong = answers(exercise)
        other = 12345.678 if isinstance(exercise, NumberExercise) else right
        for answer in [right, *(answer for answer, _ in wrong), other]:
            if isinstance(exercise, ChoiceExercise):
                page_answer = [answer - 1]
            elif isinstance(exercise, TableExercise):
                page_answer = [cell for row in answer for cell in row]
            else:
                page_answer = list(answer) if isinstance(exercise, OrderExercise) else [answer]
            cases.append([exercise.model_dump(exclude_none=True), page_answer])
            verdict = check(exercise, command_words(exercise, answer))
            expected.append({"right": verdict.right, "remark": verdict.remark})
    script = CHECK.replace("BUILT", bundle.as_uri())
    command, page_answer = ["node", "--input-type=module", "-e", script], json.dumps(cases)
    process = subprocess.run(command, input=page_answer, capture_output=True, text=True, check=True)
    assert json.loads(process.stdout) == expected
