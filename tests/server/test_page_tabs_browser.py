"""Tabs of the page other than Text, settings and errors, in Chromium, with a real server."""

import json
import re

import httpx
import pytest
from browser import COUNT_PIXELS
from running_server import running_server
from server_page import (
    SET_LANGUAGE,
    START,
    eventually,
    expect,
    open_server_page,
    output,
    translate_text,
    wait_for_translation,
    word,
)

from uwaga_server.auth import add_key

pytest_plugins = "server_fixtures"

SENTENCE = "I want to buy a small red car tomorrow."


@pytest.fixture(scope="module")
def server(shared_server):
    return shared_server.url


def tab(page, name: str) -> None:
    page.get_by_role("tab", name=name).click()


def test_arrow_keys_move_between_tabs(page):
    page.get_by_role("tab", name="Text").focus()
    for name in ("Inside", "Document", "Glossary", "History", "Text"):
        page.keyboard.press("ArrowRight")
        page.wait_for_function("(name) => document.activeElement.textContent === name", arg=name)
        expect(page.get_by_role("tabpanel", name=name)).to_be_visible()
        expect(page.get_by_role("tabpanel")).to_have_count(1)


def test_inside_tab_shows_all_heads_of_each_sentence(page, translator):
    tab(page, "Inside")
    page.get_by_text("Translate a text first").wait_for()
    tab(page, "Text")
    translate_text(page, f"{SENTENCE} It is not expensive.")
    tab(page, "Inside")
    page.get_by_label("Sentence").select_option(label=SENTENCE)
    page.wait_for_selector("[data-milliseconds]")
    translation = translator.translate(SENTENCE, attention="all")
    for kind in ("cross", "encoder", "decoder"):
        page.locator(f"input[value={kind}]").check()
        eventually(page, lambda: page.locator("canvas").evaluate(COUNT_PIXELS) > 100)
        layers, heads = getattr(translation.attentions, kind).shape[:2]
        expect(page.locator(".uwaga-attention select option")).to_have_count(layers)
        expect(page.locator("button.head")).to_have_count(heads)
    page.locator("input[value=cross]").check()
    page.locator("input[value=model]").check()
    eventually(page, lambda: page.locator("canvas").evaluate(COUNT_PIXELS) > 500)
    page.get_by_label("Sentence").select_option(label="It is not expensive.")
    second = translator.translate("It is not expensive.").text
    expect(page.locator("uwaga-lab").get_by_label("German")).to_have_value(second)
    expect(page.locator(".lines li", has_text=re.compile("→ teuer$"))).to_be_visible()
    tab(page, "Text")
    word(page, "Auto").focus()
    expect(page.locator(".others h2")).to_contain_text(SENTENCE)
    tab(page, "Inside")
    expect(page.get_by_label("Sentence").locator("option:checked")).to_have_text(SENTENCE)


def test_inside_tab_shows_the_chosen_translation(page):
    translate_text(page, SENTENCE)
    word(page, "ein").click()
    page.locator(".menu .choice").first.click()
    page.wait_for_selector(".word.chosen")
    translation = output(page)
    tab(page, "Inside")
    page.wait_for_selector("[data-milliseconds]")
    expect(page.locator("uwaga-lab").get_by_label("German")).to_have_value(translation)


def upload(page, *files: tuple[str, str]) -> None:
    payload = [{"name": name, "mimeType": "text/plain", "buffer": text.encode()} for name, text in files]
    page.locator("#files").set_input_files(payload)


def test_documents_are_uploaded_and_downloaded(page, translator, tmp_path):
    lines = ["I want to buy a car.", "He sleeps.", ""]
    tab(page, "Document")
    upload(page, ("letter.txt", "\n".join(lines)), ("other.txt", "Good morning."))
    page.locator(".documents li").nth(1).get_by_role("button", name="Download").wait_for()
    first = page.locator(".documents li").first
    first.get_by_role("button", name="Download").wait_for()
    expect(first.get_by_text("done")).to_be_visible()
    bar = first.get_by_role("progressbar", name="Progress of letter.txt")
    expect(bar).to_have_js_property("position", 1)
    with page.expect_download() as download:
        first.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "letter.de.txt"
    download.value.save_as(tmp_path / "letter.txt")
    assert (tmp_path / "letter.txt").read_text("utf-8") == translator.translate("\n".join(lines)).text
    first.get_by_role("button", name="Remove").click()
    expect(page.locator(".documents li")).to_have_count(1)


