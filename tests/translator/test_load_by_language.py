"""Loading by language pair: the best installed model, or a chain of models."""

import re

import pytest
import tiny_models as tiny

import uwaga
from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.errors import ModelError, SettingsError
from uwaga.translator.choose_models import choose_models, language_pair

JOINT = tiny.tokeniser()
TEXTS = ["I want to buy a car.", "", "Where is the station? It is not far from here.\n\nHi"]


def install(machine, name, source, target, seed=0, width=16):
    """Save a tiny model in the package folder of Argos Translate, where models of any format are found."""
    settings = tiny.TINY.model_copy(update={"tie": "none", "width": width})
    path = machine / "argos-translate" / "packages" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    model = tiny.transformer(settings, JOINT, JOINT, seed=seed)
    tiny.save(path, model, JOINT, languages=(source, target))
    return path


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Set up a machine without installed models other than the bundled one."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("UWAGA_HOME", str(tmp_path / "uwaga"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_language_pair_selects_its_model(machine):
    path = install(machine, "one", "qaa", "qab", 1)
    install(machine, "other", "qab", "qaa", 2)
    expected = uwaga.load(path)
    for translator in (
        uwaga.load(source="qaa", target="qab"),
        uwaga.load(source="qaa", target="qab"),
        uwaga.load("qaa-qab"),
        uwaga.load("qaa_QM-qab_Latn"),
        uwaga.load(["qaa-qab"]),
    ):
        assert isinstance(translator, uwaga.Translator)
        assert translator.languages == ("qaa", "qab") and repr(path.name)[1:-1] in repr(translator)
        assert translator.translate(TEXTS) == expected.translate(TEXTS)
    reverse = uwaga.load("qab-qaa")
    assert reverse.languages == ("qab", "qaa")


def test_memory_option_is_passed_to_the_loaded_models(machine):
    path = install(machine, "one", "qaa", "en")
    install(machine, "other", "en", "qab")
    with pytest.raises(SettingsError) as error:
        uwaga.load(path, memory="shared")
    for pair in ("qaa-en", "qaa-qab"):
        with pytest.raises(SettingsError, match=re.escape(str(error.value))):
            uwaga.load(pair, memory="shared")


def test_adapter_selects_its_base_model(machine):
    path = install(machine, "one", "qaa", "qab")
    install(machine, "large", "qaa", "qab", width=32)
    tiny.write_random_adapter(path, machine / "adapter")
    expected = uwaga.load(adapter=machine / "adapter").translate(TEXTS)
    assert expected != uwaga.load(path).translate(TEXTS)
    by_languages = uwaga.load(source="qaa", target="qab", adapter=machine / "adapter")
    assert by_languages.translate(TEXTS) == expected
    with pytest.raises(SettingsError, match="'qaa-qab' chooses an installed model"):
        uwaga.load("qaa-qab", adapter=machine / "adapter")


def test_largest_model_is_selected(machine):
    install(machine, "small", "qaa", "qab", width=8)
    install(machine, "large", "qaa", "qab", width=32)
    install(machine, "middle", "qaa", "qab", width=16)
    assert "large" in repr(uwaga.load("qaa-qab"))


def test_pivot_is_used_if_there_is_no_direct_model(machine):
    paths = [install(machine, "to", "qaa", "en", 1), install(machine, "from", "en", "qab", 2)]
    pivot = uwaga.load(source="qaa", target="qab", engine="native", threads=1)
    assert len(pivot.models) == 2
    assert pivot.route == ("qaa", "en", "qab") and pivot.languages == ("qaa", "qab")
    assert [str(path) in repr(pivot) for path in paths] == [True, True]
    first, second = (uwaga.load(path, engine="native", threads=1) for path in paths)
    chain = first.then(second)
    assert pivot.translate(TEXTS) == chain.translate(TEXTS)
    selection = choose_models("qaa", "qab")
    assert str(selection) == f"qaa → en → qab by {paths[0]}, {paths[1]}"


