"""Copies of model folders that contain search options unknown to every version of uwaga."""

import json
import shutil

OPTIONS = {"rewind": 3, "rewind_by": "length", "rewind_off": False, "rewind_none": None, "rewind_tokens": []}
IGNORED = ["rewind", "rewind_by"]
"""Names of the unknown options that are enabled."""


def add(folder, destination):
    """Copy a folder, and add the unknown options to the defaults of its model."""
    shutil.copytree(folder, destination)
    config = json.loads((destination / "config.json").read_text(encoding="utf-8"))
    config["decoding"] |= OPTIONS
    (destination / "config.json").write_text(json.dumps(config), encoding="utf-8")
