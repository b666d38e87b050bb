"""GGUF files as written by llama.cpp: blocks, metadata, settings and weights of each architecture."""

import json

import gguf_files
import numpy as np
import pytest
import torch
from command_line import run_uwaga
from decoder_folders import use_exact_frequencies
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from precision import EXACT, to_double
from torch_models import load_torch

import uwaga
from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.formats.gguf.blocks import BLOCK_KINDS, CHUNK_SIZE
from uwaga.checkpoints.formats.gguf.file import read_file
from uwaga.checkpoints.formats.gguf.read import read_gguf, read_settings
from uwaga.errors import ModelError
from uwaga.tokenizers.prompt import choose_prompt


def peer_dequantise(kind, rows):
    with np.errstate(all="ignore"):
        return dequantize(rows, GGMLQuantizationType[kind.name])


def same_bits(left, right):
    """Return True if two arrays have the same bits; all NaNs are equal."""
    numbers = ~np.isnan(left)
    return np.array_equal(numbers, ~np.isnan(right)) and np.array_equal(
        left[numbers].view(np.uint32), right[numbers].view(np.uint32)
    )


@pytest.mark.parametrize("number", BLOCK_KINDS)
@given(data=st.data())
def test_dequantised_blocks_match_the_gguf_package(number, data):
    kind = BLOCK_KINDS[number]
    assert (GGMLQuantizationType(number).name, GGML_QUANT_SIZES[number]) == (
        kind.name,
        (kind.size, kind.layout.itemsize),
    )
    shape = st.tuples(st.integers(1, 3), st.integers(1, 3))
    rows, columns = data.draw(shape)
    content = data.draw(arrays.arrays(np.uint8, (rows, columns * kind.layout.itemsize)))
    actual = kind.dequantise(content)
    assert actual.dtype == np.float32 and actual.shape == (rows, columns * kind.size)
    assert same_bits(actual, peer_dequantise(kind, content))


@pytest.mark.parametrize("number", BLOCK_KINDS)
def test_weights_larger_than_a_chunk_are_dequantised_exactly(number):
    kind = BLOCK_KINDS[number]
    rng = np.random.default_rng(0)
    blocks = CHUNK_SIZE // kind.size // 2 + 7
    content = rng.integers(0, 256, (3, blocks * kind.layout.itemsize), dtype=np.uint8)
    assert same_bits(kind.dequantise(content), peer_dequantise(kind, content))


FORMATS = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]
"""Number formats to which the package ``gguf`` can quantise."""


@pytest.mark.parametrize("form", FORMATS)
def test_weights_in_each_number_format_are_dequantised(tmp_path, form):
    model = gguf_files.peer("qwen2")
    path = gguf_files.write(tmp_path / "m.gguf", "qwen2", model, form)
    weights = read_gguf(path).weights
    stored = model.state_dict()
    for weight_name, names in (
        ("decoder.1.attention.query.weight", ["q_proj.weight"]),
        ("decoder.1.attention.key_value.weight", ["k_proj.weight", "v_proj.weight"]),
        ("decoder.1.attention.key_value.bias", ["k_proj.bias", "v_proj.bias"]),
    ):
        expected = np.concatenate([stored[f"model.layers.1.self_attn.{name}"].numpy() for name in names])
        if form != "F32" and expected.ndim == 2:
            kind = GGMLQuantizationType[form]
            expected = dequantize(gguf_files.quantize(expected, kind), kind)
        assert np.array_equal(weights.read(weight_name), expected)
    assert weights.format("decoder.1.attention.query.weight") == form
    described = formats.describe(path).weights
    assert (described.parameters, described.bytes) == (weights.parameters, path.stat().st_size)
    assert described.formats == tuple(sorted({form, "F32"}))


def assert_rows_equal_full_weights(weights):
    parts = {name: weights.rows(name, 1, 3) for name in weights.names()}
    assert parts["output_weight"] is not None
    for name, part in parts.items():
        assert part is None or same_bits(part, weights.read(name)[1:3])