def test_removed_document_can_be_restored_until_the_next_action(page):
    deleted = []
    page.on("request", lambda request: deleted.append(request.url) if request.method == "DELETE" else None)
    tab(page, "Document")
    upload(page, *((f"{name}.txt", "Good morning.") for name in "abc"))
    rows, undo = page.locator(".documents li"), page.get_by_role("button", name="Undo")
    expect(rows.get_by_role("button", name="Download")).to_have_count(3)
    names = ["a.txt", "b.txt", "c.txt"]
    remove = rows.nth(1).get_by_role("button", name="Remove")
    remove.press("Enter")
    expect(rows.locator("strong")).to_have_text(["a.txt", "c.txt"])
    expect(undo).to_be_focused()
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(undo).to_be_focused()
    undo.press("Enter")
    expect(rows.locator("strong")).to_have_text(names)
    expect(remove).to_be_focused()
    expect(undo).to_have_count(0)
    with page.expect_download() as download:
        rows.nth(1).get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "b.de.txt" and not deleted
    remove.click()
    rows.nth(1).get_by_role("button", name="Remove").click()  # the first removal is final now
    eventually(page, lambda: len(deleted) == 1)
    undo.click()
    expect(rows.locator("strong")).to_have_text(["a.txt", "c.txt"])
    remove.click()
    tab(page, "Text")
    tab(page, "Document")
    eventually(page, lambda: len(deleted) == 2)
    expect(undo).to_have_count(0)
    with page.expect_request("**/result") as result, page.expect_download():
        rows.first.get_by_role("button", name="Download").click()
    rows.first.get_by_role("button", name="Remove").click()
    assert httpx.get(result.value.url).status_code == 200
    page.goto("about:blank")
    eventually(page, lambda: httpx.get(result.value.url).status_code == 404)


@pytest.mark.slow
def test_document_is_translated_with_the_glossary_of_the_page(page, translator, tmp_path):
    tab(page, "Glossary")
    add_pair(page, "car", "Karosse")
    tab(page, "Document")
    expect(page.get_by_text("From English to German, as chosen under “Text”.")).to_be_visible()
    upload(page, ("letter.txt", SENTENCE))
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    download.value.save_as(tmp_path / "letter.txt")
    expected = translator.translate(SENTENCE, glossary={"car": "Karosse"}).text
    assert (tmp_path / "letter.txt").read_text("utf-8") == expected


@pytest.mark.slow
def test_page_shows_a_note_if_the_server_does_not_accept_documents(browser, tmp_path):
    with (
        running_server(tmp_path, host="0.0.0.0") as running,
        open_server_page(
            browser, running.url.replace("0.0.0.0", "127.0.0.1"), START, expected=("Failed to load",)
        ) as page,
    ):
        tab(page, "Document")
        upload(page, ("letter.txt", SENTENCE))
        page.get_by_text("uwaga serve --state FOLDER").wait_for()


@pytest.mark.slow
def test_document_dropped_on_the_page_is_translated(page):
    tab(page, "Document")
    data = page.evaluate_handle(
        """() => {
          const data = new DataTransfer();
          data.items.add(new File(['Good morning.'], 'dropped.txt', {type: 'text/plain'}));
          return data;
        }"""
    )
    page.dispatch_event(".drop", "dragover", {"dataTransfer": data})
    over = re.compile(r"\bover\b")
    expect(page.locator(".drop")).to_have_class(over)
    page.dispatch_event(".drop", "drop", {"dataTransfer": data})
    page.locator(".documents li").get_by_role("button", name="Download").wait_for()
    expect(page.locator(".drop")).not_to_have_class(over)


def test_errors_in_documents_are_explained_in_the_language_of_the_page(browser, server):
    with open_server_page(browser, server, START, expected=("Failed to load",), locale="de-DE") as page:
        tab(page, "Dokument")
        for name, content, explanation, detail in (
            ("photo.png", "no text", "Dieses Dateiformat wird nicht unterstützt", ""),
            ("broken.docx", "no archive", "Die Datei lässt sich nicht lesen", ""),
            ("broken.json", "{no", "Die Datei lässt sich nicht lesen", "line 1, column 2"),
        ):
            upload(page, (name, content))
            row = page.locator(".documents li", has_text=name)
            expect(row.locator(".note")).to_contain_text(explanation)
            expect(row.locator(".note")).to_contain_text(detail)
            assert ("Englisch" in row.locator(".note").inner_text()) == bool(detail)
            expect(row.get_by_role("button")).to_have_text(["Entfernen"])  # the same file fails again
        upload(page, ("numbers.txt", "1 2 3"))
        expect(page.get_by_role("status").get_by_text("nichts zu übersetzen")).to_be_visible()


