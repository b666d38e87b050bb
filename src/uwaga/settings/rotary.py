"""Settings of rotary positions (Su 2021), and their frequencies."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, model_validator

from uwaga.settings.parsing import StrictModel

_REQUIRED_FIELDS = {
    "none": (),
    "linear": ("factor",),
    "dynamic": ("factor", "original_length"),
    "llama3": ("factor", "original_length", "low_frequency_factor", "high_frequency_factor"),
    "yarn": ("factor", "original_length"),
}
"""Settings that each scaling requires."""
_ALLOWED_FIELDS = {"yarn": ("beta_fast", "beta_slow", "attention_factor")}
"""Optional settings of each scaling."""


class RotarySettings(StrictModel):
    """Rotary positions: pairs of elements of queries and keys are rotated by an angle for each position.

    Element i of a head of width d is paired with element i + d/2; position m rotates the pair by m θ_i, where
    θ_i = base^(-2i/d) (Su 2021 §3.2.2).
    """

    base: float = Field(10_000.0, gt=1.0, description="base of the frequencies base^(-2i/d)")
    scaling: Literal["none", "linear", "dynamic", "llama3", "yarn"] = Field(
        "none", description="how the frequencies are changed for texts longer than those in training"
    )
    factor: float | None = Field(
        None, ge=1.0, description="factor by which the context is longer than in training"
    )
    original_length: PositiveInt | None = Field(None, description="maximum number of tokens in training")
    low_frequency_factor: float | None = Field(
        None,
        gt=0.0,
        description="llama3: pairs with fewer turns in original_length are slowed down by the factor",
    )
    high_frequency_factor: float | None = Field(
        None, gt=0.0, description="llama3: pairs with more turns in original_length keep their frequency"
    )
    beta_fast: float | None = Field(
        None, gt=0.0, description="yarn: pairs with more turns keep their frequency; 32 if not given"
    )
    beta_slow: float | None = Field(
        None, gt=0.0, description="yarn: pairs with fewer turns are slowed down by the factor; 1 if not given"
    )
    attention_factor: float | None = Field(
        None, gt=0.0, description="yarn: factor of queries and keys; 0.1 ln(factor) + 1 if not given"
    )

    @model_validator(mode="after")
    def _check_parameters(self) -> RotarySettings:
        required = _REQUIRED_FIELDS[self.scaling]
        allowed_fields = (*required, *_ALLOWED_FIELDS.get(self.scaling, ()))
        for name in type(self).model_fields:
            is_set = getattr(self, name) is not None
            if name in required and not is_set:
                raise ValueError(f"scaling {self.scaling} needs {name}")
            if is_set and name not in ("base", "scaling", *allowed_fields):
                expectation = f"has only {', '.join(allowed_fields)}" if allowed_fields else "has no settings"
                raise ValueError(f"scaling {self.scaling} has no setting {name}: it {expectation}")
        low, high = self.low_frequency_factor, self.high_frequency_factor
        if low is not None and high is not None and low >= high:
            raise ValueError(f"low_frequency_factor {low} must be less than high_frequency_factor {high}")
        if self.scaling == "yarn" and (self.beta_slow or 1.0) >= (self.beta_fast or 32.0):
            raise ValueError(
                f"beta_slow {self.beta_slow or 1.0} must be less than beta_fast {self.beta_fast or 32.0}"
            )
        return self

    @property
    def score_factor(self) -> float:
        """The factor of rotated queries and keys: ``attention_factor`` for YaRN, 1 for all other scalings.

        The default of ``attention_factor`` is ``0.1 ln(factor) + 1`` (Peng 2023 eq. 22).
        """
        if self.scaling != "yarn":
            return 1.0
        assert self.factor is not None
        return self.attention_factor or 0.1 * math.log(self.factor) + 1.0

    def frequencies(self, head_width: int, max_length: int) -> NDArray[np.float64]:
        """Return the angle θ_i by which each pair is rotated per position, (head_width / 2,).

        - none: ``θ_i = base^(-2i/d)`` (Su 2021 §3.2.2);
        - linear: ``θ_i / factor`` (Chen 2023, "Extending Context Window…", eq. 3);
        - dynamic: ``θ_i`` of the base ``base · (factor · L / original_length - (factor - 1))^(d/(d-2))``,
          where L is the larger of ``max_length`` and ``original_length`` (Peng 2023 §3.2 and app. B.1). L is
          a property of the model, not of a text, so the keys of earlier tokens do not change while a text
          grows;
        - llama3: depending on the number of turns ``original_length · θ_i / 2π``, it is ``θ_i`` from
          ``high_frequency_factor`` on, ``θ_i / factor`` below ``low_frequency_factor``, and a linear
          interpolation in between (Llama 3.1, ``apply_scaling`` in the reference code);
        - yarn: an interpolation as in llama3, but with a ramp over pairs, from the pair with ``beta_fast``
          turns to the pair with ``beta_slow`` turns, rounded outwards (Peng 2023 §3.2, def. 2).

        Args:
            head_width: d.
            max_length: maximum number of tokens that the model reads.
        """
        pairs = np.arange(head_width // 2)
        base = self.base
        if self.scaling == "dynamic":
            assert self.factor is not None
            assert self.original_length is not None
            length_ratio = max(max_length, self.original_length) / self.original_length
            base *= (self.factor * length_ratio - (self.factor - 1)) ** (head_width / (head_width - 2))
        unscaled_frequencies = base ** (-2.0 * pairs / head_width)
        if self.scaling in ("none", "dynamic"):
            return unscaled_frequencies
        assert self.factor is not None
        if self.scaling == "linear":
            return unscaled_frequencies / self.factor
        shares = self._unscaled_shares(unscaled_frequencies, head_width)
        return shares * unscaled_frequencies + (1.0 - shares) * unscaled_frequencies / self.factor

    def _unscaled_shares(
        self, unscaled_frequencies: NDArray[np.float64], head_width: int
    ) -> NDArray[np.float64]:
        """Return the weight, 0 to 1, of each unscaled frequency for llama3 and yarn, (head_width / 2,)."""
        assert self.original_length is not None
        if self.scaling == "llama3":
            low, high = self.low_frequency_factor, self.high_frequency_factor
            assert low is not None
            assert high is not None
            turns = self.original_length * unscaled_frequencies / (2 * math.pi)
            return np.clip((turns - low) / (high - low), 0.0, 1.0)

        def pair_index(turns: float) -> float:
            ratio = self.original_length / (turns * 2 * math.pi)  # type: ignore[operator]
            return head_width * math.log(ratio) / (2 * math.log(self.base))

        ramp_start = max(math.floor(pair_index(self.beta_fast or 32.0)), 0)
        ramp_end = min(math.ceil(pair_index(self.beta_slow or 1.0)), head_width - 1)
        ramp = (np.arange(len(unscaled_frequencies)) - ramp_start) / (
            ramp_end - ramp_start if ramp_end != ramp_start else 0.001
        )
        return 1.0 - np.clip(ramp, 0.0, 1.0)
