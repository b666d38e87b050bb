"""Requests of DeepL's unmodified official client to the server."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import httpx
import pytest
from running_server import RunningServer, running_server

from uwaga.languages.names import language_name
from uwaga_server.auth import add_key
from uwaga_server.dialects.deepl.account import resource_languages

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
def client(server: RunningServer) -> Iterator[deepl.DeepLClient]:
    with client_of(server) as deepl_client:
        yield deepl_client


@contextmanager
def client_of(server: RunningServer) -> Iterator[deepl.DeepLClient]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deepl.http_client, "max_network_retries", 0)
        deepl_client = deepl.DeepLClient("any", server_url=server.url)
        yield deepl_client
        deepl_client.close()


def test_deepl_client_translations_match_python_api(client, translator):
    results = client.translate_text(TEXTS, source_lang="EN", target_lang="DE")
    assert [result.text for result in results] == [result.text for result in translator.translate(TEXTS)]
    assert [result.billed_characters for result in results] == [len(text) for text in TEXTS]
    assert {result.detected_source_lang for result in results} == {"EN"}


def test_deepl_client_detects_the_source_language(client, translator):
    result = client.translate_text(TEXTS[0], target_lang="DE", context="We went for a walk in the park.")
    assert (result.text, result.detected_source_lang) == (translator.translate(TEXTS[0]).text, "EN")
    results = client.translate_text(
        ["Heute ist das Wetter sehr schön.", TEXTS[0]], target_lang="DE", context=" "
    )
    assert [result.detected_source_lang for result in results] == ["DE", "EN"]
    assert results[0].text == "Heute ist das Wetter sehr schön."


def test_model_type_determines_the_beam_size(client, translator):
    for kind, beam in (("latency_optimized", 1), ("quality_optimized", 5), ("prefer_quality_optimized", 5)):
        result = client.translate_text(TEXTS[1], source_lang="EN", target_lang="DE", model_type=kind)
        assert result.text == translator.translate(TEXTS[1], beam=beam).text
        assert result.model_type_used == kind.removeprefix("prefer_")


def test_split_sentences_option_controls_splitting(client, translator):
    text = "The weather is nice\ntoday. A man sleeps."
    for option, expected in (
        (None, translator.translate(text)),
        ("1", translator.translate(text, split="sentences")),
        ("nonewlines", translator.translate(text.replace("\n", " "), split="sentences")),
        ("0", translator.translate(text.replace("\n", " "), split="never")),
    ):
        result = client.translate_text(text, source_lang="EN", target_lang="DE", split_sentences=option)
        assert result.text == expected.text


@pytest.mark.parametrize("option", [None, "0", "1", "nonewlines"])
@pytest.mark.parametrize("preserve_formatting", [False, True])
def test_all_characters_of_the_source_text_are_billed(client, option: str | None, preserve_formatting: bool):
    """https://support.deepl.com/hc/en-us/articles/360020685720: line feeds count as characters."""
    text = "A man sleeps.\r\nA dog.\r\n"
    result = client.translate_text(
        text, source_lang="EN", target_lang="DE", split_sentences=option,
        preserve_formatting=preserve_formatting,
    )  # fmt: skip
    assert result.billed_characters == len(text)


def test_preserve_formatting_option_keeps_spaces_and_line_breaks(client):
    text = "  A man sleeps\n\n\tI want to buy a car.  "
    options = {"source_lang": "EN", "target_lang": "DE"}
    translation = client.translate_text(text, preserve_formatting=True, **options).text
    first, empty, last = translation.split("\n")
    assert first.startswith("  ") and first[-1].isalpha() and empty == ""
    assert last.startswith("\t") and last.endswith(".  ")


def test_xml_outline_detection_is_equivalent_to_explicit_splitting_tags(client):
    detected = client.translate_text(
        DOCUMENT, source_lang="EN", target_lang="DE", tag_handling="xml", split_sentences="nonewlines"
    ).text
    root = ElementTree.fromstring(detected)
    assert [element.tag for element in root.iter()] == [
        element.tag for element in ElementTree.fromstring(DOCUMENT).iter()
    ]
    explicit = client.translate_text(
        DOCUMENT, source_lang="EN", target_lang="DE", tag_handling="xml", split_sentences="nonewlines",
        outline_detection=False, splitting_tags=["par", "title"],
    ).text  # fmt: skip
    assert explicit == detected


