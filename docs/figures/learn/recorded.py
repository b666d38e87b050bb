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
def whole() -> dict[str, Any]:
    """Return the whole file."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def run(name: str) -> dict[str, Any]:
    """Return the frames of a model."""
    found: dict[str, Any] = whole()["runs"][name]
    return found


def sentence(number: int) -> tuple[list[str], list[str]]:
    """Return the labels of a sentence's source and target."""
    pieces = whole()["sentences"][number]
    shown = [[piece.removeprefix("▁") for piece in pieces[side]] for side in ("source", "target")]
    return shown[0], shown[1]


def matrices(of: dict[str, Any], view: str, number: int) -> dict[int, np.ndarray]:
    """Return the weights (target, source) of a sentence by update, from 0 to 1."""
    values = np.frombuffer(base64.b64decode(of["views"][view]["weights"]), np.uint8)
    shapes = [(len(one["target"]), len(one["source"])) for one in whole()["sentences"]]
    sizes = [rows * columns for rows, columns in shapes]
    first = sum(sizes[:number])
    frames = values.reshape(len(of["updates"]), -1)[:, first : first + sizes[number]]
    shaped = frames.reshape(-1, *shapes[number]) / 255
    return dict(zip(of["updates"], shaped, strict=True))
