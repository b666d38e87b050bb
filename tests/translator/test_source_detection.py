import pytest

from uwaga import load
from uwaga.checkpoints.languages import LanguagePair
from uwaga.errors import MissingExtraError, SettingsError
from uwaga.languages.detection import UNDETERMINED, detect_language, is_detected
from uwaga.translator.layers.untranslated import ALREADY_TRANSLATED
from uwaga.translator.plan import resolve_source

ENGLISH = "The weather is nice today, and we will walk along the river to the old town."
TEXTS = {
    "en": ENGLISH,
    "de": "Das Wetter ist heute schön, und wir werden am Fluss entlang in die Altstadt gehen.",
    "fr": "Il fait beau aujourd'hui et nous allons marcher le long de la rivière.",
    "pl": "Dziś jest ładna pogoda i pójdziemy wzdłuż rzeki do starego miasta.",
    "ru": "Сегодня хорошая погода, и мы пойдём вдоль реки в старый город.",
    "ja": "今日は天気がいいので、川に沿って旧市街まで歩きます。",
}


@pytest.mark.parametrize("language", sorted(TEXTS))
def test_language_of_a_sentence_is_detected(language):
    detected = detect_language(["12 345", TEXTS[language]])
    assert detected.language == language and 0.5 < detected.probability <= 1


def test_is_detected_accepts_language_codes_of_all_styles(monkeypatch):
    codes = ("de", "de_AT", "deu_Latn", "csb", "not a language", "")
    assert [is_detected(code) for code in codes] == [True, True, True, False, False, False]

    def fail() -> None:
        raise MissingExtraError("not installed")

    monkeypatch.setattr("uwaga.languages.detection._identifier", fail)
    assert not any(map(is_detected, codes))


@pytest.mark.parametrize(
    ("text", "among", "language"),
    [
        ("proton beam", ("en", "de"), "en"),
        ("Protonenstrahl", ("en", "de"), "de"),
        ("A man", ("deu_Latn", "eng_Latn"), "en"),
        ("هذه جملة قصيرة.", ("en", "ar"), "ar"),  # related languages are as likely
        (TEXTS["pl"], ("en", "de"), "pl"),
        (TEXTS["pl"], (), "pl"),
    ],
)
def test_language_detection_prefers_expected_languages_for_short_texts(text, among, language):
    assert detect_language([text], among).language == language


PAIR = LanguagePair("en", "de", ("en",), ("de",))


def test_unexpected_and_undetermined_languages_are_reported():
    assert detect_language([TEXTS["fr"]], ["de", "en"]).language == "fr"
    assert detect_language([TEXTS["ru"]], ["de", "en"]).language == "ru"
    assert detect_language(["ᚠᚢᚦ"], ["de", "en"]) == (UNDETERMINED, 0.0)
    assert detect_language(["Hallo"], ["en"], "de").language in ("de", "en")


def test_detected_language_is_returned_as_the_code_of_the_model():
    nllb = LanguagePair("src", "tgt", ("deu_Latn", "eng_Latn"), ("deu_Latn", "eng_Latn"))
    assert resolve_source("auto", [ENGLISH], nllb).source == "eng_Latn"
    assert resolve_source("auto", [ENGLISH], PAIR) == ("en", frozenset())
    assert (
        resolve_source(None, [ENGLISH], nllb).source is None
        and resolve_source("fr", [ENGLISH], nllb).source == "fr"
    )


def test_unsupported_or_undetectable_source_language_is_rejected():
    with pytest.raises(SettingsError, match=r"the text is in 'fr' \(probability .*from en"):
        resolve_source("auto", [TEXTS["fr"]], PAIR)
    with pytest.raises(SettingsError, match="states its languages"):
        resolve_source("auto", [ENGLISH], LanguagePair("src", "tgt"))
    with pytest.raises(SettingsError, match="cannot be detected"):
        resolve_source("auto", ["ᚠᚢᚦ"], PAIR)


def test_texts_in_the_target_language_or_without_letters_are_copied():
    translator = load()
    texts = ["A dog runs.", TEXTS["de"], "12, 34!", ENGLISH, "Open file"]
    plain = translator.translate(texts)
    detected = translator.translate(texts, source="auto")
    assert [translation.text for translation in detected] == [
        texts[index] if index == 1 else translation.text for index, translation in enumerate(plain)
    ]
    assert [translation.warnings for translation in detected] == [
        (), (ALREADY_TRANSLATED,), (), plain[3].warnings, plain[4].warnings,
    ]  # fmt: skip
    assert translator.translate(TEXTS["de"], source="auto").text == TEXTS["de"]
    assert "".join(translator.stream(TEXTS["de"], source="auto")) == TEXTS["de"]
