"""Names of the files in our model folders, for whoever only looks whether a folder is one."""

from __future__ import annotations

from uwaga.checkpoints.alignment_head import HEAD_FILE
from uwaga.checkpoints.card import CARD

FORMAT = "uwaga model"
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INT8_FORMAT, INT8_WEIGHTS = "uwaga int8 model", "engine.safetensors"
"""Of int8 folders."""
SOURCE = "source.spm"
TARGET = "target.spm"
FILES = frozenset({CONFIG, WEIGHTS, SOURCE, TARGET, CARD, HEAD_FILE})
