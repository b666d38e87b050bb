"""int8 and int4 folders of multilingual models have the languages and translations of the original."""

import pytest

transformers = pytest.importorskip("transformers")


import numpy as np
import pretrained_tokenisers
from fairseq_folders import MODEL_KINDS, PAIRS, model_folder
from json_files import edit_json, edited
from pretrained_texts import LINES

import uwaga
from uwaga.checkpoints.registry import read
from uwaga.conversion.quantise import quantise
from uwaga.errors import ModelError, SettingsError

TEXTS = [*LINES[:20:9], "Hi", "  two  spaces </s>and <mask> x", "<s> a __fr__b fr_XX ", ""]
KINDS = (*PAIRS, "pegasus")


@pytest.fixture(params=["older_format", "newer_format"])
def either_format(request, monkeypatch):
    """Run each test with a SentencePiece model, and with ``tokenizer.json``, in the folders."""
    for kind, (published, _) in MODEL_KINDS.items():
        monkeypatch.setitem(MODEL_KINDS, kind, (published, getattr(pretrained_tokenisers, request.param)))


def quantised(folder, kind, precision="int8"):
    """Write a random model and its quantised folder, without the comparison of translations."""
    model_folder(folder / "m", kind)
    quantise(folder / "m", folder / "q", precision=precision, check=False)
    return folder / "m", folder / "q"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("precision", ["int8", "int4"])
@pytest.mark.parametrize("kind", KINDS)
def test_quantised_model_translates_like_the_original(tmp_path, kind, precision):
    original, folder = quantised(tmp_path, kind, precision)
    pair = PAIRS.get(kind, (None, None))
    for source, target in (pair, pair[::-1]):
        translators = [
            uwaga.load(path, source=source, target=target, **options)
            for path, options in ((original, {"dtype": precision, "engine": "native"}), (folder, {}))
        ]
        first, second = ([text.to_dict() for text in each.translate(TEXTS)] for each in translators)
        assert first == second


@pytest.mark.usefixtures("either_format")
@pytest.mark.parametrize("kind", KINDS)
def test_quantised_model_keeps_tokenisers_and_languages(tmp_path, kind):
    original, folder = (read(path) for path in quantised(tmp_path, kind))
    assert folder.languages.pairs == original.languages.pairs
    for first, second in ((original.source, folder.source), (original.target, folder.target)):
        assert second.model_bytes == first.model_bytes
        ids = range(first.vocabulary)
        assert second.pieces(ids) == first.pieces(ids)
        assert [second.encode(text) for text in TEXTS] == [first.encode(text) for text in TEXTS]
        rows = np.random.default_rng(0).integers(first.vocabulary, size=(200, 5)).tolist()
        assert [second.decode(row) for row in rows] == [first.decode(row) for row in rows]


@pytest.mark.parametrize("kind", PAIRS)
def test_missing_and_unknown_languages_are_refused(tmp_path, kind):
    _, folder = quantised(tmp_path, kind)
    with pytest.raises(SettingsError, match="no language 'xx'"):
        uwaga.load(folder, source="xx", target=PAIRS[kind][1])
    with pytest.raises(SettingsError, match="choose with source and target"):
        uwaga.load(folder).translate("Hi")


def test_agreement_of_multilingual_models_is_measured_without_a_sample(tmp_path):
    model_folder(tmp_path / "m", "m2m100")
    agreement = quantise(tmp_path / "m", tmp_path / "q")
    assert agreement.sentences >= 5
    with pytest.raises(SettingsError, match="--sample cannot be used"):
        quantise(tmp_path / "m", tmp_path / "r", sample=["A sentence."])


def test_quantised_model_keeps_task_prefixes(tmp_path):
    model_folder(tmp_path / "m", "pegasus")
    tasks = {
        "translation_en_to_de": {"prefix": "to German: "},
        "translation_en_to_fr": {"prefix": "to French: "},
    }
    edit_json(tmp_path / "m" / "config.json", task_specific_params=tasks)
    quantise(tmp_path / "m", tmp_path / "q", check=False)
    texts = [
        uwaga.load(tmp_path / name, source="en", target="fr", dtype="int8").translate(TEXTS)
        for name in ("m", "q")
    ]
    assert texts[0] == texts[1]
    assert read(tmp_path / "q").languages.tasks == read(tmp_path / "m").languages.tasks != {}


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda frame: frame["languages"].update(selected=["xx", None]), "'xx' is not a key of tokens"),
        (lambda frame: frame["languages"]["tokens"].update(en=100_000), "belongs to another model"),
        (lambda frame: frame["languages"].update(positions=["before"]), "positions"),
        (lambda frame: frame["special"][0].update(text=""), "special"),
    ],
)
def test_invalid_special_token_settings_are_refused(tmp_path, edit, message):
    _, folder = quantised(tmp_path, "m2m100")
    with edited(folder / "config.json") as config:
        edit(config["frame"])
    with pytest.raises(ModelError, match=message):
        uwaga.load(folder)


@pytest.mark.parametrize("ids", ['{"a": 0, "b": 0}', '{"a": -1}', "[]", '{"a": "x"}', "{}"])
def test_damaged_vocabulary_files_are_refused(tmp_path, ids):
    _, folder = quantised(tmp_path, "m2m100")
    (folder / "source.vocab.json").write_text(ids)
    with pytest.raises(ModelError, match=r"source\.vocab\.json"):
        uwaga.load(folder)
