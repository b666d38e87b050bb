"""GGUF files of small random models, written by llama.cpp's Python package `gguf`."""

import numpy as np
import torch
import transformers
from gguf import MODEL_ARCH, MODEL_ARCH_NAMES, GGMLQuantizationType, GGUFWriter, get_tensor_name_map, quantize
from tokenizers import pre_tokenizers

WORDS = ("▁", "a", "b", "c", "d", "e", "▁a", "ab", "cd", "▁ab", "abcd", "▁abcd", "▁the", "t", "h", "▁t", "he")
TOKENS = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *WORDS]
TYPES = [2, 3, 3, *[6] * 256, *[1] * len(WORDS)]
"""Types of the tokens in ``TOKENS``: unknown, control, byte or normal."""

SIZES = {
    "vocab_size": len(TOKENS), "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "max_position_embeddings": 128,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2,
}  # fmt: skip
GEMMA = {"tie_word_embeddings": True, "query_pre_attn_scalar": 32, "sliding_window": 8}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 |= {"original_max_position_embeddings": 8192, "rope_type": "llama3", "rope_theta": 500_000.0}
YARN = {"rope_type": "yarn", "rope_theta": 10_000.0, "factor": 4.0, "original_max_position_embeddings": 32}
GEMMA3_ROPE = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1_000_000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
}
CASES = {
    "llama": ("llama", transformers.LlamaConfig, {}),
    "llama-tied": ("llama", transformers.LlamaConfig, {"tie_word_embeddings": True, "attention_bias": True}),
    "llama3": ("llama", transformers.LlamaConfig, {"rope_parameters": LLAMA3}),
    "mistral": ("llama", transformers.MistralConfig, {"sliding_window": 8}),
    "qwen2": ("qwen2", transformers.Qwen2Config, {"num_attention_heads": 2, "use_sliding_window": False}),
    "qwen2-yarn": ("qwen2", transformers.Qwen2Config, {"num_attention_heads": 2, "rope_parameters": YARN}),
    "qwen3": ("qwen3", transformers.Qwen3Config, {}),
    "gemma2": ("gemma2", transformers.Gemma2Config,
        {**GEMMA, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 3.0}),
    "gemma3": ("gemma3", transformers.Gemma3TextConfig,
        {**GEMMA, "num_hidden_layers": 7, "rope_parameters": GEMMA3_ROPE}),
    "hunyuan": ("hunyuan-dense", transformers.HunYuanDenseV1Config, {}),
}  # fmt: skip
"""Architecture, configuration class of transformers and changed settings of each case, by name."""


def peer(case, seed=0):
    """Return a random model of ``transformers`` for a case."""
    _, kind, changes = CASES[case]
    config = kind(**{**SIZES, **changes})
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name and name.endswith("weight"):
                # Multiples of 1/4096: Gemma's gains and the 1 that is added to them have an exact sum.
                gain = torch.randint(2048, 6144, weight.shape) / 4096
                weight.copy_(gain - 1 if case.startswith("gemma") else gain)
            else:
                weight.normal_(0.0, 0.2)
    return model


def write(path, case="llama", model=None, form="F32", metadata=None, tensors=None, tokeniser=None, part=0):
    """Write a model of ``transformers`` like llama.cpp's converter.

    Args:
        path: the file.
        case: of :data:`CASES`.
        model: from :func:`peer`.
        form: number format of the matrices.
        metadata: values by key that replace or extend the others; None removes a key.
        tensors: arrays by name, likewise.
        tokeniser: metadata of the tokeniser; those of :data:`TOKENS` if not given.
        part: maximum number of tensors of a part; 0 for one file. The path of the first part is returned.
    """
    architecture = CASES[case][0]
    model = model or peer(case)
    values = (
        _metadata(architecture, model.config) | (tokeniser or sentencepiece_metadata()) | (metadata or {})
    )
    arrays = _tensors(case, architecture, model) | (tensors or {})
    writer = GGUFWriter(str(path), architecture, split_max_tensors=part)
    for key, value in values.items():
        if value is not None:
            _add(writer, key, value)
    for name, array in arrays.items():
        if array is None:
            continue
        if form != "F32" and array.ndim == 2:
            kind = GGMLQuantizationType[form]
            writer.add_tensor(name, quantize(array, kind), raw_dtype=kind)
        else:
            writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    parts = len(writer.tensors)
    writer.close()
    return path.with_name(f"{path.stem}-00001-of-{parts:05d}.gguf") if parts > 1 else path


