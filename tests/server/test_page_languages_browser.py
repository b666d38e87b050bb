"""Languages of the page: detected, selected and swapped; in Chromium, with a real server."""

import json
import re

import pytest
from running_server import running_server
from server_page import (
    FINISHED_LINES,
    add_term,
    copy_bundled_model,
    expect,
    open_server_page,
    output,
    translate_text,
    wait_for_translation,
    word,
)

pytest_plugins = "server_fixtures"

SENTENCE = "I want to buy a small red car tomorrow."
TWO_SENTENCES = f"{SENTENCE} It is not expensive."
GERMAN = "Ich möchte morgen ein kleines rotes Auto kaufen."
ARABIC = "أريد أن أشتري سيارة حمراء صغيرة غدا."


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("server")
    models = ["bundled", *(str(copy_bundled_model(folder, *pair)) for pair in (("de", "en"), ("en", "ar")))]
    with running_server(folder, models=models) as running:
        yield running.url


def expect_languages(page, source: str, target: str) -> None:
    """Wait until the given languages are selected."""
    expect(page.locator("#from")).to_have_value(source)
    expect(page.locator("#to")).to_have_value(target)


def test_languages_are_detected_selected_and_swapped(browser, server):
    with open_server_page(browser, server) as page:
        expect(page.locator("#from")).to_have_value("auto")
        page.locator("#to").select_option("de")
        translate_text(page, SENTENCE)
        expect(page.locator("#from option:checked")).to_have_text("Detected: English")
        page.get_by_role("tab", name="Glossary").click()
        expect(page.get_by_text("from English to German")).to_be_visible()
        page.get_by_role("tab", name="Text").click()
        page.get_by_role("button", name="Swap languages").click()
        expect_languages(page, "de", "en")
        expect(page.locator("#source")).to_have_value(re.compile("^Ich möchte"))
        page.locator("#from").select_option("en")
        page.locator("#to").select_option("ar")
        swap = page.get_by_role("button", name="Swap languages")
        expect(swap).to_be_disabled()
        expect(swap).to_have_attribute("title", "There is no model from Arabic to English.")
        swap.press("Enter")
        expect(page.get_by_role("alert")).to_have_text("There is no model from Arabic to English.")
        page.reload()
        expect_languages(page, "en", "ar")


def sent_target(request) -> str | None:
    """Return the target of a request for a translation."""
    return json.loads(request.post_data)["target"] if request.url.endswith("/v1/translate") else None


@pytest.mark.parametrize(
    ("locale", "english_to", "german_to"),
    [("en-GB", "ar", "en"), ("de-DE", "de", "ar"), ("pl-PL", "ar", "ar")],
)
def test_default_target_language_can_be_translated_to_from_the_language_of_the_text(
    browser, server, locale, english_to, german_to
):
    with open_server_page(browser, server, expected=("Failed to load",), locale=locale) as page:
        for text, target in ((SENTENCE, english_to), (GERMAN, german_to), (SENTENCE, english_to)):
            assert translate_text(page, text) != text
            expect_languages(page, "auto", target)
            expect(page.locator(".output")).to_have_attribute("lang", target)
        page.reload()
        page.wait_for_selector("#source")
        assert translate_text(page, GERMAN) != GERMAN
        expect_languages(page, "auto", german_to)
        with page.expect_request(lambda request: sent_target(request) == "ar"):
            page.locator("#source").fill("Je ne sais pas.")  # none of the server's languages
        expect_languages(page, "auto", "ar")
        translate_text(page, GERMAN)
        page.locator("#to").select_option("de")
        translate_text(page, GERMAN)
        expect_languages(page, "auto", "de")  # as chosen
        page.reload()
        page.wait_for_selector("#source")
        translate_text(page, GERMAN)
        expect_languages(page, "auto", "de")


def test_note_on_a_text_in_the_target_language_says_what_to_do(page):
    page.locator("#from").select_option("auto")
    note = page.locator(".note").first
    translate_text(page, GERMAN)
    expect(note).to_have_text("The text is already in the target language: choose another one under “To”.")
    page.locator("#to").select_option("en")
    expect(note).to_be_empty()
    page.locator("#to").select_option("ar")
    translate_text(page, ARABIC)
    expect(note).to_have_text("This looks like Arabic; this server does not translate from Arabic.")


def upload(page, text: str) -> None:
    """Upload a document with a text, under the tab Document."""
    page.locator("#tabDocument").click()
    file = {"name": "letter.txt", "mimeType": "text/plain", "buffer": text.encode()}
    page.locator("#files").set_input_files(file)


def stored_terms(page, source: str) -> list[list[str]] | None:
    """Return the stored terms from a language to German."""
    return page.evaluate(
        "(source) => JSON.parse(localStorage.getItem(`uwaga glossary ${source} de`))", source
    )


