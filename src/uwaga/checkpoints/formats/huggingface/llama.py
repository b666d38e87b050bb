"""Llama and the similar decoder-only families Mistral, Qwen, Gemma and Hunyuan.

The weights of all families have the same names. A :class:`Family` contains the defaults of keys that a
folder may omit and the properties of the family. All other settings are read from ``config.json``; a setting
of an unsupported feature raises an error that names its key.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from uwaga.checkpoints.formats.huggingface.folder import (
    GENERATION,
    ConfigReader,
    FamilyModel,
    HuggingFaceFolder,
)
from uwaga.checkpoints.formats.huggingface.rope import (
    GLOBAL,
    LENGTH_KEY,
    LOCAL,
    read_layered_rotary,
    read_rotary,
)
from uwaga.checkpoints.storage.json_file import read_optional
from uwaga.checkpoints.storage.tensors import OffsetTensor, StoredTensor
from uwaga.checkpoints.weight_map import Table, View
from uwaga.errors import ModelError, quoted
from uwaga.settings import DecoderOnlySettings
from uwaga.tokenizers.decoder_families import read_decoder_tokeniser
from uwaga.tokenizers.pretrained import TokenIds, TokeniserPair

MAX_NEW_TOKENS = 256
"""Default maximum number of new tokens."""
PREFIX, HEAD, EMBEDDING = "model.", "lm_head.weight", "embed_tokens.weight"
UNUSED_FREQUENCIES = "rotary_emb.inv_freq"
"""Name of a buffer in older checkpoints: the frequencies of rotary positions, which are computed instead."""

LAYER_MATRICES = (
    ("attention.query", ("self_attn.q_proj",)),
    ("attention.key_value", ("self_attn.k_proj", "self_attn.v_proj")),
    ("attention.output", ("self_attn.o_proj",)),
    ("feed_forward.inner", ("mlp.gate_proj",)),
    ("feed_forward.gate", ("mlp.up_proj",)),
    ("feed_forward.outer", ("mlp.down_proj",)),
)
"""Names of a layer's matrices in uwaga and in files; in files, ``gate`` is the branch with the activation."""
LAYER_NORMS = {
    "pre": (("attention_norm", "input_layernorm"), ("feed_forward_norm", "post_attention_layernorm")),
    "both": (
        ("attention_norm", "input_layernorm"),
        ("attention_after_norm", "post_attention_layernorm"),
        ("feed_forward_norm", "pre_feedforward_layernorm"),
        ("feed_forward_after_norm", "post_feedforward_layernorm"),
    ),
}
"""Names of a layer's norms in uwaga and in files, by the setting ``norm``."""


@dataclass(frozen=True)
class Family:
    """A family of decoders.

    Attributes:
        defaults: defaults of ``transformers`` for keys that ``config.json`` may omit.
        unsupported: keys of unsupported features, with the values that disable them.
        attention_bias: True if queries, keys and values have biases; None if ``config.json`` states it.
        output_projection_bias: True if the attention's output projection has a bias; None if it has one
            whenever the queries have one.
        query_key_norm: ``before`` or ``after`` if queries and keys are normalised before or after the
            rotation, otherwise ``none``.
        query_key_names: names of the norms of queries and of keys in files.
        windows: the layers that have a sliding window if ``layer_types`` is not stated.
        is_gemma: True if models have norms before and after each block, with gains that are stored minus 1,
            and also scaled embeddings, soft caps and a stated scale of the attention scores.
    """

    defaults: Mapping[str, Any]
    unsupported: Mapping[str, Collection[object]] = field(default_factory=dict)
    attention_bias: bool | None = None
    output_projection_bias: bool | None = None
    query_key_norm: Literal["none", "before", "after"] = "none"
    query_key_names: tuple[str, str] = ("q_norm", "k_norm")
    windows: Literal["none", "all", "last", "most"] = "none"
    is_gemma: bool = False


