"""Settings of decoder-only models: incompatible values, and frequencies of rotary positions (M37)."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.engine.layout import stored_shapes
from uwaga.errors import SettingsError
from uwaga.settings import DecoderOnlySettings, RotarySettings, parse

SIZES = {"width": 64, "heads": 8, "feed_forward": 96, "layers": 6}
ROTARY = {"positions": "rotary", "rotary": {}}
LLAMA3 = {
    "scaling": "llama3", "factor": 8.0, "original_length": 8192, "low_frequency_factor": 1.0,
    "high_frequency_factor": 4.0,
}  # fmt: skip
YARN = {"scaling": "yarn", "factor": 4.0, "original_length": 32768}


def settings(**values: Any) -> DecoderOnlySettings:
    return parse(DecoderOnlySettings, {**SIZES, **values}, "my.yaml")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"positions": "rotary"}, "needs the group rotary, such as rotary: {base: 10000}"),
        ({"rotary": {}},
         "rotary requires positions: rotary, not learned: set positions: rotary or omit rotary"),
        ({"local_rotary": {}}, "local_rotary requires positions: rotary"),
        ({**ROTARY, "local_rotary": {}}, "local_rotary is for layers with a window"),
        ({**ROTARY, "head_width": 7}, "even head width of at least 4, not 7: change head_width"),
        ({**ROTARY, "head_width": 2}, "even head width of at least 4, not 2"),
        ({**ROTARY, "position_offset": 2}, "position_offset is for learned positions: omit it"),
        ({"key_value_heads": 3}, "key_value_heads 3 does not divide heads 8"),
        ({"key_value_heads": 16}, "key_value_heads 16 does not divide heads 8"),
        ({"window": 4}, "window 4 has no effect, .* set global_every to 0 for no global layers or to n"),
        ({"global_every": 6}, "global_every 6 needs a window: set window, or omit global_every"),
        ({"score_scale": 0.1, "attention_scale": False}, "score_scale replaces the scale"),
        ({"norm": "sandwich"}, "norm: should be 'post', 'pre' or 'both'"),
        ({**ROTARY, "rotary": {"scaling": "longrope"}}, "rotary.scaling: .*'yarn' .found 'longrope'"),
        ({**ROTARY, "rotary": {"scaling": "linear"}}, "rotary: .*scaling linear needs factor"),
        ({**ROTARY, "rotary": {"factor": 2.0}}, "scaling none has no setting factor: it has no settings"),
        ({**ROTARY, "rotary": YARN | {"factor": 0.5}}, "rotary.factor"),
        ({**ROTARY, "rotary": YARN | {"low_frequency_factor": 1.0}},
         "yarn has no setting low_frequency_factor: it"),
        ({**ROTARY, "rotary": YARN | {"beta_slow": 40.0}}, "beta_slow 40.0 must be less than beta_fast 32"),
        ({**ROTARY, "rotary": LLAMA3 | {"high_frequency_factor": 1.0}}, "must be less than high_frequency"),
        ({**ROTARY, "rotary": {"bas": 1e6}}, "unknown setting 'rotary.bas'; did you mean 'base'"),
        ({"score_cap": 0.0}, "score_cap: .*greater than 0"),
    ],
)  # fmt: skip
def test_incompatible_settings_are_rejected(values: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        settings(**values)


def test_M41_window_settings_determine_layers_with_local_attention() -> None:
    def local(**values: Any) -> list[bool]:
        shape = settings(**values)
        return [shape.is_local(layer) for layer in range(shape.layers)]

    assert local() == [False] * 6
    assert local(window=4, global_every=0) == [True] * 6  # Mistral
    assert local(window=4, global_every=2) == [True, False] * 3  # Gemma 2
    assert local(window=4, global_every=6) == [True] * 5 + [False]  # Gemma 3
    shape = settings(
        **ROTARY | {"rotary": {"base": 1e6}}, local_rotary={"base": 1e4}, window=4, global_every=6
    )
    assert [shape.layer_rotary(layer).base for layer in range(6)] == [1e4] * 5 + [1e6]


@pytest.mark.parametrize("width", [4, 6, 64, 128])
@pytest.mark.parametrize("base", [1e4, 5e5])
def test_M37_rotary_frequencies_match_their_formulas(width: int, base: float) -> None:
    plain = [base ** (-2 * pair / width) for pair in range(width // 2)]
    np.testing.assert_allclose(RotarySettings(base=base).frequencies(width, 9), plain, rtol=1e-12)
    linear = RotarySettings(base=base, scaling="linear", factor=4.0)
    np.testing.assert_allclose(linear.frequencies(width, 9), np.array(plain) / 4, rtol=1e-12)
    dynamic = RotarySettings(base=base, scaling="dynamic", factor=4.0, original_length=32)
    np.testing.assert_allclose(dynamic.frequencies(width, 32), plain, rtol=1e-12)
    longer = [(base * 5 ** (width / (width - 2))) ** (-2 * pair / width) for pair in range(width // 2)]
    np.testing.assert_allclose(dynamic.frequencies(width, 64), longer, rtol=1e-12)
    # The fastest pair keeps its frequency, and the slowest is slowed down by the full factor.
    np.testing.assert_allclose(longer[-1] * 5, plain[-1], rtol=1e-12)


def test_M37_llama3_rotary_frequencies_match_their_formula() -> None:
    frequencies = RotarySettings(base=5e5, **LLAMA3).frequencies(128, 131072)
    for pair, frequency in enumerate(frequencies):
        plain = 5e5 ** (-2 * pair / 128)
        wavelength = 2 * math.pi / plain
        if wavelength < 8192 / 4:
            expected = plain
        elif wavelength > 8192 / 1:
            expected = plain / 8
        else:
            smooth = (8192 / wavelength - 1) / (4 - 1)
            expected = (1 - smooth) * plain / 8 + smooth * plain
        assert frequency == pytest.approx(expected, rel=1e-12)


def test_M37_yarn_rotary_frequencies_match_their_formula() -> None:
    yarn = RotarySettings(base=1e6, **YARN)
    assert yarn.score_factor == pytest.approx(0.1 * math.log(4) + 1)
    assert RotarySettings(**YARN, attention_factor=0.7).score_factor == 0.7
    assert RotarySettings(**LLAMA3).score_factor == 1.0
    # 128 ln(32768 / (32 · 2π)) / (2 ln 10^6) = 23.6 and 128 ln(32768 / 2π) / (2 ln 10^6) = 39.7
    for pair, frequency in enumerate(yarn.frequencies(128, 131072)):
        plain = 1e6 ** (-2 * pair / 128)
        ramp = min(max((pair - 23) / (40 - 23), 0), 1)
        assert frequency == pytest.approx(plain * (1 - ramp) + plain / 4 * ramp, rel=1e-12)


@given(
    st.sampled_from(["linear", "dynamic", "llama3", "yarn"]), st.sampled_from([4, 8, 64, 96, 128]),
    st.floats(1.0, 40.0), st.integers(1, 1 << 16), st.floats(2.0, 1e7),
)  # fmt: skip
def test_M37_scaled_rotary_frequencies_are_bounded(scaling, width, factor, original, base) -> None:
    values: dict[str, Any] = {"scaling": scaling, "factor": factor, "base": base}
    if scaling != "linear":
        values["original_length"] = original
    if scaling == "llama3":
        values |= {"low_frequency_factor": 1.0, "high_frequency_factor": 4.0}
    frequencies = RotarySettings(**values).frequencies(width, 2 * original)
    plain = RotarySettings(base=base).frequencies(width, 2 * original)
    min_share = 1 / (factor + 1) if scaling == "dynamic" else 1 / factor
    share = frequencies / plain
    assert frequencies.shape == (width // 2,)
    assert (share <= 1 + 1e-9).all()
    assert (share >= min_share - 1e-9).all()


def test_weight_shapes_match_the_settings() -> None:
    shape = settings(
        **ROTARY, key_value_heads=2, head_width=12, query_key_norm="before", norm="both", norm_kind="rms",
        gated=True, feed_forward_bias=False, output_projection_bias=False,
    )  # fmt: skip
    shapes = stored_shapes(shape, 0, 50)
    layer = {
        name.removeprefix("decoder.0."): size for name, size in shapes.items() if name.startswith("decoder.0")
    }
    assert layer == {
        "attention.query.weight": (96, 64), "attention.query.bias": (96,),
        "attention.key_value.weight": (48, 64), "attention.key_value.bias": (48,),
        "attention.output.weight": (64, 96), "attention.query_norm.weight": (12,),
        "attention.key_norm.weight": (12,), "feed_forward.inner.weight": (96, 64),
        "feed_forward.gate.weight": (96, 64), "feed_forward.outer.weight": (64, 96),
        "attention_norm.weight": (64,), "attention_after_norm.weight": (64,),
        "feed_forward_norm.weight": (64,), "feed_forward_after_norm.weight": (64,),
    }  # fmt: skip
    other_names = {name for name in shapes if not name.startswith("decoder.")}
    assert other_names == {"decoder_norm.weight", "output_weight"}