def test_ignore_tags_and_non_splitting_tags_options_are_applied(client, translator):
    options = {"source_lang": "EN", "target_lang": "DE", "tag_handling": "xml"}
    translation = client.translate_text(
        "Open the page <x>Settings now</x>.", ignore_tags=["x"], **options
    ).text
    assert "<x>Settings now</x>" in translation
    text = "<p>The weather is</p> <p>nice today.</p>"
    split = client.translate_text(text, **options).text
    unsplit = client.translate_text(text, non_splitting_tags="p,q", **options).text
    assert split != unsplit
    assert "".join(ElementTree.fromstring(f"<r>{unsplit}</r>").itertext()).split() == (
        translator.translate("The weather is nice today.").text.split()
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<p>Two dogs run.<i>A man sleeps.</i></p>", "<p>Zwei Hunde laufen.<i>Ein Mann schläft.</i></p>"),
        ("<p>Two dogs run. <i>A man sleeps.</i></p>", "<p>Zwei Hunde laufen. <i>Ein Mann schläft.</i></p>"),
        ("<b>Two dogs run.</b><i>A man sleeps.</i>", "<b>Zwei Hunde laufen.</b><i>Ein Mann schläft.</i>"),
    ],
)  # fmt: skip
def test_tags_between_sentences_are_preserved(client, text: str, expected: str):
    options = {"source_lang": "EN", "target_lang": "DE", "tag_handling": "xml"}
    assert client.translate_text(text, **options).text == expected


def test_tag_handling_preserves_xml_and_html_markup(client):
    page = "\n<!DOCTYPE html>\n<html><body><p>A man sleeps.</p></body></html>\n"
    for kind in ("xml", "html"):
        translation = client.translate_text(page, source_lang="EN", target_lang="DE", tag_handling=kind).text
        assert translation.startswith("\n<!DOCTYPE html>\n<html><body><p>") and "A man" not in translation
    text = '<p>The <b>weather</b> is nice.</p><p translate="no">A man</p><p>Broken <i>tag</p>'
    translation = client.translate_text(text, source_lang="EN", target_lang="DE", tag_handling="html").text
    assert '<p translate="no">A man</p>' in translation
    assert translation.count("<b>") == translation.count("</b>") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"formality": "more"}, "formality"),
        ({"style_rule": "x"}, "style_id"),
        ({"custom_instructions": ["be kind"]}, "custom_instructions"),
        ({"translation_memory": "x", "translation_memory_threshold": 75}, "no translation memories"),
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
def test_unsupported_options_are_refused_with_a_specific_error(client, options, message):
    options = {"text": "A <b>man</b>.", "source_lang": "EN", "target_lang": "DE", **options}
    with pytest.raises(deepl.DeepLException, match=message):
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
def test_deepl_options_without_effect_are_accepted(client, translator, options):
    result = client.translate_text(TEXTS[0], **{"source_lang": "EN", "target_lang": "DE", **options})
    assert result.text == translator.translate(TEXTS[0]).text


def test_language_of_short_texts_is_detected_among_supported_languages(client):
    results = client.translate_text(["proton beam", "Protonenstrahl", "12:30"], target_lang="DE")
    assert [result.detected_source_lang for result in results] == ["EN", "DE", "EN"]
    assert [result.text for result in results][1:] == ["Protonenstrahl", "12:30"]


def test_malformed_xml_and_too_many_texts_are_refused(client):
    with pytest.raises(deepl.DeepLException, match="well-formed"):
        client.translate_text("<p>A man", source_lang="EN", target_lang="DE", tag_handling="xml")
    with pytest.raises(deepl.DeepLException, match="document type"):
        client.translate_text(
            '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', source_lang="EN", target_lang="DE", tag_handling="xml"
        )
    with pytest.raises(deepl.DeepLException, match="413"):
        client.translate_text(["a"] * 1000, source_lang="EN", target_lang="DE")


def test_deepl_client_lists_supported_languages(client):
    assert [(language.code, language.name) for language in client.get_source_languages()] == [
        ("EN", "English")
    ]
    assert [(language.code, language.supports_formality) for language in client.get_target_languages()] == [
        ("DE", False)
    ]
    assert [(pair.source_lang, pair.target_lang) for pair in client.get_glossary_languages()] == [
        ("en", "de")
    ]


def test_usage_counts_only_successful_translations(tmp_path: Path):
    # The shared server refunds the cancelled requests of other tests later.
    with running_server(tmp_path, dialects=["deepl"]) as server, client_of(server) as client:
        client.translate_text("A man sleeps.", source_lang="EN", target_lang="DE")
        with pytest.raises(deepl.DeepLException):
            client.translate_text("<p>", source_lang="EN", target_lang="DE", tag_handling="xml")
        usage = client.get_usage()
    assert usage.character.count == len("A man sleeps.")
    assert usage.character.valid and not usage.any_limit_reached


