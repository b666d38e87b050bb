"""Decoder-only folders: logits and tokens equal those of ``transformers``; invalid folders are rejected."""

import json
import shutil
from dataclasses import replace

import numbered_tokens
import numpy as np
import pytest
import torch
from decoder_folders import (
    EOS,
    HUNYUAN,
    LLAMA3,
    PROMPTS,
    VARIANTS,
    VOCABULARY_SIZE,
    YARN,
    make,
    use_exact_frequencies,
)
from precision import EXACT, to_double
from safetensors.torch import load_file, save_file
from search_inputs import inputs
from torch_models import edit_config, load_torch

from uwaga.checkpoints.formats.huggingface import llama
from uwaga.checkpoints.registry import describe, read
from uwaga.checkpoints.to_engine import to_engine
from uwaga.decoder import Choice
from uwaga.errors import ModelError
from uwaga.search import search

transformers = pytest.importorskip("transformers")
EACH_VERSION = pytest.mark.parametrize("version", VARIANTS, ids=lambda version: version.name)


@pytest.fixture(autouse=True)
def numbers(monkeypatch):
    def tokeniser(folder, ids, ends, declared):
        return numbered_tokens.read_numbers(folder, replace(ids, end=ends[0])).source

    monkeypatch.setattr(llama, "read_decoder_tokeniser", tokeniser)


