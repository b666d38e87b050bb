import pytest

from uwaga import load
from uwaga.checkpoints.languages import LanguagePair
from uwaga.errors import SettingsError
from uwaga.languages.detection import UNDETERMINED, detect_language
from uwaga.translator.layers.untranslated import ALREADY
from uwaga.translator.plan import known_source

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
def test_a_sentence_tells_its_language(language):
    found = detect_language(["12 345", TEXTS[language]])
    assert found.language == language and 0.5 < found.probability <= 1


@pytest.mark.parametrize(
    ("text", "among", "language"),
    [
        ("proton beam", ("en", "de"), "en"),
        ("Protonenstrahl", ("en", "de"), "de"),
        ("A man", ("deu_Latn", "eng_Latn"), "en"),
        ("هذه جملة قصيرة.", ("en", "ar"), "ar"),  # others of its family are as likely
        (TEXTS["pl"], ("en", "de"), "pl"),
        (TEXTS["pl"], (), "pl"),
    ],
)
def test_a_short_text_is_in_an_expected_language(text, among, language):
    assert detect_language([text], among).language == language


PAIR = LanguagePair("en", "de", ("en",), ("de",))


def test_other_languages_and_none_are_told_from_those_on_offer():
    assert detect_language([TEXTS["fr"]], ["de", "en"]).language == "fr"
    assert detect_language([TEXTS["ru"]], ["de", "en"]).language == "ru"
    assert detect_language(["ᚠᚢᚦ"], ["de", "en"]) == (UNDETERMINED, 0.0)
    assert detect_language(["Hallo"], ["en"], "de").language in ("de", "en")


def test_auto_is_the_code_that_the_model_calls_it_by():
    nllb = LanguagePair("src", "tgt", ("deu_Latn", "eng_Latn"), ("deu_Latn", "eng_Latn"))
    assert known_source("auto", [ENGLISH], nllb).source == "eng_Latn"
    assert known_source("auto", [ENGLISH], PAIR) == ("en", frozenset())
    assert (
        known_source(None, [ENGLISH], nllb).source is None
        and known_source("fr", [ENGLISH], nllb).source == "fr"
    )


def test_another_language_is_refused_with_its_name():
    with pytest.raises(SettingsError, match=r"the text is in 'fr' \(probability .*from en"):
        known_source("auto", [TEXTS["fr"]], PAIR)
    with pytest.raises(SettingsError, match="states its languages"):
        known_source("auto", [ENGLISH], LanguagePair("src", "tgt"))
    with pytest.raises(SettingsError, match="cannot be detected"):
        known_source("auto", ["ᚠᚢᚦ"], PAIR)


def test_texts_in_the_target_language_and_without_letters_are_left_alone():
    translator = load()
    texts = ["A dog runs.", TEXTS["de"], "12, 34!", ENGLISH, "Open file"]
    plain = translator.translate(texts)
    found = translator.translate(texts, source="auto")
    assert [one.text for one in found] == [texts[at] if at == 1 else one.text for at, one in enumerate(plain)]
    assert [one.warnings for one in found] == [(), (ALREADY,), (), plain[3].warnings, plain[4].warnings]
    assert translator.translate(TEXTS["de"], source="auto").text == TEXTS["de"]
    assert "".join(translator.stream(TEXTS["de"], source="auto")) == TEXTS["de"]