def test_term_is_used_in_all_texts_in_its_language(browser, server, translator):
    def expect_term(target: str) -> None:
        wait_for_translation(page, translator.translate(SENTENCE, glossary={"car": target}).text)

    with open_server_page(browser, server, "#source=auto&target=de") as page:
        add_term(page, "car", "Karosse")  # before the language of a text is known
        for source in ("auto", "en"):
            page.locator("#from").select_option(source)
            translate_text(page, SENTENCE)
            expect_term("Karosse")
        assert stored_terms(page, "auto") == [["car", "Karosse"]]
        page.locator("#from").select_option("auto")
        add_term(page, "car", "Wagen")
        assert stored_terms(page, "en") == [["car", "Wagen"]]  # the language that was detected
        for source in ("auto", "en"):
            page.locator("#from").select_option(source)
            expect_term("Wagen")
        page.get_by_role("tab", name="Glossary").click()
        rows = page.locator("#tabGlossary-panel .pairs:visible tbody tr")
        expect(rows.locator("td:first-child")).to_have_text(["car (any language)", "car"])
        rows.nth(1).get_by_role("button").click()
        page.get_by_role("tab", name="Text").click()
        expect_term("Karosse")
        page.get_by_role("tab", name="Glossary").click()
        page.get_by_role("button", name="Remove all terms").click()
        page.get_by_role("tab", name="Text").click()
        wait_for_translation(page, translator.translate(SENTENCE).text)
        assert stored_terms(page, "auto") == stored_terms(page, "en") == []


@pytest.mark.parametrize("has_text", [False, True])
def test_document_whose_language_is_detected_is_translated_with_the_glossary(
    browser, server, translator, tmp_path, has_text
):
    with open_server_page(browser, server, "#source=auto&target=de") as page:
        if has_text:
            translate_text(page, "He sleeps.")
        add_term(page, "car", "Karosse")
        upload(page, SENTENCE)
        with page.expect_download() as download:
            page.get_by_role("button", name="Download").click()
        download.value.save_as(tmp_path / "letter.txt")
        expected = translator.translate(SENTENCE, glossary={"car": "Karosse"}).text
        assert (tmp_path / "letter.txt").read_text("utf-8") == expected


@pytest.mark.parametrize(
    ("locale", "text", "document", "direction"),
    [
        ("de-DE", "", SENTENCE, "Englisch → Deutsch"),
        ("de-DE", GERMAN, SENTENCE, "Englisch → Deutsch"),
        ("de-DE", "", GERMAN, "Deutsch → Arabisch"),
        ("en-GB", SENTENCE, GERMAN, "German → English"),
    ],
)
def test_default_target_language_of_a_document_is_that_of_a_text_in_its_language(
    browser, server, tmp_path, locale, text, document, direction
):
    with open_server_page(browser, server, locale=locale) as page:
        page.wait_for_selector("#source")
        translate_text(page, text)
        upload(page, document)
        row = page.locator(".documents li")
        with page.expect_download() as download:
            row.locator("[data-say=download]").click()
        expect(row).to_contain_text(direction)
        expect(page.locator("#tabDocument-panel p").first).not_to_be_visible()  # no languages are chosen
        page.locator("#tabText").click()
        download.value.save_as(tmp_path / "letter.txt")
        assert (tmp_path / "letter.txt").read_text("utf-8") == translate_text(page, document)
        target = page.locator(".output").get_attribute("lang")
        assert download.value.suggested_filename == f"letter.{target}.txt"


def test_note_on_a_document_in_the_target_language_says_what_to_do(browser, server):
    with open_server_page(browser, server) as page:
        upload(page, SENTENCE)
        page.get_by_role("button", name="Download").wait_for()  # the language of the page is no target
        page.get_by_role("tab", name="Text").click()
        page.locator("#to").select_option("en")
        upload(page, SENTENCE)
        expect(page.locator(".documents .note")).to_have_text(
            "The content is already in English: choose another language to translate into under “Text”."
        )


def test_detected_language_of_a_known_text_is_shown_and_swapped(browser, server):
    with open_server_page(browser, server, "#source=auto&target=de") as page:
        detected = page.locator("#from option:checked")
        swap = page.get_by_role("button", name="Swap languages")
        translation = translate_text(page, SENTENCE)
        page.get_by_role("button", name="Clear", exact=True).click()
        expect(detected).to_have_text("Detect language")
        expect(swap).to_be_disabled()
        assert translate_text(page, SENTENCE) == translation
        expect(detected).to_have_text("Detected: English")
        page.locator("#from").select_option("en")
        page.locator("#from").select_option("auto")
        expect(detected).to_have_text("Detected: English")
        expect(swap).to_be_enabled()
        swap.click()
        expect_languages(page, "de", "en")
        expect(page.locator("#source")).to_have_value(translation)


def test_swapping_twice_restores_the_text_and_its_translation(page):
    swap, source = page.get_by_role("button", name="Swap languages"), page.locator("#source")
    translate_text(page, TWO_SENTENCES)
    word(page, "ein").click()
    page.locator(".menu .choice").first.click()
    page.wait_for_selector(".word.chosen")
    translation = output(page)
    for _ in range(2):
        swap.click()
        expect_languages(page, "de", "en")
        expect(source).to_have_value(translation)
        page.wait_for_selector(FINISHED_LINES)
        swap.click()
        expect_languages(page, "en", "de")
        expect(source).to_have_value(TWO_SENTENCES)
        wait_for_translation(page, translation)
    swap.click()
    back = translate_text(page, "Er schläft.")
    swap.click()
    expect(source).to_have_value(back)  # the text has changed meanwhile


def test_text_in_a_language_other_than_the_selected_one_is_reported(page):
    note = page.locator(".note").first
    for text, expected in (
        ("Guten Tag, wie geht es Ihnen heute?", "This looks like German: choose German under “From”."),
        (ARABIC, "This looks like Arabic; this server does not translate from Arabic."),
        ("Bonjour, comment allez-vous aujourd'hui ?", "This does not look like English"),
    ):
        translate_text(page, text)
        expect(note).to_contain_text(expected)
    for text in (SENTENCE, "Hamburg"):
        translate_text(page, text)
        page.wait_for_timeout(300)
        expect(note).not_to_contain_text("look")