def sentencepiece_metadata():
    """Return the metadata of a SentencePiece vocabulary."""
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.scores": np.array([-float(number) for number in range(len(TOKENS))], np.float32),
        "tokenizer.ggml.token_type": np.array(TYPES, np.int32),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.padding_token_id": 2,
        "tokenizer.ggml.add_bos_token": True,
    }


def byte_level_metadata():
    """Return the metadata of a small byte-level vocabulary."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = ["a b", "c d", "ab cd", "\u0120 t", "h e", "\u0120t he"]
    tokens = ["<|end|>", "<|begin|>", *alphabet, *(merge.replace(" ", "") for merge in merges)]
    return {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3, 3, *[1] * (len(tokens) - 2)], "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.eos_token_id": 0, "tokenizer.ggml.bos_token_id": 1,
    }  # fmt: skip


def _add(writer, key, value):
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, list(value) if not isinstance(value, np.ndarray) else value.tolist())


def _metadata(architecture, config):
    rope = config.rope_parameters
    global_rope = rope.get("full_attention", rope)
    values = {
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": config.hidden_size,
        "feed_forward_length": config.intermediate_size,
        "attention.head_count": config.num_attention_heads,
        "attention.head_count_kv": config.num_key_value_heads,
        "attention.key_length": getattr(config, "head_dim", None)
        or config.hidden_size // config.num_attention_heads,
        "attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        "rope.freq_base": float(global_rope["rope_theta"]),
        "attn_logit_softcapping": getattr(config, "attn_logit_softcapping", None),
        "final_logit_softcapping": getattr(config, "final_logit_softcapping", None),
    }
    if config.model_type == "mistral" or architecture.startswith("gemma"):
        values["attention.sliding_window"] = config.sliding_window
    if global_rope["rope_type"] in ("linear", "yarn"):
        values |= {
            "rope.scaling.type": global_rope["rope_type"],
            "rope.scaling.factor": float(global_rope["factor"]),
        }
    if global_rope["rope_type"] == "yarn":
        values["rope.scaling.original_context_length"] = global_rope["original_max_position_embeddings"]
    return {f"{architecture}.{key}": value for key, value in values.items()}


def _tensors(case, architecture, model):
    config = model.config
    number = next(identifier for identifier, name in MODEL_ARCH_NAMES.items() if name == architecture)
    names = get_tensor_name_map(MODEL_ARCH(number), config.num_hidden_layers)
    arrays = {}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        array = tensor.numpy()
        if architecture == "llama" and (".q_proj" in name or ".k_proj" in name):
            heads = config.num_attention_heads if ".q_proj" in name else config.num_key_value_heads
            array = array.reshape(heads, 2, -1, *array.shape[1:]).swapaxes(1, 2).reshape(array.shape)
        if architecture.startswith("gemma") and name.endswith("norm.weight"):
            array = array + 1
        arrays[names.get_name(name, (".weight", ".bias")) or name] = np.ascontiguousarray(array)
    if case == "llama3":
        arrays["rope_freqs.weight"] = _llama3_divisors(config)
    return arrays


def _llama3_divisors(config):
    """Return the factors that llama.cpp's converter stores for Llama 3's scaling."""
    rope, width = config.rope_parameters, config.head_dim
    turns = 1.0 / rope["rope_theta"] ** (np.arange(0, width, 2) / width)
    length = rope["original_max_position_embeddings"]
    low = rope["low_freq_factor"]
    high = rope["high_freq_factor"]
    divisors = []
    for wave in 2 * np.pi / turns:
        if wave < length / high:
            divisors.append(1.0)
        elif wave > length / low:
            divisors.append(rope["factor"])
        else:
            smooth = (length / wave - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(divisors, np.float32)