@pytest.mark.parametrize("case", gguf_files.CASES)
def test_settings_and_weights_of_each_architecture_are_read(tmp_path, case):
    model = gguf_files.peer(case)
    checkpoint = formats.read(gguf_files.write(tmp_path / "m.gguf", case, model))
    config, settings, weights = model.config, checkpoint.settings, checkpoint.weights
    assert (checkpoint.format, checkpoint.family) == ("GGUF", gguf_files.CASES[case][0])
    assert weights.parameters == model.num_parameters()
    stored = {name: weight.numpy() for name, weight in model.state_dict().items()}
    for layer in range(settings.layers):
        stored_prefix, prefix = f"model.layers.{layer}", f"decoder.{layer}"
        for name, stored_name in (
            ("attention.query", "self_attn.q_proj"),
            ("attention.output", "self_attn.o_proj"),
            ("feed_forward.inner", "mlp.gate_proj"),
            ("feed_forward.gate", "mlp.up_proj"),
            ("feed_forward.outer", "mlp.down_proj"),
        ):
            assert np.array_equal(
                weights.read(f"{prefix}.{name}.weight"), stored[f"{stored_prefix}.{stored_name}.weight"]
            )
        keys, values = np.split(weights.read(f"{prefix}.attention.key_value.weight"), 2)
        assert np.array_equal(keys, stored[f"{stored_prefix}.self_attn.k_proj.weight"])
        assert np.array_equal(values, stored[f"{stored_prefix}.self_attn.v_proj.weight"])
        gain = stored[f"{stored_prefix}.input_layernorm.weight"] + (1 if case.startswith("gemma") else 0)
        assert np.array_equal(weights.read(f"{prefix}.attention_norm.weight"), gain)
        window = getattr(config, "sliding_window", None)
        kinds = getattr(config, "layer_types", None) or ["full_attention"] * settings.layers
        if case == "mistral":
            kinds = ["sliding_attention"] * settings.layers
        assert settings.is_local(layer) == (kinds[layer] == "sliding_attention")
        assert settings.window in (None, window)
    assert_rows_equal_full_weights(weights)
    assert settings.tie_output == config.tie_word_embeddings
    assert settings.norm_epsilon == config.rms_norm_eps
    if case.startswith("gemma"):
        assert (settings.score_cap, settings.logit_cap) == (
            config.attn_logit_softcapping,
            config.final_logit_softcapping,
        )


@pytest.mark.numerical
@pytest.mark.parametrize("case", gguf_files.CASES)
def test_logits_match_transformers(tmp_path, case):
    """M37–M41 with weights as written by llama.cpp's converter."""
    peer = gguf_files.peer(case)
    model = load_torch(gguf_files.write(tmp_path / "m.gguf", case, peer)).model
    text = torch.randint(0, len(gguf_files.TOKENS), (2, 40), generator=torch.manual_seed(0))
    use_exact_frequencies(peer)
    with torch.no_grad(), to_double(peer, model):
        torch.testing.assert_close(model.logits(model.read(text)), peer(text).logits, **EXACT)


@pytest.mark.parametrize(("case", "layers", "scale"), [("gemma2", 46, 0.25), ("gemma3", 62, 0.25)])
def test_score_scale_of_the_largest_gemma_models_depends_on_the_width_and_the_heads(
    tmp_path, case, layers, scale
):
    """The model is identified only by its number of layers; its heads are wider than width / heads."""
    model = gguf_files.peer(case)
    empty = np.zeros((1, 1), np.float32)
    path = gguf_files.write(
        tmp_path / "m.gguf", case, model, metadata={f"{gguf_files.CASES[case][0]}.block_count": layers},
        tensors={f"spare.{number}": empty for number in range(layers)},
    )  # fmt: skip
    with pytest.raises(ModelError, match=r"'blk\.\d+\..*missing"):
        read_gguf(path)
    assert read_settings(read_file(path), case).score_scale == scale == (64 / 4) ** -0.5