def test_via_option_selects_the_pivot(machine):
    install(machine, "a", "qaa", "qab", 1)
    install(machine, "b", "qab", "qaa", 2)
    install(machine, "c", "qab", "qac", 3)
    install(machine, "d", "qaa", "qac", 4)
    assert uwaga.load("qaa-qac").languages == ("qaa", "qac")
    assert uwaga.load("qaa-qac", via="qab").route == ("qaa", "qab", "qac")
    assert uwaga.load(source="qaa", target="qaa", via="qab").route == ("qaa", "qab", "qaa")
    assert uwaga.load("qab-qac", via=["qaa"]).route == ("qab", "qaa", "qac")
    assert uwaga.load("qaa-qac", via=["qab", "qaa"]).route == ("qaa", "qab", "qaa", "qac")


def test_model_repeated_in_a_chain_is_loaded_once(machine):
    pytest.importorskip("transformers")
    from fairseq_folders import model_folder

    path = machine / "argos-translate" / "packages" / "many"
    path.parent.mkdir(parents=True)
    model_folder(path, "m2m100")
    direct = uwaga.load(source="fr", target="ro")
    assert isinstance(direct, uwaga.Translator) and direct.languages == ("fr", "ro")
    expected = uwaga.load(path, source="fr", target="ro")
    assert direct.translate("Hi", max_length=5) == expected.translate("Hi", max_length=5)
    pivot = uwaga.load(source="fra_Latn", target="ro_RO", via="it")
    assert pivot.route == ("fr", "it", "ro")
    assert pivot.models[0].decoder is pivot.models[1].decoder
    steps = pivot.translate("Hi", max_length=5).steps
    assert steps[1] == expected.translate(steps[0].text, source="it", target="ro", max_length=5)


@pytest.mark.skipif(not BUNDLED.exists(), reason="this source tree holds no bundled model")
def test_bundled_model_is_selected_by_language_and_by_default(machine):
    assert uwaga.load("en-de").translate("Good morning!") == uwaga.load().translate("Good morning!")
    assert uwaga.load(source="eng", target="de_DE").languages == ("en", "de")
    install(machine, "own", "en", "de")
    assert "own" in repr(uwaga.load("en-de")) and "bundled" in repr(uwaga.load())


def test_given_languages_must_match_the_named_model(machine):
    path = install(machine, "one", "qaa", "qab")
    assert uwaga.load(path, source="qaa", target="qab").languages == ("qaa", "qab")
    with pytest.raises(SettingsError, match="translates only qaa to qab"):
        uwaga.load(path, source="qab")
    (machine / "qaa-qab").symlink_to(path)
    install(machine, "larger", "qaa", "qab", width=32)
    assert "'qaa-qab'" in repr(uwaga.load("qaa-qab"))  # a folder of that name comes first


def test_missing_model_error_suggests_a_download(machine):
    install(machine, "to", "qaa", "en")
    with pytest.raises(ModelError) as error:
        uwaga.load("qaa-qab")
    for part in (
        "no installed model translates qaa to qab, and no chain of models does",
        "`uwaga models download qaa-qab`, or, to pivot through en, with `uwaga models download en-qab`, or "
        "give",
        "qaa to en",
    ):
        assert part in str(error.value)
    with pytest.raises(ModelError, match="download a model with `uwaga models download qab-en`, or give"):
        uwaga.load("qab-en")
    with pytest.raises(ModelError, match=r"via qac; .* download qaa-qac` and `uwaga models download qac-en`"):
        uwaga.load("qaa-en", via="qac")
    with pytest.raises(ModelError, match=r"via en; download a model with `uwaga models download en-qab`,"):
        uwaga.load("qaa-qab", via="en")


def test_damaged_model_is_reported_and_not_selected(machine):
    (install(machine, "broken", "qaa", "qab") / "config.json").write_text("{")
    with pytest.raises(ModelError, match="broken is damaged: "):
        uwaga.load("qaa-qab")
    intact = install(machine, "good", "qaa", "qab")
    assert str(intact) in repr(uwaga.load("qaa-qab"))


def test_languages_listed_in_a_model_card_do_not_select_the_model(machine):
    """A card states neither the direction of translation nor that the model translates at all."""
    path = install(machine, "listed", "src", "tgt")
    (path / "card.md").write_text("---\nlanguage: [qaa, qab]\n---\n")
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
def test_invalid_arguments_are_named_in_the_error(machine, arguments, message):
    with pytest.raises(SettingsError, match=re.escape(message)):
        uwaga.load(**arguments)


def test_shortlist_option_requires_a_single_model(machine, tmp_path):
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
def test_language_pairs_are_distinguished_from_other_model_names(machine, name, pair):
    assert language_pair(name) == pair
