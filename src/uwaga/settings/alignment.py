"""Which attention of a model tells what a target piece comes from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt

from uwaga.settings.base import StrictModel


class AlignmentHead(StrictModel):
    """The cross-attention head, or mean of a layer's heads, that aligns best."""

    layer: PositiveInt = Field(description="of the decoder, from 1")
    head: PositiveInt | None = Field(None, description="of the layer, from 1; the mean of its heads if none")
    step: Literal["predicting", "reading"] = Field(
        "predicting",
        description="whose attention aligns a target token: that of the step which predicts it, or of the "
        "next one, which reads it",
    )

    def __str__(self) -> str:
        """``1.2 reading``: layer, head or ``mean``, and step."""
        return f"{self.layer}.{self.head or 'mean'} {self.step}"
