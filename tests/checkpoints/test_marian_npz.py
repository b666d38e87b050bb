"""Marian's `.npz` files: agreement with transformers, and rejection of invalid files."""

import io
import json
import math
import pickle
import shutil
import zipfile

import numpy as np
import pytest
import tiny_models as tiny
import torch
import yaml
from command_line import run_uwaga
from hypothesis import given
from hypothesis import strategies as st
from marian_folders import make
from precision import EXACT, to_double
from search_inputs import inputs
from torch_models import Payload, load_torch

from uwaga.checkpoints.formats.marian.files import _read_vocabulary
from uwaga.checkpoints.formats.marian.read import read_marian
from uwaga.checkpoints.formats.marian.weights import SETTINGS
from uwaga.checkpoints.storage.tensors import read_npz
from uwaga.errors import ModelError
from uwaga.search import search

transformers = pytest.importorskip("transformers")
TEXTS = ["the dog sees the cat", "Hi", "Where is the station? It is not far from here.", "a car"]
NORMS = {"self_attn": "self_Wo", "encoder_attn": "context_Wo", "final": "ffn_ffn"}
OPTIONS = {
    "type": "transformer", "transformer-heads": 3, "transformer-preprocess": "",
    "transformer-postprocess": "dan", "transformer-postprocess-top": "", "transformer-postprocess-emb": "d",
    "transformer-ffn-activation": "swish", "transformer-decoder-autoreg": "self-attention",
    "transformer-no-projection": False, "transformer-tied-layers": [], "transformer-train-positions": False,
    "dim-emb": 18, "enc-depth": 2, "dec-depth": 1, "transformer-dim-ffn": 22,
    "transformer-decoder-dim-ffn": 26,
}  # fmt: skip


