"""CTranslate2 folders and Argos packages: agreement with CTranslate2, and rejection of invalid files."""

import json
import shutil
import stat
import struct
import zipfile

import numpy as np
import pytest
import tiny_models as tiny
import torch
from command_line import run_uwaga
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from marian_folders import make
from precision import tolerance
from search_inputs import inputs
from torch_models import load_torch

import uwaga
from uwaga.checkpoints.formats.ctranslate2.binary import read_model_file
from uwaga.checkpoints.registry import detect
from uwaga.errors import ModelError
from uwaga.search import search
from uwaga.tokenizers.subwords import byte_tokens

transformers = pytest.importorskip("transformers")
ctranslate2 = pytest.importorskip("ctranslate2")
TEXTS = ["the dog sees the cat", "Hi", "Where is the station? It is not far from here.", "a car"]
FORMATS = ["float32", "float16", "bfloat16", "int8", "int16", "int8_float16"]


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    """Return a Marian folder whose encoder and decoder have equally many heads, as CTranslate2 requires."""
    folder = tmp_path_factory.mktemp("ct2") / "marian"
    make(folder, decoder_attention_heads=3, end=3.0)
    return folder


def converted(marian, folder, quantisation):
    from ctranslate2.converters import TransformersConverter

    TransformersConverter(str(marian)).convert(str(folder), quantization=quantisation)
    for name in ("source.spm", "target.spm"):
        shutil.copy(marian / name, folder / name)
    return folder


def greedy(loaded, folder, texts=TEXTS, **options):
    """Return the pieces that greedy search generates in uwaga and in CTranslate2."""
    peer = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32", intra_threads=1)
    sources = [loaded.source.add_special_tokens(loaded.source.encode(text)) for text in texts]
    results = peer.translate_batch(
        [loaded.source.pieces(row) for row in sources], beam_size=1, max_decoding_length=14, **options
    )
    hypotheses = search(loaded.model, inputs(sources), loaded.options.changed({"beam": 1, "max_length": 14}))
    return [loaded.target.pieces(hypothesis.tokens) for (hypothesis,) in hypotheses], [
        hypothesis.hypotheses[0] for hypothesis in results
    ]


@pytest.mark.sampled(5)
@pytest.mark.numerical
@pytest.mark.parametrize("quantisation", FORMATS)
def test_converted_marian_model_matches_ctranslate2(marian, tmp_path, quantisation):
    folder = converted(marian, tmp_path / "m", quantisation)
    loaded = load_torch(folder)
    actual, expected = greedy(loaded, folder)
    assert actual == expected
    assert len({len(row) for row in actual}) > 1
    # The weights, dequantised by hand, in the model of transformers.
    peer = transformers.MarianMTModel.from_pretrained(marian).eval()
    tokeniser = transformers.MarianTokenizer.from_pretrained(marian)
    with torch.no_grad():
        weights = dict(peer.named_parameters())
        dequantised = {name: dequantise(name, weights, quantisation) for name in weights}
        for name, weight in weights.items():
            weight.copy_(dequantised[name])
        if quantisation in ("float16", "bfloat16", "int8_float16"):
            half = torch.bfloat16 if quantisation == "bfloat16" else torch.float16
            peer.final_logits_bias.copy_(peer.final_logits_bias.to(half).float())
        batch = tokeniser(TEXTS, return_tensors="pt", padding=True)
        target = torch.randint(2, 200, (len(TEXTS), 6), generator=torch.manual_seed(1))
        target[:, 0] = tokeniser.pad_token_id
        peer_logits = peer(**batch, decoder_input_ids=target).logits
        source = batch.input_ids.masked_fill(
            batch.input_ids == tokeniser.pad_token_id, loaded.model.symbols.pad
        )
        logits = loaded.model.logits(loaded.model.features(source, target))
    size = tokeniser.pad_token_id  # CTranslate2 has no padding token
    assert (logits[..., size:] < -9000).all()
    torch.testing.assert_close(
        logits[..., :size], peer_logits[..., :size], **tolerance(peer_logits[..., :size])
    )


FUSED_PROJECTIONS = {"self_attn": ("q_proj", "k_proj", "v_proj"), "encoder_attn": ("k_proj", "v_proj")}


