"""Large finite weights in model files: they pass a check for finite numbers, but products overflow.

A byte repeated is a large number in float32, bfloat16 and float16 at any offset: four of 0x7f are 3.4e38.
"""

import hashlib
import io
import json
import struct
import zipfile
from contextlib import suppress

import numpy as np
from marian_students import FLOAT16, FLOAT32, INTGEMM8, INTGEMM16

LARGE, LARGE_HALF, SMALL = (0x7F, 0x7B, 0xFB), (0x7B, 0xFB), (0x03,)
"""Bytes of large numbers, of large float16 numbers, and of small numbers to divide by."""
SUFFIXES = (".safetensors", ".bin", ".npz", ".pt", ".gguf", ".argosmodel")


def enlarge(folder, rng):
    """Make some weights large in a file, or in a file of a folder, and update the folder's checksum."""
    paths = sorted(path for path in folder.rglob("*") if is_weights(path)) if folder.is_dir() else [folder]
    path = rng.choice(paths)
    content = path.read_bytes()
    path.write_bytes(
        archive_with_large_numbers(content, rng)
        if zipfile.is_zipfile(path)
        else with_large_numbers(path.name, content, rng)
    )
    if folder.is_dir():
        set_checksum(folder)


def is_weights(path):
    return path.suffix in SUFFIXES and not path.name.startswith("lex.")


def archive_with_large_numbers(content, rng):
    """Return a zip archive with large numbers in a member."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        target = rng.choice([name for name in names if name.endswith((".npy", ".bin")) or "/data/" in name])
        for name in names:
            member = old.read(name)
            new.writestr(name, with_large_numbers(name, member, rng) if name == target else member)
    return out.getvalue()


def with_large_numbers(name, content, rng):
    """Return the content of a file with one, some or many numbers made large."""
    changed = bytearray(content)
    for _ in range(rng.choice([1, 1, 3])):
        ranges = number_ranges(name, content)
        if not ranges:
            break
        start, stop, values = rng.choice(ranges)
        size = min(rng.choice([4, 64, 256, 4096, 1 << 20]), stop - start)
        first = start + rng.randrange((stop - start - size) // 4 + 1) * 4
        changed[first : first + size] = bytes([rng.choice(values)]) * size
    return bytes(changed)


def number_ranges(name, content):
    """Return (start, stop, bytes) for each array of floats: its range, and the bytes that make it large."""
    if name.endswith(".safetensors"):
        size = 8 + int.from_bytes(content[:8], "little")
        tensors = [entry for key, entry in json.loads(content[8:size]).items() if key != "__metadata__"]
        values = {"F32": LARGE, "BF16": LARGE, "F16": LARGE_HALF}
        ranges = [(*entry["data_offsets"], values.get(entry["dtype"])) for entry in tensors]
        return [
            (size + start, size + stop, bytes_) for start, stop, bytes_ in ranges if bytes_ and stop > start
        ]
    if name.endswith(".npy"):
        file = io.BytesIO(content)
        np.lib.format.read_magic(file)
        _, _, dtype = np.lib.format.read_array_header_1_0(file)
        return [(file.tell(), len(content), LARGE)] if dtype == np.float32 else []
    if content[:8] == struct.pack("<Q", 1) and name.endswith(".bin"):
        return marian_ranges(content)
    return [(len(content) // 2, len(content), (*LARGE, *LARGE_HALF))] if len(content) > 3 else []


def marian_ranges(content):
    """Return the ranges of a binary Marian model: its floats, and the multipliers of its integers."""
    (count,) = struct.unpack_from("<Q", content, 8)
    entries = [struct.unpack_from("<QQQQ", content, 16 + 32 * index) for index in range(count)]
    offset = 16 + 32 * count + sum(entry[0] for entry in entries)
    shapes = []
    for _, _, axes, _ in entries:
        shapes.append(struct.unpack_from(f"<{axes}i", content, offset))
        offset += 4 * axes
    (padding,) = struct.unpack_from("<Q", content, offset)
    offset += 8 + padding
    ranges = []
    for (_, kind, _, size), shape in zip(entries, shapes, strict=True):
        numbers = int(np.prod(shape)) * (2 if kind in (INTGEMM16, FLOAT16) else 1)
        if kind in (FLOAT32, FLOAT16):
            ranges.append((offset, offset + size, LARGE if kind == FLOAT32 else LARGE_HALF))
        elif kind in (INTGEMM8, INTGEMM16):
            ranges.append((offset + numbers, offset + numbers + 4, SMALL))
        offset += size
    return ranges


def set_checksum(folder):
    """Set the checksum that a folder states to that of its weights, if it can be read."""
    with suppress(ValueError, TypeError, AttributeError, FileNotFoundError, KeyError, RecursionError):
        config = json.loads((folder / "config.json").read_text())
        (weights,) = folder.glob("*.safetensors")
        content = weights.read_bytes()
        header = config if weights.name == "model.safetensors" else config["weights"]
        if "sha256" not in header:
            return
        header["sha256"] = hashlib.sha256(content).hexdigest()
        if header is not config:
            header["bytes"] = len(content)
        (folder / "config.json").write_text(json.dumps(config))
