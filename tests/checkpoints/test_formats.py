"""The registry of formats: a made-up one is seen by all that reads it, and `info` says what `load` loads."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny_models as tiny
from marian_folders import make as make_marian
from typer.testing import CliRunner

import uwaga
from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.formats.huggingface import registry
from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.cli.main import app
from uwaga.conversion.quantise import quantise
from uwaga.errors import ModelError
from uwaga.library import hub
from uwaga.models.build import build_model
from uwaga.settings import LuongSettings

GUIDE = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"
RUN = CliRunner()


@pytest.fixture
def guide(monkeypatch):
    """The samples of the guide, run; what they register is gone behind the test."""
    monkeypatch.setattr(formats, "FORMATS", [*formats.FORMATS])
    monkeypatch.setattr(registry, "FAMILIES", {**registry.FAMILIES})
    text = GUIDE.read_text(encoding="utf-8")
    samples = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}
    for sample in samples:
        if "uwaga.checkpoints" in sample:
            exec(compile(sample, str(GUIDE), "exec"), names)
    return names


@pytest.fixture
def plain(guide, tmp_path):
    """A folder of the made-up format, and the same model in ours."""
    joint = tiny.tokeniser()
    model = tiny.transformer(tiny.TINY, joint, joint)
    save_model(tmp_path / "ours", model, tiny.TINY, tiny.DECODING, joint, joint, ("en", "de"), "")
    ours = formats.read(tmp_path / "ours")
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "plain.json").write_text(tiny.TINY.model_dump_json())
    (folder / "plain.spm").write_bytes(joint.model_bytes)
    weights = {name.replace(".", "/"): ours.weights.read(name) for name in ours.weights.names()}
    np.savez(folder / "plain.npz", **weights)
    return folder, tmp_path / "ours"


def test_a_made_up_format_is_loaded_described_and_converted(plain, tmp_path):
    folder, ours = plain
    assert formats.detect(folder).name == "plain" and formats.detect(ours).name == "uwaga"
    for engine in ("native", "torch"):
        loaded, wanted = (uwaga.load(place, device="cpu", engine=engine) for place in (folder, ours))
        assert loaded.languages == ("en", "de") and loaded.options().beam == 2
        assert loaded.translate(tiny.ENGLISH, beam=3) == wanted.translate(
            tiny.ENGLISH, beam=3, max_length=256
        )
    shown = json.loads(RUN.invoke(app, ["info", str(folder), "--json"]).stdout)
    assert (shown["format"], shown["sizes"]["width"], shown["decoding"]["beam"]) == ("plain", 16, 2)
    done = RUN.invoke(app, ["convert", "--int8", str(folder), str(tmp_path / "int8")])
    assert done.exit_code == 0, done.output
    rounded = uwaga.load(tmp_path / "int8")
    assert rounded.decoder.precision == "int8" and rounded.options().beam == 2
    assert rounded.translate(tiny.ENGLISH) == uwaga.load(folder, dtype="int8").translate(tiny.ENGLISH)


def test_what_is_wrong_with_a_made_up_format_is_named(plain):
    folder, _ = plain
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
    np.savez(folder / "plain.npz", **{name: one for name, one in arrays.items() if name != "output_weight"})
    with pytest.raises(ModelError, match=r"'output_weight'.*: missing, which plain\.json asks for"):
        uwaga.load(folder)


def test_the_hub_fetches_a_made_up_format(plain, tmp_path, monkeypatch):
    """A repository that holds more than the model: what no format names stays where it is."""
    huggingface_hub = pytest.importorskip("huggingface_hub")
    folder, _ = plain
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
    found = hub.find_model("someone/plain")
    assert {path.name for path in found.iterdir()} == {"plain.json", "plain.spm", "plain.npz"}
    assert uwaga.load("someone/plain", device="cpu").translate("the dog").text


def test_a_family_is_one_file(guide, tmp_path, monkeypatch):
    """A kin of BART with another place for its norms: mBART's own arithmetic."""
    pytest.importorskip("transformers")
    import fairseq_models
    import pretrained_tokenisers

    case = pretrained_tokenisers.newer("bart")
    sizes = {"vocab_size": case.ids.vocabulary, "max_position_embeddings": 90, "decoder_start_token_id": 2}
    fairseq_models.make(tmp_path / "m", "mbart-large-en-ro", **sizes)
    shutil.copytree(tmp_path / "m", tmp_path / "kin")
    shutil.copytree(case.folder, tmp_path / "kin", dirs_exist_ok=True)
    fairseq_models.edit(tmp_path / "kin/config.json", model_type="barthelemy")
    fairseq_models.read_as_numbers(monkeypatch)
    kin, model = formats.read(tmp_path / "kin"), formats.read(tmp_path / "m")
    assert (kin.family, kin.settings) == ("barthelemy", model.settings)
    for name in model.weights.names():
        np.testing.assert_array_equal(kin.weights.read(name), model.weights.read(name))
    assert uwaga.load(tmp_path / "kin", device="cpu").translate("the dog").source_tokens
    with pytest.raises(ModelError, match="uwaga runs bart, barthelemy, bert"):
        registry.family_of(tmp_path, {"model_type": "novel"})