def test_failed_document_can_be_uploaded_again(browser, server):
    with open_server_page(browser, server, START, expected=("Failed to load",)) as page:
        page.route("**/v1/documents", lambda route: route.abort("connectionrefused"), times=1)
        tab(page, "Document")
        upload(page, ("letter.txt", SENTENCE))
        page.locator(".documents .note").wait_for()
        page.locator(".documents").get_by_role("button", name="Try again").click()
        page.get_by_role("button", name="Download").wait_for()
        expect(page.locator(".documents .note")).to_have_count(0)


def test_cancelled_document_is_deleted_on_the_server(browser, server):
    # a request for its progress may arrive after it is deleted
    with open_server_page(browser, server, START, expected=("Failed to load",)) as page:
        deleted = []
        page.on(
            "request", lambda request: deleted.append(request.url) if request.method == "DELETE" else None
        )
        tab(page, "Document")
        upload(page, ("long.txt", "\n".join(f"I see {count} houses and a tree." for count in range(3000))))
        page.get_by_text("translating").wait_for()
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_text("cancelled")).to_be_visible()
        eventually(page, lambda: len(deleted) == 1)


def add_pair(page, source: str, target: str) -> None:
    page.get_by_placeholder("Word or phrase").fill(source)
    page.get_by_placeholder("Its translation").fill(target)
    page.keyboard.press("Enter")


@pytest.mark.slow
def test_glossary_is_applied_and_stored_until_it_is_switched_off(page, translator, tmp_path):
    plain = translate_text(page, SENTENCE)
    tab(page, "Glossary")
    expect(page.get_by_text("from English to German")).to_be_visible()
    add_pair(page, "car", "Karosse")
    tab(page, "Text")
    wait_for_translation(page, translator.translate(SENTENCE, glossary={"car": "Karosse"}).text)
    term = page.locator(".word.term")
    expect(term).to_have_attribute("title", "From your glossary.")
    expect(term).not_to_have_attribute("data-doubt", re.compile("."))
    page.reload()
    assert "Karosse" in translate_text(page, SENTENCE)
    tab(page, "Glossary")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save terms as TSV").click()
    download.value.save_as(tmp_path / "saved.tsv")
    assert (tmp_path / "saved.tsv").read_text("utf-8") == "car\tKarosse\n"
    page.get_by_label("Use the glossary").uncheck()
    tab(page, "Text")
    assert translate_text(page, SENTENCE) == plain


def test_glossary_pair_with_an_empty_field_is_reported(page):
    tab(page, "Glossary")
    note = page.locator("#tabGlossary-panel .note[role=alert]")
    for source, target, label in (("", "Wagen", "Word or phrase"), ("car", "", "Its translation")):
        add_pair(page, source, target)
        expect(note).to_have_text("Fill in both fields.")
        expect(page.get_by_label(label)).to_be_focused()
    add_pair(page, "car", "Wagen")
    expect(note).to_be_empty()


BUTTON_NAMES = """() => [...document.querySelectorAll('[role=tabpanel]:not([hidden]) button')]
  .filter((button) => button.checkVisibility() && !button.closest('li, tr, .lab'))
  .map((button) => button.ariaLabel ?? button.textContent)"""


def test_buttons_of_a_tab_have_different_names_in_all_languages(page):
    for name in ("glossary en de", "confirmed en de"):
        page.evaluate('(name) => localStorage.setItem(`uwaga ${name}`, \'[["car", "Auto"]]\')', name)
    page.reload()
    translate_text(page, SENTENCE)
    languages = page.locator("#page-language option").evaluate_all("options => options.map((o) => o.value)")
    assert len(languages) == 5
    for language in languages:
        page.evaluate(SET_LANGUAGE, language)
        expect(page.locator("html")).to_have_attribute("lang", language)
        for identifier in ("tabText", "tabDocument", "tabGlossary", "tabHistory"):
            page.locator(f"#{identifier}").click()
            names = page.evaluate(BUTTON_NAMES)
            assert len(names) == len(set(names)), names
            assert len(names) >= 5 or identifier != "tabGlossary"


REMOVALS = (
    ("glossary en de", "Glossary", ".pairs:visible >> nth=0 >> button >> nth=0"),
    ("glossary en de", "Glossary", "text='Remove all terms'"),
    ("confirmed en de", "Glossary", ".confirmed .pairs button"),
    ("confirmed en de", "Glossary", "text='Remove all confirmed translations'"),
    ("history", "History", "text='Clear the history'"),
)


