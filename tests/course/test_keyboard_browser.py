"""The widgets of the course can be reached and used by keyboard alone, with visible focus."""

import re
from collections.abc import Iterator

import pytest
from browser import accessibility_violations, serve_folder
from test_laboratory_browser import PAGE, browser, open_page, write_laboratory  # noqa: F401 (a fixture)

pytestmark = pytest.mark.slow
EXERCISE_NUMBERS = ("1.1", "3.1", "3.3", "3.4", "2.5")
TOYS = (
    '{"score": "dot", "scores": ["dot", "scaled"], "temperature": true, '
    '"queries": [[1, 0]], "keys": [[1, 0], [0, 1]]}',
    '{"queries": [[1, 0], [0, 1]], "keys": [[1, 0], [0, 1]], "mask": [[true, false], [true, true]]}',
    '{"gru": {"inputs": [1, 0, 0], "w": 1, "u": 1}}',
    '{"positions": {"count": 4, "width": 4}}',
    '{"softmax": {"names": ["a", "b"], "scores": [1, 2]}}',
    '{"width": [1, 128]}',
    '{"clock": [8, 32]}',
)
FOCUSED_ELEMENT = """() => {
  let one = document.activeElement;
  while (one?.shadowRoot?.activeElement) one = one.shadowRoot.activeElement;
  if (!one || one === document.body) return null;
  const style = getComputedStyle(one);
  const box = one.getBoundingClientRect();
  const named = one.getAttribute("aria-label") || one.labels?.[0]?.textContent || one.textContent;
  return {
    name: one.tagName.toLowerCase() + " " + named.trim().slice(0, 60),
    seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1 && box.width * box.height > 0,
    inside: box.bottom > 0 && box.top < innerHeight,
  };
}"""
COUNT_FOCUSABLE = """() => {
  const KINDS = "button, input, select, textarea, summary, a[href], [tabindex]";
  const found = [];
  const walk = (root) => {
    for (const one of root.querySelectorAll("*")) {
      if (one.shadowRoot) walk(one.shadowRoot);
      const inert = one.disabled || one.tabIndex < 0 || !one.checkVisibility();
      const radio = one.matches("input[type=radio]");
      const group = `input[name="${one.name}"]`;
      const first = radio && (root.querySelector(`${group}:checked`) ?? root.querySelector(group));
      if (!inert && (!radio || one === first) && one.matches(KINDS)) found.push(one);
    }
  };
  walk(document);
  return found.length;
}"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[str]:
    """Serve a page with the laboratory, all calculators, and one exercise of each kind."""
    folder = tmp_path_factory.mktemp("site")
    build = write_laboratory(folder)
    exercises = "".join(build._exercise(number) for number in EXERCISE_NUMBERS)
    toys = "".join(f"<uwaga-toy data-toy='{toy}'>still</uwaga-toy>" for toy in TOYS)
    page = re.sub(r"<uwaga-toy.*</uwaga-toy>", toys, PAGE, flags=re.DOTALL)
    (folder / "index.html").write_text(page.replace("EXERCISES", exercises), encoding="utf-8")
    with serve_folder(folder) as url:
        yield f"{url}/index.html"


@pytest.fixture
def page(browser, site):  # noqa: F811
    started_page = open_page(browser, site, viewport={"width": 1000, "height": 900}, reduced_motion="reduce")
    started_page.keyboard.press("Tab")
    assert started_page.evaluate(FOCUSED_ELEMENT)["name"].startswith("button Start the laboratory")
    started_page.keyboard.press("Enter")
    started_page.wait_for_function("document.querySelector('uwaga-lab').dataset.milliseconds")
    yield started_page
    assert started_page.errors == []
    started_page.close()


def tab_through(page, limit: int = 400) -> list[dict]:
    """Press Tab until the focus leaves the page; return the focused elements."""
    page.evaluate("document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0)")
    page.evaluate("document.querySelector('h1').tabIndex = -1; document.querySelector('h1').focus()")
    stops = []
    for _ in range(limit):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED_ELEMENT)
        if focused is None:
            return stops
        stops.append(focused)
    raise AssertionError(f"the focus is trapped: {[stop['name'] for stop in stops[-6:]]}")


def arrow_to(page, name: str) -> None:
    """Press arrow keys until the named tab of the laboratory is selected."""
    for _ in range(6):
        if page.evaluate(FOCUSED_ELEMENT)["name"] == f"button {name}":
            page.wait_for_timeout(300)
            return
        page.keyboard.press("ArrowRight")
    raise AssertionError(f"no arrow reaches {name}")


def tab_to(page, name: str, key: str = "Tab") -> None:
    """Press Tab until the element with the given name has the focus."""
    names = []
    for _ in range(120):
        page.keyboard.press(key)
        focused = page.evaluate(FOCUSED_ELEMENT)
        if focused is not None:
            assert focused["seen"], focused
            if re.search(name, focused["name"]):
                return
            names.append(focused["name"])
    raise AssertionError(f"{name} is not reached: {names[-12:]}")


def test_starting_the_laboratory_focuses_its_text_field(page):
    assert page.evaluate(FOCUSED_ELEMENT)["name"] == "textarea English"


@pytest.mark.parametrize(
    "view", ["Attention", "Step by step", "The Transformer", "Change", "Choose words", "Compare"]
)
def test_tab_key_reaches_all_controls(page, view):
    tab_to(page, "^button The Transformer$")
    arrow_to(page, view)
    stops = tab_through(page)
    assert len(stops) == page.evaluate(COUNT_FOCUSABLE), [stop["name"] for stop in stops]
    assert [stop["name"] for stop in stops if not (stop["seen"] and stop["inside"])] == []


def test_laboratory_views_are_operated_by_keyboard(page):
    keys = page.keyboard
    tab_to(page, "^button The Transformer$")
    keys.press("End")
    assert page.evaluate(FOCUSED_ELEMENT)["name"] == "button Compare"
    keys.press("Home")
    arrow_to(page, "Step by step")
    tab_to(page, "^button One step forward$")
    keys.press("Enter")
    page.wait_for_selector(".lab-steps li:nth-child(2) [aria-expanded=true]")
    tab_to(page, "^button reads ")
    keys.press("Enter")
    page.wait_for_selector(".lab-steps li:nth-child(1) [aria-expanded=true]")
    tab_to(page, "^button Step by step$", "Shift+Tab")
    arrow_to(page, "The Transformer")
    tab_to(page, "^button Encoder: embedding$")
    keys.press("Enter")
    page.wait_for_selector(".lab-numbers caption:text('encoder.embedding')")
    tab_to(page, "^button The Transformer$", "Shift+Tab")
    arrow_to(page, "Change")
    tab_to(page, "^button silence$")
    keys.press("Enter")
    page.wait_for_function("document.querySelector('uwaga-lab').state.edits.length === 1")
    tab_to(page, "^td .*: ")
    keys.press("ArrowDown")
    keys.press("Space")
    page.wait_for_function("JSON.stringify(document.querySelector('uwaga-lab').state).includes('false')")
    page.wait_for_function("/, masked$/.test(document.activeElement.ariaLabel)")
    tab_to(page, "^button Remove: ")
    keys.press("Enter")
    page.wait_for_function("document.querySelector('uwaga-lab').state.edits.length === 0")
    page.wait_for_function(f"({FOCUSED_ELEMENT})().name === 'button silence'")
    tab_to(page, "^button A 0$")
    for key in ("Space", "ArrowRight", "Enter"):
        keys.press(key)
    page.wait_for_function("document.querySelector('uwaga-lab').state.edits[0]?.places[1] === 0")
    page.wait_for_function(f"({FOCUSED_ELEMENT})().name.endsWith(' 0')")  # drawn after the state has changed
    tab_to(page, "^button Change$", "Shift+Tab")
    arrow_to(page, "Choose words")
    tab_to(page, "^input temperature")
    keys.press("ArrowRight")
    tab_to(page, "^button Draw a translation$")
    keys.press("Enter")
    page.wait_for_function("/seed 1: ./.test(document.querySelector('uwaga-lab').textContent)")
    tab_to(page, "^summary Keep$")
    keys.press("Enter")
    for name in ("JSON", "CSV", "SVG", "PNG"):
        tab_to(page, f"^button {name}$")
        with page.expect_download():
            keys.press("Enter")
    tab_to(page, "^button Show me the Python$")
    keys.press("Enter")
    page.wait_for_function("/look_inside/.test(document.querySelector('.lab-keep pre').textContent)")


def test_model_drawing_is_operated_by_keyboard(page):
    keys = page.keyboard
    tab_to(page, "^button Encoder: embedding$")
    for key, name in (
        ("ArrowRight", "Encoder: positions"),
        ("ArrowRight", "Encoder, block 1: self-attention"),
        ("End", "Decoder: softmax"),
        ("Home", "Encoder: embedding"),
        ("ArrowRight", "Encoder: positions"),
        ("ArrowRight", "Encoder, block 1: self-attention"),
    ):
        keys.press(key)
        assert page.evaluate(FOCUSED_ELEMENT)["name"] == f"button {name}"
    keys.press("Enter")
    page.wait_for_selector(".lab-panel .lab-numbers caption:text('encoder.1.weights, head 1')")
    assert page.evaluate(FOCUSED_ELEMENT)["name"] == "button Encoder, block 1: self-attention"
    tab_to(page, "^button values V")
    keys.press("Enter")
    page.wait_for_selector(".lab-panel .lab-numbers caption:text('encoder.1.value, head 1')")
    assert page.evaluate(FOCUSED_ELEMENT)["name"].startswith("button values V")
    tab_to(page, "^button head 3$")
    keys.press("Enter")
    page.wait_for_selector(".lab-panel .lab-numbers caption:text('encoder.1.value, head 3')")
    tab_to(page, "^button silence$")
    keys.press("Enter")
    page.wait_for_selector(".lab-box.edited")
    tab_to(page, "^button undo$")
    keys.press("Enter")
    page.wait_for_function("!document.querySelector('.lab-box.edited')")
    assert page.evaluate(FOCUSED_ELEMENT)["name"] == "button silence"
    tab_to(page, "^button weights", "Shift+Tab")
    keys.press("Enter")
    page.wait_for_selector(".lab-panel .lab-grid")
    tab_to(page, "^td ")
    keys.press("ArrowDown")
    keys.press("Space")
    page.wait_for_selector(".lab-box.edited")
    assert page.evaluate(FOCUSED_ELEMENT)["name"].endswith("masked")
    keys.press("Space")
    page.wait_for_function("!document.querySelector('.lab-box.edited')")
    keys.press("Escape")
    page.wait_for_function("document.querySelector('.lab-panel').hidden")
    assert page.evaluate(FOCUSED_ELEMENT)["name"] == "button Encoder, block 1: self-attention"
    keys.press("ArrowDown")
    assert "self-attention" not in page.evaluate(FOCUSED_ELEMENT)["name"].partition(":")[0]


def test_attention_view_is_operated_by_keyboard(page):
    keys = page.keyboard
    tab_to(page, "^button The Transformer$")
    arrow_to(page, "Attention")
    tab_to(page, "^input ?.*(cross|encoder)")
    keys.press("ArrowRight")
    page.wait_for_function(
        "document.querySelector('.uwaga-attention div:last-child').shadowRoot"
        ".querySelector('output').textContent.startsWith('encoder')"
    )
    tab_to(page, "^button head 1$")
    keys.press("ArrowRight")
    assert page.evaluate(FOCUSED_ELEMENT)["name"] == "button head 2"
    tab_to(page, "^li ")
    keys.press("ArrowDown")
    keys.press("Enter")
    output = "document.querySelector('.uwaga-attention div:last-child').shadowRoot.querySelector('output')"
    page.wait_for_function(f"/looks most at/.test({output}.textContent)")


def test_calculators_are_operated_by_keyboard(page):
    keys, toys = page.keyboard, page.locator("uwaga-toy")
    tab_to(page, "^select score")
    before = toys.nth(0).inner_text()
    keys.press("ArrowDown")
    tab_to(page, "^input temperature")
    keys.press("ArrowRight")
    assert toys.nth(0).inner_text() != before
    changed = toys.nth(0).inner_text()
    tab_to(page, "^circle ")
    keys.press("ArrowUp")
    assert toys.nth(0).inner_text() != changed
    tab_to(page, "^button Start over$")
    keys.press("Enter")
    assert page.evaluate(FOCUSED_ELEMENT)["name"] == "button Start over"
    assert toys.nth(0).inner_text() == before
    tab_to(page, "^td q1, k1: ")
    keys.press("ArrowDown")
    keys.press("Space")
    assert toys.nth(1).inner_text().count("−∞") == 2  # k2 is masked for q1, and now k1 for q2
    assert page.evaluate(FOCUSED_ELEMENT)["name"] == "td q2, k1: −∞, masked"
    for index, name in (
        (2, "inputs, x, step 1"),
        (3, "^input positions"),
        (4, "scores, score, a"),
        (5, "d_k"),
    ):
        tab_to(page, name)
        before = toys.nth(index).inner_text()
        keys.press("ArrowUp")
        assert toys.nth(index).inner_text() != before, name
    tab_to(page, "^button Start the clock$")
    keys.press("Enter")
    toys.nth(6).get_by_text("in one.").wait_for()
    assert "ms" in toys.nth(6).locator("tbody tr").last.inner_text()


def test_exercises_are_answered_by_keyboard(page):
    keys = page.keyboard
    for number in EXERCISE_NUMBERS:
        section = page.locator(f"section.exercise[id='exercise-{number}']")
        section.evaluate(
            "(one) => { one.querySelector('h3').tabIndex = -1; one.querySelector('h3').focus() }"
        )
        if section.locator("li[data-item]").count():
            first = section.locator("li[data-item]").first.inner_text()
            tab_to(page, "^button down: ")
            keys.press("Enter")
            assert section.locator("li[data-item]").nth(1).inner_text() == first
            assert page.evaluate(FOCUSED_ELEMENT)["name"].startswith("button down: ")
        elif section.locator("input[type=radio]").count():
            keys.press("Tab")
            keys.press("Space")
            assert section.locator("input:checked").count() == 1
        else:
            for _ in range(section.locator("input").count()):
                keys.press("Tab")
                keys.type("1")
        tab_to(page, r"^button (Check$|Mark as done$|Run\b)")
        keys.press("Enter")
        if section.locator(".lab-remark").count():
            assert section.locator(".lab-remark").inner_text()
        tab_to(page, "^summary Hint$")
        keys.press("Enter")
        assert section.locator("details").first.get_attribute("open") is not None


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_accessible_on_a_narrow_screen(page, scheme):
    page.set_viewport_size({"width": 320, "height": 700})
    page.emulate_media(color_scheme=scheme)
    page.wait_for_timeout(300)
    assert accessibility_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    moving = "[...document.querySelectorAll('uwaga-lab *, uwaga-toy *')].filter((one) =>"
    moving += " parseFloat(getComputedStyle(one).transitionDuration) > 0"
    moving += " || getComputedStyle(one).animationName !== 'none').length"
    assert page.evaluate(moving) == 0
