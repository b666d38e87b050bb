"""What a family's file makes of a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uwaga.checkpoints.table import Table
from uwaga.config import TransformerSettings
from uwaga.text.subwords import Subwords

if TYPE_CHECKING:
    from uwaga.models.transformer import Transformer


@dataclass(frozen=True)
class Recipe:
    """A folder understood: how to build its model, and where each weight is stored."""

    settings: TransformerSettings
    source_vocabulary: int
    target_vocabulary: int
    source: Subwords
    target: Subwords
    table: Callable[[Transformer], Table]
    languages: tuple[str, str] = ("src", "tgt")


Family = Callable[[Path, Mapping[str, Any]], Recipe]
"""From a folder and its ``config.json`` to what they mean; raises ModelError."""