@pytest.mark.parametrize(("name", "tab_name", "selector"), REMOVALS)
def test_removal_can_be_undone_until_the_next_action(page, name, tab_name, selector):
    pairs = [["car", "Auto"], ["red", "rot"]]
    entry = {"time": 1, "source": "en", "target": "de", "text": "a", "translation": "b", "choices": []}
    before = [entry, entry | {"text": "c"}] if name == "history" else pairs
    page.evaluate(
        "([name, value]) => localStorage.setItem(`uwaga ${name}`, value)", [name, json.dumps(before)]
    )
    page.reload()

    def stored() -> list:
        return json.loads(page.evaluate("(name) => localStorage.getItem(`uwaga ${name}`)", name))

    tab(page, tab_name)
    remove, undo = page.locator(selector).first, page.get_by_role("button", name="Undo")
    remove.press("Enter")
    expect(undo).to_be_focused()
    expect(page.locator("[role=status]", has_text="Removed.")).to_be_visible()
    assert stored() == ([] if "all" in selector or name == "history" else before[1:])
    page.evaluate("dispatchEvent(new Event('online'))")
    expect(undo).to_be_focused()
    undo.press("Enter")
    expect(undo).to_have_count(0)
    assert stored() == before
    assert page.evaluate("document.activeElement.matches('[role=tabpanel] button')")
    remove.press("Enter")
    expect(undo).to_be_visible()
    tab(page, "Text")
    tab(page, tab_name)
    expect(undo).to_have_count(0)


@pytest.mark.slow
def test_glossary_files_are_read(page):
    tab(page, "Glossary")
    for name, text in (("a.tsv", "car\tKarosse\nno pair\n"), ("b.csv", 'red,"rosa, hell"\ncar,Wagen\n')):
        content = {"name": name, "mimeType": "text/plain", "buffer": text.encode()}
        page.locator("#glossary-file").set_input_files(content)
        page.get_by_text(re.compile("pairs? read")).wait_for()
        if name == "a.tsv":
            expect(page.get_by_text("1 pair read. Skipped lines without two columns: 2.")).to_be_visible()
    page.get_by_text("2 pairs read.").wait_for()
    rows = page.locator("tbody tr")
    expect(rows.locator("td:nth-child(2)")).to_have_text(["Wagen", "rosa, hell"])
    rows.first.get_by_role("button", name="Remove").click()
    expect(rows).to_have_count(1)
    page.get_by_role("button", name="Remove all terms").click()
    expect(rows).to_have_count(0)
    expect(page.get_by_text("No pairs yet.")).to_be_visible()


def test_translation_history_is_stored_restored_and_cleared(page):
    translation = translate_text(page, SENTENCE)
    page.wait_for_function("() => localStorage.getItem('uwaga history')")
    page.reload()
    tab(page, "History")
    entry = page.locator(".history .choice")
    for part in (SENTENCE, translation):
        expect(entry).to_contain_text(part)
    entry.click()
    expect(page.locator("#source")).to_have_value(SENTENCE)
    tab(page, "History")
    page.get_by_role("button", name="Clear the history").click()
    expect(page.get_by_text("Nothing yet.")).to_be_visible()
    page.get_by_label("Keep a history").uncheck()
    tab(page, "Text")
    translate_text(page, "He sleeps.")
    page.wait_for_timeout(2000)
    assert json.loads(page.evaluate("localStorage.getItem('uwaga history')")) == []


def test_history_shows_the_beginning_of_long_texts(page):
    entry = {"time": 0, "source": "en", "target": "de", "translation": "Ja.\n" * 500, "choices": []}
    entries = [entry | {"text": "word " * 6000}, entry | {"text": "Yes.\n" * 500}]
    page.evaluate("(text) => localStorage.setItem('uwaga history', text)", json.dumps(entries))
    page.set_viewport_size({"width": 390, "height": 800})
    tab(page, "History")
    for choice in page.locator(".history .choice").all():
        assert choice.bounding_box()["height"] < 300
        assert len(choice.text_content()) < 1000
    page.locator(".history .choice").first.click()
    expect(page.locator("#source")).to_have_value(entries[0]["text"])


def test_page_works_in_a_browser_without_storage(page):
    page.add_init_script("Storage.prototype.setItem = () => { throw new DOMException('no') }")
    page.reload()
    page.wait_for_selector("#source")
    expect(page.get_by_text("does not let the page keep anything")).to_be_visible()
    tab(page, "Glossary")
    add_pair(page, "car", "Karosse")
    tab(page, "Text")
    assert "Karosse" in translate_text(page, SENTENCE)


