"""Exercises: right answers pass, likely wrong ones are refused with a remark, in the page as well."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from uwaga.cli.main import app
from uwaga.learn import all_exercises, check, find_exercise
from uwaga.learn.check import check_program, shuffled
from uwaga.learn.exercises import ChoiceExercise, CodeExercise, NumberExercise, OrderExercise, TableExercise

ROOT = Path(__file__).resolve().parents[2]
ALL = list(all_exercises().values())
WRITTEN = [one for one in ALL if isinstance(one, CodeExercise)]
ANSWERED = [one for one in ALL if not isinstance(one, CodeExercise)]


def words(exercise, answer):
    """An answer as the words of the command line."""
    if isinstance(exercise, OrderExercise):
        return [str(shuffled(exercise).index(item) + 1) for item in answer]
    if isinstance(exercise, TableExercise):
        return [str(cell) for row in answer for cell in row]
    return [str(answer)]


def answers(exercise):
    """The right answer, and the wrong ones with their remarks."""
    if isinstance(exercise, ChoiceExercise):
        numbered = list(enumerate(exercise.options, start=1))
        [right] = [at for at, option in numbered if option.remark is None]
        return right, [(at, option.remark) for at, option in numbered if option.remark]
    right = exercise.items if isinstance(exercise, OrderExercise) else exercise.answer
    return right, [(one.answer, one.remark) for one in exercise.wrong]


def program_of(exercise):
    """A parameter; tests that train a model are slow."""
    marks = [pytest.mark.slow] if "train(" in exercise.tests else []
    return pytest.param(exercise, id=exercise.number, marks=marks)


@pytest.mark.parametrize("exercise", ANSWERED, ids=lambda one: one.number)
def test_the_right_answer_passes_and_each_wrong_one_has_a_remark_of_its_own(exercise):
    right, wrong = answers(exercise)
    assert check(exercise, words(exercise, right)).right
    assert len(wrong) >= 2
    for answer, remark in wrong:
        verdict = check(exercise, words(exercise, answer))
        assert (verdict.right, verdict.remark) == (False, remark)
    assert len({remark for _, remark in wrong}) == len(wrong)
    if isinstance(exercise, NumberExercise):
        assert check(exercise, ["12345.678"]).remark == exercise.otherwise


@pytest.mark.parametrize("exercise", [program_of(one) for one in WRITTEN])
def test_the_solution_passes_and_each_wrong_program_fails_with_its_remark(exercise, tmp_path):
    assert check_program(exercise, exercise.program).right
    assert not check_program(exercise, exercise.start).right
    for one in exercise.wrong:
        verdict = check_program(exercise, one.answer)
        assert (verdict.right, verdict.remark) == (False, one.remark)


def test_every_chapter_has_at_least_three_and_many_wrong_answers():
    chapters = sorted((ROOT / "docs/learn").glob("[0-9]*.md"))
    for page in chapters:
        number = str(int(page.name[:2]))
        own = [one for one in ALL if one.number.split(".")[0] == number]
        shown = re.findall(r"^```exercise\n(\S+)\n```$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert 3 <= len(own) <= 6
        assert [one.number for one in own] == shown
        kinds = sum(len(one.wrong if hasattr(one, "wrong") else answers(one)[1]) for one in own)
        assert kinds >= 9, page


def test_the_course_has_enough_exercises_and_wrong_answers():
    wrong = sum(len(one.wrong if hasattr(one, "wrong") else answers(one)[1]) for one in ALL)
    assert len(list((ROOT / "docs/learn").glob("[0-9]*.md"))) == 17
    assert len(ALL) >= 60 and wrong >= 180


def test_the_command_line_shows_and_checks():
    def run(*given):
        done = CliRunner().invoke(app, ["learn", *given])
        return done.exit_code, done.output

    assert run("check", "3.1", "0,5") == (0, "Right.\n")
    code, said = run("check", "3.1", "0.693")
    assert (code, said) == (
        1,
        "That is the score itself. A weight is exp of the score, divided by the sum of all three.\n",
    )
    assert "1. $v = (1, -2)$" in run("show", "3.3")[1]
    assert run("hint", "3.1")[1] == find_exercise("3.1").hint.strip() + "\n"
    assert "0.5" in run("solution", "3.1")[1]
    assert len(run("list")[1].splitlines()) == len(ALL)
    twice = ("check", "3.4", "1", "1", "2", "3")
    many = ("check", "3.1", "1", "2")
    for wrong in (("show", "99.9"), ("check", "3.1", "many"), many, ("check", "3.3", "9"), twice):
        code, said = run(*wrong)
        assert code == 1 and said.startswith("error: "), wrong


CHECK = """
import { check } from "BUILT";
import { readFileSync } from "node:fs";
const verdicts = JSON.parse(readFileSync(0, "utf8")).map(([exercise, answer]) => check(exercise, answer));
console.log(JSON.stringify(verdicts));
"""


def test_the_page_gives_the_same_verdicts(tmp_path):
    esbuild = ROOT / "page/node_modules/.bin/esbuild"
    if shutil.which("node") is None or not esbuild.exists():
        pytest.skip("node or esbuild is missing: npm --prefix page ci")
    built = tmp_path / "exercise.mjs"
    source = ROOT / "page/src/lab/exercise.ts"
    command = [esbuild, source, "--bundle", "--format=esm", f"--outfile={built}", "--log-level=error"]
    subprocess.run(command, check=True)
    cases, wanted = [], []
    for exercise in ANSWERED:
        right, wrong = answers(exercise)
        other = 12345.678 if isinstance(exercise, NumberExercise) else right
        for answer in [right, *(answer for answer, _ in wrong), other]:
            if isinstance(exercise, ChoiceExercise):
                given = [answer - 1]
            elif isinstance(exercise, TableExercise):
                given = [cell for row in answer for cell in row]
            else:
                given = list(answer) if isinstance(exercise, OrderExercise) else [answer]
            cases.append([exercise.model_dump(exclude_none=True), given])
            verdict = check(exercise, words(exercise, answer))
            wanted.append({"right": verdict.right, "remark": verdict.remark})
    script = CHECK.replace("BUILT", built.as_uri())
    command, given = ["node", "--input-type=module", "-e", script], json.dumps(cases)
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == wanted