def test_bilingual_glossary_is_created_used_and_deleted(client):
    glossary = client.create_glossary("Words", "EN", "DE", {"car": "Karosse", "man": "Kerl"})
    assert (glossary.name, glossary.ready, glossary.entry_count) == ("Words", True, 2)
    assert client.get_glossary_entries(glossary) == {"car": "Karosse", "man": "Kerl"}
    assert client.get_glossary(glossary.glossary_id).name == "Words"
    assert glossary.glossary_id in [listed.glossary_id for listed in client.list_glossaries()]
    text = client.translate_text(TEXTS[1], source_lang="EN", target_lang="DE", glossary=glossary).text
    assert "Karosse" in text
    assert "Kerl" in client.translate_text_with_glossary(TEXTS[2], glossary).text
    client.delete_glossary(glossary)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_glossary(glossary.glossary_id)


def test_glossary_is_created_from_csv_and_invalid_entries_are_refused(client):
    glossary = client.create_glossary_from_csv(
        "Words", "EN", "DE", '"a car","eine Karosse",en,de\r\nx,y,fr,de\r\n'
    )
    assert client.get_glossary_entries(glossary) == {"a car": "eine Karosse"}
    with pytest.raises(deepl.DeepLException, match="Invalid glossary entries"):
        client.create_glossary_from_csv("Words", "EN", "DE", "a,b\na,c\n")
    with pytest.raises(deepl.DeepLException, match="Unsupported glossary"):
        client.create_glossary("Words", "EN", "FR", {"a": "b"})


def test_multilingual_glossary_is_created_changed_and_deleted(client):
    entries = deepl.api_data.MultilingualGlossaryDictionaryEntries("EN", "DE", {"car": "Karosse"})
    glossary = client.create_multilingual_glossary("Words", [entries])
    assert [dictionary.entry_count for dictionary in glossary.dictionaries] == [1]
    text = client.translate_text(TEXTS[1], source_lang="EN", target_lang="DE", glossary=glossary).text
    assert "Karosse" in text
    addition = deepl.api_data.MultilingualGlossaryDictionaryEntries("EN", "DE", {"man": "Kerl"})
    changed = client.update_multilingual_glossary_dictionary(glossary, glossary_dict=addition)
    assert changed.dictionaries[0].entry_count == 2
    assert client.update_multilingual_glossary_name(glossary, "Other words").name == "Other words"
    read_back = client.get_multilingual_glossary_entries(glossary, "EN", "DE")
    assert read_back.dictionaries[0].entries == "car\tKarosse\nman\tKerl"
    replaced = client.replace_multilingual_glossary_dictionary(
        glossary,
        glossary_dict=deepl.api_data.MultilingualGlossaryDictionaryEntries("EN", "DE", {"dog": "Hund"}),
    )
    assert replaced.entry_count == 1
    assert glossary.glossary_id in [listed.glossary_id for listed in client.list_multilingual_glossaries()]
    client.delete_multilingual_glossary_dictionary(glossary, source_lang="EN", target_lang="DE")
    assert client.get_multilingual_glossary(glossary.glossary_id).dictionaries == []
    client.delete_multilingual_glossary(glossary)
    with pytest.raises(deepl.GlossaryNotFoundException):
        client.get_multilingual_glossary(glossary.glossary_id)


def test_first_of_several_glossaries_takes_precedence(client):
    glossaries = [
        client.create_glossary("Words", "EN", "DE", {"car": translation})
        for translation in ("Karre", "Karosse")
    ]
    for ordered in (glossaries, glossaries[::-1]):
        text = client.translate_text(TEXTS[1], source_lang="EN", target_lang="DE", glossary_ids=ordered).text
        expected = client.translate_text(
            TEXTS[1], source_lang="EN", target_lang="DE", glossary=ordered[0]
        ).text
        assert text == expected


