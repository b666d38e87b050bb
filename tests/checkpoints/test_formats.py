"""The registry of formats: custom formats, and agreement of `info` with `load`."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny_models as tiny
from command_line import run_uwaga
from json_files import edit_json
from marian_folders import make as make_marian
from plugin_samples import forget_plugins, plugin_file

import uwaga
from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.formats.huggingface import registry
from uwaga.conversion.quantise import quantise
from uwaga.errors import ModelError
from uwaga.library import hub
from uwaga.models.build import build_model
from uwaga.settings import LuongSettings

GUIDE = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"


@pytest.fixture
def guide(monkeypatch):
    """Run the examples of the guide; remove the formats they register after the test."""
    monkeypatch.setattr(formats.FORMATS, "_added", {})
    monkeypatch.setattr(registry.FAMILIES, "_added", {})
    text = GUIDE.read_text(encoding="utf-8")
    samples = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    for sample in samples:
        if "uwaga.checkpoints" in sample:
            exec(compile(sample, str(GUIDE), "exec"), names)
    return names


@pytest.fixture
def custom_and_uwaga_folders(guide, tmp_path):
    """Return a folder of the custom format, and a uwaga folder of the same model."""
    joint = tiny.tokeniser()
    model = tiny.transformer(tiny.TINY, joint, joint)
    tiny.save(tmp_path / "ours", model, joint)
    checkpoint = formats.read(tmp_path / "ours")
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "plain.json").write_text(tiny.TINY.model_dump_json())
    (folder / "plain.spm").write_bytes(joint.model_bytes)
    weights = {name.replace(".", "/"): checkpoint.weights.read(name) for name in checkpoint.weights.names()}
    np.savez(folder / "plain.npz", **weights)
    return folder, tmp_path / "ours"


def test_model_in_a_custom_format_is_loaded_described_and_converted(custom_and_uwaga_folders, tmp_path):
    folder, original = custom_and_uwaga_folders
    assert formats.detect(folder).name == "plain" and formats.detect(original).name == "uwaga"
    for engine in ("native", "torch"):
        loaded, expected = (uwaga.load(path, device="cpu", engine=engine) for path in (folder, original))
        assert loaded.languages == ("en", "de") and loaded.options().beam == 2
        assert loaded.translate(tiny.ENGLISH, beam=3) == expected.translate(
            tiny.ENGLISH, beam=3, max_length=256
        )
    document = json.loads(run_uwaga("info", folder, "--json").stdout)
    assert (document["format"], document["sizes"]["width"], document["decoding"]["beam"]) == ("plain", 16, 2)
    run_uwaga("convert", "--int8", folder, tmp_path / "int8")
    rounded = uwaga.load(tmp_path / "int8")
    assert rounded.decoder.precision == "int8" and rounded.options().beam == 2
    assert rounded.translate(tiny.ENGLISH) == uwaga.load(folder, dtype="int8").translate(tiny.ENGLISH)


def test_model_in_the_format_of_a_plugin_is_read_and_converted(
    custom_and_uwaga_folders, tmp_path, monkeypatch
):
    """The command line reads the format only with the plugin; the converted folder loads without it."""
    folder, _ = custom_and_uwaga_folders
    plugin = plugin_file("Add a model format", tmp_path)
    forget_plugins(monkeypatch, formats.FORMATS)
    monkeypatch.setattr(formats.FORMATS, "_added", {})
    run_uwaga("info", folder, code=1)
    arguments = ["--plugin", str(plugin), "convert", "--int8", str(folder), str(tmp_path / "stored")]
    run_uwaga(*arguments)
    monkeypatch.setattr(formats.FORMATS, "_added", {})
    run_uwaga("translate", "--model", tmp_path / "stored", tiny.ENGLISH[0])


def test_damaged_model_in_a_custom_format_is_rejected(custom_and_uwaga_folders):
    folder, _ = custom_and_uwaga_folders
    arrays = dict(np.load(folder / "plain.npz"))
    for change, message in (
        (
            {"output_weight": arrays["output_weight"][:-1]},
            r"plain\.npz: 'output_weight' has shape \(339, 16\)",
        ),
        ({"spare": np.zeros(3, np.float32)}, r"'spare': unknown"),
        ({"output_weight": arrays["output_weight"] * np.nan}, "not finite"),
    ):
        np.savez(folder / "plain.npz", **arrays | change)
        for engine in ("native", "torch"):
            with pytest.raises(ModelError, match=message):
                uwaga.load(folder, device="cpu", engine=engine)
    np.savez(
        folder / "plain.npz", **{name: array for name, array in arrays.items() if name != "output_weight"}
    )
    with pytest.raises(ModelError, match=r"'output_weight'.*: missing, but required by plain\.json"):
        uwaga.load(folder)


def test_only_files_of_the_custom_format_are_fetched_from_the_hub(
    custom_and_uwaga_folders, tmp_path, monkeypatch
):
    """Other files of the repository are not fetched."""
    huggingface_hub = pytest.importorskip("huggingface_hub")
    folder, _ = custom_and_uwaga_folders
    (folder / "train.py").write_text("raise SystemExit")

    def download(name, *, allow_patterns, local_files_only=False):
        if local_files_only:
            raise OSError("not in the cache")
        fetched = tmp_path / "fetched"
        shutil.rmtree(fetched, ignore_errors=True)
        fetched.mkdir()
        for path in folder.iterdir():
            if any(path.match(pattern) for pattern in allow_patterns):
                shutil.copy(path, fetched)
        return str(fetched)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    path_of_model = hub.find_model("someone/plain")
    assert {path.name for path in path_of_model.iterdir()} == {"plain.json", "plain.spm", "plain.npz"}
    assert uwaga.load("someone/plain", device="cpu").translate("the dog").text


def test_model_of_the_custom_family_from_the_guide_is_read(guide, tmp_path, monkeypatch):
    """A pre-norm variant of BART, which equals mBART."""
    pytest.importorskip("transformers")
    import fairseq_models
    import pretrained_tokenisers

    case = pretrained_tokenisers.newer_format("bart")
    sizes = {"vocab_size": case.ids.vocabulary, "max_position_embeddings": 90, "decoder_start_token_id": 2}
    fairseq_models.make(tmp_path / "m", "mbart-large-en-ro", **sizes)
    shutil.copytree(tmp_path / "m", tmp_path / "kin")
    shutil.copytree(case.folder, tmp_path / "kin", dirs_exist_ok=True)
    edit_json(tmp_path / "kin/config.json", model_type="barthelemy")
    fairseq_models.read_as_numbers(monkeypatch)
    custom, model = formats.read(tmp_path / "kin"), formats.read(tmp_path / "m")
    assert (custom.family, custom.settings) == ("barthelemy", model.settings)
    for name in model.weights.names():
        np.testing.assert_array_equal(custom.weights.read(name), model.weights.read(name))
    assert uwaga.load(tmp_path / "kin", device="cpu").translate("the dog").source_tokens
    with pytest.raises(ModelError, match="uwaga supports bart, barthelemy, bert"):
        registry.model_family(tmp_path, {"model_type": "novel"})


def test_folder_is_read_in_the_first_matching_format(tmp_path):
    """All functions agree on the format of a folder that matches two formats."""
    make_marian(tmp_path / "m")
    (tmp_path / "m/model.bin").write_bytes(b"x")
    assert formats.detect(tmp_path / "m").name == "Hugging Face"
    assert uwaga.load(tmp_path / "m", device="cpu").translate("Hi") is not None
    assert formats.describe(tmp_path / "m").format == "Hugging Face"
    with pytest.raises(ModelError, match="not a known model format"):
        formats.read(tmp_path)


# --- agreement of info and load


def uwaga_folder(folder):
    source, target = tiny.tokeniser("source"), tiny.tokeniser("target", size=330)
    settings = tiny.TINY.model_copy(update={"tie": "decoder", "output_bias": True})
    model = tiny.transformer(settings, source, target)
    card = "---\nlicense: mit\n---\n"
    tiny.save(folder, model, source, target, "float16", card=card)


def recurrent(folder):
    joint = tiny.tokeniser()
    settings = LuongSettings(embedding=8, hidden=8, layers=1)
    model = build_model(settings, joint.symbols, joint.size, joint.size)
    tiny.save(folder, model, joint)


def int8(folder):
    uwaga_folder(folder.with_name("floats"))
    quantise(folder.with_name("floats"), folder, ("output",))


def int8_marian(folder):
    make_marian(folder.with_name("floats"))
    quantise(folder.with_name("floats"), folder)


def gpt2(folder):
    import gpt2_folders
    import pretrained_tokenisers

    case = pretrained_tokenisers.newer_format("gpt2")
    end = case.peer.eos_token_id
    gpt2_folders.make(folder, vocab_size=case.ids.vocabulary, bos_token_id=end, eos_token_id=end)
    shutil.copytree(case.folder, folder, dirs_exist_ok=True)


def bert(folder):
    import pretrained_tokenisers
    import transformers

    case = pretrained_tokenisers.older_format("bert")
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 30}
    config = transformers.BertConfig(vocab_size=case.ids.vocabulary, max_position_embeddings=50, **sizes)
    transformers.BertForMaskedLM(config).save_pretrained(folder)
    case.peer.save_pretrained(folder)


def seq2seq(kind):
    def make(folder):
        from test_pretrained_fairseq_folders import model_folder

        model_folder(folder, kind)

    return make


def t5(folder):
    from fuzz_formats import t5_folder

    t5_folder(folder)


def ctranslate2(folder):
    from test_ctranslate2 import save_random_model

    save_random_model(folder, encodings=50)


def argos(folder):
    from test_ctranslate2 import save_random_model

    folder.mkdir()
    save_random_model(folder / "model", encodings=50)
    shutil.move(folder / "model/sentencepiece.model", folder)
    (folder / "metadata.json").write_text('{"from_code": "en", "to_code": "de"}')


def marian_npz(folder):
    from test_marian_npz import write_models

    write_models(folder.parent)
    (folder.parent / "npz").rename(folder)


FOLDERS = {
    "uwaga": uwaga_folder,
    "uwaga, recurrent": recurrent,
    "uwaga int8": int8,
    "uwaga int8 of Marian": int8_marian,
    "Hugging Face, marian": make_marian,
    "Hugging Face, gpt2": gpt2,
    "Hugging Face, bert": bert,
    "Hugging Face, t5": t5,
    **{
        f"Hugging Face, {kind}": seq2seq(kind)
        for kind in ("bart", "pegasus", "mbart", "mbart50", "m2m100", "nllb")
    },
    "CTranslate2": ctranslate2,
    "Argos Translate": argos,
    "Marian": marian_npz,
}


@pytest.mark.parametrize("kind", FOLDERS)
def test_description_agrees_with_the_loaded_model(tmp_path, kind):
    if "uwaga" not in kind:
        pytest.importorskip("transformers")
    if kind in ("CTranslate2", "Argos Translate"):
        pytest.importorskip("ctranslate2")
    FOLDERS[kind](tmp_path / "m")
    description, checkpoint = formats.describe(tmp_path / "m"), formats.read(tmp_path / "m")
    assert description.problems == ()
    assert description.format == checkpoint.format == kind.split(",")[0].removesuffix(" of Marian")
    assert (description.family, description.vocabulary, description.licence) == (
        checkpoint.family,
        checkpoint.vocabulary,
        checkpoint.card.licence,
    )
    assert description.languages == checkpoint.languages.pairs
    settings = checkpoint.settings.model_dump()
    for name, value in description.sizes.items():
        if name != "format version":
            assert settings[name.replace(" ", "_")] == value, name
    if checkpoint.weights is not None:
        computed = set(checkpoint.weights.table.constant) & set(checkpoint.weights.tensors)
        constants = sum(checkpoint.weights.tensors[name].values.size for name in computed)
        assert description.weights.parameters == checkpoint.weights.parameters + constants
        stored = {checkpoint.weights.format(name) for name in checkpoint.weights.names()}
        assert set(description.weights.formats) == stored
    options = vars(checkpoint.decoding) | vars(checkpoint.text)
    assert description.decoding and all(
        options[name] == value for name, value in description.decoding.items()
    )
    if checkpoint.task == "translate":
        pair = [codes[0] if codes else None for codes in description.languages]
        multilingual = len(description.languages[0]) > 1
        loaded = uwaga.load(
            tmp_path / "m",
            device="cpu",
            source=pair[0] if multilingual else None,
            target=pair[1] if multilingual else None,
        )
        assert loaded.decoding.beam == description.decoding["beam"]
        assert multilingual or loaded.languages == checkpoint.languages.stated
