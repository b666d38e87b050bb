"""Correct answers to exercises pass and likely wrong answers get a remark, in Python and in the page."""

import contextlib
import io
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from command_line import run_uwaga

from uwaga_course import all_exercises, check, find_exercise
from uwaga_course.check import Verdict, alphabetical_items, check_program, describe
from uwaga_course.exercises import ChoiceExercise, CodeExercise, NumberExercise, OrderExercise, TableExercise
from uwaga_course.messages import choose_language
from uwaga_course.numbers import UnclearNumberError, read_number
from uwaga_course.program import judge
from uwaga_course.terminal import plain_equation, plain_markdown, plain_text
from uwaga_course.translations import exercise_in

ROOT = Path(__file__).resolve().parents[2]
ALL = list(all_exercises().values())
CODE_EXERCISES = [exercise for exercise in ALL if isinstance(exercise, CodeExercise)]
OTHER_EXERCISES = [exercise for exercise in ALL if not isinstance(exercise, CodeExercise)]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Store progress in a temporary folder, and select English messages."""
    monkeypatch.setenv("UWAGA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LC_ALL", "C.UTF-8")


def command_words(exercise, answer):
    """Return an answer as a list of command-line arguments."""
    if isinstance(exercise, OrderExercise):
        return [str(alphabetical_items(exercise).index(item) + 1) for item in answer]
    if isinstance(exercise, TableExercise):
        return [str(cell) for row in answer for cell in row]
    return [str(answer)]


def answers(exercise):
    """Return the correct answer, and the wrong answers with their remarks."""
    if isinstance(exercise, ChoiceExercise):
        numbered = list(enumerate(exercise.options, start=1))
        [right] = [index for index, option in numbered if option.remark is None]
        return right, [(index, option.remark) for index, option in numbered if option.remark]
    right = exercise.items if isinstance(exercise, OrderExercise) else exercise.answer
    return right, [(mistake.answer, mistake.remark) for mistake in exercise.wrong]


def exercise_parameter(exercise):
    """Return the test parameter of an exercise; it is marked slow if the exercise trains a model."""
    marks = [pytest.mark.slow] if "train(" in exercise.tests else []
    return pytest.param(exercise, id=exercise.number, marks=marks)


@pytest.mark.parametrize("exercise", OTHER_EXERCISES, ids=lambda exercise: exercise.number)
def test_correct_answers_pass_and_wrong_answers_get_remarks(exercise):
    right, wrong = answers(exercise)
    assert check(exercise, command_words(exercise, right)).right
    assert len(wrong) >= 2
    for answer, remark in wrong:
        verdict = check(exercise, command_words(exercise, answer))
        assert (verdict.right, verdict.remark) == (False, remark)
    assert len({remark for _, remark in wrong}) == len(wrong)
    if isinstance(exercise, NumberExercise):
        assert check(exercise, ["12345.678"]).remark == exercise.otherwise


def test_table_remark_describes_the_mistake_that_affects_most_cells():
    """Several mistakes may match a table; the remark is that of the mistake that changes most cells."""
    shapes = find_exercise("7.6")
    transposed, swapped, narrow = (shapes.wrong[index] for index in (0, 1, 3))
    assert check(shapes, ["8 6 5 4 3 5 9 9"]).remark == transposed.remark
    assert check(shapes, ["8 6 4 5 5 3 3 4"]).remark == swapped.remark
    assert check(shapes, ["8 6 4 5 3 5 3 4"]).remark == narrow.remark
    assert check(shapes, ["8 6 4 5 3 5 9 9"]).remark == shapes.otherwise
    layers = find_exercise("6.2")
    both = check(layers, ["144 9 8 720 1 2 324 1 1"])
    assert both.remark == layers.wrong[0].remark
    assert "n / k" in check(layers, ["288 9 8 720 1 1.8 648 1 1"]).remark


def test_answers_with_fewer_than_three_digits_get_a_rounding_remark():
    """The remark on a correct answer with too few digits says that it is rounded too far."""
    message = "That is near, but rounded too far: give at least three digits."
    for exercise in ALL:
        if isinstance(exercise, NumberExercise | TableExercise):
            words = command_words(exercise, exercise.answer)
            rounded = [word if float(word).is_integer() else f"{float(word):.3g}" for word in words]
            assert check(exercise, rounded).right, exercise.number
    for number, few in {"7.1": "8.5", "2.2": "0.08", "4.2": "7%", "18.2": "58", "14.1": "1,4"}.items():
        assert check(find_exercise(number), [few]) == Verdict(False, message), number
    gru = find_exercise("2.1")
    assert check(gru, ["0.88 0.96 0.1 0.53 0.06 0.09"]).remark == message
    assert check(gru, ["0.9 0.96 0.12 0.53 0.06 0.1"]).remark == gru.otherwise
    for number, other in {"3.1": "1", "9.1": "1000000", "13.1": "-1"}.items():  # no roundings of three digits
        assert check(find_exercise(number), [other]).remark != message, number
    assert check(exercise_in("pl", "7.1"), ["8,5"], "pl").remark.startswith("Blisko")


def check_in_this_process(exercise, program):
    """Return the verdict of :func:`check_program`, called in this process."""
    with contextlib.redirect_stdout(io.StringIO()), torch.enable_grad():
        return describe(exercise, judge(program, exercise.tests), "", "en")


@pytest.mark.parametrize("exercise", [exercise_parameter(exercise) for exercise in CODE_EXERCISES])
def test_model_solution_passes_and_wrong_programs_fail(exercise, tmp_path):
    assert check_in_this_process(exercise, exercise.program).right
    assert not check_in_this_process(exercise, exercise.start).right
    for mistake in exercise.wrong:
        assert check_in_this_process(exercise, mistake.answer) == Verdict(False, mistake.remark)


def test_programs_run_in_a_child_process_get_verdicts():
    exercise = CODE_EXERCISES[0]
    programs = {
        exercise.program: Verdict(True, exercise.because),
        exercise.wrong[0].answer: Verdict(False, exercise.wrong[0].remark),
        "import sys; sys.exit(3)": Verdict(False, "The program ends by itself, with status 3."),
        "import os; os._exit(4)": Verdict(False, "The program ends by itself, with status 4."),
        "x = 1\n1 +": Verdict(False, "Line 2: SyntaxError: invalid syntax"),
        "print('seen')\n1 / 0": Verdict(False, "Line 2: ZeroDivisionError: division by zero", "seen\n"),
        "def log_prob():\n    pass": Verdict(
            False, "The tests end with TypeError: log_prob() takes 0 positional arguments but 4 were given"
        ),
        "input()": Verdict(False, "Line 1: EOFError: EOF when reading a line"),
    }
    for program, verdict in programs.items():
        assert check_program(exercise, program) == verdict, program
    spanish = exercise_in("es", exercise.number)
    assert check_program(spanish, exercise.wrong[0].answer, "es").remark == spanish.wrong[0].remark
    assert check_program(spanish, "1 +", "es").remark == "Línea 1: SyntaxError: invalid syntax"


def test_program_that_returns_nothing_gets_a_remark_about_its_return_value():
    """The remark says that the program returns nothing, not that one of its numbers is wrong."""
    for exercise in CODE_EXERCISES:
        functions = re.findall(r"^def (\w+)\(", exercise.program, re.MULTILINE)
        program = "".join(f"def {name}(*arguments): return None\n" for name in functions)
        if exercise.needs_uwaga:
            continue
        verdict = check_in_this_process(exercise, program)
        words = r"nothing|[Rr]eturn |shape|returns"
        assert not verdict.right and re.search(words, verdict.remark), (exercise.number, verdict.remark)


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
    assert len(ALL) >= 85 and mistakes >= 300
    assert all(exercise.because for exercise in ALL if exercise.kind in ("number", "choice", "code"))


def learn(*arguments):
    """Return the exit status and the output of `uwaga learn`."""
    result = run_uwaga("learn", *arguments, code=None)
    return result.exit_code, result.output


def test_learn_command_checks_and_shows_exercises():
    assert learn("check", "3.1", "0,5") == (0, f"Right. {find_exercise('3.1').because}\n")
    code, output = learn("check", "3.1", "0.693")
    assert (code, output) == (
        1,
        "That is the score itself. A weight is exp of the score, divided by the sum of all three.\n",
    )
    assert "1. v = (1, -2)" in learn("show", "3.3")[1]
    assert learn("hint", "3.1")[1] == find_exercise("3.1").hint.strip() + "\n"
    assert "0.5" in learn("solution", "3.1")[1]
    repeated = ("check", "3.4", "1", "1", "2", "3")
    too_many = ("check", "3.1", "1", "2")
    for invalid in (("show", "99.9"), ("check", "3.1", "many"), too_many, ("check", "3.3", "9"), repeated):
        code, output = learn(*invalid)
        assert code == 1 and output.startswith("error: "), invalid


def test_learn_command_accepts_common_number_formats_and_reports_ambiguous_numbers():
    for answer in (["-2.3"], ["−2.3"], ["-2,30"], ["--", "-2.3"], ["-.23e1"], [" -2.3 "]):
        assert learn("check", "1.1", *answer)[0] == 0, answer
    assert learn("check", "9.1", "1,048,576")[0] == learn("check", "9.1", "1", "048", "576")[0] == 0
    assert learn("check", "15.1", "2/7")[0] == learn("check", "3.1", "50%")[0] == 0
    for answer in (["5", "-1", "1", "-1"], ["5,", "-1,", "1,", "-1"], ["5 −1; 1 −1"], ["(5, -1)", "(1, -1)"]):
        assert learn("check", "10.2", *answer)[0] == 0, answer
    assert learn("check", "10.2", "5,0 -1,0 1 -1")[0] == learn("check", "10.2", "5;-1;1;-1")[0] == 0
    code, output = learn("check", "10.2", "5", "-1", "1")
    assert code == 1 and output.endswith("row by row, separated by spaces: 4, not 3\n")
    for answer in (["6", "3", "5", "1", "4", "2"], ["6,3,5,1,4,2"], ["6,", "3,", "5,", "1,", "4,", "2"]):
        assert learn("check", "10.4", *answer)[0] == 0, answer
    assert learn("check", "3.3", "1.")[0] == learn("check", "3.3", "(1)")[0] == 0
    code, output = learn("check", "3.1", "1,048")
    assert (code, output) == (1, "error: '1,048' has two meanings: write 1048 or 1.048\n")
    code, output = learn("check", "3.1", "--langage", "es", "1")
    assert code == 2 and "No such option: --langage" in output
    assert learn("check", "3.1", "0.5", "--language", "pl")[1].startswith("Dobrze. ")


def test_learn_command_lists_chapters_with_progress():
    chapters = {exercise.number.split(".")[0] for exercise in ALL}
    lines = learn("list")[1].splitlines()
    assert len(lines) == len(chapters) + 2 and lines[-1] == f"0 of {len(ALL)}"
    learn("check", "3.1", "0.5")
    assert "3.1 ✓" in learn("list")[1] and f"1 of {len(ALL)}" in learn("list")[1]
    chapter = [exercise for exercise in ALL if exercise.number.startswith("3.")]
    code, output = learn("show", "3")
    assert code == 0 and [line.split()[0] for line in output.splitlines()] == [
        item.number for item in chapter
    ]


@pytest.mark.parametrize("language", ["es", "pl", "zh"])
def test_learn_command_uses_the_language_of_the_locale(language, monkeypatch):
    monkeypatch.setenv("LC_ALL", f"{language}_XX.UTF-8")
    for exercise in ALL[("es", "pl", "zh").index(language) :: 3]:
        question = exercise_in(language, exercise.number).question
        code, output = learn("show", exercise.number)
        start = plain_markdown(question)[:40].replace("\ue000", "").replace("\ue001", "")
        assert code == 0 and "".join(start.split()) in "".join(output.split()), exercise.number
    assert learn("check", "3.1", "0.5")[1].strip().endswith(exercise_in(language, "3.1").because)
    assert learn("hint", "3.1", "--language", "en")[1] == find_exercise("3.1").hint.strip() + "\n"
    assert learn("list", "--language", "fr")[0] == 1


def test_language_is_read_from_locale_variables():
    assert choose_language(None, {"LC_ALL": "pl_PL.UTF-8", "LANG": "es_ES"}) == "pl"
    assert choose_language(None, {"LANG": "zh_CN.UTF-8"}) == "zh"
    assert choose_language(None, {"LANG": "fr_FR.UTF-8"}) == choose_language(None, {"LANG": "C"}) == "en"


@pytest.mark.parametrize(
    ("source", "plain"),
    [
        (r"\alpha_{ij} = \alpha_{ji}", "α_ij = α_ji"),
        (r"e_{12} = q_1 \cdot k_2 / \sqrt{d_k}", "e_12 = q_1 · k_2 / √d_k"),
        (r"1 - \frac{2 |A \cap S|}{|A| + |S|}", "1 - (2 |A ∩ S|) / (|A| + |S|)"),
        (r"W + \frac{\alpha}{r} B A", "W + (α / r) B A"),
        (r"\epsilon = 10^{-5}", "ε = 10⁻⁵"),
        (r"q^\top k", "qᵀ k"),
        (r"p_{i+50} \cdot p_{j+50}", "p_(i+50) · p_(j+50)"),
        (r"s_1 = \mathrm{GRU}(s_0, [y_0; c])", "s_1 = GRU(s_0, [y_0; c])"),
        (r"\sqrt{a + b}\sin\omega", "√(a + b) sin ω"),
    ],
)
def test_equations_are_readable_in_a_terminal(source, plain):
    assert plain_equation(source) == plain


def test_exercise_texts_are_readable_in_a_terminal():
    for exercise in ALL:
        for language in ("en", "es", "pl", "zh"):
            texts = exercise_in(language, exercise.number)
            for text in (texts.question, texts.hint, texts.solution, texts.because or ""):
                plain = re.sub(r"`[^`]*`|^    .*$", "", plain_markdown(text), flags=re.MULTILINE)
                assert not re.search(r"[$\\{}]|\*\w", plain), plain
    assert plain_text("`a*b*c` and *x*").replace("\ue000", "<").replace("\ue001", ">") == "`a*b*c` and <x>"


NUMBERS = [
    "0.5", ".5", "5.", "1e-3", "0,5", ",5", "-2", "−2.3", "- 2", "+3", "1,048,576", "1 048 576", "1.048.576",
    "1\u00a0048\u202f576,5", "1,048.5", "1.048,5", "1.048", "1,048", "12,345", "0,333", "2/7", "-2 / 7",
    "1,5/2", "50%", "50 %", "٣", "", " ", "nan", "inf", "1e999", "1 2", "1 2/7", "2/0", "1,04", "1,048,57",
    "1,048 576", "%", "/",
]  # fmt: skip


def value(text):
    """Return the number that a text denotes, or all numbers that it may denote."""
    try:
        return read_number(text)
    except UnclearNumberError as error:
        return list(error.readings)


def test_answers_with_documented_number_formats_are_read():
    table = (ROOT / "src/uwaga_course/numbers.py").read_text(encoding="utf-8").split("=\n")[2]
    for text in re.findall(r"``([^`]+)``", table):
        assert isinstance(value(text), float), text
    assert value("1,048") == ["1048", "1.048"] and value("1.048") == 1.048
    assert [value(text) for text in ("1 048 576,5", "2/7", "50%", "−2")] == [1048576.5, 2 / 7, 0.5, -2.0]


CHECK = """
import { check, readNumber } from "BUILT";
import { readFileSync } from "node:fs";
const { cases, texts } = JSON.parse(readFileSync(0, "utf8"));
const value = (text) => { try { return readNumber(text); } catch (error) { return error.readings; } };
const verdicts = cases.map(([exercise, answer]) => check(exercise, answer));
console.log(JSON.stringify({ verdicts, numbers: texts.map(value) }));
"""


def test_browser_checks_answers_like_python(tmp_path):
    esbuild = ROOT / "page/node_modules/.bin/esbuild"
    if shutil.which("node") is None or not esbuild.exists():
        pytest.skip("node or esbuild is missing: npm --prefix page ci")
    bundle = tmp_path / "exercise.mjs"
    source = tmp_path / "source.ts"
    lab = ROOT / "page/src/lab"
    source.write_text(
        f'export * from "{lab}/exercise"; export * from "{lab}/read_number";\n', encoding="utf-8"
    )
    command = [esbuild, source, "--bundle", "--format=esm", f"--outfile={bundle}", "--log-level=error"]
    subprocess.run(command, check=True)
    cases, expected = [], []
    for exercise in OTHER_EXERCISES:
        right, wrong = answers(exercise)
        others = [right]
        if isinstance(exercise, NumberExercise):
            others = [12345.678, *(float(f"{right:.{digits}g}") for digits in (1, 2, 3))]
        elif isinstance(exercise, TableExercise):
            others = [
                [[float(f"{cell:.{digits}g}") for cell in row] for row in right] for digits in (1, 2, 3)
            ]
            others += [[*answer[:-1], [9.0] * len(answer[-1])] for answer, _ in wrong]
        for answer in [right, *(answer for answer, _ in wrong), *others]:
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
    command = ["node", "--input-type=module", "-e", script]
    payload = json.dumps({"cases": cases, "texts": NUMBERS})
    process = subprocess.run(command, input=payload, capture_output=True, text=True, check=True)
    answers_of_page = json.loads(process.stdout)
    assert answers_of_page["verdicts"] == expected
    assert answers_of_page["numbers"] == [value(text) for text in NUMBERS]