@pytest.mark.sampled(3)
@pytest.mark.numerical
@EACH_VERSION
def test_M37_M41_decoder_outputs_match_the_transformers_library(tmp_path, version):
    peer = make(tmp_path / "m", version)
    loaded, engine = load_torch(tmp_path / "m"), to_engine(read(tmp_path / "m"))
    text = torch.randint(3, VOCABULARY_SIZE, (3, 50), generator=torch.manual_seed(0))
    double = to_double(peer, loaded.model)
    use_exact_frequencies(peer)
    with torch.no_grad(), double:
        torch.testing.assert_close(loaded.model.logits(loaded.model.read(text)), peer(text).logits, **EXACT)
        for prompt, [hypothesis] in zip(
            PROMPTS, search(loaded.model, inputs(PROMPTS), loaded.options), strict=True
        ):
            row = peer.generate(input_ids=torch.tensor([prompt]))[0, len(prompt) :].tolist()
            assert (*hypothesis.tokens, *([] if hypothesis.truncated else [EOS])) == tuple(row)
        expected = torch.log_softmax(peer(text).logits, -1).numpy()
    state = engine.start(engine.encode(text[:, :40].tolist()), 1)
    tokens = np.full(3, engine.symbols.start)
    for position in range(39, 50):
        step = engine.step(tokens, state, Choice(1, all_tokens=True))
        np.testing.assert_allclose(
            step.log_probs, expected[:, position], atol=1e-4 * np.ptp(expected), rtol=0
        )
        state, tokens = step.state, text[:, position + 1].numpy() if position < 49 else tokens


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return a model folder of each family."""
    root = tmp_path_factory.mktemp("decoders")
    versions = {version.family: version for version in VARIANTS}
    for family, version in versions.items():
        make(root / family, version)
    return root


def assert_same_model(path, family, folders):
    """Assert that two folders have equal settings and weights."""
    loaded, original = load_torch(path), load_torch(folders / family)
    assert loaded.checkpoint.settings == original.checkpoint.settings
    expected = original.model.state_dict()
    assert all(torch.equal(expected[name], weight) for name, weight in loaded.model.state_dict().items())


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma3_text", "hunyuan_v1_dense"])
def test_configuration_of_transformers_4_is_read(tmp_path, folders, family):
    """Version 4 has ``rope_theta`` and ``rope_scaling``, and no list of layer types."""
    folder = tmp_path / "m"
    shutil.copytree(folders / family, folder)
    path = folder / "config.json"
    values = json.loads(path.read_text())
    positions = values.pop("rope_parameters")
    values.pop("layer_types", None)
    if family == "gemma3_text":
        values |= {"sliding_window_pattern": 3, "rope_local_base_freq": 100.0}
        positions = positions["full_attention"]
    values["rope_theta"] = positions.pop("rope_theta")
    kind = positions.pop("rope_type")
    values["rope_scaling"] = None if kind == "default" else {**positions, "type": kind}
    path.write_text(json.dumps(values))
    assert_same_model(folder, family, folders)


def test_language_model_of_multimodal_gemma3_is_read(tmp_path, folders):
    text = json.loads((folders / "gemma3_text/config.json").read_text())
    vision = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.Gemma3Config(
        text_config=text, vision_config={"model_type": "siglip_vision_model", **vision, "image_size": 28}
    )
    model = transformers.Gemma3ForConditionalGeneration(config)
    inner = transformers.AutoModelForCausalLM.from_pretrained(folders / "gemma3_text")
    model.model.language_model.load_state_dict(inner.model.state_dict())
    model.save_pretrained(tmp_path / "new")
    for name in ("model.language_model.", "language_model.model."):
        path = tmp_path / name
        shutil.copytree(tmp_path / "new", path)
        values = {
            key.replace("model.language_model.", name).replace("language_model.model.", name): value
            for key, value in load_file(path / "model.safetensors").items()
        }
        save_file(values, path / "model.safetensors")
        assert_same_model(path, "gemma3_text", folders)
    save_file({"vision_tower.x": torch.zeros(3)}, path / "model.safetensors")
    with pytest.raises(ModelError, match=r"missing|no weights of a language model|only 1 weights"):
        load_torch(path)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sharded_16_bit_weights_are_read(tmp_path, folders, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(folders / "gemma2", dtype=dtype)
    model.save_pretrained(tmp_path / "m", max_shard_size="10KB")
    assert len(list((tmp_path / "m").glob("model-*.safetensors"))) > 3
    weights = load_torch(tmp_path / "m").model.state_dict()
    peer_weights = model.state_dict()
    for name, stored_name, offset in (
        ("embedding.weight", "model.embed_tokens.weight", 0.0),
        ("decoder.1.feed_forward.inner.weight", "model.layers.1.mlp.gate_proj.weight", 0.0),
        ("decoder_norm.weight", "model.norm.weight", 1.0),
    ):
        assert torch.equal(weights[name], peer_weights[stored_name].float() + offset)


def test_repetition_penalty_is_ignored_and_described(folders, tmp_path):
    shutil.copytree(folders / "qwen2", tmp_path / "m")
    generation = {"repetition_penalty": 1.05, "max_new_tokens": 9, "do_sample": True, "eos_token_id": [2, 7]}
    (tmp_path / "m/generation_config.json").write_text(json.dumps(generation))
    description = describe(tmp_path / "m")
    assert description.sizes["repetition penalty"] == "1.05, not applied"
    assert load_torch(tmp_path / "m").options.sample
    assert "repetition penalty" not in describe(folders / "qwen2").sizes


def test_any_of_several_end_tokens_stops_generation_as_in_transformers(monkeypatch, folders, tmp_path):
    def tokeniser(folder, ids, ends, declared):
        number_tokeniser = numbered_tokens.read_numbers(folder, replace(ids, end=ends[0])).source
        return replace(
            number_tokeniser, symbols=replace(number_tokeniser.symbols, other_ends=tuple(ends[1:]))
        )

    shutil.copytree(folders / "llama", tmp_path / "m")
    monkeypatch.setattr(llama, "read_decoder_tokeniser", tokeniser)
    ends = [EOS, *range(5, VOCABULARY_SIZE, 6)]
    generation = {"eos_token_id": ends, "max_new_tokens": 12, "num_beams": 2, "pad_token_id": 0}
    (tmp_path / "m/generation_config.json").write_text(json.dumps(generation))
    peer = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "m")
    loaded, engine = load_torch(tmp_path / "m"), to_engine(read(tmp_path / "m"))
    assert loaded.checkpoint.symbols.ends == tuple(ends)
    endings = []
    for prompt in PROMPTS:
        with torch.no_grad():
            row = peer.generate(input_ids=torch.tensor([prompt]))[0, len(prompt) :].tolist()
        has_end = row[-1] in ends
        endings.append(has_end)
        for model in (loaded.model, engine):
            [[hypothesis]] = search(model, inputs([prompt]), loaded.options)
            assert (list(hypothesis.tokens), hypothesis.truncated) == (
                row[:-1] if has_end else row,
                not has_end,
            )
    assert any(endings)


def test_model_is_described_even_if_its_weights_are_damaged(folders, tmp_path):
    description = describe(folders / "gemma3_text")
    assert description.family == "gemma3_text"
    assert (
        description.sizes["window"],
        description.sizes["global every"],
        description.sizes["key value heads"],
    ) == (4, 3, 2)
    assert description.sizes["rotary base"] == 7000.0
    assert description.sizes["local rotary scaling"] == "none"
    shutil.copytree(folders / "llama", tmp_path / "m")
    (tmp_path / "m/model.safetensors").write_bytes(b"x")
    assert "damaged" in " ".join(describe(tmp_path / "m").problems)


INVALID_CONFIGS = {
    r"the family 'llama4' is not supported; uwaga supports .*llama.*qwen3":
        ("llama", {"model_type": "llama4"}),
    r"'hidden_size' must be a whole number": ("llama", {"hidden_size": -36}),
    r"'num_hidden_layers' must be a whole number": ("llama", {"num_hidden_layers": 0}),
    r"16000000 layers, but only": ("llama", {"num_hidden_layers": 16_000_000}),
    r"the feed-forward size \(16000000\) at width 36": ("llama", {"intermediate_size": 16_000_000}),
    r"the size of all heads": ("llama", {"head_dim": 16_000_000}),
    r"the vocabulary": ("llama", {"vocab_size": 16_000_000}),
    r"key_value_heads 4 does not divide heads 6": ("llama", {"num_key_value_heads": 4}),
    r"even head width": ("llama", {"head_dim": 7}),
    r"self_attn\.k_proj\.weight' has shape \(16, 36\)": ("llama", {"num_key_value_heads": 3}),
    r"layers\.3\..*missing": ("llama", {"num_hidden_layers": 4}),
    r"layers\.2\..*unknown": ("llama", {"num_hidden_layers": 2}),
    r"bias'.*missing": ("llama", {"attention_bias": True}),
    r"eos_token_id is 41, but the vocabulary has 41": ("llama", {"eos_token_id": [2, 41]}),
    r"'eos_token_id' must be a token id or a list": ("llama", {"eos_token_id": ["</s>"]}),
    r"'hidden_act' = 'tanh' is not supported": ("llama", {"hidden_act": "tanh"}),
    r"'quantization_config' = .* is not supported": ("llama", {"quantization_config": {"bits": 4}}),
    r"'layer_types' = .* is not supported": ("mistral", {"layer_types": ["full_attention"] * 3}),
    r"'attention_bias' = True is not supported": ("mistral", {"attention_bias": True}),
    r"'attention_bias' = False is not supported": ("qwen2", {"attention_bias": False}),
    r"'max_window_layers' = 2 of 3 layers is not supported": ("qwen3",
        {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2, "layer_types": None}),
    r"'layer_types' contains 'sliding_attention', but 'sliding_window' is missing":
        ("qwen3", {"layer_types": ["sliding_attention"] * 3}),
    r"'layer_types' contains 'chunked_attention', which is not supported":
        ("gemma2", {"layer_types": ["chunked_attention"] * 3}),
    r"'layer_types' must be a list of the types of the 3 layers":
        ("gemma2", {"layer_types": ["full_attention"]}),
    r"'layer_types' is not supported: only every n-th":
        ("gemma2", {"layer_types": ["full_attention", "sliding_attention", "full_attention"]}),
    r"'use_bidirectional_attention' = True is not supported":
        ("gemma2", {"use_bidirectional_attention": True}),
    r"'query_pre_attn_scalar' must be a number above 0": ("gemma2", {"query_pre_attn_scalar": 0}),
    r"'attn_logit_softcapping' must be a number above 0": ("gemma2", {"attn_logit_softcapping": -1}),
    r"'use_cla' = True is not supported": ("hunyuan_v1_dense", {"use_cla": True}),
    r"'use_qk_norm' = False is not supported": ("hunyuan_v1_dense", {"use_qk_norm": False}),
}  # fmt: skip
INVALID_ROTARY_SETTINGS = {
    r"the type 'longrope' is not supported; uwaga supports default, linear, dynamic, llama3, yarn":
        {"rope_type": "longrope"},
    r"contains 'mrope_section', which is not supported": {"rope_type": "default", "mrope_section": [1, 2, 1]},
    r"'partial_rotary_factor' = 0.5 is not supported": {"rope_type": "default", "partial_rotary_factor": 0.5},
    r"'truncate' = False is not supported": {**YARN, "truncate": False},
    r"'alpha' of rotary positions is supported only for hunyuan_v1_dense":
        {"rope_type": "dynamic", "alpha": 3.0},
    r"'factor' must be a number above 0": {"rope_type": "linear"},
    r"'low_freq_factor' must be a number above 0": {**LLAMA3, "low_freq_factor": None},
    r"low_frequency_factor 5.0 must be less than": {**LLAMA3, "low_freq_factor": 5.0},
    r"must be a group of parameters, not 'yarn'": "yarn",
    r"'rope_theta' must be a number above 0": {"rope_theta": float("nan")},
}  # fmt: skip
CASES = INVALID_CONFIGS | {
    message: ("llama", {"rope_parameters": values}) for message, values in INVALID_ROTARY_SETTINGS.items()
}


@pytest.mark.parametrize("message", CASES)
def test_invalid_config_is_rejected(folders, tmp_path, message):
    family, changes = CASES[message]
    shutil.copytree(folders / family, tmp_path / "bad")
    edit_config(tmp_path / "bad", **changes)
    (tmp_path / "bad/generation_config.json").unlink()
    with pytest.raises(ModelError, match=message):
        load_torch(tmp_path / "bad")


def test_overflowing_rotary_alpha_is_rejected(folders, tmp_path):
    shutil.copytree(folders / "hunyuan_v1_dense", tmp_path / "bad")
    edit_config(tmp_path / "bad", rope_parameters={**HUNYUAN, "alpha": 1e300})
    with pytest.raises(ModelError, match=r"'alpha' = .* is too large"):
        load_torch(tmp_path / "bad")


def test_model_with_16_million_rotary_positions_is_loaded(folders, tmp_path):
    shutil.copytree(folders / "llama", tmp_path / "m")
    edit_config(tmp_path / "m", max_position_embeddings=16_000_000)
    assert load_torch(tmp_path / "m").model.max_source == 16_000_000


def sharded_folder(folders, tmp_path):
    """Return a folder whose weights are divided into shards, and the index of the shards."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folders / "llama")
    model.save_pretrained(tmp_path / "m", max_shard_size="20KB")
    return tmp_path / "m", json.loads((tmp_path / "m/model.safetensors.index.json").read_text())


