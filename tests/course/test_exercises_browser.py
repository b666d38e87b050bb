"""Predictions, programs and progress of the course in a browser."""

import json
import re

import pytest
from browser import accessibility_violations, serve_folder
from test_laboratory_browser import browser, open_page, write_laboratory  # noqa: F401 (a fixture)

from uwaga_course import find_exercise
from uwaga_course.translations import exercise_in

pytestmark = pytest.mark.slow
PAGE = """<!doctype html><html lang="{language}"><meta charset="utf-8"><title>Exercises</title>
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,"><link rel="stylesheet" href="{root}lab/lab.css">
<script type="module" src="{root}lab/lab.js"></script>
<body style="background: var(--paper); color: var(--ink)">
<nav class="md-nav" aria-label="Chapters"><a href="{root}learn/03-looking-back/">3. Looking back</a></nav>
<main class="md-content"><h1>Exercises</h1>{content}<h2 id="recap">Recap</h2><p>All.</p></main></html>"""
NUMBERS = ("1.1", "3.1", "2.5", "3.5", "18.5")
PREDICTION = "- a dog\n+ a *cat* $x_1$\n- a bird"
ANSWER = "<details class='question'><summary>Answer</summary><p>It is a cat.</p></details>"
REMARK_TEXT = "document.getElementById('exercise-{number}').querySelector('.lab-remark').textContent"
UNFINISHED_REMARK = "/^$|Loading|Running|Cargando|ejecuci/"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Serve exercises in English and Spanish; yield the URL and the sizes of files that programs load."""
    folder = tmp_path_factory.mktemp("site")
    hooks = write_laboratory(folder)
    chapters = "".join(
        f'<tr><td><a href="learn/{number:02}-x/">{number}</a></td></tr>' for number in (1, 2, 3, 4, 5, 7, 8)
    )
    counts = '<div hidden data-exercise-counts=\'{"1": 5, "2": 5, "3": 5}\'></div>'
    sizes = {}
    for language in ("en", "es"):
        hooks._page.update(language=language, chapter="03", predictions=0)
        exercises = "".join(map(hooks._exercise, NUMBERS))
        content = f"{hooks._predict(PREDICTION)}{ANSWER}<table>{chapters}</table>{counts}<h2>Exercises</h2>"
        content += exercises
        page = PAGE.replace("{language}", language).replace("{root}", "").replace("{content}", content)
        (folder / f"{language}.html").write_text(page, encoding="utf-8")
        sizes = dict(re.findall(r'id="exercise-([\d.]+)"[^>]*data-python="(\d+)"', content))
    hooks._page.update(language="en", chapter="", predictions=0)
    with serve_folder(folder) as url:
        yield url, sizes


@pytest.fixture
def page(browser, site):  # noqa: F811
    context = browser.new_context(viewport={"width": 1000, "height": 900})
    opened = open_page(context, f"{site[0]}/en.html")
    opened.wait_for_selector("fieldset.predict")
    yield opened
    assert opened.errors == []
    context.close()


def run(page, number: str, program: str) -> str:
    """Run a program by pressing the button, and return the remark on it."""
    section = page.locator(f"[id='exercise-{number}']")
    section.locator("textarea").fill(program)
    section.locator(".exercise-bar button").first.click()
    settled = REMARK_TEXT.replace("{number}", number)
    page.wait_for_function(f"!{UNFINISHED_REMARK}.test({settled})", timeout=120_000)
    return section.locator(".lab-remark").inner_text()


def test_exercise_programs_run_in_the_browser(page, site):
    if "3.5" not in site[1]:
        pytest.skip("Pyodide or its NumPy is missing: make page-python")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    exercise = find_exercise("3.5")
    assert exercise.wrong[3].remark == run(page, "3.5", exercise.wrong[3].answer)
    assert sum("/lab/python/" in url for url in requests) >= 5
    assert all(url.startswith(site[0]) for url in requests)
    section = page.locator("[id='exercise-3.5']")
    assert "wrong" in section.get_attribute("class") and "done" not in section.get_attribute("class")
    assert run(page, "3.5", exercise.program) == f"Right. {exercise.because}"
    assert "done" in section.get_attribute("class")
    for program, remark in {
        "def attend(s):\n    x = 1\n    return (1,": "Line 3: SyntaxError: '(' was never closed",
        "def attend(*a):\n    print('seen')\n    return 1 / 0": "Line 3: ZeroDivisionError: division by zero",
        "input()": "Line 1: EOFError: EOF when reading a line",
        "import sys\nsys.exit(3)": "The program ends by itself, with status 3.",
        "attend = 1": "The tests end with TypeError: 'int' object is not callable",
    }.items():
        assert run(page, "3.5", program) == remark
        output = section.locator(".program-output")
        assert (output.inner_text() == "seen\n") if "print" in program else not output.is_visible()
    section.locator("textarea").fill("while True: pass")
    section.locator("textarea").press("Control+Enter")
    page.wait_for_function(f"/Running/.test({REMARK_TEXT.replace('{number}', '3.5')})")
    section.get_by_role("button", name="Stop").click()
    assert section.get_by_role("button", name="Run", exact=True).is_visible()
    assert run(page, "2.5", find_exercise("2.5").program).startswith("Right.")
    page.reload()
    assert section.locator("textarea").input_value() == "while True: pass"  # the program is kept
    section.get_by_role("button", name="Start over").click()
    assert section.locator("textarea").input_value() == exercise.start


@pytest.mark.parametrize("exercise", ["1.5", "4.5", "5.5", "11.6", "13.5"])
def test_programs_get_the_same_verdicts_as_on_the_command_line(page, site, exercise):
    """The worker gives the same verdicts as ``uwaga learn`` on all programs of an exercise."""
    if "3.5" not in site[1]:
        pytest.skip("Pyodide or its NumPy is missing: make page-python")
    expected = find_exercise(exercise)
    programs = [expected.program, expected.start, *(mistake.answer for mistake in expected.wrong)]
    script = """async ({programs, tests}) => {
      const worker = new Worker("lab/python_worker.js", {type: "module"});
      const run = (program) => new Promise((resolve, reject) => {
        worker.onmessage = ({data}) => {
          if (data.type === "judged") resolve(data.judged);
          if (data.type === "failed") reject(new Error(data.detail));
        };
        worker.postMessage({program, tests});
      });
      const found = [];
      for (const program of programs) found.push(await run(program));
      worker.terminate();
      return found;
    }"""
    verdicts = page.evaluate(script, {"programs": programs, "tests": expected.tests})
    assert verdicts[0]["kind"] == "right" and verdicts[1]["kind"] != "right"
    assert [(verdict["kind"], verdict["text"]) for verdict in verdicts[2:]] == [
        ("remark", mistake.remark) for mistake in expected.wrong
    ]


def test_exercises_that_need_uwaga_have_no_program_editor(page, site):
    section = page.locator("[id='exercise-18.5']")
    assert "18.5" not in site[1] and section.locator("textarea").count() == 0
    section.get_by_role("button", name="Mark as done").click()
    assert "done" in section.get_attribute("class")


def test_tab_key_indents_while_writing_and_moves_focus_otherwise(page, site):
    if "2.5" not in site[1]:
        pytest.skip("Pyodide is missing: npm --prefix page ci")
    editor, keys = page.locator("[id='exercise-2.5'] textarea"), page.keyboard
    focused = "document.activeElement.tagName"
    editor.focus()
    keys.press("Tab")
    assert page.evaluate(focused) == "BUTTON"
    editor.fill("")
    keys.type("def f():")
    keys.press("Enter")
    keys.type("if x:")
    keys.press("Enter")
    keys.type("return 1")
    assert editor.input_value() == "def f():\n    if x:\n        return 1"
    keys.press("Shift+Tab")
    assert editor.input_value() == "def f():\n    if x:\n    return 1"
    keys.press("Tab")
    assert editor.input_value().endswith("return 1    ") and page.evaluate(focused) == "TEXTAREA"
    keys.press("Control+z")
    assert editor.input_value().endswith("return 1")
    keys.press("Escape")
    keys.press("Tab")
    assert page.evaluate(focused) == "BUTTON"


def test_answer_is_revealed_only_after_a_prediction_is_chosen(page):
    answer, hint = page.locator("details.question"), page.locator(".predict-hint")
    options = page.locator("fieldset.predict input")
    assert "Choose an option" in hint.inner_text()
    answer.locator("summary").click()
    assert answer.get_attribute("open") is None and "first" in hint.inner_text()
    assert page.evaluate("document.activeElement.type") == "radio"
    page.keyboard.press("Space")
    page.reload()
    assert options.first.is_checked() and page.locator(".predicted").count() == 0
    answer.locator("summary").press("Enter")
    page.wait_for_selector(".predicted")
    assert answer.get_attribute("open") is not None
    assert hint.inner_text() == "Your prediction was wrong. The right one is marked."
    assert page.locator("fieldset.predict li.right").inner_text().startswith("a cat")
    assert page.locator("fieldset.predict li.wrong").inner_text().startswith("a dog")
    assert options.first.is_disabled()
    page.reload()
    recap = page.locator("#recap + .predicted")
    assert recap.inner_text() == "You predicted: a dog ✗ Would you still?"


def test_prediction_choices_are_a_list_without_javascript(browser, site):  # noqa: F811
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{site[0]}/en.html")
    assert page.locator("ul.predict > li").count() == 3 and page.locator("fieldset").count() == 0
    page.locator("details.question summary").click()
    assert page.locator("details.question p").is_visible()
    context.close()


def test_unreadable_or_ambiguous_numbers_get_an_explanation(page):
    section = page.locator("[id='exercise-1.1']")
    # A phone's keyboard for inputmode=decimal may have no minus.
    assert section.locator("input").get_attribute("inputmode") is None
    for text, remark in {
        "−2,30": "Right.",
        "1,386": "1,386 has two meanings. Write 1386 or 1.386.",
        "x": "x is not a number. Write −2.5, 2/7, 50% or 1048576.",
        " ": "Write a number in every field, or choose an answer.",
    }.items():
        section.locator("input").fill(text)
        section.locator("input").press("Enter")
        assert section.locator(".lab-remark").inner_text().startswith(remark), text


def test_progress_is_shown_and_can_be_cleared(page):
    for number, answer in (("1.1", "-2.3"), ("3.1", "1/2")):
        section = page.locator(f"[id='exercise-{number}']")
        section.locator("input").fill(answer)
        section.locator("input").press("Enter")
    assert page.locator("nav .lab-progress").inner_text() == "1/5"
    page.reload()
    assert page.locator("nav .lab-progress").get_attribute("aria-label") == "1 of 5"
    assert page.locator("td .lab-progress").all_inner_texts() == ["1 of 5", "1 of 5"]
    assert page.locator(".lab-forget").inner_text().startswith("2 of 15 exercises solved.")
    page.evaluate(
        f"localStorage.setItem('uwaga-learned', {json.dumps(json.dumps([f'3.{n}' for n in range(1, 6)]))})"
    )
    page.reload()
    assert page.locator("nav .lab-progress").inner_text() == "✓"
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Forget my progress").click()
    assert page.locator(".lab-progress").count() == 0
    assert page.evaluate("localStorage.length") == 0


def test_remarks_are_in_the_language_of_the_page(browser, site):  # noqa: F811
    if "3.5" not in site[1]:
        pytest.skip("Pyodide or its NumPy is missing: make page-python")
    page = open_page(browser, f"{site[0]}/es.html")
    spanish = exercise_in("es", "3.5")
    page.wait_for_selector("fieldset.predict")
    assert run(page, "3.5", spanish.wrong[0].answer) == spanish.wrong[0].remark
    assert run(page, "3.5", spanish.start) == "Sustituye cada ... por una expresión."
    assert run(page, "3.5", "1 +") == "Línea 1: SyntaxError: invalid syntax"
    assert run(page, "3.5", spanish.program) == f"Correcto. {spanish.because}"
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_exercises_are_accessible_and_fit_on_a_phone_screen(page, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": 320, "height": 700})
    page.locator("fieldset.predict input").first.check()
    page.locator("details.question summary").click()
    page.locator("[id='exercise-3.1'] input").fill("0.5")
    page.locator("[id='exercise-3.1'] input").press("Enter")
    assert accessibility_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
