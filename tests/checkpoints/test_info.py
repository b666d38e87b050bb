"""The command ``uwaga info``: descriptions of models of all formats, read without torch."""

import dataclasses
import json
import shutil
import zipfile
from pathlib import Path

import marian_folders
import numpy as np
import pytest
import tiny_models as tiny
import torch
from command_line import run_uwaga
from fuzz_formats import t5_folder
from pretrained_texts import write_json
from safetensors.torch import save_file
from test_pretrained_fairseq_folders import model_folder

from uwaga.checkpoints.adapter import Adapter, write_adapter
from uwaga.checkpoints.card import Card, read_card
from uwaga.checkpoints.checkpoint import WeightSummary
from uwaga.checkpoints.description import Description
from uwaga.checkpoints.formats.huggingface.folder import HuggingFaceFolder
from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.checkpoints.registry import describe
from uwaga.errors import ModelError
from uwaga.library.hub import find_model


def info_output(*arguments):
    result = run_uwaga("info", *arguments)
    return " ".join(result.output.split())


def test_uwaga_folder_is_described(tmp_path):
    source, target = tiny.tokeniser("source"), tiny.tokeniser("target")
    model = tiny.transformer(tiny.TINY, source, target)
    card = "# en to de\n\n| | |\n|---|---|\n| licence of the data | CC BY 2.0 |\n"
    tiny.save(tmp_path / "m", model, source, target, "float16", card=card)
    description = describe(tmp_path / "m")
    assert (description.format, description.family, description.licence) == (
        "uwaga",
        "transformer",
        "CC BY 2.0",
    )
    assert description.weights.parameters == sum(
        parameter.numel() for parameter in {id(p): p for p in model.parameters()}.values()
    )
    assert description.weights.formats == ("F16",)
    assert description.weights.bytes == (tmp_path / "m/model.safetensors").stat().st_size
    assert description.sizes["width"] == 16 and description.sizes["decoder layers"] == 2
    assert description.vocabulary == (source.size, target.size)
    assert description.languages == (("en",), ("de",))
    assert description.decoding["beam"] == 3
    assert description.problems == ()
    text = info_output(tmp_path / "m")
    for part in (
        "transformer",
        "CC BY 2.0",
        f"{description.weights.parameters:,}",
        f"vocabulary {source.size} pieces",
    ):
        assert part in text
    document = json.loads(info_output(tmp_path / "m", "--json"))
    assert document["languages"] == {"source": ["en"], "target": ["de"]}
    assert document["weights"]["parameters"] == description.weights.parameters


def test_bundled_model_is_described_by_default():
    document = json.loads(info_output("--json"))
    assert (document["place"], document["licence"]) == (str(BUNDLED), "several-listed-in-card")
    assert document["languages"] == {"source": ["en"], "target": ["de"]}
    assert "uwaga" in info_output()
    assert json.loads(info_output("bundled", "--json")) == document


def test_folder_named_bundled_takes_precedence_over_the_bundled_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_model("bundled") == BUNDLED
    (tmp_path / "bundled").mkdir()
    assert find_model("bundled") == Path("bundled")


CARD = "---\nlicense: apache-2.0\nlanguage:\n- en\n- no\n---\n# A card\n"


@pytest.fixture
def marian(tmp_path):
    """Return the folder of a random OPUS-MT model with a card, and the model."""
    folder = tmp_path / "m"
    model = marian_folders.make(folder)
    (folder / "README.md").write_text(CARD)
    return folder, model


def test_hugging_face_marian_folder_is_described(marian):
    folder, model = marian
    description = describe(folder)
    assert (description.format, description.family, description.licence, description.problems) == (
        *("Hugging Face", "marian", "apache-2.0"),
        (),
    )
    assert (
        description.sizes["width"],
        description.sizes["encoder layers"],
        description.sizes["decoder layers"],
    ) == (18, 2, 1)
    positions = sum(embedding.weight.numel() for embedding in (model.model.encoder.embed_positions,) * 2)
    distinct = {tensor.data_ptr(): tensor.numel() for tensor in model.state_dict().values()}
    stored = sum(distinct.values())
    assert description.weights.parameters in (stored, stored - positions) and description.weights.formats == (
        "F32",
    )
    assert description.languages[1] == ("deu", "fra")
    assert (description.decoding["beam"], description.decoding["max_length"]) == (4, 13)
    write_json(folder / "tokenizer_config.json", {"source_lang": "eng", "target_lang": "mul"})
    assert describe(folder).languages == (("eng",), ("deu", "fra"))
    text = info_output(folder)
    assert "deu fra" in text and "apache-2.0" in text and "13" in text


