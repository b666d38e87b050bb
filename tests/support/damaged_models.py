"""Copies of small models of every format that the C library reads, each with something wrong in a file."""

import random

import fuzz
from large_weights import enlarge, set_checksum
from marian_students import write_student

from uwaga.conversion.quantise import quantise


def sound_models(place):
    """Folders of every format; those of Marian have shortlists."""
    folders = [place / name for name in ("small-int8", "marian", "marian32")]
    quantise(fuzz.MODEL, folders[0])
    write_student(folders[1])
    write_student(folders[2], kind="float32", alphas=False, shared=False)
    return [fuzz.MODEL, *folders]


def damage(sound, number, place):
    """A copy with large weights, or mutated, as the number decides; two in three state their checksum."""
    rng = random.Random(number)
    folder = sound[number % len(sound)]
    if number // len(sound) % 2:
        copied = fuzz.copy_of(folder, place)
        enlarge(copied, rng)
        return copied
    copied = fuzz.mutated("c", folder, place, rng)
    if number % 3:
        set_checksum(copied)
    return copied


def make(place, count):
    """The first damaged folders."""
    sound = sound_models(place)
    (place / "damaged").mkdir()
    return [damage(sound, number, place / "damaged" / str(number)) for number in range(count)]