def test_sliding_window_pattern_determines_global_layers(tmp_path):
    key = "gemma3.attention.sliding_window_pattern"

    def global_every(pattern):
        metadata = {key: pattern}
        return read_gguf(
            gguf_files.write(tmp_path / "m.gguf", "gemma3", metadata=metadata)
        ).settings.global_every

    assert global_every(3) == 3
    assert global_every([True, True, False, True, True, False, True]) == 3
    assert global_every([True] * 7) == 0
    for pattern in ([True, False, False, True, True, True, True], [True, False]):
        with pytest.raises(ModelError, match=key):
            global_every(pattern)


@pytest.mark.parametrize(
    ("case", "metadata", "words"),
    [
        ("llama", {"llama.expert_count": 8}, "'llama.expert_count' = 8 is not supported"),
        ("llama", {"llama.rope.dimension_count": 16},
         "'llama.rope.dimension_count' = 16 differs from the head width"),
        ("llama", {"llama.attention.value_length": 16}, "'llama.attention.value_length' = 16"),
        ("llama", {"llama.rope.scaling.type": "longrope"},
         "'llama.rope.scaling.type' = 'longrope' is not supported"),
        ("llama", {"llama.attention.head_count": 0},
         "'llama.attention.head_count' must be a whole number, 1"),
        ("llama", {"llama.attention.head_count": [4, 4, 2, 4]}, "must be a whole number.* not an array of 4"),
        ("llama", {"llama.context_length": None}, "'llama.context_length' must be .* not missing"),
        ("llama", {"llama.attention.layer_norm_rms_epsilon": float("nan")},
         "must be a number above 0, not nan"),
        ("llama", {"llama.block_count": 1_000_000}, "1000000 layers, but only"),
        ("llama", {"llama.block_count": 3}, "weights 'blk.3.*unknown in this family"),
        ("llama", {"llama.feed_forward_length": 64},
         r"has shape \(96, 64\), but the metadata requires \(64, 64\)"),
        ("llama", {"llama.attention.head_count_kv": 3}, "key_value_heads 3 does not divide heads 4"),
        ("llama", {"split.count": 2, "split.no": 0},
         "part 1 of 2 of a model, but its name does not end in -00001-of-00002.gguf"),
        ("qwen2", {"qwen2.attention.sliding_window": 8},
         "'qwen2.attention.sliding_window' = 8 is not supported"),
        ("llama3", {"llama.rope.freq_base": 1000.0},
         "'rope_freqs.weight' changes the rotary positions differently"),
        ("llama3", {"llama.rope.scaling.factor": 2.0},
         "both 'rope_freqs.weight' and 'llama.rope.scaling.type'"),
    ],
)  # fmt: skip
def test_invalid_or_unsupported_metadata_is_rejected(tmp_path, case, metadata, words):
    path = gguf_files.write(tmp_path / "m.gguf", case, metadata=metadata)
    for read in (formats.read, formats.describe):
        with pytest.raises(ModelError, match=words) as caught:
            read(path)
        assert str(path) in str(caught.value)


def test_split_model_equals_single_file_model(tmp_path):
    model = gguf_files.peer("llama")
    single = read_gguf(gguf_files.write(tmp_path / "whole.gguf", "llama", model, "Q8_0"))
    split = read_gguf(gguf_files.write(tmp_path / "m.gguf", "llama", model, "Q8_0", part=8))
    assert split.settings == single.settings
    for name in single.weights.names():
        assert np.array_equal(split.weights.read(name), single.weights.read(name))
    described = formats.describe(split.path)
    assert not described.problems
    assert described.weights.bytes == sum(path.stat().st_size for path in tmp_path.glob("m-*-of-00005.gguf"))