def marian_sinusoids(positions, width):
    """Return Marian's sinusoids, computed by the loop of its ``SinusoidalPositionEmbeddings``."""
    table = torch.zeros(positions, width)
    increment = math.log(10000.0) / (width / 2 - 1)
    for position in range(positions):
        for number in range(width // 2):
            angle = position * math.exp(number * -increment)
            table[position, number], table[position, width // 2 + number] = math.sin(angle), math.cos(angle)
    return table


def with_marian_arithmetic(peer):
    """Return a transformers model that uses Marian's sinusoids and layer-norm epsilon (1e-6)."""
    for stack in (peer.model.encoder, peer.model.decoder):
        table = marian_sinusoids(*stack.embed_positions.weight.shape)
        stack.embed_positions.weight.data.copy_(table)
    for module in peer.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 1e-6
    return peer


def marian_weights(peer, pre=False):
    """Return the weights of a transformers model under Marian's names and in Marian's layout."""
    weights, suffix = {}, "_pre" if pre else ""
    for stack in ("encoder", "decoder"):
        module = getattr(peer.model, stack)
        for layer_number, block in enumerate(module.layers, start=1):
            base = f"{stack}_l{layer_number}"
            for attention, stored_name in (("self_attn", "self"), ("encoder_attn", "context")):
                for short, long in zip("qkvo", ("q_proj", "k_proj", "v_proj", "out_proj"), strict=True):
                    if hasattr(block, attention):
                        linear = getattr(getattr(block, attention), long)
                        weights[f"{base}_{stored_name}_W{short}"] = linear.weight.T
                        weights[f"{base}_{stored_name}_b{short}"] = linear.bias[None]
            for index, linear in enumerate((block.fc1, block.fc2), start=1):
                weights[f"{base}_ffn_W{index}"], weights[f"{base}_ffn_b{index}"] = (
                    linear.weight.T,
                    linear.bias[None],
                )
            for norm_name, stored_name in NORMS.items():
                norm = getattr(block, f"{norm_name}_layer_norm", None)
                if norm is not None:
                    weights[f"{base}_{stored_name}_ln_scale{suffix}"] = norm.weight[None]
                    weights[f"{base}_{stored_name}_ln_bias{suffix}"] = norm.bias[None]
        if pre:
            weights[f"{stack}_top_ln_scale"] = module.layer_norm.weight[None]
            weights[f"{stack}_top_ln_bias"] = module.layer_norm.bias[None]
    return {name: tensor.detach().numpy() for name, tensor in weights.items()}


def save(folder, arrays, options):
    content = np.frombuffer(yaml.safe_dump(options).encode() + b"\0", dtype=np.int8)
    np.savez(folder / "model.npz", **arrays, **{SETTINGS: content})


def write_models(tmp_path, shared=True, tied=True, source_tied=False, options=None, **changes):
    """Write a Marian model in the format of transformers and, without the padding row, in Marian's format."""
    peer = with_marian_arithmetic(
        make(tmp_path / "hf", shared, decoder_attention_heads=3, end=3.0, tie_word_embeddings=tied, **changes)
    )
    folder = tmp_path / "npz"
    folder.mkdir()
    arrays = marian_weights(peer)
    tables = [peer.model.encoder.embed_tokens.weight, peer.model.decoder.embed_tokens.weight]
    tables = [table[:-1].detach().numpy() for table in tables]
    if shared:
        arrays["Wemb"] = tables[1]
    else:
        arrays["encoder_Wemb"], arrays["decoder_Wemb"] = tables
    if not tied:
        arrays["decoder_ff_logit_out_W"] = peer.lm_head.weight[:-1].T.detach().numpy()
    arrays["decoder_ff_logit_out_b"] = peer.final_logits_bias[:, :-1].numpy()
    ties = {"tied-embeddings-all": shared and tied, "tied-embeddings": tied, "tied-embeddings-src": shared}
    save(folder, arrays, OPTIONS | ties | (options or {}))
    names = {"vocab.json": "opus.vocab.yml"}
    if not shared:
        names = {"vocab.json": "opus.src.vocab.yml", "target_vocab.json": "opus.trg.vocab.yml"}
    for old, new in names.items():
        ids = json.loads((tmp_path / "hf" / old).read_text())
        del ids["<pad>"]
        (folder / new).write_text(yaml.safe_dump(ids, allow_unicode=True, sort_keys=False, width=10**6))
    for name in ("source.spm", "target.spm"):
        shutil.copy(tmp_path / "hf" / name, folder / name)
    return peer, folder


@pytest.mark.numerical
@pytest.mark.parametrize(("shared", "tied"), [(True, True), (False, True), (False, False)])
def test_logits_and_tokens_match_transformers(tmp_path, shared, tied):
    peer, folder = write_models(tmp_path, shared, tied)
    loaded = load_torch(folder)
    pad = loaded.model.symbols.pad
    sources = [loaded.source.add_special_tokens(loaded.source.encode(text)) for text in TEXTS]
    longest = max(map(len, sources))
    batch = torch.tensor([row + [pad] * (longest - len(row)) for row in sources])
    target = torch.randint(2, 200, (len(TEXTS), 6), generator=torch.manual_seed(1))
    target[:, 0] = pad
    mask = (batch != pad).long()
    double = to_double(peer, loaded.model)
    with torch.no_grad(), double:
        expected = peer(input_ids=batch, attention_mask=mask, decoder_input_ids=target)
        logits = loaded.model.logits(loaded.model.features(batch, target))
    torch.testing.assert_close(logits[..., :pad], expected.logits[..., :pad], **EXACT)
    options = loaded.options.changed({"beam": 1, "max_length": 12, "unknown": True})
    hypotheses = search(loaded.model, inputs(sources), options)
    with double:
        rows = peer.generate(
            input_ids=batch, attention_mask=mask, num_beams=1, max_length=13, forced_eos_token_id=None
        )
    for (hypothesis,), row in zip(hypotheses, rows[:, 1:].tolist(), strict=True):
        assert tuple(row[: len(hypothesis.tokens)]) == hypothesis.tokens
    assert len({hypothesis.tokens for (hypothesis,) in hypotheses}) > 1


@pytest.mark.numerical
def test_pre_norm_blocks_and_learned_positions_match_pegasus(tmp_path):
    """Pegasus models have Marian's pre-norm layout; with learned positions, embeddings are not scaled."""
    torch.manual_seed(4)
    tokeniser = tiny.tokeniser(size=340)
    sizes = {"d_model": 18, "encoder_layers": 2, "decoder_layers": 1, "vocab_size": 341}
    heads = {"encoder_attention_heads": 3, "decoder_attention_heads": 3}
    options = {"encoder_ffn_dim": 22, "decoder_ffn_dim": 26, "max_position_embeddings": 40, "init_std": 0.35}
    config = transformers.PegasusConfig(
        **sizes, **heads, **options, activation_function="relu", pad_token_id=340
    )
    peer = with_marian_arithmetic(transformers.PegasusForConditionalGeneration(config).eval())
    table = torch.randn(40, 18)
    for stack in (peer.model.encoder, peer.model.decoder):
        stack.embed_positions.weight.data.copy_(table)
    arrays = marian_weights(peer, pre=True)
    arrays["Wemb"] = peer.model.shared.weight[:-1].detach().numpy()
    arrays["Wpos"] = table.numpy()
    norms = dict(zip(("preprocess", "postprocess", "postprocess-top"), ("n", "da", "n"), strict=True))
    marian_options = {f"transformer-{name}": value for name, value in norms.items()}
    marian_options |= {"tied-embeddings-all": True, "transformer-train-positions": True, "max-length": 40}
    save(
        tmp_path,
        arrays,
        OPTIONS | marian_options | {"transformer-ffn-activation": "relu", "output-omit-bias": True},
    )
    (tmp_path / "vocab.spm").write_bytes(tokeniser.model_bytes)
    loaded = load_torch(tmp_path)
    source = torch.tensor([loaded.source.add_special_tokens(loaded.source.encode(TEXTS[0]))])
    target = torch.tensor([[loaded.model.symbols.start, 7, 9, 11, 200]])
    with torch.no_grad(), to_double(peer, loaded.model):
        expected = peer(input_ids=source, decoder_input_ids=target).logits
        logits = loaded.model.logits(loaded.model.features(source, target))
    torch.testing.assert_close(logits[..., :340], expected[..., :340], **EXACT)
    assert loaded.source.decode(loaded.source.encode("the cat")) == "the cat"


def test_search_options_are_read_from_decoder_yml_or_rejected(tmp_path):
    _, folder = write_models(tmp_path)
    decoder_settings = {
        "models": ["model.npz"], "vocabs": ["opus.vocab.yml"] * 2, "beam-size": 3, "normalize": 0.6,
    }  # fmt: skip
    (folder / "decoder.yml").write_text(yaml.safe_dump(decoder_settings | {"relative-paths": True}))
    loaded = load_torch(folder)
    assert (loaded.options.beam, loaded.options.length_penalty, loaded.options.unknown) == (3, 0.6, False)
    for name in (folder, folder / "model.npz"):
        result = run_uwaga("translate", "--model", name, "--max-length", "9", *TEXTS)
        assert len(result.stdout.splitlines()) == len(TEXTS)
    (folder / "decoder.yml").write_text(yaml.safe_dump(decoder_settings | {"word-penalty": 0.2}))
    with pytest.raises(ModelError, match=r"decoder\.yml: word-penalty = 0\.2 is not supported"):
        load_torch(folder)
    (folder / "decoder.yml").write_text(
        yaml.safe_dump(decoder_settings | {"vocabs": ["../../etc/passwd", "x"]})
    )
    with pytest.raises(ModelError, match=r"names '\.\./\.\./etc/passwd', which is not in the folder"):
        load_torch(folder)


@given(
    st.lists(
        st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8), unique=True, max_size=30
    )
)
def test_vocabulary_is_read_as_yaml(tmp_path_factory, pieces):
    path = tmp_path_factory.mktemp("yml") / "v.yml"
    special = [
        "</s>", "<unk>", "▁", "'", '"', "a: b", "#", "- x", "? y", ":", "\\", "null", "1", "\x85", "\u2028",
    ]  # fmt: skip
    ids = {piece: number for number, piece in enumerate(dict.fromkeys([*special, *pieces]))}
    # Plain scalars fold at line breaks, which writers of vocabularies avoid.
    unbroken = [piece for piece in ids if len(f"{piece}.".splitlines()) == 1]
    plain = {piece: number for number, piece in enumerate(unbroken)}
    path.write_text(yaml.safe_dump(plain, allow_unicode=True, sort_keys=False, width=10**6))
    assert _read_vocabulary(path) == plain
    quoted = [yaml.safe_dump(piece, default_style='"', width=10**6).rstrip("\n") for piece in ids]
    path.write_text("".join(f"{piece}: {number}\n" for number, piece in enumerate(quoted)))
    assert _read_vocabulary(path) == ids


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_models(tmp_path_factory.mktemp("npz"))[1]


UNSUPPORTED_SETTINGS = {
    "type": "s2s", "transformer-no-projection": True, "transformer-tied-layers": [1, 1],
    "transformer-pool": True, "transformer-ffn-depth": 3, "transformer-decoder-ffn-depth": 1,
    "right-left": True, "lemma-dim-emb": 8, "ulr": True, "input-types": ["sequence", "class"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        *((name, value, f"{name} = .* is not supported") for name, value in UNSUPPORTED_SETTINGS.items()),
        ("transformer-ffn-activation", "gelu", "'gelu' is not supported"),
        ("transformer-postprocess", "dhn", "transformer-postprocess 'dhn'.*uwaga has norms"),
        ("transformer-heads", 5, "dim-emb 18 is not a multiple of transformer-heads 5"),
        ("enc-depth", None, "enc-depth must be a whole number from 1 to 4096"),
        ("enc-depth", 1, "weights 'encoder_l2_.* and 13 more: .* of a feature"),
        ("enc-depth", 3, "weights 'encoder_l3_.*: missing"),
    ],
)
def test_invalid_or_unsupported_settings_are_rejected(folder, tmp_path, name, value, message):
    shutil.copytree(folder, tmp_path / "m")
    arrays = read_npz(folder / "model.npz")
    options = yaml.safe_load(arrays.pop(SETTINGS).tobytes().rstrip(b"\0"))
    save(tmp_path / "m", arrays, options | {name: value})
    with pytest.raises(ModelError, match=message):
        load_torch(tmp_path / "m")


def add_member(path, name, content):
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, content)