def fulfil_translations(
    page, status: int, body: dict, headers: dict | None = None, times: int | None = None
) -> None:
    """Replace the server's responses to translation requests."""
    page.route(
        "**/v1/translate",
        lambda route: route.fulfill(status=status, json=body, headers=headers or {}),
        **({} if times is None else {"times": times}),
    )


@pytest.mark.parametrize(
    ("status", "code", "message"),
    [
        pytest.param(413, "text_too_large", "too long for this server", marks=pytest.mark.slow),
        pytest.param(
            400, "unsupported_languages", "has no model from English to German", marks=pytest.mark.slow
        ),
        pytest.param(503, "model_unavailable", "cannot be loaded", marks=pytest.mark.slow),
        pytest.param(504, "deadline", "took too long", marks=pytest.mark.slow),
        pytest.param(403, "wrong_origin", "from the address of this page", marks=pytest.mark.slow),
        pytest.param(500, "internal_error", "Server error", marks=pytest.mark.slow),
        (400, "refused", "The server refused: m."),
    ],
)
def test_server_errors_are_explained_until_the_next_translation(browser, server, status, code, message):
    with open_server_page(browser, server, START, expected=("Failed to load",)) as page:
        fulfil_translations(page, status, {"error": {"code": code, "message": "m"}})
        page.locator("#source").fill(SENTENCE)
        note = page.locator("[role=alert]", has_text=message)
        note.wait_for()
        page.unroute("**/v1/translate")
        page.locator("#source").fill(f"{SENTENCE} ")
        page.wait_for_selector(".line.done")
        expect(note).not_to_be_visible()


@pytest.mark.slow
def test_error_of_a_line_is_explained(browser, server):
    with open_server_page(browser, server, START) as page:
        error = {"code": "unknown_language", "message": "m"}
        fulfil_translations(page, 200, {"translations": [{"text": "", "error": error}], "model": ""})
        page.locator("#source").fill(SENTENCE)
        page.get_by_text("not detected among those of this server").wait_for()


def test_unreachable_server_is_contacted_again_on_request(browser, server, translator):
    with open_server_page(browser, server, START, expected=("Failed to load",)) as page:
        page.route("**/v1/translate", lambda route: route.abort("connectionrefused"))
        page.locator("#source").fill(SENTENCE)
        page.get_by_text("The server cannot be reached.").wait_for()
        page.unroute("**/v1/translate")
        page.get_by_role("button", name="Try again").click()
        wait_for_translation(page, translator.translate(SENTENCE).text)


@pytest.mark.slow
def test_requests_to_a_busy_server_are_repeated_automatically(browser, server):
    with open_server_page(browser, server, START, expected=("Failed to load",)) as page:
        fulfil_translations(
            page, 429, {"error": {"code": "busy", "message": "m"}}, {"retry-after": "1"}, times=1
        )
        page.locator("#source").fill(SENTENCE)
        page.get_by_text("tries again in 1 second.").wait_for()
        page.wait_for_selector(".line.done")


@pytest.mark.parametrize("event", [pytest.param(False, marks=pytest.mark.slow), True])
def test_page_recovers_if_the_server_is_unreachable_at_first(browser, server, event):
    with open_server_page(browser, server, START, expected=("Failed to load",)) as page:
        page.route("**/v1/languages", lambda route: route.abort("connectionrefused"), times=1)
        page.reload()
        page.get_by_text("The server cannot be reached.").wait_for()
        if event:
            page.evaluate("dispatchEvent(new Event('online'))")
        else:
            page.get_by_role("button", name="Try again").click()
        page.wait_for_selector("#source")


@pytest.mark.slow
def test_page_asks_for_the_api_key_and_checks_it(browser, tmp_path):
    keys = tmp_path / "keys.json"
    key = add_key(keys, "ann", None, None, 0)
    with (
        running_server(tmp_path, keys=str(keys)) as running,
        open_server_page(browser, running.url, START, ("Failed to load",), "header button") as page,
    ):
        page.get_by_text("This server requires an API key.").wait_for()
        page.get_by_role("button", name="Settings").click()
        field = page.get_by_label("API key")
        field.fill("wrong")
        field.press("Enter")
        page.get_by_text("does not know this key").wait_for()
        field.fill(key)
        field.press("Enter")
        page.wait_for_selector("#source")
        assert translate_text(page, SENTENCE)
        page.reload()
        assert translate_text(page, SENTENCE)