def test_the_first_format_that_applies_reads(tmp_path):
    """One question decides: a folder that could be two formats is the same to all who ask."""
    make_marian(tmp_path / "m")
    (tmp_path / "m/model.bin").write_bytes(b"x")
    assert formats.detect(tmp_path / "m").name == "Hugging Face"
    assert uwaga.load(tmp_path / "m", device="cpu").translate("Hi") is not None
    assert formats.describe(tmp_path / "m").format == "Hugging Face"
    with pytest.raises(ModelError, match="not a recognised model"):
        formats.read(tmp_path)


# --- info says what load loads


def ours(folder):
    source, target = tiny.tokeniser("source"), tiny.tokeniser("target", size=330)
    settings = tiny.TINY.model_copy(update={"tie": "decoder", "output_bias": True})
    model = tiny.transformer(settings, source, target)
    card = "---\nlicense: mit\n---\n"
    save_model(folder, model, settings, tiny.DECODING, source, target, ("en", "de"), card, "float16")


def recurrent(folder):
    joint = tiny.tokeniser()
    settings = LuongSettings(embedding=8, hidden=8, layers=1)
    model = build_model(settings, joint.symbols, joint.size, joint.size)
    save_model(folder, model, settings, tiny.DECODING, joint, joint, ("en", "de"), "card")


def int8(folder):
    ours(folder.with_name("floats"))
    quantise(folder.with_name("floats"), folder, ("output",))


def int8_marian(folder):
    make_marian(folder.with_name("floats"))
    quantise(folder.with_name("floats"), folder)


def gpt2(folder):
    import gpt2_folders
    import pretrained_tokenisers

    case = pretrained_tokenisers.newer("gpt2")
    end = case.peer.eos_token_id
    gpt2_folders.make(folder, vocab_size=case.ids.vocabulary, bos_token_id=end, eos_token_id=end)
    shutil.copytree(case.folder, folder, dirs_exist_ok=True)


def bert(folder):
    import pretrained_tokenisers
    import transformers

    case = pretrained_tokenisers.older("bert")
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 30}
    config = transformers.BertConfig(vocab_size=case.ids.vocabulary, max_position_embeddings=50, **sizes)
    transformers.BertForMaskedLM(config).save_pretrained(folder)
    case.peer.save_pretrained(folder)


def seq2seq(kind):
    def make(folder):
        from test_pretrained_fairseq_folders import whole

        whole(folder, kind)

    return make


def t5(folder):
    from fuzz_formats import t5_folder

    t5_folder(folder)


def ctranslate2(folder):
    from test_ctranslate2 import spec

    spec(folder, encodings=50)


def argos(folder):
    from test_ctranslate2 import spec

    folder.mkdir()
    spec(folder / "model", encodings=50)
    shutil.move(folder / "model/sentencepiece.model", folder)
    (folder / "metadata.json").write_text('{"from_code": "en", "to_code": "de"}')


def marian_npz(folder):
    from test_marian_npz import written

    written(folder.parent)
    (folder.parent / "npz").rename(folder)


EVERY = {
    "uwaga": ours,
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


@pytest.mark.parametrize("kind", EVERY)
def test_info_says_what_load_loads(tmp_path, kind):
    if "uwaga" not in kind:
        pytest.importorskip("transformers")
    if kind in ("CTranslate2", "Argos Translate"):
        pytest.importorskip("ctranslate2")
    EVERY[kind](tmp_path / "m")
    said, found = formats.describe(tmp_path / "m"), formats.read(tmp_path / "m")
    assert said.problems == ()
    assert said.format == found.format == kind.split(",")[0].removesuffix(" of Marian")
    assert (said.family, said.vocabulary, said.licence) == (
        found.family,
        found.vocabulary,
        found.card.licence,
    )
    assert said.languages == found.languages.pairs
    settings = found.settings.model_dump()
    for name, value in said.sizes.items():
        if name != "format version":
            assert settings[name.replace(" ", "_")] == value, name
    if found.weights is not None:
        computed = set(found.weights.table.constant) & set(found.weights.stored)
        beside = sum(found.weights.stored[name].values.size for name in computed)
        assert said.weights.parameters == found.weights.parameters + beside
        stored = {found.weights.format(name) for name in found.weights.names()}
        assert set(said.weights.formats) == stored
    options = vars(found.decoding) | vars(found.text)
    assert said.decoding and all(options[name] == value for name, value in said.decoding.items())
    if found.task == "translate":
        pair = [codes[0] if codes else None for codes in said.languages]
        several = len(said.languages[0]) > 1
        loaded = uwaga.load(
            tmp_path / "m",
            device="cpu",
            source=pair[0] if several else None,
            target=pair[1] if several else None,
        )
        assert loaded.decoding.beam == said.decoding["beam"]
        assert several or loaded.languages == found.languages.stated
