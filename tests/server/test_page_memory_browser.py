"""Translation memories on the page, in Chromium, with a real server and the bundled model."""

from collections.abc import Iterator
from pathlib import Path

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

from uwaga_memory import Memory, Pair
from uwaga_server.auth import add_key

pytest_plugins = "server_fixtures"

CAR, CAR_IN_GERMAN = "I want to buy a car.", "Ich möchte mir einen Wagen zulegen."
PAIRS = [
    Pair(CAR, CAR_IN_GERMAN, "letters.tmx"),
    Pair("Open {file} with version 2.", "Öffnen Sie bitte {file} mit Version 2.", "help"),
]


def create_memories(folder: Path) -> Path:
    """Create memories for two language pairs in a folder."""
    folder.mkdir()
    for name, target in (("Letters", "de"), ("Cartas", "pt")):
        memory = Memory.create(folder / f"{name}.uwm", "en", target)
        memory.add(PAIRS)
        memory.close()
    return folder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with running_server(tmp_path, memories=str(create_memories(tmp_path / "memories"))) as running:
        yield running.url


@pytest.fixture
def empty_server(tmp_path: Path) -> Iterator[str]:
    with running_server(tmp_path, memories=str(tmp_path / "memories")) as running:
        yield running.url


def test_page_shows_matches_from_the_selected_translation_memory(page, translator):
    plain = translate_text(page, CAR)
    memory = page.get_by_label("Memory", exact=True)
    assert memory.locator("option").all_inner_texts() == ["none", "Letters (2)"]
    memory.select_option("Letters (2)")
    wait_for_translation(page, CAR_IN_GERMAN)
    expect(page.locator(".origin")).to_have_text("From the memory: 100% (letters.tmx)")
    word(page, "Wagen").hover()
    expect(page.locator(".word-hint")).to_have_text("From the memory: 100% (letters.tmx)")
    expect(page.get_by_role("button", name="Remember")).to_be_disabled()
    page.locator(".others .choice", has_text=plain).click()
    wait_for_translation(page, plain)
    expect(page.locator(".origin")).to_be_empty()
    assert translate_text(page, "Open {name} with version 3.") == "Öffnen Sie bitte {name} mit Version 3."
    expect(page.locator(".origin p")).to_have_text(
        [
            "From the memory, with the numbers and names of this text: 98% (help)",
            f"{PAIRS[1].source} → {PAIRS[1].target}",
        ]
    )
    page.reload()
    assert translate_text(page, f"It is late. {CAR}").endswith(f" {CAR_IN_GERMAN}")
    memory.select_option("none")
    wait_for_translation(page, translator.translate(f"It is late. {CAR}").text)


@pytest.mark.parametrize("source", ["auto", "en"])
def test_memory_stays_selected_if_the_source_language_is_selected_instead_of_detected(
    browser, tmp_path, source
):
    folder = create_memories(tmp_path / "memories")
    with Memory.create(folder / "Briefe.uwm", "de", "en") as german:
        german.add([Pair("Guten Tag, wie geht es Ihnen?", "Hello.")])
    models = ["bundled", str(copy_bundled_model(tmp_path, "de", "en"))]
    with (
        running_server(tmp_path, memories=str(folder), models=models) as server,
        open_server_page(browser, server.url, f"#source={source}&target=de") as page,
    ):
        memory, selected = page.get_by_label("Memory", exact=True), page.locator("#memory option:checked")
        memory.select_option("Letters (2)")
        for other in ("en" if source == "auto" else "auto", source):
            assert translate_text(page, CAR) == CAR_IN_GERMAN
            page.locator("#from").select_option(other)
            expect(selected).to_have_text("Letters (2)")
        page.reload()
        expect(selected).to_have_text("Letters (2)")
        assert translate_text(page, CAR) == CAR_IN_GERMAN
        page.get_by_role("button", name="Swap languages").click()
        expect(selected).to_have_text("none")
        memory.select_option("Briefe (1)")
        page.get_by_role("button", name="Swap languages").click()
        expect(selected).to_have_text("Letters (2)")  # each direction has its own
        memory.select_option("none")
        page.locator("#from").select_option("auto")
        expect(selected).to_have_text("none")


def test_term_that_a_sentence_from_memory_lacks_is_marked_once(page, translator):
    glossary = {"car": "Auto"}
    page.get_by_label("Memory", exact=True).select_option("Letters (2)")
    add_term(page, "car", "Auto")
    assert translate_text(page, CAR) == CAR_IN_GERMAN
    expect(page.locator(".checks .choice", has_text="Your glossary has “Auto” for this")).to_have_count(1)
    expect(page.locator(".mirror u")).to_have_text(["car"])
    expect(page.locator(".note").first).to_be_empty()
    plain = translator.translate(CAR, glossary=glossary).text
    page.locator(".others .choice", has_text=plain).first.click()
    wait_for_translation(page, plain)
    expect(page.locator(".mirror u")).to_have_count(0)
    expect(page.locator(".note").first).to_be_empty()


