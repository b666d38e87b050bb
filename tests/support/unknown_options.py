"""Copies of model folders with search options that no version of uwaga has."""

import json
import shutil

OPTIONS = {"rewind": 3, "rewind_by": "length", "rewind_off": False, "rewind_none": None, "rewind_tokens": []}
IGNORED = ["rewind", "rewind_by"]
"""The options that are on."""


def add(folder, destination):
    """Copy a folder, and add the options to the defaults of the model."""
    shutil.copytree(folder, destination)
    config = json.loads((destination / "config.json").read_text(encoding="utf-8"))
    config["decoding"] |= OPTIONS
    (destination / "config.json").write_text(json.dumps(config), encoding="utf-8")
