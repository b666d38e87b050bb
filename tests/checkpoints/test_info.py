"""``uwaga info``: every kind of model described from its settings and headers, without torch."""

import dataclasses
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tiny_models as tiny
import torch
from pretrained_texts import sentencepiece, write_json
from safetensors.torch import save_file
from typer.testing import CliRunner

from uwaga.checkpoints.card import Card, read_card
from uwaga.checkpoints.description import Description, WeightSummary
from uwaga.checkpoints.formats.huggingface.describe import read_headers
from uwaga.checkpoints.formats.uwaga.folder import save_model
from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.checkpoints.registry import describe
from uwaga.cli.main import app
from uwaga.errors import ModelError
from uwaga.library.hub import find_model

RUN = CliRunner()


def show(*arguments):
    done = RUN.invoke(app, ["info", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


def weights(folder, **shapes):
    save_file({name: torch.zeros(shape) for name, shape in shapes.items()}, folder / "model.safetensors")


def test_a_folder_of_ours(tmp_path):
    source, target = tiny.tokeniser("source"), tiny.tokeniser("target")
    model = tiny.transformer(tiny.TINY, source, target)
    card = "# en to de\n\n| | |\n|---|---|\n| licence of the data | CC BY 2.0 |\n"
    save_model(tmp_path / "m", model, tiny.TINY, tiny.DECODING, source, target, ("en", "de"), card, "float16")
    found = describe(tmp_path / "m")
    assert (found.format, found.family, found.licence) == ("uwaga", "transformer", "CC BY 2.0")
    assert found.weights.parameters == sum(
        one.numel() for one in {id(p): p for p in model.parameters()}.values()
    )
    assert found.weights.formats == ("F16",)
    assert found.weights.bytes == (tmp_path / "m/model.safetensors").stat().st_size
    assert found.sizes["width"] == 16 and found.sizes["decoder layers"] == 2
    assert found.vocabulary == (source.size, target.size)
    assert found.languages == (("en",), ("de",))
    assert found.decoding["beam"] == 3
    assert found.problems == ()
    text = show(tmp_path / "m")
    for part in (
        "transformer",
        "CC BY 2.0",
        f"{found.weights.parameters:,}",
        f"vocabulary {source.size} pieces",
    ):
        assert part in text
    document = json.loads(show(tmp_path / "m", "--json"))
    assert document["languages"] == {"source": ["en"], "target": ["de"]}
    assert document["weights"]["parameters"] == found.weights.parameters


def test_the_bundled_model_is_the_default():
    document = json.loads(show("--json"))
    assert (document["place"], document["licence"]) == (str(BUNDLED), "see-sources")
    assert document["languages"] == {"source": ["en"], "target": ["de"]}
    assert "uwaga" in show()
    assert json.loads(show("bundled", "--json")) == document


def test_a_folder_called_bundled_is_that_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_model("bundled") == BUNDLED
    (tmp_path / "bundled").mkdir()
    assert find_model("bundled") == Path("bundled")


def marian(folder, **changes):
    folder.mkdir()
    config = {
        "model_type": "marian",
        "vocab_size": 7,
        "d_model": 12,
        "encoder_layers": 3,
        "decoder_layers": 2,
    }
    write_json(folder / "config.json", config | {"num_beams": 6, "max_length": 512} | changes)
    vocabulary = ["</s>", "<unk>", ">>deu<<", ">>fra<<", "a", "b", "<pad>"]
    write_json(folder / "vocab.json", {piece: number for number, piece in enumerate(vocabulary)})
    (folder / "README.md").write_text("---\nlicense: apache-2.0\nlanguage:\n- en\n- no\n---\n# A card\n")
    weights(folder, shared=(7, 12), bias=(12,))
    return folder


def test_hugging_face_marian(tmp_path):
    folder = marian(tmp_path / "m")
    found = describe(folder)
    assert found == Description(
        place=str(folder),
        format="Hugging Face",
        family="marian",
        sizes={"width": 12, "encoder layers": 3, "decoder layers": 2},
        weights=WeightSummary(7 * 12 + 12, (folder / "model.safetensors").stat().st_size, ("F32",)),
        vocabulary=(7, 7),
        languages=((), ("deu", "fra")),
        licence="apache-2.0",
        decoding=found.decoding,
    )
    assert (found.decoding["beam"], found.decoding["max_length"]) == (6, 511)
    write_json(folder / "tokenizer_config.json", {"source_lang": "eng", "target_lang": "mul"})
    assert describe(folder).languages == (("eng",), ("deu", "fra"))
    text = show(folder)
    assert "deu fra" in text and "apache-2.0" in text and "511" in text


def test_languages_of_a_multilingual_family_and_of_a_card(tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "sentencepiece.bpe.model").write_bytes(content := sentencepiece())
    from sentencepiece import SentencePieceProcessor

    size = SentencePieceProcessor(model_proto=content).get_piece_size() + 54
    write_json(folder / "config.json", {"model_type": "mbart", "vocab_size": size, "d_model": 4})
    write_json(folder / "generation_config.json", {"num_beams": 5})
    weights(folder, shared=(size, 4))
    found = describe(folder)
    assert len(found.languages[0]) == 52 and "sl_SI" in found.languages[1]
    assert "max_length" not in found.decoding
    assert "and 28 more" in show(folder) and "zh_CN" not in show(folder)
    assert "zh_CN" in show(folder, "--json")
    other = tmp_path / "t5"
    other.mkdir()
    write_json(other / "config.json", {"model_type": "t5", "vocab_size": 9, "num_layers": 2, "d_ff": 5})
    (other / "README.md").write_text("---\nlanguage: [en, fr]\n---\n")
    weights(other, shared=(9, 4))
    found = describe(other)
    assert found.sizes == {"encoder layers": 2, "decoder layers": 2, "feed-forward": 5}
    assert (found.languages, found.licence) == ((("en", "fr"), ("en", "fr")), None)
    assert "not stated" in show(other)


def test_what_is_wrong_is_a_note(tmp_path):
    """The rest of an incomplete folder is described all the same."""
    folder = marian(tmp_path / "m", diversity_penalty=0.5)
    (folder / "model.safetensors").unlink()
    found = describe(folder)
    assert "holds no weights" in " ".join(found.problems) and "diversity_penalty" in " ".join(found.problems)
    assert found.licence == "apache-2.0"
    assert "note" in show(folder)
    (folder / "pytorch_model.bin").write_bytes(b"x" * 70)
    assert describe(folder).weights == WeightSummary(None, 70, ())
    (folder / "model.safetensors").write_bytes(b"x" * 70)
    assert "cut short" in describe(folder).problems[0]


def test_sharded_weights(tmp_path):
    for number in (1, 2):
        save_file({f"w{number}": torch.zeros(number, 3).half()}, tmp_path / f"model-{number}.safetensors")
    write_json(
        tmp_path / "model.safetensors.index.json",
        {"weight_map": {"w1": "model-1.safetensors", "w2": "model-2.safetensors"}},
    )
    found = read_headers(tmp_path)
    assert (found.parameters, found.formats) == (9, ("F16",))


@pytest.mark.parametrize(
    ("text", "card"),
    [
        ("---\nlicense: mit\nlanguage: de\n---\n", Card("mit", ("de",))),
        ("---\r\nlicense: [mit, gpl]\r\n---\r\nx", Card("mit, gpl")),
        ("---\nlicense: other\nlicense_name: my-own\n---\n", Card("my-own")),
        ("---\n: [broken\n---\n| licence | GPL |\n", Card("GPL")),
        ("| Licence of the data | not stated |\n", Card()),
        ("---\nlicense: 3\nlanguage: 4\n---\n", Card()),
        ("no front matter\n---\nlicense: mit\n---\n", Card()),
        ("", Card()),
    ],
)
def test_cards(tmp_path, text, card):
    (tmp_path / "README.md").write_text(text, newline="")
    assert read_card(tmp_path) == card
    assert read_card(tmp_path / "nowhere") == Card()


def test_argos_and_ctranslate2(tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    spec = ctranslate2.specs.TransformerSpec.from_config(2, 2, pre_norm=False)
    generator = np.random.default_rng(1)

    def fill(part):
        for name, value in vars(part).items():
            if isinstance(value, list):
                [fill(one) for one in value]
            elif isinstance(value, ctranslate2.specs.LayerSpec):
                fill(value)
            elif value is None:
                sizes = (6, 4) if "embeddings" in type(part).__name__.lower() else (4, 4)
                shape = sizes if name == "weight" else (4,)
                setattr(part, name, generator.normal(size=shape).astype(np.float32))

    fill(spec)
    spec.register_source_vocabulary(["<s>", "</s>", "<unk>", "a", "b", "c"])
    spec.register_target_vocabulary(["<s>", "</s>", "<unk>", "a", "b", "c"])
    folder = tmp_path / "argos"
    (folder / "model").mkdir(parents=True)
    try:
        spec.validate()
    except Exception as error:
        pytest.skip(f"this ctranslate2 wants another specification: {error}")
    spec.save(str(folder / "model"))
    found = describe(folder / "model")
    assert (found.format, found.family) == ("CTranslate2", "TransformerSpec")
    assert found.sizes["encoder layers"] == found.sizes["decoder layers"] == 2
    assert found.vocabulary == (6, 6) and "F32" in found.weights.formats
    write_json(folder / "metadata.json", {"from_code": "en", "to_code": "de"})
    inner = describe(folder)
    assert (inner.format, inner.languages) == ("Argos Translate", (("en",), ("de",)))
    assert inner.weights == found.weights
    package = tmp_path / "translate-en_de.argosmodel"
    with zipfile.ZipFile(package, "w") as file:
        for path in sorted(folder.rglob("*")):
            file.write(path, f"en_de/{path.relative_to(folder)}")
    packed = describe(package)
    assert packed.languages == inner.languages
    assert packed.weights.bytes == (folder / "model/model.bin").stat().st_size
    assert "unpack" in show(package)


def test_marian_npz(tmp_path):
    settings = "type: transformer\ndim-emb: 4\nenc-depth: 6\ndec-depth: 2\ndim-vocabs: [9, 9]\n"
    content = np.frombuffer(settings.encode() + b"\0", dtype=np.int8)
    np.savez(tmp_path / "model.npz", **{"special:model.yml": content, "Wemb": np.zeros((9, 4), np.float32)})
    for place in (tmp_path, tmp_path / "model.npz"):
        found = describe(place)
        assert (found.format, found.family, found.vocabulary) == ("Marian", "transformer", (9, 9))
        assert found.weights.parameters == 36
        assert found.sizes == {"width": 4, "encoder layers": 6, "decoder layers": 2}
    np.savez(tmp_path / "model.npz", Wemb=np.zeros((9, 4), np.float32))
    with pytest.raises(ModelError, match="not a model that Marian saved"):
        describe(tmp_path / "model.npz")
    (tmp_path / "model.npz").write_bytes(b"PK junk")
    with pytest.raises(ModelError, match="damaged"):
        describe(tmp_path)


def test_what_is_no_model(tmp_path):
    with pytest.raises(ModelError, match="no model that uwaga knows"):
        describe(tmp_path)
    done = RUN.invoke(app, ["info", str(tmp_path / "nowhere")])
    assert done.exit_code == 1 and "no such folder" in done.output
    broken = tmp_path / "x.argosmodel"
    broken.write_bytes(b"junk")
    with pytest.raises(ModelError, match="not an Argos package"):
        describe(broken)


def test_describing_needs_no_torch():
    code = "from uwaga.cli.main import main\ntry: main(['info', '--json'])\nexcept SystemExit: pass\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}import sys; print('torch' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    first, last = done.stdout.splitlines()
    assert last == "False"
    assert json.loads(first)["format"] == "uwaga"
    assert {field.name for field in dataclasses.fields(Description)} == set(json.loads(first))


def test_an_int8_folder(tmp_path):
    """As many weights as the model that it was made of, in a quarter of the bytes."""
    made = RUN.invoke(app, ["convert", "--int8", "bundled", str(tmp_path / "int8"), "--keep", "output"])
    assert made.exit_code == 0, made.output
    found, original = describe(tmp_path / "int8"), describe(BUNDLED)
    assert (found.format, found.family) == ("uwaga int8", "transformer")
    assert found.weights.formats == ("I8", "BF16", "F32")
    assert found.weights.parameters == original.weights.parameters
    assert found.weights.bytes == (tmp_path / "int8" / "engine.safetensors").stat().st_size
    same = ("sizes", "vocabulary", "languages", "licence", "decoding", "problems")
    assert [getattr(found, name) for name in same] == [getattr(original, name) for name in same]
    (tmp_path / "int8" / "config.json").write_text('{"format": "uwaga int8 model", "version": 99}')
    with pytest.raises(ModelError, match="install a newer uwaga"):
        describe(tmp_path / "int8")