@pytest.mark.parametrize(
    ("number", "replacement", "words"),
    [
        (3, None,
         "m-00003-of-00005.gguf: the file is missing, but the model of m-00001-of-00005.gguf has 5 parts"),
        (2, ("m", 3), "m-00002-of-00005.gguf: 'split.no' is 2, not 1"),
        (5, ("whole", None), "m-00005-of-00005.gguf: 'split.no' must be .* not missing"),
        (2, ("other", 2), "m-00003-of-00005.gguf: tensor 'blk.1.*' is also in an earlier part"),
        (5, ("other", 5), "m-00001-of-00005.gguf: its 5 parts have 35 tensors, but the first part states 39"),
        (1, ("m", 2),
         "m-00001-of-00005.gguf: this is part 2 of 5 of a model, but its name does not end in -00002-of"),
    ],
)  # fmt: skip
def test_missing_or_inconsistent_parts_of_a_split_model_are_rejected(tmp_path, number, replacement, words):
    first = gguf_files.write(tmp_path / "m.gguf", part=8)
    gguf_files.write(tmp_path / "other.gguf", part=9)
    gguf_files.write(tmp_path / "whole.gguf")
    replaced = tmp_path / f"m-{number:05d}-of-00005.gguf"
    if replacement is None:
        replaced.unlink()
    else:
        name, part = replacement
        replaced.write_bytes(
            (tmp_path / (f"{name}-{part:05d}-of-00005.gguf" if part else f"{name}.gguf")).read_bytes()
        )
    with pytest.raises(ModelError, match=words):
        formats.read(first)


def test_path_of_a_part_other_than_the_first_is_rejected(tmp_path):
    first = gguf_files.write(tmp_path / "m.gguf", part=8)
    with pytest.raises(ModelError, match=f"not the first of the 5 parts of a model; give {first.name}"):
        formats.read(tmp_path / "m-00004-of-00005.gguf")


def test_unknown_architecture_is_rejected(tmp_path):
    path = gguf_files.write(tmp_path / "m.gguf")
    path.write_bytes(path.read_bytes().replace(b"llama", b"mamba", 1))
    with pytest.raises(
        ModelError, match="the architecture 'mamba' is not supported; uwaga supports llama, qwen2"
    ):
        formats.read(path)


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"token_embd.weight": None}, "no matrix 'token_embd.weight'"),
        ({"blk.0.ffn_up.weight": None}, "'blk.0.ffn_up.weight': missing, but required by the metadata"),
        ({"blk.0.ffn_up.bias": np.zeros(96, np.float32)}, "'blk.0.ffn_up.bias': unknown in this family"),
        ({"blk.0.ffn_up.weight": np.zeros((96, 32), np.float32)}, r"shape \(96, 32\).* requires \(96, 64\)"),
        ({"rope_freqs.weight": np.full(16, np.nan, np.float32)}, "'rope_freqs.weight' changes"),
        ({"rope_freqs.weight": np.ones((4, 4), np.float32)}, "'rope_freqs.weight' changes"),
    ],
)
def test_inconsistent_tensors_are_rejected(tmp_path, tensors, words):
    with pytest.raises(ModelError, match=words):
        read_gguf(gguf_files.write(tmp_path / "m.gguf", tensors=tensors))


def test_info_command_shows_gguf_metadata(tmp_path):
    metadata = {
        "general.license": "apache-2.0",
        "general.languages": ["en", "no"],
        "general.name": 'A "model"',
    }
    path = gguf_files.write(tmp_path / "m.gguf", "gemma3", form="Q8_0", metadata=metadata)
    document = json.loads(run_uwaga("info", path, "--json").stdout)
    assert (document["format"], document["family"], document["licence"]) == ("GGUF", "gemma3", "apache-2.0")
    assert document["weights"]["formats"] == ["F32", "Q8_0"] and document["sizes"]["window"] == 8
    assert document["languages"]["source"] == ["en", "no"]