def array_with_false_header(shape):
    """Return the bytes of an array whose header states a shape that its data does not have."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue() + bytes(16)


def truncate(path, keep):
    path.write_bytes(path.read_bytes()[:keep])


INVALID_FILES = {
    r"damaged or not a \.npz file": lambda f: truncate(f / "model.npz", 3000),
    r"model\.npz: damaged or not": lambda f: (f / "model.npz").write_bytes(b"\x93NUMPY"),
    r"'x\.npy' of shape \(4000000000, 4000\) needs":
        lambda f: add_member(f / "model.npz", "x.npy", array_with_false_header((4_000_000_000, 4000))),
    r"would unpack from \d+ to 33554432": lambda f: add_member(f / "model.npz", "x.npy", bytes(1 << 25)),
    r"weights 'x': .* of a feature":
        lambda f: add_member(f / "model.npz", "x.npy", array_with_false_header((2, 2))),
    r"expected one model .*, found none": lambda f: (f / "model.npz").unlink(),
    r"found model\.npz, other\.npz": lambda f: shutil.copy(f / "model.npz", f / "other.npz"),
    r"expected one vocabulary": lambda f: (f / "opus.vocab.yml").unlink(),
    r"source\.spm: no such file; the vocabulary contains only the ids": lambda f: (f / "source.spm").unlink(),
    r"yml: line 1 must be a piece and its id": lambda f: (f / "opus.vocab.yml").write_text("[1]\n"),
    r"yml: the vocabulary does not contain </s>": lambda f: (f / "opus.vocab.yml").write_text("a: 0\n"),
    r"not numbered consecutively from 0": lambda f: (f / "opus.vocab.yml").write_text("</s>: 0\n<unk>: 7\n"),
    r"is for \d+ tokens, but the vocabulary has 2":
        lambda f: (f / "opus.vocab.yml").write_text("</s>: 0\n<unk>: 1\n"),
}  # fmt: skip


@pytest.mark.parametrize("message", INVALID_FILES)
def test_invalid_files_are_rejected(folder, tmp_path, message):
    shutil.copytree(folder, tmp_path / "m")
    INVALID_FILES[message](tmp_path / "m")
    with pytest.raises(ModelError, match=message):
        load_torch(tmp_path / "m", read=read_marian)


def test_pickled_objects_are_rejected_without_execution(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "m")
    proof = tmp_path / "executed"
    arrays = read_npz(folder / "model.npz")
    arrays["x"] = np.array([Payload(proof)], dtype=object)
    np.savez(tmp_path / "m/model.npz", **arrays)
    proof.unlink(missing_ok=True)
    with pytest.raises(ModelError, match=r"'x\.npy' contains Python objects, not numbers; it is refused"):
        load_torch(tmp_path / "m")
    payload = pickle.dumps(Payload(proof))
    proof.unlink(missing_ok=True)
    (tmp_path / "m/model.npz").write_bytes(payload)
    with pytest.raises(ModelError, match=r"not a \.npz file"):
        load_torch(tmp_path / "m")
    assert not proof.exists()


def test_npz_without_marian_settings_is_rejected(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "m")
    np.savez(tmp_path / "m/model.npz", x=np.zeros(3))
    with pytest.raises(ModelError, match=r"contains no 'special:model\.yml'"):
        load_torch(tmp_path / "m")
