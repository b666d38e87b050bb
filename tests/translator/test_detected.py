import pytest

from uwaga.checkpoints.languages import LanguagePair
from uwaga.errors import DataError, SettingsError
from uwaga.languages.detection import detect_language
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


def test_auto_is_the_code_that_the_model_calls_it_by():
    nllb = LanguagePair("src", "tgt", ("deu_Latn", "eng_Latn"), ("deu_Latn", "eng_Latn"))
    assert known_source("auto", [ENGLISH], nllb) == "eng_Latn"
    assert known_source("auto", [ENGLISH], LanguagePair("en", "de", ("en",), ("de",))) == "en"
    assert known_source(None, [ENGLISH], nllb) is None and known_source("fr", [ENGLISH], nllb) == "fr"


def test_another_language_is_refused_with_its_name():
    pair = LanguagePair("en", "de", ("en",), ("de",))
    with pytest.raises(SettingsError, match=r"the text is in 'fr' \(probability .*from en"):
        known_source("auto", [TEXTS["fr"]], pair)
    with pytest.raises(SettingsError, match="states its languages"):
        known_source("auto", [ENGLISH], LanguagePair("src", "tgt"))
    with pytest.raises(DataError, match="no letter"):
        known_source("auto", ["12, 34!"], pair)


def test_a_model_finds_its_language():
    from uwaga import load

    translator = load()
    plain = translator.translate(["A dog runs.", ENGLISH])
    found = translator.translate(["A dog runs.", ENGLISH], source="auto")
    assert [one.text for one in found] == [one.text for one in plain]
    with pytest.raises(SettingsError, match="the text is in 'de'"):
        translator.translate(TEXTS["de"], source="auto")