def test_corrected_sentence_can_be_stored_by_keyboard(browser, empty_server):
    corrected = "Heute ist es ganz anders."
    with open_server_page(browser, empty_server, START) as page:
        other = translate_text(page, "It is late. The weather is nice today.\nHe sleeps.").split("\n")[1]
        expect(page.locator("#memory")).not_to_be_visible()
        page.locator(".line").nth(0).locator(".word").last.focus()
        expect(page.locator(".others h2")).to_contain_text("nice today")
        page.get_by_role("button", name="Correct", exact=True).focus()
        page.keyboard.press("Enter")
        page.get_by_label("Corrected translation").fill(corrected)
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Correct", exact=True)).to_be_focused()
        expect(page.locator(".others [role=status]")).to_contain_text("“Remember” does so for similar")
        page.get_by_role("button", name="Remember").focus()
        page.keyboard.press("Enter")
        expect(page.locator(".others [role=status]")).to_have_text("Remembered in “English – German”.")
        expect(page.get_by_role("button", name="Correct", exact=True)).to_be_focused()
        expect(page.locator("#memory option:checked")).to_have_text("English – German (1)")
        expect(page.locator(".origin")).to_have_text("From the memory: 100%")
        lines = output(page).split("\n")
        assert lines[0].endswith(f" {corrected}") and lines[1] == other
        page.reload()
        assert translate_text(page, "The weather is nice today.") == corrected
        expect(page.locator(".origin")).to_have_text("From the memory: 100%")  # not from the confirmed pairs
    with open_server_page(browser, empty_server, START) as page:
        page.get_by_label("Memory", exact=True).select_option("English – German (1)")
        assert translate_text(page, "The weather is nice today.") == corrected


def test_remembering_a_sentence_does_not_take_the_focus_from_a_user_who_types(browser, empty_server):
    with open_server_page(browser, empty_server, START) as page:
        translate_text(page, "He sleeps.")
        held = []
        page.route("**/pairs", lambda route: held.append(route))
        page.get_by_role("button", name="Remember").click()
        page.locator("#source").focus()
        eventually(page, lambda: held)
        held[0].continue_()
        expect(page.locator(".others [role=status]")).to_contain_text("Remembered")
        expect(page.locator("#source")).to_be_focused()


def test_sentence_from_memory_does_not_unmark_doubtful_words_of_other_sentences(page):
    doubtful = "The bank refused the spring loan because the crane broke."
    omitting = "The man carries near and school small garden large sees."

    def doubts(sentence: int) -> list[list[str]]:
        words = page.locator(".sentence").nth(sentence).locator(".word[data-doubt]")
        return words.evaluate_all("words => words.map((word) => [word.textContent, word.title])")

    translate_text(page, f"{doubtful} {omitting}")
    expected = [doubts(0), doubts(1)]
    omitted = page.locator(".mirror u").all_inner_texts()
    assert all(expected) and omitted
    page.get_by_label("Memory", exact=True).select_option("Letters (2)")
    assert CAR_IN_GERMAN in translate_text(page, f"{doubtful} {CAR} {omitting}")
    assert [doubts(number) for number in range(3)] == [expected[0], [], expected[1]]
    expect(page.locator(".mirror u")).to_have_text(omitted)
    word(page, "Garten").hover()
    expect(marked(page)).to_have_text(["garden"])


@pytest.mark.slow
def test_translation_memories_shared_by_all_clients_are_read_only(browser, tmp_path):
    keys = tmp_path / "keys.json"
    key = add_key(keys, "ann", None, None, 0)
    folder = str(create_memories(tmp_path / "memories"))
    with (
        running_server(tmp_path, memories=folder, keys=str(keys)) as server,
        open_server_page(browser, server.url, START, ("Failed to load",), "header button") as page,
    ):
        page.get_by_role("button", name="Settings").click()
        page.get_by_label("API key").fill(key)
        page.keyboard.press("Enter")
        page.keyboard.press("Escape")
        page.get_by_label("Memory", exact=True).select_option("Letters (2, read-only)")
        translate_text(page, "He sleeps.")
        expect(page.get_by_text("“Letters” is read-only: choose another memory")).to_be_visible()
        page.get_by_label("Memory", exact=True).select_option("none")
        page.route("**/pairs", lambda route: route.abort("connectionrefused"))
        page.get_by_role("button", name="Remember").click()
        expect(page.locator(".others [role=status]")).to_contain_text("cannot be reached")
        page.unroute("**/pairs")
        page.get_by_role("button", name="Remember").click()
        expect(page.locator("#memory option:checked")).to_have_text("English – German (1)")


@pytest.mark.slow
def test_documents_are_translated_with_the_selected_translation_memory(browser, tmp_path):
    folders = {"memories": str(create_memories(tmp_path / "memories")), "state": str(tmp_path / "state")}
    with running_server(tmp_path, **folders) as server, open_server_page(browser, server.url, START) as page:
        page.get_by_label("Memory", exact=True).select_option("Letters (2)")
        page.locator("#tabDocument").click()
        file = {"name": "letter.txt", "mimeType": "text/plain", "buffer": CAR.encode()}
        page.locator("#files").set_input_files(file)
        with page.expect_download() as download:
            page.get_by_role("button", name="Download").click()
        download.value.save_as(tmp_path / "letter.de.txt")
    assert (tmp_path / "letter.de.txt").read_text("utf-8") == CAR_IN_GERMAN
