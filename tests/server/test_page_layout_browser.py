"""Elements of the page are not clipped and do not overlap, in any state, width and language."""

import itertools
from collections.abc import Callable, Iterator

import pytest
from browser import accessibility_violations, require_chinese_font
from running_server import running_server
from server_page import SET_LANGUAGE, copy_bundled_model, expect, open_server_page, translate_text

from uwaga_memory import Memory, Pair

pytest_plugins = "server_fixtures"

WIDTHS = (320, 390, 768, 1280, 1920)
SCHEMES = ("light", "dark")
TEXT = (
    "I want to buy a small red car tomorrow. It is not expensive.\n"
    "The zeitgeist of jazz smells of velvet thunder."
)
OPEN_FILE_TEXT = "Please open the file {} with version {} of the program."
VERSION_NUMBERS = itertools.count(3)
"""Numbers in texts: a memory that contains the text with one number has a match for the next."""
FIND_LAYOUT_FAULTS = """() => {
  const problems = [];
  const describe = (element) =>
    `${element.localName}.${element.className} ${element.textContent.trim().slice(0, 40)}`;
  const all = (root) => [...root.querySelectorAll('*')].flatMap((element) =>
    [element, ...(element.shadowRoot ? all(element.shadowRoot) : [])]);
  const shown = all(document.body).filter((element) => element.checkVisibility({visibilityProperty: true})
    && element.getClientRects().length && !element.closest('.unseen, .skip, .mirror, svg, option'));
  const scrolls = (element) => /auto|scroll/.test(getComputedStyle(element).overflowX);
  const scrolled = (element) => {
    for (let parent = element; parent; parent = parent.parentElement ?? parent.getRootNode().host) {
      if (parent !== document.body && scrolls(parent) && parent.scrollWidth > parent.clientWidth) return true;
    }
    return false;
  };
  if (document.documentElement.scrollWidth > innerWidth)
    problems.push('the page scrolls horizontally');

  const drawing = new OffscreenCanvas(1, 1).getContext('2d');
  const isCut = (element, style) => {
    const isSelect = element.localName === 'select';
    const text = isSelect ? element.selectedOptions[0]?.text : !element.value && element.placeholder;
    if (text && element.localName !== 'textarea') {
      drawing.font = style.font;
      const space = parseFloat(style.paddingLeft) + parseFloat(style.paddingRight) + (isSelect ? 16 : 0);
      return drawing.measureText(text).width > element.clientWidth - space + 1
        && element.id !== 'inside-line'; // sentences of any length
    }
    if (style.display === 'inline' || scrolls(element)) return false;
    const isHidden = style.overflowX !== 'visible' || style.overflowY !== 'visible';
    return element.scrollWidth > element.clientWidth + 1
      || (isHidden && style.webkitLineClamp === 'none' && element.scrollHeight > element.clientHeight + 1);
  };
  const isBroken = (text) => [...text.data.matchAll(/[\\p{L}\\p{N}]+/gu)].some(({0: word, index}) => {
    const range = new Range();
    range.setStart(text, index);
    range.setEnd(text, index + word.length);
    const lines = new Set([...range.getClientRects()].map(({top}) => Math.round(top)));
    return lines.size > 1 && !/\\p{Script=Han}/u.test(word);
  });
  for (const element of shown) {
    const hasText = element.matches('input, select, textarea')
      || [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!hasText || scrolled(element)) continue;
    if (isCut(element, getComputedStyle(element))) problems.push(`cut: ${describe(element)}`);
    const texts = [...element.childNodes].filter((node) => node.nodeType === 3);
    if (!element.matches('textarea') && texts.some(isBroken))
      problems.push(`broken word: ${describe(element)}`);
    const {left, right} = element.getBoundingClientRect();
    const isOutside = left < -1 || right > document.documentElement.clientWidth + 1;
    if (isOutside) problems.push(`outside: ${describe(element)}`);
  }

  const floating = (element) => element.closest('.below, [popover]');
  const isControl = (element) => element.matches('button, select, input, textarea, summary, a, label.button');
  const controls = shown.filter(isControl);
  const boxes = controls.map((element) => [element, element.getBoundingClientRect()]);
  boxes.forEach(([one, a], index) => {
    for (const [other, b] of boxes.slice(index + 1)) {
      if (floating(one) !== floating(other) || one.contains(other)) continue;
      const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (width > 1 && height > 1)
        problems.push(`overlap: ${describe(one)} and ${describe(other)}`);
    }
  });
  return problems;
}"""


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[str]:
    """Start a server that detects languages, accepts documents and has a translation memory."""
    folder = tmp_path_factory.mktemp("server")
    models = ["bundled", str(copy_bundled_model(folder, "de", "en"))]
    (folder / "memories").mkdir()
    with Memory.create(folder / "memories/letters.uwm", "en", "de", "Letters and other texts") as memory:
        memory.add(
            [Pair(OPEN_FILE_TEXT.format("{file}", 2), "Bitte {file} mit Version 2 öffnen.", "letters.tmx")]
        )
    folders = {"state": str(folder / "state"), "memories": str(folder / "memories")}
    with running_server(folder, models=models, **folders) as running:
        yield running.url


