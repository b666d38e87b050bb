"""File names in uwaga's model folders, and the folder of the bundled model."""

from __future__ import annotations

from pathlib import Path

from uwaga.checkpoints.alignment_head import HEAD_FILE
from uwaga.checkpoints.card import CARD

FORMAT = "uwaga model"
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INT8_FORMAT, INT8_WEIGHTS = "uwaga int8 model", "engine.safetensors"
"""Name of the int8 format, and name of the weight file in int8 and int4 folders."""
INT4_FORMAT = "uwaga int4 model"
"""Name of the int4 format."""
SOURCE = "source.spm"
TARGET = "target.spm"
ADAPTER = "adapter.json"
"""The configuration in the folder of an adapter."""
FILES = frozenset({CONFIG, WEIGHTS, SOURCE, TARGET, CARD, HEAD_FILE})

BUNDLED = Path(__file__).resolve().parents[3] / "bundled"
"""The folder of the bundled model."""
