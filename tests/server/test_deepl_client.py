"""The official client of DeepL, as it is, against the server."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from running_server import RunningServer, running_server

pytest_plugins = "server_fixtures"

deepl = pytest.importorskip("deepl")

TEXTS = ["The weather is nice today.", "I want to buy a car.", "A man sleeps."]
DOCUMENT = """<document>
  <meta>
    <title>A man sleeps.</title>
  </meta>
  <content>
    <par>The weather is <b>nice</b> today. I want to buy a car.</par>
  </content>
</document>"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("server")
    kept = {"state": str(folder / "state")}
    with running_server(folder, **kept) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Iterator[deepl.DeepLClient]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deepl.http_client, "max_network_retries", 0)
        made = deepl.DeepLClient("any", server_url=server.url)
        yield made
        made.close()


def test_texts_are_the_translators_own(client, translator):
    made = client.translate_text(TEXTS, source_lang="EN", target_lang="DE")
    assert [one.text for one in made] == [one.text for one in translator.translate(TEXTS)]
    assert [one.billed_characters for one in made] == [len(text) for text in TEXTS]
    assert {one.detected_source_lang for one in made} == {"EN"}


def test_a_language_that_is_not_named_is_found_out(client, translator):
    made = client.translate_text(TEXTS[0], target_lang="DE", context="We went for a walk in the park.")
    assert (made.text, made.detected_source_lang) == (translator.translate(TEXTS[0]).text, "EN")
    made = client.translate_text(
        ["Heute ist das Wetter sehr schön.", TEXTS[0]], target_lang="DE", context=" "
    )
    assert [one.detected_source_lang for one in made] == ["DE", "EN"]
    assert made[0].text == "Heute ist das Wetter sehr schön."


def test_the_quality_of_the_search_may_be_chosen(client, translator):
    for kind, beam in (("latency_optimized", 1), ("quality_optimized", 5), ("prefer_quality_optimized", 5)):
        made = client.translate_text(TEXTS[1], source_lang="EN", target_lang="DE", model_type=kind)
        assert made.text == translator.translate(TEXTS[1], beam=beam).text
        assert made.model_type_used == kind.removeprefix("prefer_")


def test_sentences_are_parted_as_asked_for(client, translator):
    text = "The weather is nice\ntoday. A man sleeps."
    for how, same in (
        (None, translator.translate(text)),
        ("1", translator.translate(text, split="sentences")),
        ("nonewlines", translator.translate(text.replace("\n", " "), split="sentences")),
        ("0", translator.translate(text.replace("\n", " "), split="never")),
    ):
        made = client.translate_text(text, source_lang="EN", target_lang="DE", split_sentences=how)
        assert made.text == same.text


def test_formatting_is_preserved_if_asked_for(client):
    text = "  A man sleeps\n\n\tI want to buy a car.  "
    options = {"source_lang": "EN", "target_lang": "DE"}
    made = client.translate_text(text, preserve_formatting=True, **options).text
    first, empty, last = made.split("\n")
    assert first.startswith("  ") and first[-1].isalpha() and empty == ""
    assert last.startswith("\t") and last.endswith(".  ")


def test_xml_is_parted_by_its_outline(client):
    made = client.translate_text(
        DOCUMENT, source_lang="EN", target_lang="DE", tag_handling="xml", split_sentences="nonewlines"
    ).text
    root = ElementTree.fromstring(made)
    assert [one.tag for one in root.iter()] == [one.tag for one in ElementTree.fromstring(DOCUMENT).iter()]
    named = client.translate_text(
        DOCUMENT,
        source_lang="EN",
        target_lang="DE",
        tag_handling="xml",
        split_sentences="nonewlines",
        outline_detection=False,
        splitting_tags=["par", "title"],
    ).text
    assert named == made


def test_xml_tags_are_ignored_or_never_part_a_text(client, translator):
    options = {"source_lang": "EN", "target_lang": "DE", "tag_handling": "xml"}
    made = client.translate_text("Open the page <x>Settings now</x>.", ignore_tags=["x"], **options).text
    assert "<x>Settings now</x>" in made
    text = "<p>The weather is</p> <p>nice today.</p>"
    apart = client.translate_text(text, **options).text
    whole = client.translate_text(text, non_splitting_tags="p,q", **options).text
    assert apart != whole
    assert "".join(ElementTree.fromstring(f"<r>{whole}</r>").itertext()).split() == (
        translator.translate("The weather is nice today.").text.split()
    )