def test_info_reads_languages_from_the_model_family_or_card(tmp_path):
    model_folder(tmp_path / "m", "mbart50")
    description = describe(tmp_path / "m")
    assert len(description.languages[0]) == 52 and "sl_SI" in description.languages[1]
    assert "and 28 more" in info_output(tmp_path / "m") and "zh_CN" not in info_output(tmp_path / "m")
    assert "zh_CN" in info_output(tmp_path / "m", "--json")
    t5_folder(tmp_path / "t5")
    assert "not stated" in info_output(tmp_path / "t5")
    (tmp_path / "t5/README.md").write_text("---\nlanguage: [en, fr]\n---\n")
    description = describe(tmp_path / "t5")
    assert (description.languages, description.licence) == ((("en", "fr"), ("en", "fr")), None)


def test_describe_reports_damaged_weights_as_notes_and_raises_other_errors(marian):
    folder, _ = marian
    content = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(content[:-70])
    assert "cut short" in describe(folder).problems[0]
    (folder / "model.safetensors").unlink()
    description = describe(folder)
    assert "contains neither" in description.problems[0] and description.licence == "apache-2.0"
    assert "note" in info_output(folder)
    (folder / "pytorch_model.bin").write_bytes(b"x" * 70)  # only torch could read it
    assert describe(folder).weights == WeightSummary(None, 70, ())
    config = json.loads((folder / "generation_config.json").read_text())
    write_json(folder / "generation_config.json", config | {"diversity_penalty": 0.5, "num_beam_groups": 2})
    with pytest.raises(ModelError, match=r"num_beam_groups|diversity_penalty"):
        describe(folder)


def test_parameters_of_all_weight_shards_are_counted(tmp_path):
    for number in (1, 2):
        save_file({f"w{number}": torch.zeros(number, 3).half()}, tmp_path / f"model-{number}.safetensors")
    write_json(
        tmp_path / "model.safetensors.index.json",
        {"weight_map": {"w1": "model-1.safetensors", "w2": "model-2.safetensors"}},
    )
    summary = HuggingFaceFolder(tmp_path, {}, with_weights=False).summary()
    assert (summary.parameters, summary.formats) == (9, ("F16",))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\nlicense: mit\nlanguage: de\n---\n", ("mit", ("de",))),
        ("---\r\nlicense: [mit, gpl]\r\n---\r\nx", ("mit, gpl", ())),
        ("---\nlicense: other\nlicense_name: my-own\n---\n", ("my-own", ())),
        ("---\n: [broken\n---\n| licence | GPL |\n", ("GPL", ())),
        ("| Licence of the data | not stated |\n", (None, ())),
        ("---\nlicense: 3\nlanguage: 4\n---\n", (None, ())),
        ("no front matter\n---\nlicense: mit\n---\n", (None, ())),
        ("| licence |" + " " * 400_000 + "x |" + " " * 400_000, ("x", ())),
        ("| licence |" + " " * 400_000, (None, ())),
        ("| licence |\n| data | mit |\n", (None, ())),
        ("", (None, ())),
    ],
)
def test_licence_and_languages_are_read_from_cards(tmp_path, text, expected):
    (tmp_path / "README.md").write_text(text, newline="")
    card = read_card(tmp_path)
    assert (card.licence, card.languages) == expected
    assert read_card(tmp_path / "nowhere") == Card()


