"""What every group of settings is made of."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
Positive = Annotated[int, Field(ge=1)]
Natural = Annotated[int, Field(ge=0)]


class Closed(BaseModel):
    """A group of settings that refuses keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)