def dequantise(name, weights, quantisation):
    """Return a weight after CTranslate2's quantisation: 8 bits with a scale per row, or 16 bits with a scale
    per tensor, where the projections of one input are fused."""
    weight = weights[name]
    floats = {"float16": torch.float16, "bfloat16": torch.bfloat16, "int8_float16": torch.float16}
    if "embed_positions" in name or weight.dim() == 1:
        return weight.to(floats.get(quantisation, torch.float32)).float()
    if quantisation in ("float16", "bfloat16"):
        return weight.to(floats[quantisation]).float()
    if quantisation.startswith("int8"):
        largest = weight.abs().amax(dim=1, keepdim=True)
        scale = 127.0 / torch.where(largest == 0, 127.0, largest)
        return (weight * scale).round() / scale
    if quantisation == "int16":
        owner, _, layer = name.removesuffix(".weight").rpartition(".")
        fused = FUSED_PROJECTIONS.get(owner.rpartition(".")[2], ())
        group = (
            [weights[f"{owner}.{projection}.weight"] for projection in fused] if layer in fused else [weight]
        )
        scale = 1024 / torch.stack([projection.abs().max() for projection in group]).max()
        return (weight * scale).round() / scale
    return weight.clone()


def test_int16_weight_has_a_single_scale(marian, tmp_path):
    file = read_model_file(converted(marian, tmp_path / "m", "int16") / "model.bin")
    variable = file.variables["encoder/layer_0/ffn/linear_0/weight"]
    peer = transformers.MarianMTModel.from_pretrained(marian)
    weight = peer.model.encoder.layers[0].fc1.weight.detach().numpy()
    scale = np.float32(1024 / np.abs(weight).max())
    np.testing.assert_array_equal(variable.array, np.rint(weight * scale))
    np.testing.assert_allclose(variable.floats(file.path), np.rint(weight * scale) / scale, rtol=1e-6)


def save_random_model(folder, seed=0, pre_norm=True, encodings=None, scale=True, size=24, **changes):
    """Save a random model with CTranslate2's model specification, as OpenNMT's converters do."""
    from ctranslate2.specs import transformer_spec

    specification = transformer_spec.TransformerSpec.from_config((2, 1), 2, pre_norm=pre_norm, **changes)
    draws = np.random.default_rng(seed)
    tokeniser = tiny.tokeniser(size=340)
    pieces = [tokeniser.pieces([n])[0] for n in range(4, tokeniser.size)]
    vocabulary = ["<unk>", "<s>", "</s>", *pieces]
    shapes = {"linear_0": (size * 3, size), "linear_1": (size, size)}

    def fill(layer, name, value):
        if value is not None and not (name.endswith("/bias") or name.endswith("encodings")):
            return
        parts = name.split("/")
        shape = {"gamma": (size,), "beta": (size,)}.get(parts[-1])
        if "ffn" in parts and shape is None:
            shape = (20, size) if "linear_0" in parts else (size, 20)
        elif "attention" in parts and shape is None:
            shape = {"linear_0": (size, size), "linear_1": (2 * size, size), "linear_2": (size, size)}[
                parts[-2]
            ]
        elif "self_attention" in parts and shape is None:
            shape = shapes[parts[-2]]
        elif parts[-1] == "encodings":
            if encodings is None:
                return
            shape = (encodings, size)
        elif shape is None:
            shape = (len(vocabulary), size)
        if parts[-1] == "bias":
            shape = shape[:1]
        centre = 1.0 if parts[-1] == "gamma" else 0.0
        setattr(layer, parts[-1], (centre + 0.4 * draws.standard_normal(shape)).astype(np.float32))

    specification._visit(fill)
    specification.encoder.scale_embeddings = specification.decoder.scale_embeddings = scale
    specification.decoder.projection.bias[vocabulary.index("</s>")] = 2.0
    specification.register_source_vocabulary(vocabulary)
    specification.register_target_vocabulary(vocabulary)
    specification.validate()
    specification.optimize()
    folder.mkdir(parents=True)
    specification.save(str(folder))
    (folder / "sentencepiece.model").write_bytes(tokeniser.model_bytes)
    return folder


SPECIFICATIONS = {
    "OpenNMT-py": {"encodings": 50},
    "OpenNMT-tf, own sinusoids": {"scale": np.float32(24**0.5)},
    "fairseq": {"pre_norm": False, "encodings": 50, "layernorm_embedding": True, "scale": np.float32(1.0)},
    "GELU": {"encodings": 50, "activation": 3, "alignment_layer": 0, "alignment_heads": 2},
    "GELU, tanh": {"encodings": 50, "activation": 1},
    "swish, unscaled": {"encodings": 50, "activation": 2, "scale": False},
}


