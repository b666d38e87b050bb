"""Settings of a run that starts from a model: what trains, at which rate, with which vocabulary."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from uwaga.settings.base import Probability, StrictModel

Multiplier = Annotated[float, Field(gt=0.0)]


class LoraSettings(StrictModel):
    """Low-rank adapters beside frozen matrices (Hu 2021)."""

    rank: int = Field(16, ge=1, le=1 << 16, description="of each update")
    alpha: float = Field(32.0, gt=0.0, description="an update is multiplied by alpha / rank")
    dropout: Probability = Field(0.0, description="on what the adapters read")
    targets: list[str] = Field(
        default_factory=lambda: ["*"],
        min_length=1,
        description="patterns of the linear layers that get one, such as *attention.query",
    )


class AdaptSettings(StrictModel):
    """What of the model named by init trains, and how."""

    vocabulary: Literal["keep", "new"] = Field(
        "keep",
        description="new: subwords as text says, learned on data.train; shared pieces keep their embeddings",
    )
    freeze: list[str] = Field(
        default_factory=list, description="patterns of weights that stay as they are, such as encoder.*"
    )
    rates: dict[str, Multiplier] = Field(
        default_factory=dict,
        description="by pattern of weights, what the learning rate is multiplied by; the last that fits",
    )
    lora: LoraSettings | None = Field(
        None, description="train adapters alone: {rank: 16, alpha: 32, dropout: 0.0, targets: ['*']}"
    )

    @model_validator(mode="after")
    def _adapters_train_alone(self) -> AdaptSettings:
        if self.lora is None:
            return self
        if self.freeze:
            raise ValueError("freeze: with lora nothing but the adapters trains; leave one of the two out")
        if self.vocabulary == "new":
            raise ValueError(
                "vocabulary: new embeddings must be trained, and lora trains none; leave one out"
            )
        return self
