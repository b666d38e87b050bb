"""The frames of the four compared models, as ``recipes/compare/frames.py`` recorded them."""

from __future__ import annotations

import base64
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

FILE = Path(__file__).resolve().parents[2] / "learn/models/frames.json"


@cache
def read_recording() -> dict[str, Any]:
    """Return the whole file."""
    recording: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return recording


def run(name: str) -> dict[str, Any]:
    """Return the frames of a model."""
    record: dict[str, Any] = read_recording()["runs"][name]
    return record


def sentence(number: int) -> tuple[list[str], list[str]]:
    """Return the labels of a sentence's source and target."""
    pieces = read_recording()["sentences"][number]
    pieces_by_side = [[piece.removeprefix("▁") for piece in pieces[side]] for side in ("source", "target")]
    return pieces_by_side[0], pieces_by_side[1]


def matrices(run_record: dict[str, Any], view: str, number: int) -> dict[int, np.ndarray]:
    """Return the weights (target, source) of a sentence by update, from 0 to 1."""
    values = np.frombuffer(base64.b64decode(run_record["views"][view]["weights"]), np.uint8)
    shapes = [
        (len(sentence["target"]), len(sentence["source"])) for sentence in read_recording()["sentences"]
    ]
    sizes = [rows * columns for rows, columns in shapes]
    first = sum(sizes[:number])
    frames = values.reshape(len(run_record["updates"]), -1)[:, first : first + sizes[number]]
    shaped = frames.reshape(-1, *shapes[number]) / 255
    return dict(zip(run_record["updates"], shaped, strict=True))