@pytest.mark.parametrize("name", SPECIFICATIONS)
def test_models_of_all_specifications_match_ctranslate2(tmp_path, name):
    folder = save_random_model(tmp_path / "m", **SPECIFICATIONS[name])
    loaded = load_torch(folder)
    options = {"suppress_sequences": [["<s>"]]}  # uwaga's search never produces the start symbol
    actual, expected = greedy(loaded, folder, [*TEXTS, *tiny.ENGLISH], **options)
    assert actual == expected
    assert len({tuple(row) for row in actual}) > 1


def test_config_determines_start_and_end_symbols(tmp_path):
    folder = save_random_model(tmp_path / "m", encodings=50)
    config = json.loads((folder / "config.json").read_text())
    config |= {"decoder_start_token": "</s>", "add_source_eos": True, "add_source_bos": True}
    config["layer_norm_epsilon"] = 1e-3
    (folder / "config.json").write_text(json.dumps(config))
    loaded = load_torch(folder)
    assert loaded.source.add_special_tokens([7]) == [1, 7, 2]
    assert (loaded.model.symbols.start, loaded.model.settings.norm_epsilon) == (2, 1e-3)
    peer = ctranslate2.Translator(str(folder), device="cpu", compute_type="float32")
    sources = [loaded.source.encode(text) for text in TEXTS]
    results = peer.translate_batch(
        [loaded.source.pieces(row) for row in sources], beam_size=1, max_decoding_length=20
    )
    framed = [loaded.source.add_special_tokens(row) for row in sources]
    hypotheses = search(loaded.model, inputs(framed), loaded.options.changed({"beam": 1, "max_length": 20}))
    for (hypothesis,), result in zip(hypotheses, results, strict=True):
        assert loaded.target.pieces(hypothesis.tokens) == result.hypotheses[0][: len(hypothesis.tokens)]


def rewrite(path, version=6, revision=7, name="TransformerSpec", drop=(), add=None, aliases=True):
    """Rewrite a model file in another format version, with the layout defined in CTranslate2's sources."""
    file = read_model_file(path)
    numbers = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4}

    def text(value):
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    variables = {key: variable.array for key, variable in file.variables.items() if key not in drop} | (
        add or {}
    )
    content = struct.pack("<I", version) + text(name) + struct.pack("<II", revision, len(variables))
    for key, array in sorted(variables.items()):
        content += text(key) + struct.pack("<B", array.ndim) + struct.pack(f"<{array.ndim}I", *array.shape)
        if version >= 4:
            content += struct.pack("<BI", numbers[array.dtype.name], array.nbytes)
        else:
            content += struct.pack("<BI", array.itemsize, array.size)
        content += array.tobytes()
    path.write_bytes(content + (struct.pack("<I", 0) if version >= 3 else b""))


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_files_of_older_format_versions_give_the_same_weights(tmp_path, version):
    folder = save_random_model(tmp_path / "m", encodings=50)
    expected = load_torch(folder).model.state_dict()
    scoped = [f"{scope}/{name}" for scope in ("encoder", "decoder") for name in ("num_heads", "pre_norm")]
    old = {"num_heads": np.int8(2), "pre_norm": np.int8(1), "with_source_eos": np.int8(1)}
    add = {key: np.array(value) for key, value in old.items()}
    rewrite(folder / "model.bin", version, revision=4, drop=scoped, add=add)
    (folder / "config.json").unlink()
    pieces = json.loads((folder / "shared_vocabulary.json").read_text())
    (folder / "shared_vocabulary.json").unlink()
    (folder / "shared_vocabulary.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    loaded = load_torch(folder)
    assert loaded.source.add_special_tokens([7]) == [7, 2]
    assert loaded.model.settings.heads == 2
    for name, weight in loaded.model.state_dict().items():
        assert torch.equal(weight, expected[name])


@pytest.fixture(scope="module")
def opennmt(tmp_path_factory):
    return save_random_model(tmp_path_factory.mktemp("bad") / "m", encodings=50)


def replace_bytes(path, old, new, count=1):
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, count))


def overstate_axis(path):
    """Change the header so that it states an axis of four billion rows."""
    content = path.read_bytes()
    position = content.index(b"decoder/embeddings/weight\0") + len("decoder/embeddings/weight\0") + 1
    path.write_bytes(content[:position] + struct.pack("<I", 0xFFFFFFFF) + content[position + 4 :])


