"""What ``uwaga train --sweep`` tries: parameters with their ranges, and how they are drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from uwaga.settings.base import StrictModel

Value = bool | int | float | str


class ParameterSettings(StrictModel):
    """The values of one parameter: listed, or a range of numbers, whole where both its ends are whole."""

    values: list[Value] | None = Field(None, description="any of these", min_length=1)
    low: int | float | None = Field(None, description="or numbers from here")
    high: int | float | None = Field(None, description="to here, inclusive")
    step: int | float | None = Field(None, gt=0, description="in steps of this; any if none")
    log: bool = Field(False, description="drawn evenly by magnitude, as learning rates are")

    @model_validator(mode="after")
    def _one_form(self) -> ParameterSettings:
        if self.values is not None:
            if (self.low, self.high, self.step, self.log) != (None, None, None, False):
                raise ValueError("values stand alone, without low, high, step and log")
            if len({(type(one), one) for one in self.values}) < len(self.values):
                raise ValueError("values holds one of them twice")
            return self
        low, high = self.range
        if low >= high:
            raise ValueError(f"low {low} is not below high {high}")
        if self.log and (low <= 0 or self.step is not None):
            raise ValueError("log needs a low above 0, and no step")
        if self.whole and isinstance(self.step, float):
            raise ValueError(f"step {self.step} is not whole, as low and high are")
        return self

    @property
    def range(self) -> tuple[int | float, int | float]:
        """Its ends, where no values are listed.

        Raises:
            ValueError: they are not given.
        """
        if self.low is None or self.high is None:
            raise ValueError("needs values, or low and high")
        return self.low, self.high

    @property
    def whole(self) -> bool:
        """Whether the numbers of the range are whole."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def ends(self) -> list[Value]:
        """The values that are checked before anything is trained: all that are listed, or both ends."""
        return list(self.range) if self.values is None else list(self.values)


class SweepSettings(StrictModel):
    """A search for good settings: the file that `uwaga train --sweep` reads."""

    parameters: dict[str, ParameterSettings] = Field(
        description="the values that are tried of each setting, such as training.schedule.peak",
        min_length=1,
    )
    trials: PositiveInt = Field(20, description="runs in all, those of earlier calls among them")
    metric: Literal["bleu", "chrf", "loss"] | None = Field(
        None, description="what is best on the dev set; training.early_stopping_metric if none"
    )
    run: Path | None = Field(None, description="folder of the study and its runs; the settings' run if none")
    sampler: Literal["tpe", "random", "grid"] = Field(
        "tpe", description="how parameters are drawn: by what went well before, by chance, or each in turn"
    )
    pruner: Literal["median", "hyperband", "none"] = Field(
        "median",
        description="which runs are stopped early: those below the median, by halving, or none",
    )
    warm_trials: NonNegativeInt = Field(5, description="first runs, none of which is stopped early")
    warm_validations: NonNegativeInt = Field(1, description="of a run, after which it may be stopped early")
    jobs: PositiveInt = Field(1, description="runs at the same time")
    seed: int = Field(1, description="of what is drawn")

    @model_validator(mode="after")
    def _grid_is_finite(self) -> SweepSettings:
        endless = [
            name
            for name, one in self.parameters.items()
            if one.values is None and one.step is None and not one.whole
        ]
        if self.sampler == "grid" and endless:
            raise ValueError(f"sampler grid: {endless[0]} needs values, a step or whole ends")
        return self
