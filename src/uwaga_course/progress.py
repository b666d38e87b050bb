"""The solved exercises, which ``uwaga learn`` stores in a file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from uwaga.files.atomic import write_file
from uwaga.library.installed import models_home


def progress_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the file of solved exercises, next to the folder of downloaded models."""
    return models_home(environment).parent / "learned.json"


def solved_exercises() -> set[str]:
    """Return the numbers of the solved exercises, or an empty set if the file is missing or damaged."""
    try:
        numbers = json.loads(progress_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return set()
    return {number for number in numbers if isinstance(number, str)} if isinstance(numbers, list) else set()


def mark_solved(number: str) -> None:
    """Add the number of an exercise to the file of solved exercises."""
    solved_numbers = solved_exercises()
    if number in solved_numbers:
        return
    path = progress_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, json.dumps(sorted(solved_numbers | {number})) + "\n")
