"""Copies of small models of every format that the C library reads, each with something wrong in a file."""

import hashlib
import json
import random
from contextlib import suppress

import fuzz
from marian_students import write_student

from uwaga.conversion.quantise import quantise


def make(place, count):
    """Folders, each damaged by the fuzzer's hand; two in three have a checksum that fits."""
    int8, marian = place / "small-int8", place / "marian"
    quantise(fuzz.MODEL, int8)
    write_student(marian)
    sound = [fuzz.MODEL, int8, marian]
    (place / "damaged").mkdir()
    made = []
    for number in range(count):
        rng = random.Random(number)
        folder = fuzz.mutated("c", sound[number % len(sound)], place / "damaged" / str(number), rng)
        made.append(folder)
        if number % 3:
            with suppress(ValueError, TypeError, AttributeError, FileNotFoundError):
                _set_checksum(folder)
    return made


def _set_checksum(folder):
    config = json.loads((folder / "config.json").read_text())
    (weights,) = folder.glob("*.safetensors")
    content = weights.read_bytes()
    stated = config if weights.name == "model.safetensors" else config["weights"]
    stated["sha256"] = hashlib.sha256(content).hexdigest()
    if stated is not config:
        stated["bytes"] = len(content)
    (folder / "config.json").write_text(json.dumps(config))
