"""Which attention of a model tells what a target piece comes from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt

from uwaga.settings.base import StrictModel

Step = Literal["predicting", "reading"]


class LinkModel(StrictModel):
    """How likely two words are linked, by several heads together: two logistic regressions, one after the
    other, as :mod:`uwaga.text.link_evidence` has them.
    """

    heads: tuple[tuple[PositiveInt, PositiveInt, Step], ...] = Field(
        description="layer, head and step of each attention, the best first", min_length=1
    )
    first: tuple[float, ...] = Field(
        description="weights of what the attentions and the words say of a pair, and the constant"
    )
    second: tuple[float, ...] = Field(
        description="weights of what the first one says of the pair and of those around it, and the constant"
    )


class AlignmentHead(StrictModel):
    """The cross-attention head, or mean of a layer's heads, that aligns best."""

    layer: PositiveInt = Field(description="of the decoder, from 1")
    head: PositiveInt | None = Field(None, description="of the layer, from 1; the mean of its heads if none")
    step: Step = Field(
        "predicting",
        description="whose attention aligns a target token: that of the step which predicts it, or of the "
        "next one, which reads it",
    )
    links: LinkModel | None = Field(None, description="which words are linked, by more than this one head")

    def __str__(self) -> str:
        """``1.2 reading``: layer, head or ``mean``, and step; and how many link words together."""
        together = "" if self.links is None else f", links by {len(self.links.heads)} heads"
        return f"{self.layer}.{self.head or 'mean'} {self.step}{together}"
