"""The two boxes of the page, in Chromium, over a real server with the bundled model."""

from __future__ import annotations

import itertools
import json
import re

import pytest
from page_visit import START, eventually, expect, marked, other_way, output, shows, translated, visit, word
from running_server import running_server

from uwaga.results.confidence import END

pytest_plugins = "server_fixtures"

SENTENCE = "I want to buy a small red car tomorrow."
TWO = f"{SENTENCE} It is not expensive."
THREE = f"He sleeps.\n{TWO}"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    models = ["bundled", *(str(other_way(folder, *pair)) for pair in (("de", "en"), ("en", "ar")))]
    with running_server(folder, models=models) as running:
        yield running.url


def focused(page, text: str) -> None:
    """Wait until the focus is on this word."""
    page.wait_for_function("(text) => document.activeElement.textContent === text", arg=text)


def direction(page, source: str, target: str) -> None:
    """Wait until these are the languages."""
    expect(page.locator("#from")).to_have_value(source)
    expect(page.locator("#to")).to_have_value(target)


def bodies(page) -> list[dict]:
    """What the page asks to be translated, from now on."""
    found: list[dict] = []

    def note(request) -> None:
        if request.url.endswith("/v1/translate"):
            found.append(json.loads(request.post_data))

    page.on("request", note)
    return found


def test_a_translation_is_the_librarys(page, translator):
    text = f"{TWO}\n\nHe sleeps.\nHe sleeps."
    assert translated(page, text) == translator.translate(text).text
    expect(page.locator("[role=status]", has_text="Translated:")).to_have_count(1)


ATTEMPTS = 4
"""A browser on a busy machine shows several pieces at once."""


def watch(page) -> None:
    """Note what the first line of the translation is at each change."""
    page.evaluate(
        """() => {
          window.stages = [];
          new MutationObserver(() => {
            const line = document.querySelector('.output .line');
            if (line) window.stages.push([line.className, line.textContent]);
          }).observe(document.querySelector('.output'), {childList: true, subtree: true});
        }"""
    )


@pytest.mark.slow
def test_it_is_translated_while_one_types_and_not_at_every_key(page, translator):
    asked = bodies(page)
    watch(page)
    page.locator("#source").press_sequentially(SENTENCE, delay=10)
    shows(page, translator.translate(SENTENCE).text)
    assert len(asked) < len(SENTENCE) / 2
    rough: set[str] = set()
    for _ in range(ATTEMPTS):
        page.locator("#source").fill("")
        page.locator("#source").press_sequentially(SENTENCE, delay=90)
        page.wait_for_selector(".line.done")
        rough |= {text for name, text in page.evaluate("window.stages") if name == "line rough"}
        if len(rough) > 5:
            break
    assert len(rough) > 5


@pytest.mark.slow
def test_a_translation_grows(page, translator):
    asked = bodies(page)
    watch(page)
    stages = []
    for attempt in range(ATTEMPTS):
        first = 2 + 40 * attempt  # a text that the page has not seen
        text = " ".join(
            f"I want to buy {count} small red cars tomorrow." for count in range(first, first + 40)
        )
        page.evaluate("window.stages = []")
        assert translated(page, text) == translator.translate(text).text
        rough = [text for name, text in page.evaluate("window.stages") if name == "line rough"]
        # what the page was left with of the text before is no stage of this one
        stages.append([one for one in rough if str(first) in one[:60]])
        assert all(two.startswith(one) for one, two in itertools.pairwise(stages[-1]))
        if len(stages[-1]) > 3:
            break
    assert max(map(len, stages)) > 3
    assert [bool(body.get("stream")) for body in asked] == [True, False] * len(stages)


def test_only_lines_that_change_are_asked_for(page):
    translated(page, SENTENCE)
    asked = bodies(page)
    translated(page, f"{SENTENCE}\nHe sleeps.")
    assert asked and all(SENTENCE not in json.dumps(body) for body in asked)


def test_requests_that_are_not_wanted_any_longer_are_cancelled(page, translator):
    cancelled = []
    page.on("requestfailed", lambda request: cancelled.append(request.failure))
    held = []

    def hold(route) -> None:
        if not held:
            held.append(route)  # never answered
        else:
            route.continue_()

    page.route("**/v1/translate", hold)
    page.locator("#source").fill("A text that nobody waits for.")
    eventually(page, lambda: len(held) == 1)
    assert translated(page, SENTENCE) == translator.translate(SENTENCE).text
    eventually(page, lambda: any("ABORTED" in one for one in cancelled))