LLAMA_DEFAULTS = {
    "vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "hidden_act": "silu", LENGTH_KEY: 2048, "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
QWEN_DEFAULTS = {
    **LLAMA_DEFAULTS, "vocab_size": 151936, "intermediate_size": 22016, "num_key_value_heads": 32,
    LENGTH_KEY: 32768, "bos_token_id": None, "eos_token_id": None, "use_sliding_window": False,
    "sliding_window": 4096, "max_window_layers": 28,
}  # fmt: skip
GEMMA2_DEFAULTS = {
    "vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
    "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh", LENGTH_KEY: 8192, "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True, "pad_token_id": 0, "eos_token_id": 1, "bos_token_id": 2,
    "query_pre_attn_scalar": 256, "sliding_window": 4096, "sliding_window_pattern": 2,
    "final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0,
}  # fmt: skip
GEMMA3_DEFAULTS = {
    **GEMMA2_DEFAULTS,
    "vocab_size": 262208,
    LENGTH_KEY: 131072,
    "sliding_window_pattern": 6,
    "final_logit_softcapping": None,
    "attn_logit_softcapping": None,
}
CAUSAL_SETTINGS = {"use_bidirectional_attention": (False,)}
FAMILIES = {
    "llama": Family(LLAMA_DEFAULTS, {"layer_types": ()}),
    "mistral": Family(
        {
            **LLAMA_DEFAULTS,
            "intermediate_size": 14336,
            "num_key_value_heads": 8,
            LENGTH_KEY: 131072,
            "sliding_window": 4096,
        },
        {"attention_bias": (False,), "mlp_bias": (False,), "layer_types": ()},
        windows="all",
    ),
    "qwen2": Family(
        QWEN_DEFAULTS,
        {"attention_bias": (True,), "mlp_bias": (False,)},
        attention_bias=True,
        output_projection_bias=False,
        windows="last",
    ),
    "qwen3": Family(
        {**QWEN_DEFAULTS, "head_dim": 128}, {"mlp_bias": (False,)}, query_key_norm="before", windows="last"
    ),
    "gemma2": Family(GEMMA2_DEFAULTS, CAUSAL_SETTINGS, windows="most", is_gemma=True),
    "gemma3_text": Family(
        GEMMA3_DEFAULTS, CAUSAL_SETTINGS, query_key_norm="before", windows="most", is_gemma=True
    ),
    "hunyuan_v1_dense": Family(
        {**LLAMA_DEFAULTS, "vocab_size": 290943, "rms_norm_eps": 1e-5, "pad_token_id": 0},
        {
            "mlp_bias": (False,),
            "use_qk_norm": (True,),
            "use_cla": (False,),
            "norm_type": ("rms",),
            "num_experts": (0, 1),
            "position_embedding_xdrope": (False,),
            "layer_types": (),
        },
        query_key_norm="after",
        query_key_names=("query_layernorm", "key_layernorm"),
    ),
}
"""Families by the value of ``model_type``."""


def read_decoder(folder: HuggingFaceFolder) -> FamilyModel:
    """Interpret a folder of one of :data:`FAMILIES`; see :data:`.FamilyReader`."""
    return _read(folder, folder.reader, folder.tensors)


def read_gemma3(folder: HuggingFaceFolder) -> FamilyModel:
    """Interpret the language model in a folder of the multimodal Gemma 3, without the vision model.

    The settings of the language model are in the group ``text_config``. Its weights are named
    ``language_model.model.…`` or, since `transformers` 5, ``model.language_model.…``.
    """
    reader = folder.reader
    reader.refuse({})
    text = reader.values.get("text_config")
    if not isinstance(text, dict):
        raise ModelError(f"{reader.path}: 'text_config' must be a group of settings, not {quoted(text)}")
    if text.get("model_type", "gemma3_text") != "gemma3_text":
        raise ModelError(
            f"{reader.path}: 'text_config' has the model_type {quoted(text['model_type'])}, which is not "
            "supported"
        )
    other_settings = {
        name: reader.values[name]
        for name in ("bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings")
        if reader.values.get(name) is not None
    }
    text_reader = ConfigReader(folder.path, {**text, **other_settings, "model_type": "gemma3_text"})
    tensors = {}
    for name, tensor in folder.tensors.items():
        for prefix, new_prefix in (
            ("model.language_model.", PREFIX),
            ("language_model.model.", PREFIX),
            ("language_model.lm_head.", "lm_head."),
            ("lm_head.", "lm_head."),
        ):
            if name.startswith(prefix):
                tensors[new_prefix + name.removeprefix(prefix)] = tensor
                break
    if folder.tensors and not tensors:
        raise ModelError(f"{folder.path}: contains no weights of a language model ('language_model.model.…')")
    return _read(folder, text_reader, tensors)


def _read(
    folder: HuggingFaceFolder, reader: ConfigReader, stored_tensors: Mapping[str, StoredTensor]
) -> FamilyModel:
    family = FAMILIES[reader.values["model_type"]]
    reader = ConfigReader(folder.path, {**family.defaults, **reader.values})
    reader.refuse({"is_decoder": (True, False), "add_cross_attention": (False,), **family.unsupported})
    size = reader.integer("vocab_size", minimum=4)
    settings = folder.settings(DecoderOnlySettings, _setting_values(reader, family), size)
    start, pad = (_optional_id(reader, name) for name in ("bos_token_id", "pad_token_id"))
    end_tokens = _end_tokens(reader)
    reader.check_ids(size, bos_token_id=start, eos_token_id=max(end_tokens, default=None), pad_token_id=pad)
    tokeniser = read_decoder_tokeniser(
        folder.path, TokenIds(size, start, None, pad), end_tokens, folder.tokeniser_config
    )
    tensors = {name.removeprefix(PREFIX): tensor for name, tensor in stored_tensors.items()}
    if family.is_gemma:
        tensors = {
            name: OffsetTensor(tensor.name, tensor.path, tensor.format, tensor.content)
            if name.endswith("norm.weight")
            else tensor
            for name, tensor in tensors.items()
        }
    return FamilyModel(
        settings,
        (size, size),
        TokeniserPair(tokeniser, tokeniser),
        _weight_table(settings, family),
        tensors,
        generation_defaults={"max_new_tokens": MAX_NEW_TOKENS},
        ignored=("repetition_penalty",),
    )


def _setting_values(reader: ConfigReader, family: Family) -> dict[str, Any]:
    """Return the settings of a model, read from its configuration."""
    config, width = reader.values, reader.integer("hidden_size", minimum=1)
    heads, layers = (reader.integer(name, minimum=1) for name in ("num_attention_heads", "num_hidden_layers"))
    head_width = reader.integer("head_dim", max(width // heads, 1), minimum=1)
    has_layer_types = reader.values["model_type"] == "gemma3_text"
    rotary, local_rotary = (
        read_layered_rotary(reader, head_width)
        if has_layer_types
        else (read_rotary(reader, head_width), None)
    )
    window, interval = _window_and_interval(reader, family, layers)
    bias = reader.flag("attention_bias", False) if family.attention_bias is None else family.attention_bias
    values = {
        "layers": layers,
        "width": width,
        "heads": heads,
        "key_value_heads": reader.integer("num_key_value_heads", heads, minimum=1),
        "head_width": head_width,
        "feed_forward": reader.integer("intermediate_size", minimum=1),
        "activation": reader.activation("hidden_activation" if family.is_gemma else "hidden_act", ""),
        "gated": True,
        "norm": "both" if family.is_gemma else "pre",
        "norm_kind": "rms",
        "norm_epsilon": reader.number("rms_norm_eps", 1e-6),
        "max_length": reader.integer(LENGTH_KEY, minimum=1),
        "positions": "rotary",
        "rotary": rotary,
        "window": window,
        "global_every": interval,
        "query_key_norm": family.query_key_norm,
        "attention_bias": bias,
        "output_projection_bias": family.output_projection_bias,
        "feed_forward_bias": reader.flag("mlp_bias", False),
        "embedding_scale": family.is_gemma,
        "tie_output": reader.flag("tie_word_embeddings", False),
        "dropout": 0.0,
    }
    if family.is_gemma:
        values["score_scale"] = reader.number("query_pre_attn_scalar", 256) ** -0.5
        for name, key in (("score_cap", "attn_logit_softcapping"), ("logit_cap", "final_logit_softcapping")):
            values[name] = None if config.get(key) is None else reader.number(key, 1.0)
    if local_rotary is not None and window is not None:
        values["local_rotary"] = local_rotary
    return values


def _window_and_interval(reader: ConfigReader, family: Family, layers: int) -> tuple[int | None, int]:
    """Return the size of the sliding window, None for no window, and n if every n-th layer has no window."""
    if family.windows == "none" or not reader.flag("use_sliding_window", True):
        window = None
    else:
        window = (
            None
            if reader.values.get("sliding_window") is None
            else reader.integer("sliding_window", minimum=1)
        )
    types = reader.values.get("layer_types")
    if types is None:
        if window is None or family.windows == "none":
            return None, 1
        if family.windows == "all":
            return window, 0
        if family.windows == "most":
            interval = reader.integer("sliding_window_pattern", minimum=1)
            return (window, interval) if interval > 1 else (None, 1)
        full_layers = min(reader.integer("max_window_layers"), layers)
        if 0 < full_layers < layers:
            raise ModelError(
                f"{reader.path}: 'max_window_layers' = {full_layers} of {layers} layers is not supported, "
                "because only some layers would have a sliding window"
            )
        return (None, 1) if full_layers else (window, 0)
    if (
        not isinstance(types, list)
        or len(types) != layers
        or not all(isinstance(layer_type, str) for layer_type in types)
    ):
        raise ModelError(f"{reader.path}: 'layer_types' must be a list of the types of the {layers} layers")
    unknown_types = sorted(set(types) - {GLOBAL, LOCAL})
    if unknown_types:
        raise ModelError(
            f"{reader.path}: 'layer_types' contains {quoted(unknown_types[0])}, which is not supported"
        )
    global_layers = [number for number, kind in enumerate(types, start=1) if kind == GLOBAL]
    if len(global_layers) == layers:
        return None, 1
    if window is None:
        raise ModelError(f"{reader.path}: 'layer_types' contains {LOCAL!r}, but 'sliding_window' is missing")
    interval = global_layers[0] if global_layers else 0
    if global_layers != (list(range(interval, layers + 1, interval)) if interval else []):
        raise ModelError(
            f"{reader.path}: 'layer_types' is not supported: only every n-th layer may be without a window"
        )
    return window, interval


def _end_tokens(reader: ConfigReader) -> list[int]:
    """Return the ids of the tokens that end a text.

    ``generation_config.json`` takes precedence over ``config.json``.
    """
    value = read_optional(reader.path.parent / GENERATION).get("eos_token_id")
    value = reader.values.get("eos_token_id") if value is None else value
    end_tokens = value if isinstance(value, list) else [] if value is None else [value]
    if any(type(token) is not int or token < 0 for token in end_tokens):
        raise ModelError(
            f"{reader.path}: 'eos_token_id' must be a token id or a list of token ids, not {quoted(value)}"
        )
    return end_tokens


def _optional_id(reader: ConfigReader, name: str) -> int | None:
    """Return a token id, or None if it is missing or -1."""
    return None if reader.values.get(name) in (None, -1) else reader.integer(name)


def _weight_table(settings: DecoderOnlySettings, family: Family) -> Table:
    is_tied = settings.tie_output
    weights: dict[str, tuple[View, ...]] = {
        "embedding.weight": (View(EMBEDDING),),
        "output_weight": (View(EMBEDDING if is_tied else HEAD),),
        "decoder_norm.weight": (View("norm.weight"),),
    }
    for layer in range(settings.layers):
        stored_prefix, prefix = f"layers.{layer}", f"decoder.{layer}"
        for name, stored_names in LAYER_MATRICES:
            for kind in ("weight", "bias"):
                weights[f"{prefix}.{name}.{kind}"] = tuple(
                    View(f"{stored_prefix}.{stored_name}.{kind}") for stored_name in stored_names
                )
        for name, stored_norm in LAYER_NORMS[settings.norm]:
            weights[f"{prefix}.{name}.weight"] = (View(f"{stored_prefix}.{stored_norm}.weight"),)
        for name, stored_norm in zip(("query_norm", "key_norm"), family.query_key_names, strict=True):
            weights[f"{prefix}.attention.{name}.weight"] = (
                View(f"{stored_prefix}.self_attn.{stored_norm}.weight"),
            )
    unused = (
        UNUSED_FREQUENCIES,
        *(f"layers.{layer}.self_attn.{UNUSED_FREQUENCIES}" for layer in range(settings.layers)),
    )
    return Table(weights, {HEAD: EMBEDDING} if is_tied else {}, unused=unused)