def test_chat_template_is_read_from_metadata(tmp_path):
    text = "{{ bos_token }}{% for one in messages %}{{ one.content }}{{ eos_token }}{% endfor %}"
    metadata = {"tokenizer.chat_template": text, "general.name": "Hunyuan-MT-7B"}
    chat = formats.read(gguf_files.write(tmp_path / "m.gguf", metadata=metadata)).chat
    assert chat.render([{"role": "user", "content": "ab"}]) == "<s>ab</s>"
    assert chat.family == choose_prompt(["Hunyuan-MT-7B"]).name != choose_prompt(["llama"]).name
    assert formats.read(gguf_files.write(tmp_path / "m.gguf")).chat is None
    with pytest.raises(ModelError, match=r"'tokenizer\.chat_template' must be a string, not 7"):
        formats.read(gguf_files.write(tmp_path / "m.gguf", metadata={"tokenizer.chat_template": 7}))


PROMPTS = ["abcd the", "ab", "the cat"]


@pytest.mark.sampled(3)
@pytest.mark.numerical
@pytest.mark.parametrize("case", gguf_files.CASES)
def test_native_engine_continuations_match_torch(tmp_path, case):
    path = gguf_files.write(tmp_path / "m.gguf", case)
    native, torched = (
        uwaga.TextGenerator.load(path, engine=engine, device="cpu", dtype="float32").generate(
            PROMPTS, max_length=12, min_length=12
        )
        for engine in ("native", "torch")
    )
    for actual, expected in zip(native, torched, strict=True):
        assert actual.tokens == expected.tokens
        np.testing.assert_allclose(actual.token_scores, expected.token_scores, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("form", "precision"),
    [("F32", "float32"), ("Q8_0", "int8"), ("Q5_1", "int8"), ("Q4_0", "int4"), ("Q4_1", "int4")],
)
def test_quantised_files_are_loaded_in_the_matching_precision(tmp_path, form, precision):
    path = gguf_files.write(tmp_path / "m.gguf", "llama", form=form)
    loaded = uwaga.TextGenerator.load(path, device="cpu")
    assert loaded.decoder.precision == precision
    stated = uwaga.TextGenerator.load(path, device="cpu", dtype=precision)
    assert loaded.generate(PROMPTS, max_length=8) == stated.generate(PROMPTS, max_length=8)
    exact = uwaga.TextGenerator.load(path, device="cpu", dtype="float32")
    assert exact.decoder.precision == "float32"


@pytest.mark.parametrize("tokens", ["sentencepiece", "byte-level"])
def test_gguf_files_are_converted_to_int8(tmp_path, tokens):
    """The folder equals the file loaded in int8, for both kinds of tokenisers."""
    byte_level, tensors = tokens == "byte-level", {}
    tokeniser = gguf_files.byte_level_metadata() if byte_level else gguf_files.sentencepiece_metadata()
    tokeniser |= {"tokenizer.ggml.eot_token_id": 9}
    if byte_level:
        size = len(tokeniser["tokenizer.ggml.tokens"])
        rng = np.random.default_rng(0)
        tensors = {
            name: rng.normal(size=(size, 64)).astype(np.float32)
            for name in ("token_embd.weight", "output.weight")
        }
    path = gguf_files.write(tmp_path / "m.gguf", "llama", form="Q8_0", tensors=tensors, tokeniser=tokeniser)
    run_uwaga("convert", "--int8", path, tmp_path / "int8")
    assert (tmp_path / "int8" / ("tokenizer.json" if byte_level else "source.spm")).is_file()
    folder = uwaga.TextGenerator.load(tmp_path / "int8")
    assert folder.decoder.symbols.ends == folder.tokeniser.symbols.ends == (2 - 2 * byte_level, 9)
    rounded = uwaga.TextGenerator.load(path, dtype="int8")
    assert folder.generate(PROMPTS, max_length=12) == rounded.generate(PROMPTS, max_length=12)
    generated = run_uwaga("generate", path, "abcd", "--max-length", "5", "--dtype", "int8")
    assert generated.stdout.rstrip("\n") == rounded.generate("abcd", max_length=5).full_text.rstrip("\n")
