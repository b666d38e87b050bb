"""Source and translation boxes of the page, in Chromium, with a real server and the bundled model."""

import itertools
import json
import re

import pytest
from running_server import running_server
from server_page import (
    START,
    add_term,
    copy_bundled_model,
    eventually,
    expect,
    marked,
    open_server_page,
    output,
    translate_text,
    wait_for_translation,
    word,
)

from uwaga.results.confidence import END

pytest_plugins = "server_fixtures"

CONFIRMED = "Confirmed by you; kept under “Glossary”."
SENTENCE = "I want to buy a small red car tomorrow."
DOUBTFUL = "The bank refused the spring loan because the crane broke."
OMITTING = "The man carries near and school small garden large sees."
"""A text whose translation has doubtful words and omits "sees"."""
TWO_SENTENCES = f"{SENTENCE} It is not expensive."
THREE_SENTENCES = f"He sleeps.\n{TWO_SENTENCES}"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    models = ["bundled", *(str(copy_bundled_model(folder, *pair)) for pair in (("de", "en"), ("en", "ar")))]
    with running_server(folder, models=models) as running:
        yield running.url


def expect_focus(page, text: str) -> None:
    """Wait until the element with this text is focused."""
    page.wait_for_function("(text) => document.activeElement.textContent === text", arg=text)


def record_bodies(page) -> list[dict]:
    """Return a list that records the bodies of translation requests from now on."""
    recorded: list[dict] = []

    def note(request) -> None:
        if request.url.endswith("/v1/translate"):
            recorded.append(json.loads(request.post_data))

    page.on("request", note)
    return recorded


def test_page_translation_matches_python_api(page, translator):
    text = f"{TWO_SENTENCES}\n\nHe sleeps.\nHe sleeps."
    assert translate_text(page, text) == translator.translate(text).text
    expect(page.locator("[role=status]", has_text="Translated:")).to_have_count(1)


ATTEMPTS = 4
"""Number of attempts, since a browser on a busy machine may show several pieces together."""


def watch(page) -> None:
    """Record the first line of the translation whenever it changes."""
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
def test_text_is_translated_while_typing(page, translator):
    recorded = record_bodies(page)
    watch(page)
    page.locator("#source").press_sequentially(SENTENCE, delay=10)
    wait_for_translation(page, translator.translate(SENTENCE).text)
    assert len(recorded) < len(SENTENCE) / 2
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
def test_long_translation_is_shown_incrementally(page, translator):
    recorded = record_bodies(page)
    watch(page)
    stages = []
    for attempt in range(ATTEMPTS):
        first = 2 + 40 * attempt  # a text that the page has not seen
        text = " ".join(
            f"I want to buy {count} small red cars tomorrow." for count in range(first, first + 40)
        )
        page.evaluate("window.stages = []")
        assert translate_text(page, text) == translator.translate(text).text
        rough = [text for name, text in page.evaluate("window.stages") if name == "line rough"]
        # ignore the remaining stages of the previous text
        stages.append([stage for stage in rough if str(first) in stage[:60]])
        assert all(following.startswith(previous) for previous, following in itertools.pairwise(stages[-1]))
        if len(stages[-1]) > 3:
            break
    assert max(map(len, stages)) > 3
    assert [bool(body.get("stream")) for body in recorded] == [True, False] * len(stages)


def test_only_changed_lines_are_requested(page):
    translate_text(page, SENTENCE)
    recorded = record_bodies(page)
    translate_text(page, f"{SENTENCE}\nHe sleeps.")
    assert recorded and all(SENTENCE not in json.dumps(body) for body in recorded)


def test_requests_for_outdated_text_are_cancelled(page, translator):
    cancelled = []
    page.on("requestfailed", lambda request: cancelled.append(request.failure))
    pending = []

    def hold(route) -> None:
        if not pending:
            pending.append(route)  # never answered
        else:
            route.continue_()

    page.route("**/v1/translate", hold)
    page.locator("#source").fill("A text that nobody waits for.")
    eventually(page, lambda: len(pending) == 1)
    assert translate_text(page, SENTENCE) == translator.translate(SENTENCE).text
    eventually(page, lambda: any("ABORTED" in failure for failure in cancelled))


def test_other_translations_panel_shows_the_n_best_list(page, translator):
    translate_text(page, SENTENCE)
    best = translator.translate(SENTENCE, nbest=4, beam=5)
    choices = page.locator(".others .choice")
    alternatives = [alternative.text for alternative in best.alternatives]
    expect(choices).to_have_text(alternatives)
    choices.first.click()
    wait_for_translation(page, alternatives[0])
    chosen = "Your choice; “Confirm” keeps it for the next time."
    expect(page.locator(".word.chosen").first).to_have_attribute("title", chosen)
    expect(page.locator(".checks p.chosen")).to_have_text(chosen)
    confirm = page.get_by_role("button", name="Confirm")
    expect(confirm).to_have_attribute("title", re.compile("the page then translates"))
    expect(choices.filter(has_text=best.text)).to_have_count(1)
    expect(page.locator(".word").nth(3)).to_be_visible()
    page.get_by_role("button", name="Back to the first translation").click()
    wait_for_translation(page, best.text)


