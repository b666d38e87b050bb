"""Random decoder-only models."""

import numpy as np
from hypothesis import strategies as st
from native_models import MAX_LENGTH, SYMBOLS, randomise, transformer_settings

from uwaga.models.decoder_only import DecoderOnly
from uwaga.settings import BlockSettings, DecoderOnlySettings

ROTARY = [
    {"base": 50.0},
    {"base": 100.0, "scaling": "linear", "factor": 3.0},
    {"base": 100.0, "scaling": "dynamic", "factor": 2.0, "original_length": 16},
    {"base": 100.0, "scaling": "yarn", "factor": 4.0, "original_length": 16},
    {
        **{"base": 100.0, "scaling": "llama3", "factor": 8.0, "original_length": 16},
        **{"low_frequency_factor": 1.0, "high_frequency_factor": 4.0},
    },
]
COMMON = {
    **{"layers": 3, "width": 48, "heads": 6, "key_value_heads": 2, "head_width": 16, "feed_forward": 44},
    **{"activation": "silu", "gated": True, "norm": "pre", "norm_kind": "rms", "max_length": 40},
    **{"attention_bias": False, "feed_forward_bias": False, "embedding_scale": False},
    **{"positions": "rotary", "rotary": {"base": 100.0}},
}
GEMMA = {
    **{"norm": "both", "activation": "gelu_tanh", "embedding_scale": True, "window": 5, "global_every": 2},
    **{"score_scale": 0.3, "key_value_heads": 1, "head_width": 64, "heads": 4},
}
FAMILIES = {
    "llama": {"rotary": ROTARY[4]},
    "mistral": {"window": 5, "global_every": 0, "head_width": 32},
    "qwen2": {"attention_bias": True, "output_projection_bias": False, "heads": 7, "key_value_heads": 1},
    "qwen3": {"query_key_norm": "before", "head_width": 128, "tie_output": False},
    "hunyuan": {"query_key_norm": "after", "heads": 8, "rotary": ROTARY[2]},
    "gemma2": GEMMA | {"score_cap": 2.0, "logit_cap": 3.0},
    "gemma3": GEMMA | {"query_key_norm": "before", "local_rotary": {"base": 9.0}},
}
"""Settings of a tiny model of each family, in addition to :data:`COMMON`."""
GPT2 = DecoderOnlySettings(
    **{"layers": 3, "width": 24, "heads": 3, "feed_forward": 44, "activation": "gelu_tanh", "norm": "pre"},
    **{"max_length": 40, "embedding_scale": False},
)


def family_settings(name: str, **changes) -> DecoderOnlySettings:
    return DecoderOnlySettings.model_validate(COMMON | FAMILIES[name] | changes)


@st.composite
def decoder_only_settings(draw):
    """Return random settings of a tiny decoder-only model with any combination of mechanisms."""
    shape = draw(transformer_settings())
    common = {name: getattr(shape, name) for name in BlockSettings.model_fields if name != "family"}
    common["width"] = 4 * shape.width  # norms of two numbers amplify rounding errors
    tied = shape.tie in ("all", "decoder")
    changes = {"layers": shape.decoder_layers, "tie_output": tied, "output_bias": shape.output_bias}
    if draw(st.booleans()):
        changes |= draw(recent_mechanisms(shape))
    return DecoderOnlySettings(**common | changes)


@st.composite
def recent_mechanisms(draw, shape):
    """Return random changes of settings, which select mechanisms of recent decoder-only models."""
    groups = [count for count in range(1, shape.heads + 1) if shape.heads % count == 0]
    changes = {
        "norm": draw(st.sampled_from(["pre", "post", "both"])),
        "key_value_heads": draw(st.sampled_from(groups)),
        "query_key_norm": draw(st.sampled_from(["none", "before", "after"])),
        "score_cap": draw(st.none() | st.just(2.0)),
        "logit_cap": draw(st.none() | st.just(3.0)),
        "output_projection_bias": draw(st.none() | st.booleans()),
    }
    if shape.attention_scale:
        changes["score_scale"] = draw(st.none() | st.just(0.4))
    if draw(st.booleans()):
        changes |= {"window": draw(st.integers(1, 8)), "global_every": draw(st.sampled_from([0, 2]))}
    if draw(st.booleans()):
        width = draw(st.sampled_from([4, 6, 16, 32, 64]))
        changes |= {"positions": "rotary", "position_offset": 0, "head_width": width}
        changes["rotary"] = draw(st.sampled_from(ROTARY))
        if "window" in changes and draw(st.booleans()):
            changes["local_rotary"] = draw(st.sampled_from(ROTARY))
    return changes


def random_decoder(settings: DecoderOnlySettings, seed=0, vocabulary=23, spread=1.0):
    return randomise(lambda: DecoderOnly(settings, SYMBOLS, vocabulary), seed, spread)


def prompts(count, seed=0, max_length=MAX_LENGTH // 2, vocabulary=23):
    """Return random prompts of at least one token."""
    rng = np.random.default_rng(seed)
    return [
        tuple(rng.integers(0, vocabulary, rng.integers(1, max_length + 1)).tolist()) for _ in range(count)
    ]
