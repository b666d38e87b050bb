"""Translators by language: the best installed model, or several one after the other."""

from __future__ import annotations

import re

import pytest
import tiny_models as tiny

import uwaga
from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.errors import ModelError, SettingsError
from uwaga.translator.choose_models import choose_models, language_pair

JOINT = tiny.tokeniser()
TEXTS = ["I want to buy a car.", "", "Where is the station? It is not far from here.\n\nHi"]


def install(machine, name, source, target, seed=0, width=16):
    """A tiny model where Argos Translate keeps its own; any format is found there."""
    settings = tiny.TINY.model_copy(update={"tie": "none", "width": width})
    place = machine / "argos-translate" / "packages" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    model = tiny.transformer(settings, JOINT, JOINT, seed=seed)
    save_model(place, model, settings, tiny.DECODING, JOINT, JOINT, (source, target), "card")
    return place


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A computer with no models but uwaga's own, and pairs that nobody has elsewhere."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("UWAGA_HOME", str(tmp_path / "uwaga"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_pair_of_languages_is_the_model_that_translates_it(machine):
    place = install(machine, "one", "qaa", "qab", 1)
    install(machine, "other", "qab", "qaa", 2)
    expected = uwaga.load(place)
    for translator in (
        uwaga.load(source="qaa", target="qab"),
        uwaga.load(source="qaa", target="qab"),
        uwaga.load("qaa-qab"),
        uwaga.load("qaa_QM-qab_Latn"),
        uwaga.load(["qaa-qab"]),
    ):
        assert isinstance(translator, uwaga.Translator)
        assert translator.languages == ("qaa", "qab") and repr(place.name)[1:-1] in repr(translator)
        assert translator.translate(TEXTS) == expected.translate(TEXTS)
    back = uwaga.load("qab-qaa")
    assert back.languages == ("qab", "qaa")


def test_how_weights_lie_in_memory_reaches_the_models(machine):
    place = install(machine, "one", "qaa", "en")
    install(machine, "other", "en", "qab")
    with pytest.raises(SettingsError) as named:
        uwaga.load(place, memory="shared")
    for pair in ("qaa-en", "qaa-qab"):
        with pytest.raises(SettingsError, match=re.escape(str(named.value))):
            uwaga.load(pair, memory="shared")


def test_an_adapter_says_which_model_it_is_of(machine):
    place = install(machine, "one", "qaa", "qab")
    install(machine, "large", "qaa", "qab", width=32)
    tiny.write_random_adapter(place, machine / "adapter")
    expected = uwaga.load(adapter=machine / "adapter").translate(TEXTS)
    assert expected != uwaga.load(place).translate(TEXTS)
    by_languages = uwaga.load(source="qaa", target="qab", adapter=machine / "adapter")
    assert by_languages.translate(TEXTS) == expected
    with pytest.raises(SettingsError, match="'qaa-qab' chooses an installed model"):
        uwaga.load("qaa-qab", adapter=machine / "adapter")


def test_the_larger_model_is_chosen(machine):
    install(machine, "small", "qaa", "qab", width=8)
    install(machine, "large", "qaa", "qab", width=32)
    install(machine, "middle", "qaa", "qab", width=16)
    assert "large" in repr(uwaga.load("qaa-qab"))


def test_without_a_direct_model_several_translate_one_after_the_other(machine):
    places = [install(machine, "to", "qaa", "en", 1), install(machine, "from", "en", "qab", 2)]
    pivot = uwaga.load(source="qaa", target="qab", engine="native", threads=1)
    assert len(pivot.models) == 2
    assert pivot.route == ("qaa", "en", "qab") and pivot.languages == ("qaa", "qab")
    assert [str(place) in repr(pivot) for place in places] == [True, True]
    first, second = (uwaga.load(place, engine="native", threads=1) for place in places)
    by_hand = first.then(second)
    assert pivot.translate(TEXTS) == by_hand.translate(TEXTS)
    chosen = choose_models("qaa", "qab")
    assert str(chosen) == f"qaa → en → qab by {places[0]}, {places[1]}"


def test_a_language_to_go_through_may_be_named(machine):
    install(machine, "a", "qaa", "qab", 1)
    install(machine, "b", "qab", "qaa", 2)
    install(machine, "c", "qab", "qac", 3)
    install(machine, "d", "qaa", "qac", 4)
    assert uwaga.load("qaa-qac").languages == ("qaa", "qac")
    assert uwaga.load("qaa-qac", via="qab").route == ("qaa", "qab", "qac")
    assert uwaga.load(source="qaa", target="qaa", via="qab").route == ("qaa", "qab", "qaa")
    assert uwaga.load("qab-qac", via=["qaa"]).route == ("qab", "qaa", "qac")
    assert uwaga.load("qaa-qac", via=["qab", "qaa"]).route == ("qaa", "qab", "qaa", "qac")