@pytest.mark.parametrize(
    "text",
    [*(pytest.param(case, marks=pytest.mark.slow) for case in (SENTENCE, TWO_SENTENCES)), THREE_SENTENCES],
)
def test_choosing_another_word_continues_the_translation(page, translator, text):
    before = translate_text(page, text)
    word(page, "ein").click()
    page.wait_for_selector(".menu .choice")
    choice = page.locator(".menu .choice strong").first.inner_text()
    assert choice != "ein"
    prefix = before[: before.index("ein ")].split("\n")[-1]
    page.locator(".menu .choice").first.click()
    page.wait_for_selector(".word.chosen")
    changed = output(page)
    assert changed != before and f"{prefix}{choice}" in changed
    continued = translator.translate(SENTENCE, prefix=prefix + choice, split="never").text
    assert continued in changed
    assert changed.replace(continued, "") == before.replace(translator.translate(SENTENCE).text, "")
    assert "".join(page.locator(".word.chosen").all_inner_texts()) == choice.replace(" ", "")
    expect_focus(page, choice.split()[-1])
    page.get_by_role("button", name="Back to the first translation").click()
    expect(page.locator(".chosen")).to_have_count(0)
    wait_for_translation(page, before)


def test_chosen_word_survives_new_settings_edits_and_restoring_from_history(page, translator):
    before = translate_text(page, TWO_SENTENCES)
    word(page, "teuer").focus()
    expect(page.locator(".others h2")).to_contain_text("expensive")
    page.locator(".others .choice").first.click()
    page.wait_for_selector(".word.chosen")
    changed = output(page)
    assert changed != before
    chosen = page.locator(".sentence").nth(1).inner_text()
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Beam size").select_option("1")
    page.keyboard.press("Escape")
    wait_for_translation(page, f"{translator.translate(SENTENCE, beam=1).text} {chosen}")
    text = f"He sleeps. {TWO_SENTENCES.removeprefix(SENTENCE).strip()}"
    assert translate_text(page, text) == f"{translator.translate('He sleeps.', beam=1).text} {chosen}"
    page.wait_for_function(
        "(text) => (localStorage.getItem('uwaga history') ?? '').includes(text)", arg=json.dumps(text)
    )
    page.reload()
    page.get_by_role("tab", name="History").click()
    page.locator(".history .choice").first.click()
    wait_for_translation(page, f"{translator.translate('He sleeps.', beam=1).text} {chosen}")
    word(page, chosen.split()[0]).focus()
    page.get_by_role("button", name="Back to the first translation").click()
    expect(page.locator(".word.chosen")).to_have_count(0)