def test_html_is_translated_in_its_tags(client):
    page = "\n<!DOCTYPE html>\n<html><body><p>A man sleeps.</p></body></html>\n"
    for kind in ("xml", "html"):
        made = client.translate_text(page, source_lang="EN", target_lang="DE", tag_handling=kind).text
        assert made.startswith("\n<!DOCTYPE html>\n<html><body><p>") and "A man" not in made
    text = '<p>The <b>weather</b> is nice.</p><p translate="no">A man</p><p>Broken <i>tag</p>'
    made = client.translate_text(text, source_lang="EN", target_lang="DE", tag_handling="html").text
    assert '<p translate="no">A man</p>' in made
    assert made.count("<b>") == made.count("</b>") == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"formality": "more"}, "formality"),
        ({"style_rule": "x"}, "style_id"),
        ({"custom_instructions": ["be kind"]}, "custom_instructions"),
        ({"translation_memory": "x", "translation_memory_threshold": 75}, "translation_memory_id"),
        ({"tag_handling": "latex"}, "tag_handling"),
        ({"split_sentences": "2"}, "split_sentences"),
        ({"model_type": "best"}, "model_type"),
        ({"target_lang": "TLH"}, "Value for 'target_lang' not supported.*TLH"),
        ({"source_lang": "TLH"}, "Value for 'source_lang' not supported.*TLH"),
        ({"source_lang": "DE", "target_lang": "EN-US"}, "Value for 'target_lang' not supported"),
        ({"source_lang": None, "text": "To jest zupełnie inny język niż te dwa."}, "not detected among.*en"),
        ({"glossary": "no-such"}, "no such glossary"),
        ({"tag_handling": "xml", "splitting_tags": ["a"], "non_splitting_tags": ["a"]}, "both"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(client, options, told):
    options = {"text": "A <b>man</b>.", "source_lang": "EN", "target_lang": "DE", **options}
    with pytest.raises(deepl.DeepLException, match=told):
        client.translate_text(**options)


@pytest.mark.parametrize(
    "options",
    [
        {"formality": "prefer_more", "extra_body_parameters": {"enable_beta_languages": True}},
        {"extra_body_parameters": {"a_field_of_next_year": "dry"}},
        {"ignore_tags": ["a"], "splitting_tags": ["a"], "non_splitting_tags": ["b"]},
        {"tag_handling": "html", "splitting_tags": ["a"]},
        {"source_lang": None},
    ],
)
def test_parameters_without_effect_are_accepted(client, translator, options):
    made = client.translate_text(TEXTS[0], **{"source_lang": "EN", "target_lang": "DE", **options})
    assert made.text == translator.translate(TEXTS[0]).text


def test_short_texts_are_detected_among_the_served_languages(client):
    made = client.translate_text(["proton beam", "Protonenstrahl", "12:30"], target_lang="DE")
    assert [one.detected_source_lang for one in made] == ["EN", "DE", "DE"]
    assert [one.text for one in made][1:] == ["Protonenstrahl", "12:30"]


def test_broken_xml_is_refused_and_a_text_too_many_does_not_break_the_rest(client):
    with pytest.raises(deepl.DeepLException, match="well-formed"):
        client.translate_text("<p>A man", source_lang="EN", target_lang="DE", tag_handling="xml")
    with pytest.raises(deepl.DeepLException, match="document type"):
        client.translate_text(
            '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', source_lang="EN", target_lang="DE", tag_handling="xml"
        )
    with pytest.raises(deepl.DeepLException, match="413"):
        client.translate_text(["a"] * 1000, source_lang="EN", target_lang="DE")


def test_languages(client):
    assert [(one.code, one.name) for one in client.get_source_languages()] == [("EN", "English")]
    assert [(one.code, one.supports_formality) for one in client.get_target_languages()] == [("DE", False)]
    assert [(one.source_lang, one.target_lang) for one in client.get_glossary_languages()] == [("en", "de")]


def test_usage_counts_what_was_translated_and_nothing_that_failed(client):
    before = client.get_usage().character.count
    client.translate_text("A man sleeps.", source_lang="EN", target_lang="DE")
    with pytest.raises(deepl.DeepLException):
        client.translate_text("<p>", source_lang="EN", target_lang="DE", tag_handling="xml")
    usage = client.get_usage()
    assert usage.character.count - before == len("A man sleeps.")
    assert usage.character.valid and not usage.any_limit_reached


def test_glossaries_of_one_pair(client):
    made = client.create_glossary("Words", "EN", "DE", {"car": "Karosse", "man": "Kerl"})
    assert (made.name, made.ready, made.entry_count) == ("Words", True, 2)
    assert client.get_glossary_entries(made) == {"car": "Karosse", "man": "Kerl"}
    assert client.get_glossary(made.glossary_id).name == "Words"
    assert made.glossary_id in [one.glossary_id for one in client.list_glossaries()]
    text = client.translate_text(TEXTS[1], source_lang="EN", target_lang="DE", glossary=made).text
    assert "Karosse" in text
    assert "Kerl" in client.translate_text_with_glossary(TEXTS[2], made).text
    client.delete_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(made.glossary_id)


def test_a_glossary_from_csv(client):
    made = client.create_glossary_from_csv(
        "Words", "EN", "DE", '"a car","eine Karosse",en,de\r\nx,y,fr,de\r\n'
    )
    assert client.get_glossary_entries(made) == {"a car": "eine Karosse"}
    with pytest.raises(deepl.DeepLException, match="Invalid glossary entries"):
        client.create_glossary_from_csv("Words", "EN", "DE", "a,b\na,c\n")
    with pytest.raises(deepl.DeepLException, match="Unsupported glossary"):
        client.create_glossary("Words", "EN", "FR", {"a": "b"})


def test_multilingual_glossaries(client):
    entries = deepl.api_data.MultilingualGlossaryDictionaryEntries("EN", "DE", {"car": "Karosse"})
    made = client.create_multilingual_glossary("Words", [entries])
    assert [one.entry_count for one in made.dictionaries] == [1]
    text = client.translate_text(TEXTS[1], source_lang="EN", target_lang="DE", glossary=made).text
    assert "Karosse" in text
    more = deepl.api_data.MultilingualGlossaryDictionaryEntries("EN", "DE", {"man": "Kerl"})
    changed = client.update_multilingual_glossary_dictionary(made, glossary_dict=more)
    assert changed.dictionaries[0].entry_count == 2
    assert client.update_multilingual_glossary_name(made, "Other words").name == "Other words"
    found = client.get_multilingual_glossary_entries(made, "EN", "DE")
    assert found.dictionaries[0].entries == "car\tKarosse\nman\tKerl"
    put = client.replace_multilingual_glossary_dictionary(
        made, glossary_dict=deepl.api_data.MultilingualGlossaryDictionaryEntries("EN", "DE", {"dog": "Hund"})
    )
    assert put.entry_count == 1
    assert made.glossary_id in [one.glossary_id for one in client.list_multilingual_glossaries()]
    client.delete_multilingual_glossary_dictionary(made, source_lang="EN", target_lang="DE")
    assert client.get_multilingual_glossary(made.glossary_id).dictionaries == []
    client.delete_multilingual_glossary(made)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_multilingual_glossary(made.glossary_id)


def test_documents(client, translator, tmp_path: Path):
    source = tmp_path / "letter.txt"
    source.write_text("\n\n".join(TEXTS), encoding="utf-8")
    with source.open("rb") as file:
        handle = client.translate_document_upload(file, source_lang="EN", target_lang="DE")
    status = client.translate_document_get_status(handle)
    assert (status.ok, status.billed_characters) == (True, sum(map(len, TEXTS)))
    for _ in range(2):
        made = io.BytesIO()
        client.translate_document_download(handle, made)
        assert made.getvalue().decode() == "\n\n".join(one.text for one in translator.translate(TEXTS))
    with pytest.raises(deepl.DeepLException, match="Not found"):
        client.translate_document_get_status(deepl.DocumentHandle(handle.document_id, "0" * 64))


def test_a_document_by_its_path_with_a_glossary(client, tmp_path: Path):
    glossary = client.create_glossary("Words", "EN", "DE", {"car": "Karosse"})
    source, target = tmp_path / "page.html", tmp_path / "seite.html"
    source.write_text("<p>I want to buy a <b>car</b>.</p>", encoding="utf-8")
    client.translate_document_from_filepath(
        source, target, source_lang="EN", target_lang="DE", glossary=glossary
    )
    assert "Karosse" in target.read_text(encoding="utf-8")
    detected = tmp_path / "detected.html"
    client.translate_document_from_filepath(source, detected, target_lang="DE")
    assert detected.read_text(encoding="utf-8").startswith("<p>")


def test_documents_that_cannot_be_translated(client, tmp_path: Path):
    with pytest.raises(deepl.DeepLException, match="file extension"):
        client.translate_document_upload(b"x", filename="x.exe", target_lang="DE")
    with pytest.raises(deepl.DeepLException, match="output_format"):
        client.translate_document_upload(b"x", filename="x.txt", target_lang="DE", output_format="pdf")
    with pytest.raises(deepl.DeepLException, match="equal"):
        client.translate_document_upload(b"x", filename="x.txt", source_lang="DE", target_lang="DE")
    handle = client.translate_document_upload(
        b"no zip", filename="../x.docx", source_lang="EN", target_lang="DE"
    )
    status = client.translate_document_get_status(handle)
    assert not status.ok
    assert "x.docx" in status.error_message
    assert str(tmp_path.parent) not in status.error_message


def test_a_document_in_its_target_language_fails_by_name(client):
    handle = client.translate_document_upload(
        "Heute ist das Wetter schön.", filename="x.txt", target_lang="DE"
    )
    status = client.translate_document_get_status(handle)
    assert "Source and target language are equal" in status.error_message


def test_what_the_server_does_not_have_is_told(client):
    with pytest.raises(deepl.DeepLException, match="only translates"):
        client.rephrase_text("A man sleeps.")
    with pytest.raises(deepl.DeepLException, match="only translates"):
        client.get_all_style_rules()