def enter_text(page) -> None:
    page.locator("#tabText").click()
    translate_text(page, TEXT)
    page.locator(".line").nth(1).locator(".word").first.focus()
    page.wait_for_selector(".checks .choice")
    page.wait_for_selector(".others .choice")


def open_menu(page) -> None:
    enter_text(page)
    page.locator(".line").nth(1).locator(".word").last.click()
    page.wait_for_selector(".menu .choice")
    page.locator(".menu [aria-expanded]").click()


def open_menu_of_own_words(page) -> None:
    enter_text(page)
    page.locator(".word").first.click()
    page.locator(".menu form input").fill("Meinerseits gerne")
    page.keyboard.press("Enter")
    page.locator(".word.chosen").nth(1).click()
    page.wait_for_selector(".menu [data-say=wordTyped]")


def edit(page) -> None:
    page.keyboard.press("Escape")
    page.locator(".others .row button").first.click()


def confirm_translation(page) -> None:
    page.keyboard.press("Escape")
    page.locator(".others .row button").nth(1).click()


def open_settings(page) -> None:
    page.locator("header button").click()


def open_laboratory(page) -> None:
    page.keyboard.press("Escape")
    page.locator("#tabInside").click()
    page.wait_for_selector(".uwaga-attention [data-milliseconds]")


def send_document(page) -> None:
    page.locator("#tabDocument").click()
    name = "a long name of a document, with its version.txt"
    page.locator("#files").set_input_files({"name": name, "mimeType": "text/plain", "buffer": b"He sleeps."})
    page.locator(".documents progress[value='1']").last.wait_for()


def add_pair(page) -> None:
    page.locator("#tabGlossary").click()
    for field, word in zip(page.locator("#tabGlossary-panel form input").all(), ("car", "Auto"), strict=True):
        field.fill(word)
    page.keyboard.press("Enter")


def clear_text(page) -> None:
    page.locator("#tabText").click()
    page.locator("[data-say=clear]").click()
    page.locator("#tabText-panel .undo button").wait_for()


def open_history(page) -> None:
    page.locator("#tabHistory").click()


def use_memory(page) -> None:
    page.locator("#tabText").click()
    page.locator("#memory").select_option(index=1)
    translate_text(page, OPEN_FILE_TEXT.format("{name}", next(VERSION_NUMBERS)))
    page.locator(".word").first.focus()
    page.wait_for_selector(".origin .faint")


def store_pair(page) -> None:
    page.locator(".others .row button").nth(2).click()
    page.wait_for_selector(".origin p:only-child")


def show_problem(page) -> None:
    page.locator("#tabText").click()
    page.route("**/v1/translate", lambda route: route.abort("connectionrefused"))
    page.locator("#source").fill("Nobody answers.")
    page.wait_for_selector(".note button")
    page.unroute("**/v1/translate")


def show_progress(page) -> None:
    page.route("**/v1/translate", lambda route: None)  # never answered
    page.locator("#source").fill("Guten Tag, niemand antwortet.")
    page.locator(".text-progress progress").wait_for()


def refuse_documents(page) -> None:
    page.locator("#tabDocument").click()
    files = [{"name": name, "mimeType": "", "buffer": b"{"} for name in ("photo.png", "broken.json")]
    page.locator("#files").set_input_files(files)
    page.locator(".documents .note").nth(1).wait_for()