def shorten_vocabulary(folder):
    pieces = json.loads((folder / "shared_vocabulary.json").read_text())
    (folder / "shared_vocabulary.json").write_text(json.dumps(pieces[:-1]))


INVALID_FOLDERS = {
    r"model\.bin: truncated or damaged":
        lambda f: (f / "model.bin").write_bytes((f / "model.bin").read_bytes()[:-50]),
    r"model\.bin: .* bytes after its last array":
        lambda f: (f / "model.bin").write_bytes((f / "model.bin").read_bytes() + b"\0\0"),
    r"model\.bin: the file is empty": lambda f: (f / "model.bin").write_bytes(b""),
    r"of shape \(4294967295, 24\) needs \d+ bytes": lambda f: overstate_axis(f / "model.bin"),
    r"CTranslate2 format version 7, or not a CTranslate2 file":
        lambda f: replace_bytes(f / "model.bin", b"\6\0\0\0", b"\7\0\0\0"),
    r"models of 'WhisperSpec', revision [0-9]+, are not supported":
        lambda f: rewrite(f / "model.bin", name="WhisperSpec"),
    r"revision 8": lambda f: rewrite(f / "model.bin", revision=8),
    r"'encoder/layer_1/ffn/linear_1/weight': missing":
        lambda f: rewrite(f / "model.bin", drop=["encoder/layer_1/ffn/linear_1/weight"]),
    r"relative_position_keys.*not supported": lambda f: rewrite(
        f / "model.bin",
        add={"encoder/layer_0/self_attention/relative_position_keys": np.ones((3, 4), np.float32)},
    ),
    r"activation 4 \(the sigmoid": lambda f: rewrite(
        f / "model.bin", add={f"{s}/activation": np.array(np.int8(4)) for s in ("encoder", "decoder")}
    ),
    r"'alibi' = 1 is not supported":
        lambda f: rewrite(f / "model.bin", add={"decoder/alibi": np.array(np.int8(1))}),
    r"multiplied by 3, but uwaga":
        lambda f: rewrite(f / "model.bin", add={"encoder/scale_embeddings": np.array(np.float32(3))}),
    r"no scale for them is stored": lambda f: rewrite(
        f / "model.bin", add={"encoder/layer_0/ffn/linear_0/weight": np.ones((20, 24), np.int8)}
    ),
    r"not finite": lambda f: rewrite(
        f / "model.bin", add={"encoder/layer_0/ffn/linear_0/bias": np.full(20, np.inf, np.float32)}
    ),
    r"neither shared_vocabulary nor source": lambda f: (f / "shared_vocabulary.json").unlink(),
    r"is for 339 tokens, but the vocabulary has 338": shorten_vocabulary,
    r"contains no tokeniser": lambda f: (f / "sentencepiece.model").unlink(),
    r"lacks the decoder_start_token '<go>'":
        lambda f: (f / "config.json").write_text('{"decoder_start_token": "<go>"}'),
    r"translates into several languages":
        lambda f: (f / "config.json").write_text('{"decoder_start_token": null}'),
}  # fmt: skip


@pytest.mark.parametrize("message", INVALID_FOLDERS)
def test_invalid_folder_is_rejected(opennmt, tmp_path, message):
    shutil.copytree(opennmt, tmp_path / "bad")
    INVALID_FOLDERS[message](tmp_path / "bad")
    with pytest.raises(ModelError, match=message):
        load_torch(tmp_path / "bad")


@given(st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_model_file_is_read_or_raises_model_error(opennmt, tmp_path, data):
    """Truncated or changed files are read or raise ModelError."""
    content = bytearray((opennmt / "model.bin").read_bytes())
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content) - 1))]
    else:
        starts = [
            content.find(name) for name in (b"decoder/embeddings", b"encoder/layer_0/ffn", b"encoder/num")
        ]
        position = data.draw(st.sampled_from([0, *starts])) + data.draw(st.integers(0, 60))
        content[position] = data.draw(st.integers(0, 255))
    (tmp_path / "model.bin").write_bytes(content)
    try:
        file = read_model_file(tmp_path / "model.bin")
        assert sum(variable.array.nbytes for variable in file.variables.values()) < 4 * len(content)
    except ModelError:
        pass