def test_a_model_that_translates_twice_is_loaded_once(machine):
    pytest.importorskip("transformers")
    from fairseq_folders import model_folder

    place = machine / "argos-translate" / "packages" / "many"
    place.parent.mkdir(parents=True)
    model_folder(place, "m2m100")
    direct = uwaga.load(source="fr", target="ro")
    assert isinstance(direct, uwaga.Translator) and direct.languages == ("fr", "ro")
    expected = uwaga.load(place, source="fr", target="ro")
    assert direct.translate("Hi", max_length=5) == expected.translate("Hi", max_length=5)
    pivot = uwaga.load(source="fra_Latn", target="ro_RO", via="it")
    assert pivot.route == ("fr", "it", "ro")
    assert pivot.models[0].decoder is pivot.models[1].decoder
    steps = pivot.translate("Hi", max_length=5).steps
    assert steps[1] == expected.translate(steps[0].text, source="it", target="ro", max_length=5)


@pytest.mark.skipif(not BUNDLED.exists(), reason="this source tree holds no bundled model")
def test_the_bundled_model_is_found_and_stays_the_default(machine):
    assert uwaga.load("en-de").translate("Good morning!") == uwaga.load().translate("Good morning!")
    assert uwaga.load(source="eng", target="de_DE").languages == ("en", "de")
    install(machine, "own", "en", "de")
    assert "own" in repr(uwaga.load("en-de")) and "bundled" in repr(uwaga.load())


def test_with_a_model_languages_keep_their_meaning(machine):
    place = install(machine, "one", "qaa", "qab")
    assert uwaga.load(place, source="qaa", target="qab").languages == ("qaa", "qab")
    with pytest.raises(SettingsError, match="translates qaa to qab only"):
        uwaga.load(place, source="qab")
    (machine / "qaa-qab").symlink_to(place)
    install(machine, "larger", "qaa", "qab", width=32)
    assert "'qaa-qab'" in repr(uwaga.load("qaa-qab"))  # a folder of that name comes first


def test_what_is_not_there_is_said_with_the_way_out(machine):
    install(machine, "to", "qaa", "en")
    with pytest.raises(ModelError) as error:
        uwaga.load("qaa-qab")
    for part in (
        "no installed model translates qaa to qab, and no chain of models does",
        "`uwaga models download qaa-qab`, or to pivot through en `uwaga models download en-qab`, or name",
        "qaa to en",
    ):
        assert part in str(error.value)
    with pytest.raises(ModelError, match="download a model with `uwaga models download qab-en`, or name"):
        uwaga.load("qab-en")
    with pytest.raises(ModelError, match=r"via qac; .* download qaa-qac` and `uwaga models download qac-en`"):
        uwaga.load("qaa-en", via="qac")
    with pytest.raises(ModelError, match=r"via en; download a model with `uwaga models download en-qab`,"):
        uwaga.load("qaa-qab", via="en")


def test_a_damaged_model_is_not_chosen_but_named(machine):
    (install(machine, "broken", "qaa", "qab") / "config.json").write_text("{")
    with pytest.raises(ModelError, match="broken is damaged: "):
        uwaga.load("qaa-qab")
    good = install(machine, "good", "qaa", "qab")
    assert str(good) in repr(uwaga.load("qaa-qab"))


def test_languages_that_only_a_card_lists_are_not_believed(machine):
    """They say neither which way a model goes nor that it translates at all."""
    place = install(machine, "listed", "src", "tgt")
    (place / "card.md").write_text("---\nlanguage: [qaa, qab]\n---\n")
    with pytest.raises(ModelError, match="no installed model translates qaa to qab"):
        uwaga.load("qaa-qab")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": "qaa", "target": "qaa"}, "are the same language; choose another, or give a pivot"),
        ({"source": "en", "target": "eng_Latn"}, "are the same language"),
        ({"source": "en", "target": "not a code"}, "'not a code' is not a language code"),
        ({"source": "en", "target": "de", "via": 5}, "via must be"),
        ({"source": "en", "target": "de", "via": ["x"]}, "'x' is not a language code"),
        ({"via": "en"}, "via chooses among installed models"),
        ({"name": "bundled", "via": "en"}, "via chooses among installed models"),
        ({"name": "en-de", "source": "en"}, "already names both languages"),
        ({"source": "en", "source_language": "de"}, "did you mean 'source'"),
        ({"source": 5, "target": "de"}, "source must be"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_by_name(machine, arguments, message):
    with pytest.raises(SettingsError, match=re.escape(message)):
        uwaga.load(**arguments)


def test_a_shortlist_belongs_to_one_model(machine, tmp_path):
    install(machine, "to", "qaa", "en")
    install(machine, "from", "en", "qab")
    with pytest.raises(
        SettingsError, match="a shortlist works with a single model, but this is a chain of 2"
    ):
        uwaga.load("qaa-qab", shortlist=tmp_path / "s")
    assert uwaga.load("qaa-qab", shortlist="none").route == ("qaa", "en", "qab")


@pytest.mark.parametrize(
    ("name", "pair"),
    [
        ("en-pt", ("en", "pt")),
        ("pt-BR-en", ("pt-BR", "en")),
        ("eng_Latn-por_Latn", ("eng_Latn", "por_Latn")),
        ("en-zh_Hant", ("en", "zh_Hant")),
        ("es-419-en", ("es-419", "en")),
        *(
            (name, None)
            for name in ("bundled", "model", "opus-mt-en-de", "en", "en-", "a/b-c", "en-de-tiny", 5)
        ),
    ],
)
def test_a_pair_has_two_codes(machine, name, pair):
    assert language_pair(name) == pair
