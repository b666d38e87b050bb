"""Damaged model files: each loads with its original content, or an error names the file.

python tests/support/hostile_files.py INT8_FOLDER FLOAT_FOLDER SHORTLIST SCRATCH EXAMPLES

A separate program, so that crashes are noticed, and so that it can run in a build with sanitizers.
"""

import copy
import hashlib
import json
import shutil
import sys
from pathlib import Path

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from json_files import edited

import uwaga
from uwaga.checkpoints.formats.uwaga.int8 import CONFIG, WEIGHTS
from uwaga.checkpoints.formats.uwaga.names import WEIGHTS as FLOATS
from uwaga.checkpoints.formats.uwaga.shortlist import write_shortlist
from uwaga.checkpoints.storage.safetensors_files import aligned_bytes, open_tensors
from uwaga.conversion.quantise import quantise
from uwaga.engine import Shortlist
from uwaga.errors import UwagaError

TEXTS = ["twenty one", "three hundred and five"]
WEIGHT_NAMES = ("sums", "panels", "scales", ".bias", ".weight")
NUMBERS = [-1, 0, 1, 2, 31, 33, 64, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1, 10**40]
ODD_VALUES = [*NUMBERS, 1.5, -0.0, 1e308, None, True, "", "x", [], [0], {}, {"a": 1}]
NUMBER_FORMATS = ["F32", "F64", "F16", "BF16", "I8", "U8", "I32", "U16", "BOOL", "F8_E4M3", "f32", "", "X"]


def make_files(model, folder):
    """Write an int8 folder and a shortlist of a model with a shared vocabulary; return their paths."""
    quantise(model, folder / "int8")
    translator = uwaga.load(model, engine="native", threads=1)
    size = translator.decoder.vocabulary
    ids, offsets = np.arange(size, dtype=np.int32), np.arange(size + 1, dtype=np.int32)
    shortlist = Shortlist(ids[::2].copy(), offsets, ids, size)
    write_shortlist(folder / "list", shortlist, translator.source, translator.target)
    return folder / "int8", folder / "list"


def load_texts(folder, name, shortlist=None):
    """Return the translations of a folder, or None if it is rejected with an error that names it."""
    try:
        model = uwaga.load(folder, engine="native", threads=2, shortlist=shortlist)
    except UwagaError as error:
        if str(name) in str(error):
            return None
        raise AssertionError("the file is not named") from error
    try:
        return [translation.text for translation in model.translate(TEXTS, max_length=8)]
    except UwagaError:  # valid, but its numbers overflow, or its search settings conflict
        return None


def header_of(content):
    """Return the entries of a safetensors header as a list, since a damaged one may repeat a name."""
    size = int.from_bytes(content[:8], "little")
    return list(json.loads(content[8 : 8 + size]).items()), content[8 + size :]