def package(folder, path, metadata=None, skip=(), extra=()):
    """Write an Argos package like those of Argos' training tool."""
    values = {"package_version": "1.0", "argos_version": "1.5", "from_code": "en", "to_code": "de"}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("translate-en_de/metadata.json", json.dumps(values | (metadata or {})))
        file.writestr("translate-en_de/README.md", "hello")
        for name in ("model.bin", "config.json", "shared_vocabulary.json"):
            if name not in skip:
                file.write(folder / name, f"translate-en_de/model/{name}")
        if "sentencepiece.model" not in skip:
            file.write(folder / "sentencepiece.model", "translate-en_de/sentencepiece.model")
        for info, content in extra:
            file.writestr(info, content)
    return path


def test_argos_package_translates_like_ctranslate2(opennmt, tmp_path):
    path = package(opennmt, tmp_path / "en_de.argosmodel")
    translator = uwaga.load(path, device="cpu")
    assert translator.languages == ("en", "de")
    assert (translator.options().beam, translator.options().length_penalty) == (4, 0.2)
    result = run_uwaga("translate", "--model", path, "--beam", "1", "--split", "never", *TEXTS)
    translations = translator.translate(TEXTS, beam=1, split="never")
    assert result.stdout.splitlines() == [translation.text for translation in translations]
    model = tiny.tokeniser(size=340)
    peer = ctranslate2.Translator(str(opennmt), device="cpu", compute_type="float32")
    pieces = [model.pieces(model.encode(text)) for text in TEXTS]
    assert [list(translation.source_tokens) for translation in translations] == pieces
    banned = byte_tokens(translator.model.target)  # uwaga replaces those that complete no character
    suppressed = [["<s>"], ["<unk>"], *([piece] for piece in translator.model.target.pieces(banned))]
    peer_results = peer.translate_batch(
        pieces, beam_size=1, max_decoding_length=49, suppress_sequences=suppressed
    )
    without_bytes = translator.translate(TEXTS, beam=1, split="never", banned=tuple(banned))
    for translation, peer_result in zip(without_bytes, peer_results, strict=True):
        assert list(translation.tokens)[:49] == peer_result.hypotheses[0]
    with zipfile.ZipFile(path) as file:
        file.extractall(tmp_path / "unpacked")
    unpacked = tmp_path / "unpacked/translate-en_de"
    assert detect(unpacked).name == "Argos Translate"
    assert [
        translation.text
        for translation in uwaga.load(unpacked, device="cpu").translate(TEXTS, beam=1, split="never")
    ] == [translation.text for translation in translations]


def link():
    info = zipfile.ZipInfo("translate-en_de/model/target_vocabulary.txt")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


INVALID_PACKAGES = {
    r"'\.\./evil' has a path outside the package; the package is refused": {"extra": [("../evil", b"x")]},
    r"'/etc/evil' has a path outside": {"extra": [("/etc/evil", b"x")]},
    r"would unpack from \d+ to 33554432 bytes": {
        "extra": [("translate-en_de/model/source_vocabulary.txt", bytes(1 << 25))]
    },
    r"is a link or encrypted": {"extra": [(link(), b"/etc/passwd")]},
    r"contains 'metadata\.json' twice": {"extra": [("other/metadata.json", b"{}")]},
    r"this one has none": {"skip": ["sentencepiece.model"]},
    r"bpe\.model \(Moses": {"skip": ["sentencepiece.model"], "extra": [("translate-en_de/bpe.model", b"#")]},
    r"of type 'sbd', not a translation model": {"metadata": {"type": "sbd"}},
    r"argosmodel:model/model\.bin: cannot be read": {"skip": ["model.bin"]},
}


@pytest.mark.parametrize("message", INVALID_PACKAGES)
def test_invalid_package_is_rejected(opennmt, tmp_path, message):
    path = package(opennmt, tmp_path / "bad.argosmodel", **INVALID_PACKAGES[message])
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ModelError, match=message):
        load_torch(path)
    assert sorted(tmp_path.rglob("*")) == before


def test_damaged_or_missing_package_is_rejected(opennmt, tmp_path):
    path = package(opennmt, tmp_path / "a.argosmodel")
    content = path.read_bytes()
    half = len(content) // 2
    for damaged in (content[:-100], b"no zip", content[:half] + b"\xff" * 64 + content[half + 64 :]):
        path.write_bytes(damaged)
        with pytest.raises(ModelError, match=r"a\.argosmodel: .*damaged"):
            load_torch(path)
    with pytest.raises(ModelError, match="no such folder"):
        uwaga.load(tmp_path / "missing.argosmodel")
    result = run_uwaga("translate", "--model", path, "x", code=1)
    assert "Traceback" not in result.output