@pytest.mark.parametrize("file", ["../secret.safetensors", "/etc/passwd", "..", "sub/x.safetensors", ""])
def test_shard_outside_the_folder_is_rejected(folders, tmp_path, file):
    path, index = sharded_folder(folders, tmp_path)
    save_file({"model.norm.weight": torch.zeros(36)}, tmp_path / "secret.safetensors")
    index["weight_map"]["model.norm.weight"] = file
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match="not the name of a file in this folder"):
        load_torch(path)


def test_damaged_or_inconsistent_shards_are_rejected(folders, tmp_path):
    path, index = sharded_folder(folders, tmp_path)
    files = sorted(path.glob("model-*.safetensors"))
    content = files[1].read_bytes()
    files[1].unlink()
    with pytest.raises(ModelError, match=f"{files[1].name}: no such file"):
        load_torch(path)
    files[1].write_bytes(content[:-4])
    with pytest.raises(ModelError, match=f"{files[1].name}: damaged or cut short"):
        load_torch(path)
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    name = next(key for key in header if key != "__metadata__")
    header[name]["shape"] = [1 << 40, 1 << 20]
    text = json.dumps(header).encode()
    files[1].write_bytes(len(text).to_bytes(8, "little") + text + content[8 + length :])
    with pytest.raises(ModelError, match=f"{files[1].name}: damaged or cut short"):
        load_torch(path)
    files[1].write_bytes((1 << 62).to_bytes(8, "little") + content[8:])
    with pytest.raises(ModelError, match=f"{files[1].name}: damaged or cut short"):
        load_torch(path)
    files[1].write_bytes(content)
    save_file(load_file(files[0]) | load_file(files[1]), files[1])
    with pytest.raises(ModelError, match=f"is also stored in {files[0].name}"):
        load_torch(path)
    files[1].write_bytes(content)
    index["weight_map"][name] = files[0].name
    (path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match="is missing, but"):
        load_torch(path)
    for text in ("[]", "{}", '{"weight_map": 3}', "{" * 100_000, "\x00"):
        (path / "model.safetensors.index.json").write_text(text)
        with pytest.raises(ModelError, match="not an index of weight files"):
            load_torch(path)
