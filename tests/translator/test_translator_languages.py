"""Languages per call: a multilingual model translates as if loaded for each direction."""

import pytest

from uwaga.translator import Request

transformers = pytest.importorskip("transformers")

from fairseq_folders import PAIRS, model_folder

import uwaga
from uwaga.errors import SettingsError

TEXTS = ["the dog sees the cat", "Hi", "", "Where is the station? It is not far."]
OTHER_PAIRS = {
    "mbart": ("fr_XX", "de_DE"),
    "mbart50": ("en_XX", "de_DE"),
    "m2m100": ("en", "de"),
    "nllb": ("eng_Latn", "deu_Latn"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("engine", ["torch", "native"])
@pytest.mark.parametrize("kind", PAIRS)
def test_languages_given_per_call_act_like_languages_given_at_loading(tmp_path, kind, engine):
    model_folder(tmp_path / "m", kind)
    free = uwaga.load(tmp_path / "m", engine=engine, device="cpu")
    for source, target in (PAIRS[kind], OTHER_PAIRS[kind]):
        fixed = uwaga.load(tmp_path / "m", engine=engine, device="cpu", source=source, target=target)
        assert fixed.languages == (source, target)
        expected = fixed.translate(TEXTS, beam=2, max_length=9)
        assert free.translate(TEXTS, source=source, target=target, beam=2, max_length=9) == expected
        pairs = [
            (text, translation.text)
            for text, translation in zip(TEXTS, expected, strict=True)
            if text and translation.text
        ]
        assert free.score(pairs, source=source, target=target) == fixed.score(pairs)
        streamed = "".join(free.stream(TEXTS[0], source=source, target=target, max_length=9))
        assert streamed == fixed.translate(TEXTS[0], beam=1, max_length=9).text
        directed = free.between(source, target)
        assert directed.decoder is free.decoder and directed.languages == (source, target)
        # A call may override the languages chosen at loading.
        pair = OTHER_PAIRS[kind] if (source, target) == PAIRS[kind] else PAIRS[kind]
        assert fixed.translate(TEXTS[0], source=pair[0], target=pair[1], max_length=9) == free.between(
            *pair
        ).translate(TEXTS[0], max_length=9)


def test_supported_languages_are_listed_and_missing_or_unknown_languages_rejected(tmp_path):
    model_folder(tmp_path / "m", "m2m100")
    translator = uwaga.load(tmp_path / "m", device="cpu")
    assert {"en", "de", "fr"} <= set(translator.languages.sources) == set(translator.languages.targets)
    for call in (
        lambda: translator.translate("Hi"),
        lambda: translator.translate("Hi", source="en"),
        lambda: list(translator.run([Request("Hi")])),
        lambda: list(translator.stream("Hi", target="de")),
        lambda: translator.score([("Hi", "Ho")]),
        lambda: translator.attend("Hi"),
        lambda: translator.attend("Hi", "Ho"),
    ):
        with pytest.raises(SettingsError, match=r"multilingual model needs a (source|target); choose"):
            call()
    with pytest.raises(SettingsError, match="no language 'xx'"):
        translator.translate("Hi", source="en", target="xx")
    with pytest.raises(SettingsError, match="no language 'xx'"):
        uwaga.load(tmp_path / "m", device="cpu", target="xx")
    half = uwaga.load(tmp_path / "m", device="cpu", source="en")
    assert half.translate("Hi", target="de", max_length=5) == translator.translate(
        "Hi", source="en", target="de", max_length=5
    )


def test_model_for_one_language_pair_accepts_only_its_languages():
    translator = uwaga.load()
    assert translator.languages == ("en", "de")
    assert (translator.languages.sources, translator.languages.targets) == (("en",), ("de",))
    assert translator.translate("Hi", source="en", target="de") == translator.translate("Hi")
    with pytest.raises(SettingsError, match="translates only en to de, not to 'fr'"):
        translator.translate("Hi", target="fr")