def test_other_translations_are_the_n_best(page, translator):
    translated(page, SENTENCE)
    best = translator.translate(SENTENCE, nbest=4, beam=5)
    choices = page.locator(".others .choice")
    shown = [one.text for one in best.alternatives]
    expect(choices).to_have_text(shown)
    choices.first.click()
    shows(page, shown[0])
    expect(choices.filter(has_text=best.text)).to_have_count(1)
    expect(page.locator(".word").nth(3)).to_be_visible()
    page.get_by_role("button", name="Back to the first translation").click()
    shows(page, best.text)


@pytest.mark.parametrize(
    "text", [*(pytest.param(one, marks=pytest.mark.slow) for one in (SENTENCE, TWO)), THREE]
)
def test_another_word_at_a_place_and_going_on_from_it(page, translator, text):
    before = translated(page, text)
    word(page, "ein").click()
    page.wait_for_selector(".menu .choice")
    chosen = page.locator(".menu .choice strong").first.inner_text()
    assert chosen != "ein"
    lead = before[: before.index("ein ")].split("\n")[-1]
    page.locator(".menu .choice").first.click()
    page.wait_for_selector(".word.forced")
    now = output(page)
    assert now != before and f"{lead}{chosen}" in now
    led = translator.translate(SENTENCE, prefix=lead + chosen, split="never").text
    assert led in now
    assert now.replace(led, "") == before.replace(translator.translate(SENTENCE).text, "")
    forced = "".join(page.locator(".word.forced").all_inner_texts())
    assert forced == (lead + chosen).replace(" ", "")
    focused(page, chosen.split()[-1])
    page.get_by_role("button", name="Back to the first translation").click()
    expect(page.locator(".forced")).to_have_count(0)
    shows(page, before)


def test_a_word_of_the_second_sentence_has_its_own_alternatives(page):
    before = translated(page, TWO)
    first = before.split(". ")[0]
    word(page, "nicht").click()
    page.wait_for_selector(".menu .choice")
    page.locator(".menu .choice").first.click()
    page.wait_for_selector(".word.forced")
    assert output(page).split(". ")[0] == first and output(page) != before


def test_going_on_in_own_words(page, translator):
    translated(page, SENTENCE)
    word(page, "möchte").click()
    page.get_by_label("Your own words from here").fill("werde")
    page.keyboard.press("Enter")
    page.wait_for_selector(".word.forced")
    shows(page, translator.translate(SENTENCE, prefix="Ich werde").text)


def test_a_word_shows_where_it_comes_from(page, translator):
    text = f"He sleeps.\n{TWO}"
    translated(page, text)
    made = translator.translate(TWO, alignment=True)
    links = made.alignment
    for at, (start, end) in enumerate(links.target):
        spelt = made.text[start:end]
        if not spelt.isalpha():
            continue
        page.locator(".line").nth(1).locator(".word", has_text=re.compile(f"^{spelt}$")).first.hover()
        sources = [TWO[slice(*links.source[one])] for one, other in links.links if other == at]
        expect(marked(page)).to_have_text(sources)
    page.locator("h1").hover()
    expect(marked(page)).to_have_count(0)
    word(page, "Auto").focus()
    expect(marked(page)).to_have_text(["car"])


def test_unsure_words_are_marked_unless_one_does_not_want_it(page, translator):
    text = "The zeitgeist of jazz smells of velvet thunder."
    translated(page, text)
    unsure = [
        one for one in translator.translate(text, nbest=4, beam=5).words if one.mean < 0.5 and one.text != END
    ]
    assert unsure
    found = page.locator(".word[data-doubt]")
    found.first.wait_for()
    for one in unsure:
        assert any(part in one.text for part in found.all_inner_texts())
    assert f"Probability {round(100 * unsure[0].mean)} %" in [
        found.nth(at).get_attribute("title") for at in range(found.count())
    ]
    expect(found.first).to_have_css("text-decoration-line", "underline")
    expect(page.get_by_text("very unsure")).to_be_visible()
    page.get_by_label("Mark unsure words").uncheck()
    expect(found.first).to_have_css("text-decoration-line", "none")
    expect(page.get_by_text("very unsure")).not_to_be_visible()
    page.reload()
    expect(page.get_by_label("Mark unsure words")).not_to_be_checked()


