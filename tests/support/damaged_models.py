"""Damaged copies of small models of all formats that the C library reads."""

import json
import random

import fuzz
from fairseq_folders import model_folder
from large_weights import enlarge, set_checksum
from marian_students import write_student

from uwaga.conversion.quantise import quantise


def intact_models(parent):
    """Return the path of an intact model folder of each format; Marian folders have shortlists."""
    folders = [parent / name for name in ("small-int8", "marian", "marian32", "multilingual")]
    quantise(fuzz.MODEL, folders[0])
    write_student(folders[1])
    write_student(folders[2], kind="float32", alphas=False, shared=False)
    model_folder(parent / "m2m100", "m2m100")
    quantise(parent / "m2m100", folders[3], check=False)
    config = json.loads((folders[3] / "config.json").read_text())
    config["frame"]["languages"]["selected"] = ["de", "fr"]
    (folders[3] / "config.json").write_text(json.dumps(config))
    return [fuzz.MODEL, *folders]


def damage(intact, number, destination):
    """Return the damaged copy with the given ``number``; two thirds of copies have valid checksums."""
    rng = random.Random(number)
    folder = intact[number % len(intact)]
    if number // len(intact) % 2:
        copy = fuzz.copy_to(folder, destination)
        enlarge(copy, rng)
        return copy
    copy = fuzz.mutated_copy("c", folder, destination, rng)
    if number % 3:
        set_checksum(copy)
    return copy


def make(folder, count):
    """Return the first ``count`` damaged folders."""
    intact = intact_models(folder)
    (folder / "damaged").mkdir()
    return [damage(intact, number, folder / "damaged" / str(number)) for number in range(count)]
