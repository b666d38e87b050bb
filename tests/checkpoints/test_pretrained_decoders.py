"""Folders of today's decoders: the numbers and tokens of ``transformers``; bad folders are refused."""

import json
import shutil
from dataclasses import replace

import numbered_tokens
import numpy as np
import pytest
import torch
from decoder_folders import (
    END,
    HUNYUAN,
    LLAMA3,
    PROMPTS,
    SIZE,
    VERSIONS,
    YARN,
    exact_angles,
    make,
)
from loaded import edit, load_torch
from precision import EXACT, doubled
from safetensors.torch import load_file, save_file

from uwaga.checkpoints.formats.huggingface import llama
from uwaga.checkpoints.registry import describe, read
from uwaga.checkpoints.to_engine import to_engine
from uwaga.decoder import Choice
from uwaga.errors import ModelError
from uwaga.search import search

transformers = pytest.importorskip("transformers")
EVERY = pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)


@pytest.fixture(autouse=True)
def numbers(monkeypatch):
    def tokeniser(folder, ids, ends, declared):
        return numbered_tokens.read_numbers(folder, replace(ids, end=ends[0])).source

    monkeypatch.setattr(llama, "read_decoder_tokeniser", tokeniser)


@pytest.mark.numerical
@EVERY
def test_M37_M41_outputs_equal_transformers(tmp_path, version):
    theirs = make(tmp_path / "m", version)
    ours, engine = load_torch(tmp_path / "m"), to_engine(read(tmp_path / "m"))
    text = torch.randint(3, SIZE, (3, 50), generator=torch.manual_seed(0))
    double = doubled(theirs, ours.model)
    exact_angles(theirs)
    with torch.no_grad(), double:
        torch.testing.assert_close(ours.model.logits(ours.model.read(text)), theirs(text).logits, **EXACT)
        for prompt, [found] in zip(PROMPTS, search(ours.model, PROMPTS, ours.options), strict=True):
            row = theirs.generate(input_ids=torch.tensor([prompt]))[0, len(prompt) :].tolist()
            assert (*found.tokens, *([] if found.truncated else [END])) == tuple(row)
        wanted = torch.log_softmax(theirs(text).logits, -1).numpy()
    state = engine.start(engine.encode(text[:, :40].tolist()), 1)
    fed = np.full(3, engine.symbols.start)
    for at in range(39, 50):
        step = engine.step(fed, state, Choice(1, all_tokens=True))
        np.testing.assert_allclose(step.log_probs, wanted[:, at], atol=1e-4 * np.ptp(wanted), rtol=0)
        state, fed = step.state, text[:, at + 1].numpy() if at < 49 else fed


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder of each family."""
    place = tmp_path_factory.mktemp("decoders")
    made = {version.family: version for version in VERSIONS}
    for family, version in made.items():
        make(place / family, version)
    return place


def same_settings(place, family, folders):
    """Read both folders and compare all that was read."""
    ours, first = load_torch(place), load_torch(folders / family)
    assert ours.checkpoint.settings == first.checkpoint.settings
    wanted = first.model.state_dict()
    assert all(torch.equal(wanted[name], weight) for name, weight in ours.model.state_dict().items())


@pytest.mark.parametrize("family", ["llama", "qwen2", "gemma3_text", "hunyuan_v1_dense"])
def test_configurations_of_transformers_4_are_read(tmp_path, folders, family):
    """There, ``rope_theta`` and ``rope_scaling`` state the positions, and layers have no list of types."""
    place = tmp_path / "m"
    shutil.copytree(folders / family, place)
    path = place / "config.json"
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
    same_settings(place, family, folders)


def test_gemma3_with_images_gives_its_language_model(tmp_path, folders):
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
        place = tmp_path / name
        shutil.copytree(tmp_path / "new", place)
        values = {
            key.replace("model.language_model.", name).replace("language_model.model.", name): value
            for key, value in load_file(place / "model.safetensors").items()
        }
        save_file(values, place / "model.safetensors")
        same_settings(place, "gemma3_text", folders)
    save_file({"vision_tower.x": torch.zeros(3)}, place / "model.safetensors")
    with pytest.raises(ModelError, match=r"missing|no weights of a language model|only 1 weights"):
        load_torch(place)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_of_16_bits_and_in_shards_are_read(tmp_path, folders, dtype):
    model = transformers.AutoModelForCausalLM.from_pretrained(folders / "gemma2", dtype=dtype)
    model.save_pretrained(tmp_path / "m", max_shard_size="10KB")
    assert len(list((tmp_path / "m").glob("model-*.safetensors"))) > 3
    ours = load_torch(tmp_path / "m").model.state_dict()
    found = model.state_dict()
    for name, theirs, offset in (
        ("embedding.weight", "model.embed_tokens.weight", 0.0),
        ("decoder.1.feed_forward.inner.weight", "model.layers.1.mlp.gate_proj.weight", 0.0),
        ("decoder_norm.weight", "model.norm.weight", 1.0),
    ):
        assert torch.equal(ours[name], found[theirs].float() + offset)


def test_a_recommended_repetition_penalty_is_left_out_and_shown(folders, tmp_path):
    shutil.copytree(folders / "qwen2", tmp_path / "m")
    stated = {"repetition_penalty": 1.05, "max_new_tokens": 9, "do_sample": True, "eos_token_id": [2, 7]}
    (tmp_path / "m/generation_config.json").write_text(json.dumps(stated))
    found = describe(tmp_path / "m")
    assert found.sizes["repetition penalty"] == "1.05, not applied"
    assert load_torch(tmp_path / "m").options.sample
    assert "repetition penalty" not in describe(folders / "qwen2").sizes


def test_several_end_tokens_end_texts_as_in_transformers(monkeypatch, folders, tmp_path):
    def tokeniser(folder, ids, ends, declared):
        made = numbered_tokens.read_numbers(folder, replace(ids, end=ends[0])).source
        return replace(made, symbols=replace(made.symbols, other_ends=tuple(ends[1:])))

    shutil.copytree(folders / "llama", tmp_path / "m")
    monkeypatch.setattr(llama, "read_decoder_tokeniser", tokeniser)
    ends = [END, *range(5, SIZE, 6)]
    stated = {"eos_token_id": ends, "max_new_tokens": 12, "num_beams": 2, "pad_token_id": 0}
    (tmp_path / "m/generation_config.json").write_text(json.dumps(stated))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "m")
    ours, engine = load_torch(tmp_path / "m"), to_engine(read(tmp_path / "m"))
    assert ours.checkpoint.symbols.ends == tuple(ends)
    seen = []
    for prompt in PROMPTS:
        with torch.no_grad():
            row = theirs.generate(input_ids=torch.tensor([prompt]))[0, len(prompt) :].tolist()
        ended = row[-1] in ends
        seen.append(ended)
        for model in (ours.model, engine):
            [[found]] = search(model, [prompt], ours.options)
            assert (list(found.tokens), found.truncated) == (row[:-1] if ended else row, not ended)
    assert any(seen)


def test_described_without_its_weights(folders, tmp_path):
    found = describe(folders / "gemma3_text")
    assert found.family == "gemma3_text"
    assert (found.sizes["window"], found.sizes["global every"], found.sizes["key value heads"]) == (4, 3, 2)
    assert found.sizes["rotary base"] == 7000.0
    assert found.sizes["local rotary scaling"] == "none"
    shutil.copytree(folders / "llama", tmp_path / "m")
    (tmp_path / "m/model.safetensors").write_bytes(b"x")
    assert "damaged" in " ".join(describe(tmp_path / "m").problems)


BAD = {
    r"the family 'llama4' is unknown; uwaga runs .*llama.*qwen3": ("llama", {"model_type": "llama4"}),
    r"'hidden_size' must be a whole number": ("llama", {"hidden_size": -36}),
    r"'num_hidden_layers' must be a whole number": ("llama", {"num_hidden_layers": 0}),
    r"2000000000 layers, but only": ("llama", {"num_hidden_layers": 2_000_000_000}),
    r"the feed-forward \(2000000000\) at width 36": ("llama", {"intermediate_size": 2_000_000_000}),
    r"the heads": ("llama", {"head_dim": 2_000_000_000}),
    r"the vocabulary": ("llama", {"vocab_size": 2_000_000_000}),
    r"key_value_heads 4 does not divide heads 6": ("llama", {"num_key_value_heads": 4}),
    r"even head width": ("llama", {"head_dim": 7}),
    r"self_attn\.k_proj\.weight' has shape \(16, 36\)": ("llama", {"num_key_value_heads": 3}),
    r"layers\.3\..*missing": ("llama", {"num_hidden_layers": 4}),
    r"layers\.2\..*unknown": ("llama", {"num_hidden_layers": 2}),
    r"bias'.*missing": ("llama", {"attention_bias": True}),
    r"eos_token_id is 41, but the vocabulary has 41": ("llama", {"eos_token_id": [2, 41]}),
    r"'eos_token_id' must be token ids": ("llama", {"eos_token_id": ["</s>"]}),
    r"'hidden_act' = 'tanh' is not supported": ("llama", {"hidden_act": "tanh"}),
    r"'quantization_config' = .* is not supported": ("llama", {"quantization_config": {"bits": 4}}),
    r"'layer_types' = .* is not supported": ("mistral", {"layer_types": ["full_attention"] * 3}),
    r"'attention_bias' = True is not supported": ("mistral", {"attention_bias": True}),
    r"'attention_bias' = False is not supported": ("qwen2", {"attention_bias": False}),
    r"'max_window_layers' = 2 of 3 layers is not supported": (
        "qwen3",
        {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2, "layer_types": None},
    ),
    r"'layer_types' has 'sliding_attention', but there is no sliding window": (
        "qwen3",
        {"layer_types": ["sliding_attention"] * 3},
    ),
    r"'layer_types': 'chunked_attention' is unknown": ("gemma2", {"layer_types": ["chunked_attention"] * 3}),
    r"'layer_types' must name the type of each of the 3 layers": (
        "gemma2",
        {"layer_types": ["full_attention"]},
    ),
    r"'layer_types' is not one of regular distances": (
        "gemma2",
        {"layer_types": ["full_attention", "sliding_attention", "full_attention"]},
    ),
    r"'use_bidirectional_attention' = True is not supported": (
        "gemma2",
        {"use_bidirectional_attention": True},
    ),
    r"'query_pre_attn_scalar' must be a number above 0": ("gemma2", {"query_pre_attn_scalar": 0}),
    r"'attn_logit_softcapping' must be a number above 0": ("gemma2", {"attn_logit_softcapping": -1}),
    r"'use_cla' = True is not supported": ("hunyuan_v1_dense", {"use_cla": True}),
    r"'use_qk_norm' = False is not supported": ("hunyuan_v1_dense", {"use_qk_norm": False}),
}
POSITIONS = {
    r"the type 'longrope' is unknown; uwaga has default, linear, dynamic, llama3, yarn": {
        "rope_type": "longrope"
    },
    r"'mrope_section' is unknown to uwaga": {"rope_type": "default", "mrope_section": [1, 2, 1]},
    r"'partial_rotary_factor' = 0.5 is not supported": {"rope_type": "default", "partial_rotary_factor": 0.5},
    r"'truncate' = False is not supported": {**YARN, "truncate": False},
    r"'alpha' of rotary positions is known of hunyuan_v1_dense only": {"rope_type": "dynamic", "alpha": 3.0},
    r"'factor' must be a number above 0": {"rope_type": "linear"},
    r"'low_freq_factor' must be a number above 0": {**LLAMA3, "low_freq_factor": None},
    r"low_frequency_factor 5.0 must be less than": {**LLAMA3, "low_freq_factor": 5.0},
    r"must be a group of parameters, not 'yarn'": "yarn",
    r"'rope_theta' must be a number above 0": {"rope_theta": float("nan")},
}
CASES = BAD | {message: ("llama", {"rope_parameters": values}) for message, values in POSITIONS.items()}


@pytest.mark.parametrize("message", CASES)
def test_bad_configurations_are_refused(folders, tmp_path, message):
    family, changes = CASES[message]
    shutil.copytree(folders / family, tmp_path / "bad")
    edit(tmp_path / "bad", **changes)
    (tmp_path / "bad/generation_config.json").unlink()
    with pytest.raises(ModelError, match=message):
        load_torch(tmp_path / "bad")


def test_huge_alphas_are_refused(folders, tmp_path):
    shutil.copytree(folders / "hunyuan_v1_dense", tmp_path / "bad")
    edit(tmp_path / "bad", rope_parameters={**HUNYUAN, "alpha": 1e300})
    with pytest.raises(ModelError, match=r"'alpha' = .* is too large"):
        load_torch(tmp_path / "bad")


def test_many_positions_take_no_memory(folders, tmp_path):
    shutil.copytree(folders / "llama", tmp_path / "m")
    edit(tmp_path / "m", max_position_embeddings=2_000_000_000)
    assert load_torch(tmp_path / "m").model.max_source == 2_000_000_000


def sharded(folders, tmp_path):
    """A folder with shards, and its index."""
    model = transformers.AutoModelForCausalLM.from_pretrained(folders / "llama")
    model.save_pretrained(tmp_path / "m", max_shard_size="20KB")
    return tmp_path / "m", json.loads((tmp_path / "m/model.safetensors.index.json").read_text())


@pytest.mark.parametrize("file", ["../secret.safetensors", "/etc/passwd", "..", "sub/x.safetensors", ""])
def test_shards_outside_the_folder_are_refused(folders, tmp_path, file):
    place, index = sharded(folders, tmp_path)
    save_file({"model.norm.weight": torch.zeros(36)}, tmp_path / "secret.safetensors")
    index["weight_map"]["model.norm.weight"] = file
    (place / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match="not a file of this folder"):
        load_torch(place)


def test_damaged_shards_are_refused(folders, tmp_path):
    place, index = sharded(folders, tmp_path)
    files = sorted(place.glob("model-*.safetensors"))
    whole = files[1].read_bytes()
    files[1].unlink()
    with pytest.raises(ModelError, match=f"{files[1].name}: no such file"):
        load_torch(place)
    files[1].write_bytes(whole[:-4])
    with pytest.raises(ModelError, match=f"{files[1].name}: damaged or cut short"):
        load_torch(place)
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    name = next(key for key in header if key != "__metadata__")
    header[name]["shape"] = [1 << 40, 1 << 20]
    text = json.dumps(header).encode()
    files[1].write_bytes(len(text).to_bytes(8, "little") + text + whole[8 + length :])
    with pytest.raises(ModelError, match=f"{files[1].name}: damaged or cut short"):
        load_torch(place)
    files[1].write_bytes((1 << 62).to_bytes(8, "little") + whole[8:])
    with pytest.raises(ModelError, match=f"{files[1].name}: damaged or cut short"):
        load_torch(place)
    files[1].write_bytes(whole)
    save_file(load_file(files[0]) | load_file(files[1]), files[1])
    with pytest.raises(ModelError, match=f"is stored in {files[0].name}, too"):
        load_torch(place)
    files[1].write_bytes(whole)
    index["weight_map"][name] = files[0].name
    (place / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(ModelError, match="is missing, although"):
        load_torch(place)
    for text in ("[]", "{}", '{"weight_map": 3}', "{" * 100_000, "\x00"):
        (place / "model.safetensors.index.json").write_text(text)
        with pytest.raises(ModelError, match="not an index of weight files"):
            load_torch(place)