@pytest.mark.parametrize(
    "body", [{"json": {"name": "Words", "dictionaries": []}}, {"data": {"name": "Words"}}]
)
def test_glossary_without_dictionaries_can_be_created_and_extended(client, server: RunningServer, body):
    created = server.post("/v3/glossaries", **body)
    assert (created.status_code, created.json()["dictionaries"]) == (201, [])
    glossary_id = created.json()["glossary_id"]
    with pytest.raises(deepl.DeepLException, match="No dictionary found for language pair"):
        client.get_multilingual_glossary_entries(glossary_id, "EN", "DE")
    with pytest.raises(deepl.DeepLException, match="No dictionary found for language pair"):
        client.translate_text(TEXTS[1], source_lang="EN", target_lang="DE", glossary=glossary_id)
    addition = deepl.api_data.MultilingualGlossaryDictionaryEntries("EN", "DE", {"car": "Karosse"})
    client.update_multilingual_glossary_dictionary(glossary_id, glossary_dict=addition)
    assert client.get_multilingual_glossary_entries(glossary_id, "EN", "DE").dictionaries[0].entries


def test_v3_languages_are_listed_by_resource_which_is_required(server: RunningServer):
    def listed(**parameters: str) -> httpx.Response:
        return server.get("/v3/languages", params=parameters)

    assert {
        (language["lang"], language["usable_as_source"], language["usable_as_target"])
        for language in listed(resource="translate_text").json()
    } == {("en", True, False), ("de", False, True)}
    assert "renamed to 'resource'" in listed(product="translate_text").json()["message"]
    assert listed().status_code == 400


@pytest.mark.parametrize("sources", [{"en": ["pt"], "pt": ["en"]}, {"de": ["en", "pt"]}])
def test_target_languages_are_listed_with_and_without_regional_variants(sources):
    languages = SimpleNamespace(
        sources=[
            SimpleNamespace(code=code, name=language_name(code), targets=targets)
            for code, targets in sources.items()
        ],
        route=lambda source, target: (),
    )
    listed = resource_languages(SimpleNamespace(languages=languages), "translate_text")
    targets = {language["lang"] for language in listed if language["usable_as_target"]}
    assert targets == {"en", "en-GB", "en-US", "pt", "pt-BR", "pt-PT"}


@pytest.mark.slow
def test_document_over_the_quota_is_refused_at_upload(tmp_path: Path):
    key = add_key(tmp_path / "keys.json", "ann", characters=20)
    with running_server(tmp_path, keys=str(tmp_path / "keys.json"), state=str(tmp_path / "state"),
                        dialects=["v1", "deepl"]) as running:  # fmt: skip
        upload = {"files": {"file": ("a.txt", b"I want to buy a large car.")}}
        with httpx.Client(base_url=running.url, headers={"Authorization": f"DeepL-Auth-Key {key}"}) as http:
            languages = {"source_lang": "EN", "target_lang": "DE"}
            refused = http.post("/v2/document", data=languages, **upload)
            assert refused.status_code == 456 and "Quota exceeded" in refused.json()["message"]
            short = http.post("/v2/document", data=languages, files={"file": ("a.txt", b"A man sleeps.")})
            assert short.status_code == 200
            broken = http.post("/v2/document", data=languages, files={"file": ("a.docx", b"A man sleeps.")})
            assert broken.status_code == 200  # reported by its state, as to clients without a quota


def test_document_is_uploaded_translated_and_downloaded(client, translator, tmp_path: Path):
    source = tmp_path / "letter.txt"
    source.write_text("\n\n".join(TEXTS), encoding="utf-8")
    with source.open("rb") as file:
        handle = client.translate_document_upload(file, source_lang="EN", target_lang="DE")
    status = client.translate_document_get_status(handle)
    assert (status.ok, status.billed_characters) == (True, sum(map(len, TEXTS)))
    for _ in range(2):
        content = io.BytesIO()
        client.translate_document_download(handle, content)
        assert content.getvalue().decode() == "\n\n".join(
            result.text for result in translator.translate(TEXTS)
        )
    with pytest.raises(deepl.DeepLException, match="Not found"):
        client.translate_document_get_status(deepl.DocumentHandle(handle.document_id, "0" * 64))


def test_document_given_by_path_is_translated_with_a_glossary(client, tmp_path: Path):
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


def test_untranslatable_documents_are_refused_or_fail(client, tmp_path: Path):
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


def test_document_already_in_the_target_language_fails(client):
    handle = client.translate_document_upload(
        "Heute ist das Wetter schön.", filename="x.txt", target_lang="DE"
    )
    status = client.translate_document_get_status(handle)
    assert "Source and target language are equal" in status.error_message


def test_unsupported_deepl_endpoints_are_refused(client):
    with pytest.raises(deepl.DeepLException, match="only translates"):
        client.rephrase_text("A man sleeps.")
    with pytest.raises(deepl.DeepLException, match="only translates"):
        client.get_all_style_rules()
