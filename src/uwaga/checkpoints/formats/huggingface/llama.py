"""Llama and the decoder-only families that differ from it in a few keys: Mistral, Qwen, Gemma, Hunyuan.

Their weights have the same names. A family is a :class:`Family`: the values of keys that a folder may omit,
and the parts that the others lack. All else is read from ``config.json``; what asks for a feature that uwaga
lacks is refused by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from uwaga.checkpoints.formats.huggingface.folder import (
    GENERATION,
    ConfigReader,
    FamilyModel,
    FamilyReader,
    HuggingFaceFolder,
)
from uwaga.checkpoints.formats.huggingface.rope import GLOBAL, LENGTH, LOCAL, read_layered_rotary, read_rotary
from uwaga.checkpoints.storage.json_file import read_optional
from uwaga.checkpoints.storage.tensors import OffsetTensor, StoredTensor
from uwaga.checkpoints.weight_map import Table, View
from uwaga.errors import ModelError, shown
from uwaga.settings import DecoderOnlySettings
from uwaga.tokenizers.decoder_families import read_decoder_tokeniser
from uwaga.tokenizers.pretrained import Sides, TokenIds

LONGEST = 256
"""New tokens where the folder states no limit."""
PREFIX, HEAD, EMBEDDING = "model.", "lm_head.weight", "embed_tokens.weight"
UNUSED = "rotary_emb.inv_freq"
"""Stored with older checkpoints: the frequencies of rotary positions, which follow from the settings."""

BLOCK = (
    ("attention.query", ("self_attn.q_proj",)),
    ("attention.key_value", ("self_attn.k_proj", "self_attn.v_proj")),
    ("attention.output", ("self_attn.o_proj",)),
    ("feed_forward.inner", ("mlp.gate_proj",)),
    ("feed_forward.gate", ("mlp.up_proj",)),
    ("feed_forward.outer", ("mlp.down_proj",)),
)
"""Matrices of a layer; the gate of the file is the activated branch."""
NORMS = {
    "pre": (("attention_norm", "input_layernorm"), ("feed_forward_norm", "post_attention_layernorm")),
    "both": (
        ("attention_norm", "input_layernorm"),
        ("attention_after_norm", "post_attention_layernorm"),
        ("feed_forward_norm", "pre_feedforward_layernorm"),
        ("feed_forward_after_norm", "post_feedforward_layernorm"),
    ),
}
"""Norms of a layer, by the setting ``norm``."""


@dataclass(frozen=True)
class Family:
    """A family of decoders.

    Attributes:
        defaults: values of keys that ``config.json`` may omit; those of ``transformers``.
        unsupported: keys whose other values are refused.
        attention_bias: biases of queries, keys and values; None: as ``attention_bias`` states.
        output_projection_bias: bias of attention's last projection; None: as ``attention_bias``.
        query_key_norm: norms of queries and keys.
        query_key_names: their names in the file.
        windows: which layers have a sliding window where ``layer_types`` does not say it.
        gemma: norms around each block whose gain is stored without the one that is added to it, scaled
            embeddings, caps, and a scale of its own for the scores.
    """

    defaults: Mapping[str, Any]
    unsupported: Mapping[str, Collection[object]] = field(default_factory=dict)
    attention_bias: bool | None = None
    output_projection_bias: bool | None = None
    query_key_norm: Literal["none", "before", "after"] = "none"
    query_key_names: tuple[str, str] = ("q_norm", "k_norm")
    windows: Literal["none", "all", "last", "most"] = "none"
    gemma: bool = False


LLAMA_DEFAULTS = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "hidden_act": "silu",
    LENGTH: 2048,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
QWEN_DEFAULTS = {
    **LLAMA_DEFAULTS,
    "vocab_size": 151936,
    "intermediate_size": 22016,
    "num_key_value_heads": 32,
    LENGTH: 32768,
    "bos_token_id": None,
    "eos_token_id": None,
    "use_sliding_window": False,
    "sliding_window": 4096,
    "max_window_layers": 28,
}
GEMMA2_DEFAULTS = {
    "vocab_size": 256000,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    LENGTH: 8192,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
    "sliding_window_pattern": 2,
    "final_logit_softcapping": 30.0,
    "attn_logit_softcapping": 50.0,
}
GEMMA3_DEFAULTS = {
    **GEMMA2_DEFAULTS,
    "vocab_size": 262208,
    LENGTH: 131072,
    "sliding_window_pattern": 6,
    "final_logit_softcapping": None,
    "attn_logit_softcapping": None,
}
ONE_WAY = {"use_bidirectional_attention": (False,)}
FAMILIES = {
    "llama": Family(LLAMA_DEFAULTS, {"layer_types": ()}),
    "mistral": Family(
        {
            **LLAMA_DEFAULTS,
            "intermediate_size": 14336,
            "num_key_value_heads": 8,
            LENGTH: 131072,
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
    "gemma2": Family(GEMMA2_DEFAULTS, ONE_WAY, windows="most", gemma=True),
    "gemma3_text": Family(GEMMA3_DEFAULTS, ONE_WAY, query_key_norm="before", windows="most", gemma=True),
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
"""By ``model_type``."""


def read_decoder(folder: HuggingFaceFolder) -> FamilyModel:
    """Read a folder of one of :data:`FAMILIES`; a :data:`~.folder.FamilyReader`."""
    return _read(folder, folder.reader, folder.tensors)


def read_gemma3(folder: HuggingFaceFolder) -> FamilyModel:
    """Read the language model of a Gemma 3 with images; what reads images is left out.

    Its settings are the group ``text_config``. Its weights are named ``language_model.model.…`` or, since
    version 5, ``model.language_model.…``.
    """
    reader = folder.reader
    reader.refuse({})
    text = reader.values.get("text_config")
    if not isinstance(text, dict):
        raise ModelError(f"{reader.path}: 'text_config' must be a group of settings, not {shown(text)}")
    if text.get("model_type", "gemma3_text") != "gemma3_text":
        raise ModelError(f"{reader.path}: 'text_config' of {shown(text['model_type'])} is not supported")
    outer = {
        name: reader.values[name]
        for name in ("bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings")
        if reader.values.get(name) is not None
    }
    inner = ConfigReader(folder.path, {**text, **outer, "model_type": "gemma3_text"})
    tensors = {}
    for name, tensor in folder.tensors.items():
        for prefix, ours in (
            ("model.language_model.", PREFIX),
            ("language_model.model.", PREFIX),
            ("language_model.lm_head.", "lm_head."),
            ("lm_head.", "lm_head."),
        ):
            if name.startswith(prefix):
                tensors[ours + name.removeprefix(prefix)] = tensor
                break
    if folder.tensors and not tensors:
        raise ModelError(f"{folder.path}: no weights of a language model, named 'language_model.model.…'")
    return _read(folder, inner, tensors)


READERS: dict[str, FamilyReader] = {**dict.fromkeys(FAMILIES, read_decoder), "gemma3": read_gemma3}


def _read(folder: HuggingFaceFolder, reader: ConfigReader, stored: Mapping[str, StoredTensor]) -> FamilyModel:
    family = FAMILIES[reader.values["model_type"]]
    reader = ConfigReader(folder.path, {**family.defaults, **reader.values})
    reader.refuse({"is_decoder": (True, False), "add_cross_attention": (False,), **family.unsupported})
    size = reader.whole("vocab_size", least=4)
    settings = folder.settings(DecoderOnlySettings, _values(reader, family), size)
    start, pad = (_optional_id(reader, name) for name in ("bos_token_id", "pad_token_id"))
    ends = _ends(reader)
    reader.within(size, bos_token_id=start, eos_token_id=max(ends, default=None), pad_token_id=pad)
    tokeniser = read_decoder_tokeniser(folder.path, TokenIds(size, start, None, pad), ends, folder.declared)
    tensors = {name.removeprefix(PREFIX): tensor for name, tensor in stored.items()}
    if family.gemma:
        tensors = {
            name: OffsetTensor(tensor.name, tensor.path, tensor.format, tensor.content)
            if name.endswith("norm.weight")
            else tensor
            for name, tensor in tensors.items()
        }
    return FamilyModel(
        settings,
        (size, size),
        Sides(tokeniser, tokeniser),
        _table(settings, family),
        tensors,
        unstated={"max_length": LONGEST + 1},
        left_out=("repetition_penalty",),
    )


def _values(reader: ConfigReader, family: Family) -> dict[str, Any]:
    """Return the settings that a configuration states."""
    stated, width = reader.values, reader.whole("hidden_size", least=1)
    heads, layers = (reader.whole(name, least=1) for name in ("num_attention_heads", "num_hidden_layers"))
    head_width = reader.whole("head_dim", max(width // heads, 1), least=1)
    layered = reader.values["model_type"] == "gemma3_text"
    rotary, local = (
        read_layered_rotary(reader, head_width) if layered else (read_rotary(reader, head_width), None)
    )
    window, every = _windows(reader, family, layers)
    bias = reader.flag("attention_bias", False) if family.attention_bias is None else family.attention_bias
    values = {
        "layers": layers,
        "width": width,
        "heads": heads,
        "key_value_heads": reader.whole("num_key_value_heads", heads, least=1),
        "head_width": head_width,
        "feed_forward": reader.whole("intermediate_size", least=1),
        "activation": reader.activation("hidden_activation" if family.gemma else "hidden_act", ""),
        "gated": True,
        "norm": "both" if family.gemma else "pre",
        "norm_kind": "rms",
        "norm_epsilon": reader.number("rms_norm_eps", 1e-6),
        "max_length": reader.whole(LENGTH, least=1),
        "positions": "rotary",
        "rotary": rotary,
        "window": window,
        "global_every": every,
        "query_key_norm": family.query_key_norm,
        "attention_bias": bias,
        "output_projection_bias": family.output_projection_bias,
        "feed_forward_bias": reader.flag("mlp_bias", False),
        "embedding_scale": family.gemma,
        "tie_output": reader.flag("tie_word_embeddings", False),
        "dropout": 0.0,
    }
    if family.gemma:
        values["score_scale"] = reader.number("query_pre_attn_scalar", 256) ** -0.5
        for ours, theirs in (
            ("score_cap", "attn_logit_softcapping"),
            ("logit_cap", "final_logit_softcapping"),
        ):
            values[ours] = None if stated.get(theirs) is None else reader.number(theirs, 1.0)
    if local is not None and window is not None:
        values["local_rotary"] = local
    return values


def _windows(reader: ConfigReader, family: Family, layers: int) -> tuple[int | None, int]:
    """Return the sliding window, None for none, and how often a layer is without it."""
    if family.windows == "none" or not reader.flag("use_sliding_window", True):
        window = None
    else:
        window = (
            None if reader.values.get("sliding_window") is None else reader.whole("sliding_window", least=1)
        )
    types = reader.values.get("layer_types")
    if types is None:
        if window is None or family.windows == "none":
            return None, 1
        if family.windows == "all":
            return window, 0
        if family.windows == "most":
            every = reader.whole("sliding_window_pattern", least=1)
            return (window, every) if every > 1 else (None, 1)
        full = min(reader.whole("max_window_layers"), layers)
        if 0 < full < layers:
            raise ModelError(
                f"{reader.path}: 'max_window_layers' = {full} of {layers} layers is not supported: a sliding "
                "window in the last layers alone"
            )
        return (None, 1) if full else (window, 0)
    if (
        not isinstance(types, list)
        or len(types) != layers
        or not all(isinstance(each, str) for each in types)
    ):
        raise ModelError(f"{reader.path}: 'layer_types' must name the type of each of the {layers} layers")
    unknown = sorted(set(types) - {GLOBAL, LOCAL})
    if unknown:
        raise ModelError(f"{reader.path}: 'layer_types': {shown(unknown[0])} is unknown to uwaga")
    whole = [number for number, kind in enumerate(types, start=1) if kind == GLOBAL]
    if len(whole) == layers:
        return None, 1
    if window is None:
        raise ModelError(f"{reader.path}: 'layer_types' has {LOCAL!r}, but there is no sliding window")
    every = whole[0] if whole else 0
    if whole != (list(range(every, layers + 1, every)) if every else []):
        raise ModelError(
            f"{reader.path}: 'layer_types' is not one of regular distances, which alone is supported"
        )
    return window, every


def _ends(reader: ConfigReader) -> list[int]:
    """Return the tokens that may end a text; the generation settings take precedence."""
    found = read_optional(reader.path.parent / GENERATION).get("eos_token_id")
    found = reader.values.get("eos_token_id") if found is None else found
    ends = found if isinstance(found, list) else [] if found is None else [found]
    if any(type(token) is not int or token < 0 for token in ends):
        raise ModelError(f"{reader.path}: 'eos_token_id' must be token ids, not {shown(found)}")
    return ends


def _optional_id(reader: ConfigReader, name: str) -> int | None:
    """Return a token id, None if it is not stated; -1 is how some folders say that."""
    return None if reader.values.get(name) in (None, -1) else reader.whole(name)


def _table(settings: DecoderOnlySettings, family: Family) -> Table:
    tied = settings.tie_output
    weights: dict[str, tuple[View, ...]] = {
        "embedding.weight": (View(EMBEDDING),),
        "output_weight": (View(EMBEDDING if tied else HEAD),),
        "decoder_norm.weight": (View("norm.weight"),),
    }
    for layer in range(settings.layers):
        there, here = f"layers.{layer}", f"decoder.{layer}"
        for ours, stored in BLOCK:
            for kind in ("weight", "bias"):
                weights[f"{here}.{ours}.{kind}"] = tuple(View(f"{there}.{each}.{kind}") for each in stored)
        for ours, theirs in NORMS[settings.norm]:
            weights[f"{here}.{ours}.weight"] = (View(f"{there}.{theirs}.weight"),)
        for ours, theirs in zip(("query_norm", "key_norm"), family.query_key_names, strict=True):
            weights[f"{here}.attention.{ours}.weight"] = (View(f"{there}.self_attn.{theirs}.weight"),)
    unused = (UNUSED, *(f"layers.{layer}.self_attn.{UNUSED}" for layer in range(settings.layers)))
    return Table(weights, {HEAD: EMBEDDING} if tied else {}, unused=unused)