def test_argos_folders_and_packages_are_described(tmp_path):
    pytest.importorskip("ctranslate2")
    from test_ctranslate2 import save_random_model

    folder = tmp_path / "argos"
    folder.mkdir()
    save_random_model(folder / "model", encodings=50)
    shutil.move(folder / "model/sentencepiece.model", folder)
    write_json(folder / "metadata.json", {"from_code": "en", "to_code": "de"})
    description = describe(folder)
    assert (description.format, description.family, description.languages) == (
        *("Argos Translate", "TransformerSpec"),
        (("en",), ("de",)),
    )
    assert description.sizes["encoder layers"] == 2 and "format version" in description.sizes
    assert "F32" in description.weights.formats
    package = tmp_path / "translate-en_de.argosmodel"
    with zipfile.ZipFile(package, "w") as file:
        for path in sorted(folder.rglob("*")):
            file.write(path, f"en_de/{path.relative_to(folder)}")
    packed = describe(package)
    assert (packed.languages, packed.weights, packed.sizes) == (
        description.languages,
        description.weights,
        description.sizes,
    )


def test_marian_npz_files_are_described_or_rejected(tmp_path):
    pytest.importorskip("transformers")
    from test_marian_npz import write_models

    write_models(tmp_path)
    for path in (tmp_path / "npz", next((tmp_path / "npz").glob("*.npz"))):
        description = describe(path)
        assert (description.format, description.family, description.problems) == ("Marian", "transformer", ())
        assert description.weights.parameters > 0 and description.weights.formats == ("F32",)
        assert description.sizes["width"] and description.vocabulary
    np.savez(path, Wemb=np.zeros((9, 4), np.float32))
    with pytest.raises(ModelError, match="was not saved by Marian"):
        describe(path)
    path.write_bytes(b"PK junk")
    with pytest.raises(ModelError, match="damaged"):
        describe(path)


def test_unrecognised_paths_are_rejected(tmp_path):
    with pytest.raises(ModelError, match="not a known model format"):
        describe(tmp_path)
    result = run_uwaga("info", tmp_path / "nowhere", code=1)
    assert "no such folder" in result.output
    broken = tmp_path / "x.argosmodel"
    broken.write_bytes(b"junk")
    with pytest.raises(ModelError, match="not an Argos package"):
        describe(broken)


def test_json_has_a_key_for_each_field():
    values = json.loads(run_uwaga("info", "--json").output)
    assert values["format"] == "uwaga"
    assert {field.name for field in dataclasses.fields(Description)} == set(values)


def test_int8_description_states_the_parameter_count_of_the_original_model(tmp_path):
    """An int8 folder is described with the number of parameters of the model it was converted from."""
    run_uwaga("convert", "--int8", "bundled", tmp_path / "int8", "--keep", "output")
    description, original = describe(tmp_path / "int8"), describe(BUNDLED)
    assert (description.format, description.family) == ("uwaga int8", "transformer")
    assert description.weights.formats == ("I8", "BF16", "F32")
    assert description.weights.parameters == original.weights.parameters
    assert description.weights.bytes == (tmp_path / "int8" / "engine.safetensors").stat().st_size
    same = ("sizes", "vocabulary", "languages", "licence", "decoding", "problems")
    assert [getattr(description, name) for name in same] == [getattr(original, name) for name in same]
    (tmp_path / "int8" / "config.json").write_text('{"format": "uwaga int8 model", "version": 99}')
    with pytest.raises(ModelError, match="install a newer version of uwaga"):
        describe(tmp_path / "int8")


def test_info_shows_the_licence_and_the_aligner_before_the_network_settings():
    text = info_output()
    names = {name: text.index(f" {name} ") for name in ("licence", "words aligned by", "width")}
    assert names["licence"] < names["words aligned by"] < names["width"]


def test_adapters_are_described(tmp_path):
    factors = {"decoder.0.query": (np.zeros((2, 6), np.float32), np.zeros((4, 2), np.float32))}
    write_adapter(tmp_path, Adapter(tmp_path, "base-model", "0" * 64, 2, 4.0, factors), "# card\n")
    document = json.loads(info_output(tmp_path, "--json"))
    assert (document["base"], document["rank"], document["parameters"]) == ("base-model", 2, 20)
    assert "base-model" in info_output(tmp_path) and "decoder.0.query" in info_output(tmp_path)
    with pytest.raises(ModelError, match="this is an adapter; give it with --adapter, and"):
        describe(tmp_path)