def test_why_this_word_button_shows_source_words_and_the_search_tree(page):
    translate_text(page, f"He sleeps.\n{TWO_SENTENCES}")
    word(page, "Auto").click()
    why = page.get_by_role("button", name="Why this word?")
    expect(why).to_have_attribute("aria-expanded", "false")
    why.click()
    expect(why).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".menu")).to_contain_text("From the text: car")
    expect(marked(page)).to_have_text(["car"])
    why.press("Enter")
    expect(page.get_by_text("From the text:")).not_to_be_visible()
    expect(marked(page)).to_have_count(0)
    page.keyboard.press("Escape")
    word(page, "nicht").click()
    why.click()
    expect(page.locator(".menu")).to_contain_text("From the text: not")
    page.keyboard.press("Escape")
    expect(marked(page)).to_have_text(["not"])  # the word has the focus again
    page.keyboard.press("Enter")
    why.click()
    page.get_by_role("button", name="Show the search as a tree").click()
    expect(marked(page)).to_have_count(0)
    expect(page.get_by_role("tab", name="Inside")).to_be_focused()
    expect(page.get_by_role("tab", name="Choose words")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#inside-line option:checked")).to_have_text("It is not expensive.")
    page.get_by_role("tab", name="Attention").click()
    page.get_by_role("tab", name="Text").click()
    page.get_by_role("tab", name="Inside").click()
    expect(page.get_by_role("tab", name="Attention")).to_have_attribute("aria-selected", "true")


def test_unknown_word_is_copied_and_marked_as_in_the_python_api(page, translator):
    expected = translator.translate("zeitgeist")
    assert expected.text == "zeitgeist"
    assert translate_text(page, "zeitgeist") == expected.text
    expect(page.locator(".word[data-doubt]")).to_have_attribute("title", re.compile("does not know"))


@pytest.mark.slow
def test_choosing_an_alternative_keeps_earlier_sentences(page):
    before = translate_text(page, TWO_SENTENCES)
    first = before.split(". ")[0]
    word(page, "nicht").click()
    page.wait_for_selector(".menu .choice")
    page.locator(".menu .choice").first.click()
    page.wait_for_selector(".word.chosen")
    assert output(page).split(". ")[0] == first and output(page) != before


def test_translation_continues_after_typed_words(page, translator):
    translate_text(page, SENTENCE)
    word(page, "möchte").click()
    page.get_by_label("Your own words").fill("werde")
    page.keyboard.press("Enter")
    page.wait_for_selector(".word.chosen")
    wait_for_translation(page, translator.translate(SENTENCE, prefix="Ich werde").text)


def test_only_the_first_of_several_typed_words_has_alternatives(page):
    before = translate_text(page, SENTENCE)
    word(page, "möchte").click()
    page.wait_for_selector(".menu .choice")
    offers = page.locator(".menu .choice strong")
    first_offers = offers.all_inner_texts()
    page.get_by_label("Your own words").fill("wünsche mir sehnlichst")
    page.keyboard.press("Enter")
    expect(page.locator(".word.chosen")).to_have_text(["wünsche", "mir", "sehnlichst"])
    others = page.locator(".others .choice")
    for text in others.all_inner_texts():
        assert text.startswith("Ich wünsche mir sehnlichst ")
    recorded = record_bodies(page)
    for own in ("mir", "sehnlichst"):
        word(page, own).click()
        expect(page.locator(".menu")).to_contain_text("You have chosen these words yourself")
        assert offers.count() == 0
    assert not recorded
    word(page, "wünsche").click()
    expect(offers).to_have_text(["möchte", *first_offers[:-1]])
    word(page, "kleines").click()
    page.wait_for_selector(".menu .choice")
    assert all(body["prefix"].startswith("Ich wünsche mir sehnlichst") for body in recorded[-2:])
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Correct", exact=True).click()
    page.get_by_label("Corrected translation").fill("Ich hätte gern ein Auto.")
    page.keyboard.press("Enter")
    expect(others.first).to_have_text(before)
    word(page, "Auto").click()
    expect(page.locator(".menu")).to_contain_text("You have chosen these words yourself")


def test_suggestions_do_not_repeat_the_full_stop_of_the_text(page, translator):
    before = translate_text(page, SENTENCE)
    prefix = f"{before[: before.rindex(' ')]} fahren"
    suggested = translator.translate(SENTENCE, prefix=prefix, nbest=4, beam=5, split="never")
    assert any(other.text.endswith("..") for other in suggested.alternatives)
    word(page, "kaufen").click()
    page.get_by_label("Your own words").fill("fahren")
    page.keyboard.press("Enter")
    wait_for_translation(page, f"{prefix}.")
    regular = [other.text for other in suggested.alternatives if not other.text.endswith("..")]
    expect(page.locator(".others .choice")).to_have_text(regular)


def test_aligned_source_words_are_marked(page, translator):
    text = f"He sleeps.\n{TWO_SENTENCES}"
    translate_text(page, text)
    translation = translator.translate(TWO_SENTENCES, alignment=True)
    alignment = translation.alignment
    for index, (start, end) in enumerate(alignment.target):
        word_text = translation.text[start:end]
        if not word_text.isalpha():
            continue
        page.locator(".line").nth(1).locator(".word", has_text=re.compile(f"^{word_text}$")).first.hover()
        sources = [
            TWO_SENTENCES[slice(*alignment.source[source])]
            for source, target in alignment.links
            if target == index
        ]
        expect(marked(page)).to_have_text(sources)
    page.locator("h1").hover()
    expect(marked(page)).to_have_count(0)
    word(page, "Auto").focus()
    expect(marked(page)).to_have_text(["car"])


def test_uncertain_words_are_marked(page, translator):
    text = "The zeitgeist of jazz smells of velvet thunder."
    translate_text(page, text)
    unsure = [
        item
        for item in translator.translate(text, nbest=4, beam=5).words
        if item.mean < 0.5 and item.text != END
    ]
    assert unsure
    marked_words = page.locator(".word[data-doubt]")
    marked_words.first.wait_for()
    for unsure_word in unsure:
        assert any(part in unsure_word.text for part in marked_words.all_inner_texts())
    first = marked_words.first
    reason = f"mean probability {round(100 * unsure[0].mean)}%"
    expect(first).to_have_attribute("title", re.compile(reason))
    first.focus()
    expect(page.locator(".word-hint")).to_contain_text(reason)
    page.locator(".checks .choice", has_text=reason).first.click()
    expect(first).to_be_focused()
    expect(first).to_have_css("text-decoration-line", "underline")
    page.get_by_label("Mark doubtful words").uncheck()
    expect(first).to_have_css("text-decoration-line", "none")
    page.reload()
    translate_text(page, text)
    expect(page.get_by_label("Mark doubtful words")).not_to_be_checked()


def test_words_named_by_warnings_are_marked_in_the_source(page):
    warnings = ["not translated: 'red'", "signs of the text are missing: €"]

    def warn(route) -> None:
        answer = route.fetch()
        body = answer.json()
        for translation in body["translations"]:
            translation["warnings"] = warnings
            del translation["coverage"]
        route.fulfill(response=answer, json=body)

    page.route(
        "**/v1/translate",
        lambda route: route.continue_() if "stream" in route.request.post_data else warn(route),
    )
    translate_text(page, f"He sleeps.\n{SENTENCE}")
    expect(page.locator(".mirror u")).to_have_text(["red"])
    expect(page.locator("#tabText-panel [role=alert]")).to_have_text(
        "The translation lacks symbols of the text: €"
    )
    word(page, "Auto").focus()
    page.get_by_role("button", name="red The translation leaves this word out.").click()
    assert page.evaluate("getSelection().toString()") == "red"
    page.unroute_all(behavior="wait")  # a later request may still be under way


def test_each_omitted_word_is_marked_in_its_own_sentence(page, translator):
    translate_text(page, f"He sees. {OMITTING} {OMITTING}")
    omitted = translator.translate(OMITTING, coverage="unaligned").coverage.omitted
    assert omitted[-1] == "sees"
    expect(page.locator(".mirror u")).to_have_text([*omitted] * 2)
    assert page.locator(".mirror.doubts").inner_text().strip() == f"He sees. {OMITTING} {OMITTING}"
    for number in (1, 2):
        page.locator(".sentence").nth(number).locator(".word").last.focus()
        expect(page.locator(".sentence").nth(number)).to_have_class(re.compile("selected"))
        check = page.locator(".checks .choice", has_text="sees")
        expect(check).to_have_count(1)
        check.click()
        start = page.locator("#source").evaluate("box => box.selectionStart")
        assert start == len("He sees.") + number * (1 + len(OMITTING)) - len("sees.")


def doubts(page, sentence: int) -> list[tuple[str, str]]:
    """Return the doubtful words of a sentence with their reasons."""
    words = page.locator(".sentence").nth(sentence).locator(".word[data-doubt]")
    return words.evaluate_all("words => words.map((word) => [word.textContent, word.title])")


def test_chosen_word_does_not_remove_doubts_about_the_words_before_it(page):
    translate_text(page, DOUBTFUL)
    before = doubts(page, 0)
    words = page.locator(".word").all_inner_texts()
    page.locator(".word").last.click()
    page.locator(".menu .choice").first.click()
    chosen = page.locator(".word.chosen")
    expect(chosen).to_have_count(1)
    assert page.locator(".word").all_inner_texts()[: len(words) - 1] == words[:-1]
    kept = [doubt for doubt in before if doubt[0] != words[-1]]
    assert kept and doubts(page, 0) == kept


def test_another_translation_does_not_remove_doubts_about_unchanged_words(page, translator):
    translate_text(page, OMITTING)
    before = doubts(page, 0)
    assert before
    choice = page.locator(".others .choice").first
    text = choice.inner_text()
    choice.click()
    wait_for_translation(page, text)
    coverage = translator.translate(OMITTING, prefix=text, coverage="unaligned", split="never").coverage
    omitted = coverage.omitted
    assert omitted
    expect(page.locator(".mirror u")).to_have_text([*omitted])
    chosen = page.locator(".word.chosen").all_inner_texts()
    assert chosen and len(chosen) < len(text.split())
    after = doubts(page, 0)
    assert after and not {text for text, _ in after} & {*chosen}
    kept = [doubt for doubt in before if doubt[0] in page.locator(".word:not(.chosen)").all_inner_texts()]
    assert [doubt for doubt in after if doubt in kept] == kept
    expect(page.locator(".checks li")).to_have_count(len(omitted) + len(after))


def test_confirmed_sentence_does_not_unmark_doubtful_words_of_other_sentences(page, translator):
    translate_text(page, f"{DOUBTFUL} {OMITTING}")
    expected = [doubts(page, number) for number in range(2)]
    assert all(expected)
    translate_text(page, "It is late.")
    page.get_by_role("button", name="Correct", exact=True).click()
    page.get_by_label("Corrected translation").fill("Es ist schon spät.")
    page.keyboard.press("Enter")
    expect(page.locator(".others [role=status]")).to_contain_text("kept in this browser")
    page.reload()
    text = f"{DOUBTFUL} It is late. {OMITTING}"
    assert "Es ist schon spät." in translate_text(page, text)
    assert [doubts(page, number) for number in range(3)] == [expected[0], [], expected[1]]
    omitted = translator.translate(OMITTING, coverage="unaligned").coverage.omitted
    expect(page.locator(".mirror u")).to_have_text([*omitted])
    word(page, "Garten").click()
    page.get_by_role("button", name="Why this word?").click()
    expect(marked(page)).to_have_text(["garden"])


@pytest.mark.parametrize("sentence", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_corrected_sentence_is_confirmed_and_preserved(page, tmp_path, sentence):
    before = translate_text(page, TWO_SENTENCES)
    source = TWO_SENTENCES.split(". ")[sentence].rstrip(".") + "."
    word(page, ("Auto", "teuer")[sentence]).focus()
    expect(page.locator(".others h2")).to_contain_text(f"“{source}”")
    page.get_by_role("button", name="Correct", exact=True).click()
    box = page.get_by_label("Corrected translation")
    corrected = "Das ist etwas ganz anderes."
    replaced = box.input_value()
    box.fill(corrected)
    page.locator(".word").nth(6 * (1 - sentence)).hover()
    page.wait_for_timeout(400)
    expect(box).to_have_value(corrected)
    page.keyboard.press("Enter")
    wait_for_translation(page, before.replace(replaced, corrected))
    expect(page.get_by_role("button", name="Correct", exact=True)).to_be_focused()
    expect(page.get_by_role("button", name="Confirm")).to_be_disabled()
    expect(page.locator(".word.chosen[data-doubt]")).to_have_count(0)
    expect(page.locator("#tabText-panel [role=alert]")).to_be_empty()
    expect(page.locator(".word.chosen").first).to_have_attribute("title", CONFIRMED)
    page.get_by_role("tab", name="Glossary").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save confirmed translations as TSV").click()
    download.value.save_as(tmp_path / "confirmed.tsv")
    assert (tmp_path / "confirmed.tsv").read_text("utf-8") == f"{source}\t{corrected}\n"
    page.get_by_role("button", name="Remove", exact=True).click()
    expect(page.locator(".confirmed")).not_to_be_visible()


def test_confirmed_translation_is_used_again_until_it_is_removed(page, translator):
    corrected = "Das ist etwas ganz anderes."
    translate_text(page, SENTENCE)
    page.get_by_role("button", name="Correct", exact=True).click()
    page.get_by_label("Corrected translation").fill(corrected)
    page.keyboard.press("Enter")
    status = page.locator(".others [role=status]")
    expect(status).to_contain_text("kept in this browser under “Glossary”")
    expect(status).to_contain_text("uwaga serve --memories FOLDER")
    page.reload()
    model = translator.translate(f"It is late. {SENTENCE}").text
    before = translator.translate("It is late.").text
    assert translate_text(page, f"It is late. {SENTENCE}") == f"{before} {corrected}"
    word(page, "etwas").focus()
    expect(page.locator(".others h2")).to_contain_text(SENTENCE)
    expect(page.locator(".checks p.chosen")).to_have_text(CONFIRMED)
    expect(page.get_by_role("button", name="Confirm")).to_be_disabled()
    expect(page.get_by_role("button", name="Confirm")).to_have_attribute("title", CONFIRMED)
    page.get_by_role("button", name="Back to the first translation").click()
    wait_for_translation(page, model)
    page.reload()
    assert translate_text(page, f"It is late. {SENTENCE}") == f"{before} {corrected}"
    page.get_by_role("tab", name="Glossary").click()
    page.get_by_role("button", name="Remove", exact=True).click()
    page.get_by_role("tab", name="Text").click()
    wait_for_translation(page, model)


def test_term_that_a_confirmed_translation_lacks_is_reported_until_it_is_corrected(page):
    translate_text(page, SENTENCE)
    corrected = "Ein kleines rotes Auto möchte ich morgen kaufen."
    page.get_by_role("button", name="Correct", exact=True).click()
    box = page.get_by_label("Corrected translation")
    box.fill(corrected)
    page.keyboard.press("Enter")
    wait_for_translation(page, corrected)
    add_term(page, "car", "Wagen")
    check = page.locator(".checks .choice", has_text="Your glossary has “Wagen” for this")
    expect(check).to_have_count(1)
    expect(page.locator(".mirror u")).to_have_text(["car"])
    page.reload()
    assert translate_text(page, SENTENCE) == corrected
    expect(check).to_contain_text("“Correct” it")
    check.click()
    assert page.evaluate("getSelection().toString()") == "car"
    page.get_by_role("button", name="Correct", exact=True).click()
    box.fill("Einen kleinen roten Wagen möchte ich morgen kaufen.")
    page.keyboard.press("Enter")
    expect(check).to_have_count(0)
    expect(page.locator(".mirror u")).to_have_count(0)
    expect(word(page, "Wagen")).to_have_attribute("title", CONFIRMED)


def test_correction_form_follows_new_translations_but_keeps_typed_words(page):
    translate_text(page, SENTENCE)
    page.get_by_role("button", name="Correct", exact=True).click()
    box = page.get_by_label("Corrected translation")
    assert "Auto" in box.input_value()
    add_term(page, "car", "Wagen")
    expect(page.locator(".output")).to_contain_text("Wagen")
    expect(box).to_have_count(0)  # nothing was typed
    page.get_by_role("button", name="Correct", exact=True).click()
    expect(box).to_have_value(output(page))
    box.fill("Ich kaufe morgen ein rotes Fahrzeug.")
    add_term(page, "car", "Kfz")
    expect(page.locator(".output")).to_contain_text("Kfz")
    expect(box).to_have_value("Ich kaufe morgen ein rotes Fahrzeug.")
    note = page.locator(".others form [role=status]")
    expect(note).to_contain_text(f"The new translation: {output(page)}")
    page.locator("#source").fill("")
    confirm = page.locator(".others form").get_by_role("button", name="Confirm")
    expect(confirm).to_be_disabled()
    translate_text(page, "He sleeps.")
    expect(page.locator(".others h2")).to_have_text("“He sleeps.”")
    expect(box).to_have_value("Ich kaufe morgen ein rotes Fahrzeug.")
    expect(note).to_contain_text(f"The new translation: {output(page)}")
    box.fill("Er schläft fest.")
    confirm.click()
    wait_for_translation(page, "Er schläft fest.")
    expect(box).to_have_count(0)
    page.get_by_role("button", name="Correct", exact=True).click()
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(".others")).not_to_be_visible()


def test_keyboard_moves_the_focus_between_words(page):
    translate_text(page, SENTENCE)
    page.locator("#source").focus()
    while page.evaluate("!document.activeElement.matches('.word')"):
        page.keyboard.press("Tab")
    words = page.locator(".word").all_inner_texts()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect_focus(page, words[2])
    page.keyboard.press("End")
    expect_focus(page, words[-1])
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    page.wait_for_selector(".menu .choice:focus")
    page.keyboard.press("Escape")
    expect_focus(page, words[0])
    expect(page.locator(".menu")).not_to_be_visible()


def test_focus_goes_to_the_word_that_was_changed(page):
    translate_text(page, TWO_SENTENCES)
    first = page.locator(".word").first
    first.focus()
    page.keyboard.press("Enter")
    choice = page.locator(".menu .choice:focus strong")
    choosing = choice.inner_text().split()[-1]
    page.keyboard.press("Enter")
    expect(page.locator(".menu")).not_to_be_visible()
    expect(first).to_be_focused()  # also before the server has answered
    expect(page.locator(".word:focus")).to_have_text(choosing)
    page.get_by_role("button", name="Back to the first translation").press("Enter")
    expect(page.get_by_role("button", name="Correct", exact=True)).to_be_focused()
    word(page, "rotes").click()
    page.get_by_label("Your own words").fill("grünes")
    page.get_by_role("button", name="Continue from here").click()
    expect(page.locator(".word.chosen:focus")).to_have_text("grünes")
    page.get_by_role("button", name="Confirm", exact=True).press("Enter")
    expect(page.get_by_role("button", name="Confirm", exact=True)).to_be_disabled()
    expect(page.get_by_role("button", name="Correct", exact=True)).to_be_focused()
    word(page, "teuer").focus()
    expect(page.locator(".others h2")).to_contain_text("expensive")
    before = page.locator(".sentence").nth(1).inner_text().split()
    other = page.locator(".others .choice").first
    after = other.inner_text().split()
    other.press("Enter")
    changed = next(new for old, new in itertools.zip_longest(before, after) if old != new)
    expect(page.locator(".word.chosen:focus")).to_have_text(changed.rstrip(".,"))


def hold_translations(page):
    """Hold translation requests; return a function that sends the one with a prefix to the server."""
    held: dict = {}

    def hold(route) -> None:
        held[json.loads(route.request.post_data).get("prefix", "")] = route

    def send(prefix: str) -> None:
        eventually(page, lambda: prefix in held)
        held[prefix].continue_()

    page.route("**/v1/translate", hold)
    return send


def test_menu_of_a_word_closes_when_its_line_changes(page):
    before = translate_text(page, SENTENCE).split("rotes")[0]
    word(page, "rotes").click()
    page.get_by_label("Your own words").fill("grünes")
    send = hold_translations(page)
    page.get_by_role("button", name="Continue from here").click()
    page.locator(".word").first.click()
    expect(page.locator(".menu")).to_be_visible()
    send(f"{before}grünes")
    word(page, "grünes").wait_for()
    expect(page.locator(".menu")).not_to_be_visible()
    expect(page.locator(".word").first).to_be_focused()


def test_sentence_is_confirmed_even_if_another_one_is_selected_meanwhile(page):
    first, second = translate_text(page, "It is late.\nHe sleeps.").split("\n")
    word(page, first.split()[0]).focus()
    expect(page.locator(".others h2")).to_contain_text("It is late.")
    send = hold_translations(page)
    page.get_by_role("button", name="Confirm").click()
    word(page, second.split()[0]).focus()
    expect(page.locator(".others h2")).to_contain_text("He sleeps.")
    send(first)
    expect(page.locator(".line").first.locator(".word.chosen").first).to_have_attribute("title", CONFIRMED)
    stored = page.evaluate("localStorage.getItem('uwaga confirmed en de')")
    assert json.loads(stored) == [["It is late.", first]]
    expect(page.get_by_role("button", name="Confirm")).to_be_enabled()


def test_list_of_doubts_keeps_the_focus_when_it_is_updated(page):
    translate_text(page, DOUBTFUL)
    check = page.locator(".checks .choice").nth(1)
    check.focus()
    page.wait_for_function("() => (localStorage.getItem('uwaga history') ?? '').includes('bank')")
    page.wait_for_selector(".others .choice")
    expect(check).to_be_focused()


@pytest.mark.slow
def test_progress_of_a_long_translation_is_shown(page, translator):
    held = []
    page.route("**/v1/translate", lambda route: held.append(route))
    text = "\n".join(f"I want to buy {count} small red cars tomorrow." for count in range(2, 92))
    page.locator("#source").fill(text)
    progress, announced = (
        page.locator(".text-progress progress"),
        page.locator(".text-progress [role=status]"),
    )
    expect(progress).to_be_visible()
    expect(progress).to_have_js_property("position", -1)  # no share is known yet
    expect(announced).to_have_text(re.compile(r"^Translating: \d+ s so far$"))
    positions = []
    while page.locator(".output[aria-busy=true]").count():
        eventually(page, lambda: held or page.locator(".output[aria-busy=false]").count())
        if held:
            held.pop().continue_()
            page.wait_for_timeout(100)
            positions.append(progress.evaluate("(bar) => bar.position"))
    assert len(positions) > 4 and positions == sorted(positions)
    assert page.locator(".line.done").count() == 90
    expect(progress).not_to_be_visible()
    expect(announced).to_be_empty()
    assert output(page) == translator.translate(text).text


@pytest.mark.slow
def test_progress_of_a_long_line_grows_with_its_sentences(page):
    page.evaluate(
        """() => {
          const bar = document.querySelector('.text-progress progress');
          window.positions = [];
          new MutationObserver(() => window.positions.push(bar.position)).observe(bar, {attributes: true});
        }"""
    )
    recorded = record_bodies(page)
    line = " ".join(f"I want to buy {count} small red cars tomorrow." for count in range(2, 160))
    translate_text(page, line)
    shares = [position for position in page.evaluate("window.positions") if 0 < position < 1]
    assert len(set(shares)) > 3 and shares == sorted(shares)
    [translated] = [body for body in recorded if "nbest" not in body]
    assert translated["text"] == [line] and translated["progress"] is True


def test_long_text_is_read_from_its_field_no_more_often_than_a_short_one(page):
    reads = page.evaluate(
        """() => [10, 300].map((lines) => {
          const box = document.querySelector('#source');
          const { get, set } = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, 'value');
          let reads = 0;
          const counted = { configurable: true, set, get() { reads++; return get.call(this); } };
          Object.defineProperty(box, 'value', counted);
          set.call(box, 'Good morning.\\n'.repeat(lines));
          box.dispatchEvent(new Event('input'));
          delete box.value;
          return reads;
        })"""
    )
    assert 0 < reads[0] == reads[1]


@pytest.mark.slow
def test_demonstration_note_is_shown_only_for_the_languages_of_the_bundled_model(page):
    expect(page.locator(".demonstration")).to_be_visible()
    page.locator("#to").select_option("ar")
    expect(page.locator(".demonstration")).not_to_be_visible()


@pytest.mark.slow
def test_beam_size_setting_is_sent_to_the_server(page, translator):
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Beam size").select_option("2")
    page.keyboard.press("Escape")
    recorded = record_bodies(page)
    assert translate_text(page, SENTENCE) == translator.translate(SENTENCE, beam=2).text
    assert recorded[-1]["beam"] == 2
    eventually(page, lambda: recorded[-1].get("nbest") == 2)


def test_texts_in_right_to_left_languages_are_shown_from_right_to_left(page):
    page.locator("#to").select_option("ar")
    translate_text(page, "Hello.")
    expect(page.locator(".output")).to_have_css("direction", "rtl")
    page.locator("#source").fill("שלום")
    assert page.locator("#source").evaluate("(box) => box.matches(':dir(rtl)')")


def test_markup_in_texts_is_not_executed(page):
    text = '<img src=x onerror="window.hacked = 1"><script>window.hacked = 1</script> "quoted" & \u0007\u202e'
    translate_text(page, text)
    assert page.evaluate("window.hacked") is None
    expect(page.locator("main img:not(.demonstration img), main script")).to_have_count(0)
    word(page, "").first.click()
    page.wait_for_selector(".menu")
    assert page.evaluate("window.hacked") is None


def test_text_is_copied_downloaded_shared_and_cleared(browser, server, tmp_path):
    with open_server_page(browser, server, START, permissions=["clipboard-read", "clipboard-write"]) as page:
        translation = translate_text(page, f"{SENTENCE}\nGood morning, it is a beautiful day!")
        page.get_by_role("button", name="Copy").click()
        page.get_by_text("Copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == translation
        with page.expect_download() as download:
            page.get_by_role("button", name="Download").click()
        assert download.value.suggested_filename == "text.de.txt"
        download.value.save_as(tmp_path / "text.de.txt")
        assert (tmp_path / "text.de.txt").read_bytes() == translation.encode()
        translate_text(page, SENTENCE)
        expect(page.get_by_text(f"{len(SENTENCE)} characters")).to_be_visible()
        page.get_by_role("button", name="Clear").click()
        expect(page.locator("#source")).to_have_value("")
        wait_for_translation(page, "")
        expect(page.locator("#source")).to_be_focused()


def test_cleared_text_can_be_restored_until_another_text_is_entered(page):
    clear = page.get_by_role("button", name="Clear", exact=True)
    undo = page.get_by_role("button", name="Undo")
    source = page.locator("#source")
    clear.press("Enter")
    expect(undo).to_have_count(0)  # there was no text
    translation = translate_text(page, TWO_SENTENCES)
    clear.press("Enter")
    expect(source).to_have_value("")
    expect(source).to_be_focused()
    expect(page.locator("[role=status]", has_text="Removed.")).to_be_visible()
    page.evaluate("dispatchEvent(new Event('online'))")
    undo.press("Enter")
    expect(source).to_have_value(TWO_SENTENCES)
    expect(source).to_be_focused()
    wait_for_translation(page, translation)
    expect(undo).to_have_count(0)
    clear.press("Enter")
    source.press_sequentially("A")
    expect(undo).to_have_count(0)


def test_buttons_are_disabled_and_the_hint_is_shown_without_a_text(page):
    names = ("Copy", "Download", "Share", "Print")
    for text in ("", " \n ", SENTENCE, "\n"):
        translate_text(page, text)
        reasons = (
            [""] * 4
            if text == SENTENCE
            else ["There is no translation yet."] * 2 + ["There is no text yet."] * 2
        )
        for name, reason in zip(names, reasons, strict=True):
            control = page.get_by_role("button", name=name)
            expect(control).to_be_enabled(enabled=not reason)
            expect(control).to_have_attribute("title", reason)
        expect(page.locator(".hint")).to_be_visible(visible=not text.strip())


def test_sentence_at_the_caret_in_the_source_is_selected(page):
    translate_text(page, THREE_SENTENCES)
    source, title = page.locator("#source"), page.locator(".others h2")
    expect(title).to_have_text("“It is not expensive.”")
    sentences = ("He sleeps.", SENTENCE, "It is not expensive.")
    for sentence in sentences:
        start = THREE_SENTENCES.index(sentence)
        for caret in (start + len(sentence), start + 1):
            source.evaluate("(box, caret) => box.setSelectionRange(caret - 1, caret - 1)", caret)
            source.press("ArrowRight")
            expect(title).to_have_text(f"“{sentence}”")
            expect(page.locator(".sentence.selected")).to_have_count(1)
    source.click(position={"x": 30, "y": 30})
    expect(title).to_have_text("“He sleeps.”")
    word(page, "Auto").hover()
    expect(title).to_have_text(f"“{SENTENCE}”")
    source.click(position={"x": 30, "y": 30})  # the caret does not move
    expect(title).to_have_text("“He sleeps.”")


@pytest.mark.slow
def test_shared_link_does_not_send_the_text_to_the_server(browser, server):
    settings = {"permissions": ["clipboard-read", "clipboard-write"]}
    text = "Hello, & goodbye = 100 %\n#2 日本"
    with open_server_page(browser, server, START, **settings) as page:
        translation = translate_text(page, text)
        page.get_by_role("button", name="Share").click()
        page.get_by_text("A link with the text has been copied.").wait_for()
        link = page.evaluate("navigator.clipboard.readText()")
        page.locator("#source").fill("x" * 20_000)
        page.get_by_role("button", name="Share").click()
        page.get_by_text("too long for a link").wait_for()
    with open_server_page(browser, server, "#" + link.partition("#")[2]) as page:
        urls = []
        page.on("request", lambda request: urls.append(request.url))
        page.reload()
        expect(page.locator("#source")).to_have_value(text)
        wait_for_translation(page, translation)
        assert not any("Hello" in url for url in urls)


@pytest.mark.slow
def test_long_texts_are_sent_in_several_requests(page, translator):
    lines = [f"I see {count} houses and {count + 1} trees." for count in range(2, 90)]
    recorded = record_bodies(page)
    assert translate_text(page, "\n".join(lines)).count("\n") == len(lines) - 1
    assert not any(body.get("stream") for body in recorded) and len(recorded) > 3
    assert output(page).split("\n")[3] == translator.translate(lines[3]).text