def with_header(entries, data, draw):
    """Return a safetensors file with the given header, whose length or text may be damaged."""
    text = "{" + ",".join(f"{json.dumps(name)}:{json.dumps(entry)}" for name, entry in entries) + "}"
    head = bytearray(text.encode())
    kind = draw(st.sampled_from(["whole"] * 8 + ["length", "bit", "deep", "cut", "latin"]))
    if kind == "bit":
        head[draw(st.integers(0, len(head) - 1))] ^= 1 << draw(st.integers(0, 7))
    elif kind == "deep":
        head = bytearray(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    elif kind == "latin":
        head[1:1] = b'"\xe9":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},'
    head += b" " * (-(8 + len(head)) % 64)
    size = draw(st.sampled_from(NUMBERS[1:-1])) if kind == "length" else len(head)
    content = (size % 2**64).to_bytes(8, "little") + bytes(head) + data
    return content[: draw(st.integers(0, len(content)))] if kind == "cut" else content


def edit(entries, data, draw):
    """Change a random entry of the header."""
    index = draw(st.integers(0, len(entries) - 1))
    name, entry = entries[index]
    if not isinstance(entry, dict):
        return
    kind = draw(st.sampled_from(["dtype", "shape", "place", "lack", "more", "name", "twice", "order", "odd"]))
    if kind == "dtype":
        entry["dtype"] = draw(st.sampled_from(NUMBER_FORMATS))
    elif kind == "shape":
        entry["shape"] = draw(st.lists(st.sampled_from(NUMBERS), max_size=4))
    elif kind == "place":
        offsets = [end for _, other in entries for end in ends(other)]
        offset = st.sampled_from([*offsets, *NUMBERS, len(data), len(data) + 1])
        entry["data_offsets"] = draw(st.lists(offset, min_size=2, max_size=2) | st.lists(offset, max_size=3))
    elif kind == "lack":
        entry.pop(draw(st.sampled_from(["dtype", "shape", "data_offsets"])), None)
    elif kind == "more":
        entry["more"] = copy.deepcopy(draw(st.sampled_from(ODD_VALUES)))
    elif kind == "name":
        entries[index] = (draw(st.sampled_from(["", "x", "__metadata__", name + "\0", "a" * 5000])), entry)
    elif kind == "twice":
        entries.append((name, copy.deepcopy(draw(st.sampled_from(entries))[1])))
    elif kind == "order":
        entries.append(entries.pop(index))
    else:
        entries[index] = (name, copy.deepcopy(draw(st.sampled_from(ODD_VALUES))))


def ends(entry):
    offsets = entry.get("data_offsets") if isinstance(entry, dict) else None
    return offsets if isinstance(offsets, list) else []


def write_weights(folder, content):
    """Write the weight file of a quantised folder, and its size and checksum to the configuration."""
    (folder / WEIGHTS).write_bytes(content)
    with edited(folder / CONFIG) as config:
        config["weights"] |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def rewrite_weights(folder, change):
    """Change the tensors of a quantised folder."""
    tensors = {name: np.array(tensor.values) for name, tensor in open_tensors(folder / WEIGHTS).items()}
    change(tensors)
    write_weights(folder, aligned_bytes(tensors))


def same_tensors(original, changed):
    """Return True if two files have equal tensors, or False if the second cannot be read."""
    try:
        actual = open_tensors(changed)
    except UwagaError:
        return False
    expected = open_tensors(original)
    return expected.keys() == actual.keys() and all(
        expected[name].format == actual[name].format
        and np.array_equal(expected[name].values, actual[name].values)
        for name in expected
    )


def changed_value(values, draw):
    """Return a configuration with one value replaced."""
    group = values
    while True:
        key = draw(st.sampled_from(sorted(group)))
        if isinstance(group[key], dict) and draw(st.integers(0, 9)):
            group = group[key]
            continue
        group[draw(st.sampled_from([key, "surprise"]))] = copy.deepcopy(draw(st.sampled_from(ODD_VALUES)))
        return


def checks(int8, floats, shortlist, scratch, examples):
    """Return the properties to check, as functions without arguments."""
    expected = {folder: load_texts(folder, "") for folder in (int8, floats)}
    limited = load_texts(int8, "", shortlist)
    assert None not in (*expected.values(), limited)
    hypothesis_settings = settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )

    def fresh_copy(folder):
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(folder, scratch)
        return scratch

    @hypothesis_settings
    @given(st.data())
    def header(data):
        folder, weights = data.draw(st.sampled_from([(int8, WEIGHTS), (floats, FLOATS)]))
        entries, body = header_of((folder / weights).read_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            edit(entries, body, data.draw)
        content = with_header(entries, body, data.draw)
        copied_folder = fresh_copy(folder)
        if folder is int8:
            write_weights(copied_folder, content)
        else:
            (copied_folder / weights).write_bytes(content)
        texts = load_texts(copied_folder, copied_folder)
        if texts is not None and same_tensors(folder / weights, copied_folder / weights):
            assert texts == expected[folder]

    @hypothesis_settings
    @given(st.data())
    def configuration(data):
        folder = data.draw(st.sampled_from([int8, floats]))
        copied = fresh_copy(folder)
        values = json.loads((copied / CONFIG).read_text())
        changed_value(values, data.draw)
        (copied / CONFIG).write_text(json.dumps(values))
        load_texts(copied, copied)

    @hypothesis_settings
    @given(st.data())
    def numbers(data):
        """Damage weights in a file with a valid checksum."""
        copied = fresh_copy(int8)
        tensors = {name: np.array(tensor.values) for name, tensor in open_tensors(copied / WEIGHTS).items()}
        part = data.draw(st.sampled_from(WEIGHT_NAMES))
        name = data.draw(st.sampled_from([name for name in tensors if name.endswith(part)]))
        flat = tensors[name].reshape(-1).view(np.uint8)
        position, bits = data.draw(st.integers(0, flat.size - 1)), data.draw(st.integers(1, 255))
        flat[position] ^= bits
        write_weights(copied, aligned_bytes(tensors))
        texts = load_texts(copied, copied)
        checked = name.endswith((":sums", ":panels")) and name.replace("panels", "sums") in tensors
        assert texts is None or not checked, name

    @hypothesis_settings
    @given(st.data())
    def flips(data):
        """Truncate a file of any kind, or flip a bit, without a new checksum."""
        folder = data.draw(st.sampled_from([int8, floats]))
        copied = fresh_copy(folder)
        name = data.draw(st.sampled_from(sorted(path.name for path in folder.iterdir())))
        content = bytearray((folder / name).read_bytes())
        if data.draw(st.booleans()):
            content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        else:
            content = content[: data.draw(st.integers(0, len(content) - 1))]
        (copied / name).write_bytes(content)
        texts = load_texts(copied, copied)
        assert texts is None or name != WEIGHTS

    @hypothesis_settings
    @given(st.data())
    def lists(data):
        entries, body = header_of(shortlist.read_bytes())
        path, content = scratch.with_suffix(".shortlist"), bytearray(body)
        kind = data.draw(st.sampled_from(["header", "numbers", "cut"]))
        if kind == "header":
            edit(entries, body, data.draw)
        elif kind == "numbers":
            words = np.frombuffer(body, np.int32).copy()
            for _ in range(data.draw(st.integers(1, 4))):
                value = data.draw(st.sampled_from([-(2**31), -1, 0, 1, 2**31 - 1]) | st.integers(-9, 999))
                words[data.draw(st.integers(0, len(words) - 1))] = value
            content = bytearray(words.tobytes())
        damaged = with_header(entries, bytes(content), data.draw)
        path.write_bytes(damaged[: data.draw(st.integers(0, len(damaged)))] if kind == "cut" else damaged)
        texts = load_texts(int8, path, path)
        if texts is not None and same_tensors(shortlist, path):
            assert texts == limited

    return header, configuration, numbers, flips, lists


def main(int8, floats, shortlist, scratch, examples):
    for check in checks(*map(Path, (int8, floats, shortlist, scratch)), int(examples)):
        check()
        print(check.__name__, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
