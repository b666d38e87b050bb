"""Folders of random decoder-only models of current families, saved by ``transformers``."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from precision import DoublePrecision

transformers = pytest.importorskip("transformers")

VOCABULARY_SIZE, BOS, EOS = 41, 1, 2
SIZES = {
    "vocab_size": VOCABULARY_SIZE, "hidden_size": 36, "intermediate_size": 50, "num_hidden_layers": 3,
    "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 60,
    "bos_token_id": BOS, "eos_token_id": EOS, "pad_token_id": EOS,
}  # fmt: skip
PROMPTS = [[1, 5], [1, 3, 3, 4, 35, 12, 14, 18, 6, 8, 28]]
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 5000.0, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 24,
}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 900.0, "factor": 4.0, "original_max_position_embeddings": 15}
HUNYUAN = {"rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 50.0, "factor": 1.0}


@dataclass(frozen=True)
class Variant:
    """A variant of a model family: its name, its ``model_type``, and changes of :data:`SIZES`."""

    name: str
    family: str
    changes: dict[str, Any] = field(default_factory=dict)


VARIANTS = [
    Variant("llama", "llama"),
    Variant(
        "llama, tied, biases",
        "llama",
        {"tie_word_embeddings": True, "attention_bias": True, "mlp_bias": True},
    ),
    Variant("llama, no head width", "llama", {"head_dim": None, "num_key_value_heads": None}),
    Variant("llama 3", "llama", {"rope_parameters": LLAMA3, "num_key_value_heads": 1}),
    Variant("llama, linear", "llama", {"rope_parameters": {"rope_type": "linear", "factor": 2.5}}),
    Variant("llama, dynamic", "llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.5}}),
    Variant("mistral", "mistral", {"sliding_window": 5}),
    Variant("mistral, no window", "mistral", {"sliding_window": None}),
    Variant("qwen2", "qwen2", {"tie_word_embeddings": True}),
    Variant(
        "qwen2, window", "qwen2", {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0}
    ),
    Variant("qwen2, yarn", "qwen2", {"rope_parameters": YARN}),
    Variant(
        "qwen2, yarn, scaled", "qwen2", {"rope_parameters": {**YARN, "mscale": 1.5, "mscale_all_dim": 0.7}}
    ),
    Variant("qwen3", "qwen3"),
    Variant("qwen3, biases", "qwen3", {"attention_bias": True, "rope_parameters": {"rope_theta": 1e6}}),
    Variant("gemma2", "gemma2", {"sliding_window": 4, "query_pre_attn_scalar": 13}),
    Variant("gemma2, no caps", "gemma2", {"final_logit_softcapping": None, "attn_logit_softcapping": None}),
    Variant("gemma3", "gemma3_text", {"sliding_window": 4, "num_hidden_layers": 7}),
    Variant(
        "gemma3, layers",
        "gemma3_text",
        {
            "sliding_window": 4,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 7000.0, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
            },
        },
    ),
    Variant("hunyuan", "hunyuan_v1_dense", {"rope_parameters": HUNYUAN, "tie_word_embeddings": True}),
    Variant("hunyuan, plain", "hunyuan_v1_dense", {"attention_bias": True}),
]


def make(folder: Path, variant: Variant, seed: int = 1, **changes: Any) -> Any:
    """Save a random model of unusual sizes with ``transformers``, and return it."""
    torch.manual_seed(seed)
    config = transformers.AutoConfig.for_model(variant.family, **SIZES | variant.changes | changes)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    randomise_weights(model)
    model.generation_config.update(max_new_tokens=7, bad_words_ids=[[BOS]])
    model.save_pretrained(folder)
    return model


def randomise_weights(model: Any) -> None:
    """Replace a model's weights by random ones, so different that mistakes change the output.

    Gains are multiples of 1/4096, so that 1 + gain is exact in float32.
    """
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "norm" in name and name.endswith("weight"):
                weight.copy_(
                    torch.randint(2048, 6144, weight.shape) / 4096 - int("emma" in type(model).__name__)
                )
            else:
                weight.normal_(0.0, 0.4)


def use_exact_frequencies(model: Any) -> None:
    """Recompute the rotary frequencies of a model in float64; checkpoints do not contain them."""
    with DoublePrecision():
        for module in model.modules():
            if hasattr(module, "inv_freq") or hasattr(module, "full_attention_inv_freq"):
                fresh = type(module)(module.config)
                module._buffers.update(fresh._buffers)
                module.__dict__.update(
                    {name: value for name, value in vars(fresh).items() if name.endswith("attention_scaling")}
                )