STATES: tuple[Callable, ...] = (
    enter_text,
    open_menu,
    open_menu_of_own_words,
    edit,
    confirm_translation,
    open_settings,
    open_laboratory,
    send_document,
    refuse_documents,
    add_pair,
    clear_text,
    add_pair,  # of any language
    open_history,
    use_memory,
    store_pair,
    add_pair,
    show_problem,
    show_progress,
)


@pytest.mark.slow
@pytest.mark.parametrize("language", ["de", "en", "es", "pl", "zh"])
def test_page_elements_are_not_clipped_and_do_not_overlap(browser, server, language):
    problems = []
    with open_server_page(browser, server, "#source=auto&target=de", expected=("Failed to load",)) as page:
        page.evaluate(SET_LANGUAGE, language)
        if language == "zh":
            require_chinese_font(page)

        def measure(state: str, width: int) -> None:
            for scheme in SCHEMES if width == WIDTHS[0] else SCHEMES[:1]:
                page.emulate_media(color_scheme=scheme)
                problems.extend(
                    (state, width, scheme, problem) for problem in page.evaluate(FIND_LAYOUT_FAULTS)
                )

        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            measure("empty", width)
        for state in STATES:
            state(page)
            for width in reversed(WIDTHS):
                page.set_viewport_size({"width": width, "height": 800})
                if page.locator(".menu").is_visible():
                    state(page)  # it stands below its word
                page.wait_for_timeout(30)  # the laboratory draws again
                measure(state.__name__, width)
    assert not problems, "\n".join(map(str, problems))


@pytest.mark.slow
def test_selecting_a_tab_does_not_move_other_tabs(page):
    edges = []
    for tab in page.get_by_role("tab").all():
        tab.click()
        edges.append([other.bounding_box()["x"] for other in page.get_by_role("tab").all()])
    assert all(boxes == edges[0] for boxes in edges)


def test_other_translations_of_a_short_text_are_in_view(page):
    page.set_viewport_size({"width": 1280, "height": 800})
    enter_text(page)
    assert page.locator("#memory").is_visible() and page.locator(".demonstration").is_visible()
    expect(page.locator(".others .choice").first).to_be_in_viewport(ratio=1)
    expect(page.locator(".others .choice").last).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("width", [390, 1280])
def test_menu_of_a_word_leads_to_the_other_translations_of_its_sentence(page, width):
    page.set_viewport_size({"width": width, "height": 800})
    translate_text(page, "\n".join(["He sleeps."] * 12 + ["I want to buy a small red car tomorrow."]))
    choice = page.locator(".others .choice").first
    page.locator(".line").last.locator(".word").first.focus()
    expect(page.locator(".others h2")).to_contain_text("car")
    choice.wait_for()
    expect(choice).not_to_be_in_viewport()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Other translations of this sentence").press("Enter")
    expect(page.locator(".menu")).not_to_be_visible()
    expect(choice).to_be_focused()
    expect(choice).to_be_in_viewport(ratio=1)