def test_words_are_reached_and_chosen_by_keys(page):
    translated(page, SENTENCE)
    page.locator("#source").focus()
    while page.evaluate("!document.activeElement.matches('.word')"):
        page.keyboard.press("Tab")
    words = page.locator(".word").all_inner_texts()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    focused(page, words[2])
    page.keyboard.press("End")
    focused(page, words[-1])
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    page.wait_for_selector(".menu .choice:focus")
    page.keyboard.press("Escape")
    focused(page, words[0])
    expect(page.locator(".menu")).not_to_be_visible()


def test_languages_are_detected_chosen_and_swapped(browser, server):
    with visit(browser, server) as page:
        page.wait_for_selector("#source")
        expect(page.locator("#from")).to_have_value("auto")
        page.locator("#to").select_option("de")
        translated(page, SENTENCE)
        expect(page.get_by_text("Detected: English")).to_be_visible()
        page.get_by_role("button", name="Swap languages").click()
        direction(page, "de", "en")
        expect(page.locator("#source")).to_have_value(re.compile("^Ich möchte"))
        page.locator("#from").select_option("en")
        page.locator("#to").select_option("ar")
        swap = page.get_by_role("button", name="Swap languages")
        expect(swap).to_be_disabled()
        expect(swap).to_have_attribute("title", "There is no model from Arabic to English")
        page.reload()
        direction(page, "en", "ar")


def test_right_to_left(page):
    page.locator("#to").select_option("ar")
    translated(page, "Hello.")
    expect(page.locator(".output")).to_have_css("direction", "rtl")
    page.locator("#source").fill("שלום")
    assert page.locator("#source").evaluate("(box) => box.matches(':dir(rtl)')")


def test_hostile_texts_stay_texts(page):
    text = '<img src=x onerror="window.hacked = 1"><script>window.hacked = 1</script> "quoted" & \u0007\u202e'
    translated(page, text)
    assert page.evaluate("window.hacked") is None
    expect(page.locator("main img, main script")).to_have_count(0)
    word(page, "").first.click()
    page.wait_for_selector(".menu")
    assert page.evaluate("window.hacked") is None


def test_copy_and_clear(browser, server):
    with visit(browser, server, START, permissions=["clipboard-read", "clipboard-write"]) as page:
        page.wait_for_selector("#source")
        made = translated(page, SENTENCE)
        page.get_by_role("button", name="Copy").click()
        page.get_by_text("Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == made
        expect(page.get_by_text(f"{len(SENTENCE)} characters")).to_be_visible()
        page.get_by_role("button", name="Clear").click()
        expect(page.locator("#source")).to_have_value("")
        shows(page, "")
        expect(page.locator("#source")).to_be_focused()
        page.get_by_role("button", name="Share").click()
        page.get_by_text("A link").wait_for()


@pytest.mark.slow
def test_a_shared_link_opens_the_text_and_the_server_never_sees_it(browser, server):
    settings = {"permissions": ["clipboard-read", "clipboard-write"]}
    text = "Hello, & goodbye = 100 %\n#2 日本"
    with visit(browser, server, START, **settings) as page:
        page.wait_for_selector("#source")
        made = translated(page, text)
        page.get_by_role("button", name="Share").click()
        page.get_by_text("A link to this translation is copied.").wait_for()
        link = page.evaluate("navigator.clipboard.readText()")
        page.locator("#source").fill("x" * 20_000)
        page.get_by_role("button", name="Share").click()
        page.get_by_text("too long for a link").wait_for()
    with visit(browser, server, "#" + link.partition("#")[2]) as page:
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        page.reload()
        expect(page.locator("#source")).to_have_value(text)
        shows(page, made)
        assert not any("Hello" in url for url in asked)


@pytest.mark.slow
def test_long_texts_come_in_portions(page, translator):
    lines = [f"I see {count} houses and {count + 1} trees." for count in range(2, 90)]
    asked = bodies(page)
    assert translated(page, "\n".join(lines)).count("\n") == len(lines) - 1
    assert not any(body.get("stream") for body in asked) and len(asked) > 3
    assert output(page).split("\n")[3] == translator.translate(lines[3]).text