FIND_COVERED = """() => {
  const menu = document.querySelector('.menu').getBoundingClientRect();
  return [...document.querySelectorAll('#tabText-panel .tools button')].filter((button) => {
    const {left, right, top, bottom} = button.getBoundingClientRect();
    return left < menu.right && menu.left < right && top < menu.bottom && menu.top < bottom;
  }).map((button) => button.textContent);
}"""
MIN_MENU_HEIGHT, MENU_GAP = 280, 4


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("lines", [1, 30])
def test_menu_of_a_word_is_below_the_word_and_covers_no_button_if_there_is_room(page, width, lines):
    page.set_viewport_size({"width": width, "height": 800})
    translate_text(page, "\n".join(["I want to buy a small red car tomorrow."] * lines))
    words, menu = page.locator(".word"), page.locator(".menu")
    page_height = "document.documentElement.scrollHeight"
    page.locator(".others .choice").first.wait_for()
    height = page.evaluate(page_height)
    with_room = []
    for word in (words.first, words.nth(words.count() // 2), words.last):
        word.click()
        menu.locator(".choice").first.wait_for()
        box, word_box = menu.bounding_box(), word.bounding_box()
        word_end = word_box["y"] + word_box["height"]
        assert 0 <= box["y"] - word_end <= MENU_GAP + 1
        assert box["x"] <= word_box["x"] + word_box["width"] and word_box["x"] <= box["x"] + box["width"]
        room = page.locator(".shown + p + .tools").bounding_box()["y"] - word_end
        with_room.append(room >= MIN_MENU_HEIGHT + 2 * MENU_GAP)
        assert not (with_room[-1] and page.evaluate(FIND_COVERED))
        assert box["height"] >= MIN_MENU_HEIGHT and page.evaluate(page_height) == height
        expect(menu.locator("h2")).to_be_in_viewport(ratio=1)
        page.get_by_role("button", name="Close").click()
    assert with_room == [lines > 1, lines > 1, False]


def test_word_stays_marked_while_its_menu_is_open(page):
    translate_text(page, "He sleeps.")
    word, colour = page.locator(".word").last, "element => getComputedStyle(element).backgroundColor"
    usual = word.evaluate(colour)
    word.hover()
    marked = word.evaluate(colour)
    assert marked != usual
    word.click()
    page.locator(".menu .choice").first.wait_for()
    page.mouse.move(3, 3)
    assert word.evaluate(colour) == marked
    page.get_by_role("button", name="Close").click()
    page.locator("#source").focus()
    expect(word).to_have_css("background-color", usual)


HINTS = """(text) => {
  const hint = document.querySelector(text ? '.word-hint' : '.hints > :not(:empty)');
  if (text) hint.textContent = text;
  const [box, pane] = [hint, hint.closest('.pane')].map((element) => element.getBoundingClientRect());
  const isWhole = box.left >= pane.left && box.right <= pane.right && box.bottom <= pane.bottom
    && hint.scrollHeight <= hint.clientHeight && hint.scrollWidth <= hint.clientWidth;
  const top = (element) => element.getBoundingClientRect().top;
  return [isWhole, ...[...document.querySelectorAll('.pane .tools, .others')].map(top)];
}"""


@pytest.mark.parametrize("width", [390, 900, 1280])
def test_hints_beside_the_buttons_move_nothing_and_are_not_clipped(browser, server, width):
    settings = {"viewport": {"width": width, "height": 800}, "permissions": ["clipboard-write"]}
    with open_server_page(browser, server, "#source=en&target=de", **settings) as page:
        page.wait_for_selector("#source")
        page.evaluate(SET_LANGUAGE, "de")
        expect(page.locator("html")).to_have_attribute("lang", "de")
        enter_text(page)
        page.evaluate("scrollTo(0, 0)")
        usual = page.evaluate(HINTS, "Wort")
        assert usual[0]
        for length in (5, 15, 40):
            assert page.evaluate(HINTS, "Wahrscheinlichkeit, " * length) == usual
        for word in page.locator(".word").all():
            word.dispatch_event("mouseover")
            assert page.evaluate(HINTS) == usual
        page.locator("[data-say=share]").click()
        page.locator("[data-say=shared]").wait_for()
        page.evaluate("scrollTo(0, 0)")
        assert page.evaluate(HINTS) == usual


TOPS = """() => ['.box', '.output'].map(
  (name) => document.querySelector(name).getBoundingClientRect().top + scrollY)"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("text", ["Bonjour, comment allez-vous ?", "\n".join(["Bonjour, mon ami !"] * 40)])
def test_notes_and_progress_do_not_move_the_texts_and_are_in_view(browser, server, width, text):
    settings = {"viewport": {"width": width, "height": 800}, "expected": ("Failed to load",)}
    with open_server_page(browser, server, "#source=en&target=de", **settings) as page:
        note, progress = page.locator(".note:visible"), page.locator(".text-progress progress")
        translate_text(page, text.replace("B", "b"))
        expect(note).to_contain_text("look")
        tops = page.evaluate(TOPS)
        expect(note).to_be_in_viewport(ratio=1)
        page.route("**/v1/translate", lambda route: route.abort("connectionrefused"))
        page.locator("#source").fill(text)
        expect(note).to_contain_text("cannot be reached")
        expect(note).to_be_in_viewport(ratio=1)
        assert page.evaluate(TOPS) == tops
        page.unroute("**/v1/translate")
        page.route("**/v1/translate", lambda route: None)  # never answered
        page.locator("#source").fill(f"{text}!")
        expect(progress).to_be_in_viewport(ratio=1)
        assert note.count() == 0 and page.evaluate(TOPS) == tops


def test_long_note_leaves_the_texts_in_view(browser, server):
    settings = {"viewport": {"width": 390, "height": 800}, "expected": ("Failed to load",)}
    with open_server_page(browser, server, "#source=en&target=de", **settings) as page:
        error = {"error": {"code": "refused", "message": "One of many reasons. " * 200}}
        page.route("**/v1/translate", lambda route: route.fulfill(status=400, json=error))
        page.locator("#source").fill("He sleeps.")
        note = page.locator(".below .note")
        expect(note).to_contain_text("One of many reasons.")
        assert note.bounding_box()["height"] <= 0.3 * 800 + 1
        expect(page.locator("#source")).to_be_in_viewport()


def test_settings_open_as_an_overlay(page):
    below = page.locator("#source").bounding_box()
    page.locator("header button").click()
    assert page.locator("#settings").is_visible() and page.locator("#source").bounding_box() == below
    page.keyboard.press("Escape")
    assert not page.locator("#settings").is_visible()
    assert page.evaluate("document.activeElement.getAttribute('popovertarget')") == "settings"


@pytest.mark.parametrize("width", [390, 1280])
def test_menu_and_settings_are_never_open_together_and_close_on_escape(page, width):
    page.set_viewport_size({"width": width, "height": 700})
    translate_text(page, TEXT)
    menu, settings = page.locator(".menu"), page.locator("#settings")
    last = page.locator(".word").last

    def open_with_key(opener) -> None:
        opener.focus()
        page.keyboard.press("Enter")

    open_with_key(last)
    page.wait_for_selector(".menu .choice:focus")
    box = menu.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= width
    open_with_key(page.locator("header button"))
    expect(settings).to_be_visible()
    expect(menu).not_to_be_visible()
    open_with_key(last)
    expect(menu).to_be_visible()
    expect(settings).not_to_be_visible()
    page.wait_for_selector(".menu .choice:focus")
    page.keyboard.press("Escape")
    expect(menu).not_to_be_visible()
    expect(last).to_be_focused()
    open_with_key(last)
    page.wait_for_selector(".menu .choice:focus")
    while page.evaluate("document.activeElement.closest('.menu') !== null"):
        page.keyboard.press("Tab")
    expect(menu).not_to_be_visible()
    assert page.evaluate("document.activeElement.closest('main') !== null")
    last.click()
    expect(menu).to_be_visible()
    page.mouse.click(3, 3)
    expect(menu).not_to_be_visible()


def test_tab_key_reaches_every_control_with_visible_focus(page):
    enter_text(page)
    page.evaluate("""() => {
      const selector = 'main :is(button, select, input, textarea, .word)';
      window.controls = [...document.querySelectorAll(selector)]
        .filter((control) => control.checkVisibility() && !control.disabled && control.tabIndex >= 0);
      for (let timer = setTimeout(() => 0); timer; timer--) clearTimeout(timer);
      window.setTimeout = () => 0; // on a slow machine, a focused word would select another sentence
      document.activeElement.blur();
    }""")
    unseen = []
    for _ in range(page.evaluate("controls.length") + 3):
        page.keyboard.press("Tab")
        unseen += page.evaluate("""() => {
          const focused = document.activeElement;
          window.controls = controls.filter((control) => control !== focused);
          const shows = [focused, focused.closest('.pane')].some((element) => element
            && (getComputedStyle(element).outlineStyle !== 'none' || element.matches('.pane:focus-within')));
          return shows || focused === document.body ? [] : [focused.outerHTML.slice(0, 100)];
        }""")
    assert page.evaluate("controls.map((control) => control.outerHTML.slice(0, 100))") == unseen == []


@pytest.mark.slow
@pytest.mark.sampled(3)
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [390, 1280])
def test_page_has_no_accessibility_violations(browser, server, scheme, width):
    settings = {"color_scheme": scheme, "viewport": {"width": width, "height": 800}, "bypass_csp": True}
    violations = []
    with open_server_page(
        browser, server, "#source=auto&target=de", expected=("Failed to load",), **settings
    ) as page:
        for state in (lambda page: None, *STATES):
            state(page)
            violations += [(state.__name__, *violation) for violation in accessibility_violations(page)]
    assert not violations, "\n".join(map(str, violations))
