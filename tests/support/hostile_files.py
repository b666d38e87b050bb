"""Damaged and lying model files: each loads as what it was, or is refused by an error that names it.

python tests/hostile_files.py INT8_FOLDER FLOAT_FOLDER SHORTLIST SCRATCH EXAMPLES

A process of its own, so that a crash is seen, and so that it can run in a build with sanitizers.
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

import uwaga
from uwaga.checkpoints.formats.uwaga.int8 import CONFIG, WEIGHTS
from uwaga.checkpoints.formats.uwaga.names import WEIGHTS as FLOATS
from uwaga.checkpoints.formats.uwaga.shortlist import write_shortlist
from uwaga.checkpoints.storage.safetensors_files import aligned_bytes, open_tensors
from uwaga.conversion.quantise import quantise
from uwaga.engine import Shortlist
from uwaga.errors import UwagaError

TEXTS = ["twenty one", "three hundred and five"]
DAMAGED = ("sums", "panels", "scales", ".bias", ".weight")
NUMBERS = [-1, 0, 1, 2, 31, 33, 64, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1, 10**40]
ODD = [*NUMBERS, 1.5, -0.0, 1e308, None, True, "", "x", [], [0], {}, {"a": 1}]
FORMATS = ["F32", "F64", "F16", "BF16", "I8", "U8", "I32", "U16", "BOOL", "F8_E4M3", "f32", "", "X"]


def make_files(model, place):
    """An int8 folder and a shortlist of a model in which both sides have one vocabulary."""
    quantise(model, place / "int8")
    translator = uwaga.load(model, engine="native", threads=1)
    size = translator.decoder.vocabulary
    every, places = np.arange(size, dtype=np.int32), np.arange(size + 1, dtype=np.int32)
    shortlist = Shortlist(every[::2].copy(), places, every, size)
    write_shortlist(place / "list", shortlist, translator.source, translator.target)
    return place / "int8", place / "list"


def loaded(folder, name, shortlist=None):
    """What the folder says of the texts; None if it is refused, and when it is loaded by its name."""
    try:
        model = uwaga.load(folder, engine="native", threads=2, shortlist=shortlist)
    except UwagaError as error:
        if str(name) in str(error):
            return None
        raise AssertionError("the file is not named") from error
    try:
        return [one.text for one in model.translate(TEXTS, max_length=8)]
    except UwagaError:  # sound, but its numbers overflow, or its search settings cannot go together
        return None


def header_of(content):
    """The entries of a safetensors header, in a list, since a damaged one may name a tensor twice."""
    size = int.from_bytes(content[:8], "little")
    return list(json.loads(content[8 : 8 + size]).items()), content[8 + size :]


def with_header(entries, data, draw):
    """The file again, with its length and text as they should be, or nearly."""
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
    """Change the header in one place."""
    place = draw(st.integers(0, len(entries) - 1))
    name, entry = entries[place]
    if not isinstance(entry, dict):
        return
    kind = draw(st.sampled_from(["dtype", "shape", "place", "lack", "more", "name", "twice", "order", "odd"]))
    if kind == "dtype":
        entry["dtype"] = draw(st.sampled_from(FORMATS))
    elif kind == "shape":
        entry["shape"] = draw(st.lists(st.sampled_from(NUMBERS), max_size=4))
    elif kind == "place":
        others = [end for _, other in entries for end in ends(other)]
        some = st.sampled_from([*others, *NUMBERS, len(data), len(data) + 1])
        entry["data_offsets"] = draw(st.lists(some, min_size=2, max_size=2) | st.lists(some, max_size=3))
    elif kind == "lack":
        entry.pop(draw(st.sampled_from(["dtype", "shape", "data_offsets"])), None)
    elif kind == "more":
        entry["more"] = copy.deepcopy(draw(st.sampled_from(ODD)))
    elif kind == "name":
        entries[place] = (draw(st.sampled_from(["", "x", "__metadata__", name + "\0", "a" * 5000])), entry)
    elif kind == "twice":
        entries.append((name, copy.deepcopy(draw(st.sampled_from(entries))[1])))
    elif kind == "order":
        entries.append(entries.pop(place))
    else:
        entries[place] = (name, copy.deepcopy(draw(st.sampled_from(ODD))))


def ends(entry):
    found = entry.get("data_offsets") if isinstance(entry, dict) else None
    return found if isinstance(found, list) else []


def told(folder, content):
    """Let an int8 folder's configuration know the size and checksum of what is now its weight file."""
    (folder / WEIGHTS).write_bytes(content)
    config = json.loads((folder / CONFIG).read_text())
    config["weights"] |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (folder / CONFIG).write_text(json.dumps(config))


def same_tensors(one, other):
    """Whether two files hold the same, as far as the second can be read at all."""
    try:
        found = open_tensors(other)
    except UwagaError:
        return False
    wanted = open_tensors(one)
    return wanted.keys() == found.keys() and all(
        wanted[name].format == found[name].format and np.array_equal(wanted[name].values, found[name].values)
        for name in wanted
    )


def changed_value(values, draw):
    """Put something else in one place of a configuration."""
    group = values
    while True:
        key = draw(st.sampled_from(sorted(group)))
        if isinstance(group[key], dict) and draw(st.integers(0, 9)):
            group = group[key]
            continue
        group[draw(st.sampled_from([key, "surprise"]))] = copy.deepcopy(draw(st.sampled_from(ODD)))
        return


def checks(int8, floats, shortlist, scratch, examples):
    """The properties, as functions without arguments."""
    expected = {folder: loaded(folder, "") for folder in (int8, floats)}
    limited = loaded(int8, "", shortlist)
    assert None not in (*expected.values(), limited)
    often = settings(
        max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )

    def fresh(folder):
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(folder, scratch)
        return scratch

    @often
    @given(st.data())
    def header(data):
        folder, weights = data.draw(st.sampled_from([(int8, WEIGHTS), (floats, FLOATS)]))
        entries, rest = header_of((folder / weights).read_bytes())
        for _ in range(data.draw(st.integers(1, 3))):
            edit(entries, rest, data.draw)
        content = with_header(entries, rest, data.draw)
        copied = fresh(folder)
        if folder is int8:
            told(copied, content)
        else:
            (copied / weights).write_bytes(content)
        found = loaded(copied, copied)
        if found is not None and same_tensors(folder / weights, copied / weights):
            assert found == expected[folder]

    @often
    @given(st.data())
    def configuration(data):
        folder = data.draw(st.sampled_from([int8, floats]))
        copied = fresh(folder)
        values = json.loads((copied / CONFIG).read_text())
        changed_value(values, data.draw)
        (copied / CONFIG).write_text(json.dumps(values))
        loaded(copied, copied)

    @often
    @given(st.data())
    def numbers(data):
        """Weights that are not what they were, in a file whose checksum is right."""
        copied = fresh(int8)
        tensors = {name: np.array(one.values) for name, one in open_tensors(copied / WEIGHTS).items()}
        part = data.draw(st.sampled_from(DAMAGED))
        name = data.draw(st.sampled_from([name for name in tensors if name.endswith(part)]))
        flat = tensors[name].reshape(-1).view(np.uint8)
        place, bits = data.draw(st.integers(0, flat.size - 1)), data.draw(st.integers(1, 255))
        flat[place] ^= bits
        told(copied, aligned_bytes(tensors))
        found = loaded(copied, copied)
        checked = name.endswith((":sums", ":panels")) and name.replace("panels", "sums") in tensors
        assert found is None or not checked, name

    @often
    @given(st.data())
    def flips(data):
        """A file of any kind cut or with a bit turned, and nobody told."""
        folder = data.draw(st.sampled_from([int8, floats]))
        copied = fresh(folder)
        name = data.draw(st.sampled_from(sorted(one.name for one in folder.iterdir())))
        whole = bytearray((folder / name).read_bytes())
        if data.draw(st.booleans()):
            whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
        else:
            whole = whole[: data.draw(st.integers(0, len(whole) - 1))]
        (copied / name).write_bytes(whole)
        found = loaded(copied, copied)
        assert found is None or name != WEIGHTS

    @often
    @given(st.data())
    def lists(data):
        entries, rest = header_of(shortlist.read_bytes())
        wild, content = scratch.with_suffix(".shortlist"), bytearray(rest)
        kind = data.draw(st.sampled_from(["header", "numbers", "cut"]))
        if kind == "header":
            edit(entries, rest, data.draw)
        elif kind == "numbers":
            whole = np.frombuffer(rest, np.int32).copy()
            for _ in range(data.draw(st.integers(1, 4))):
                value = data.draw(st.sampled_from([-(2**31), -1, 0, 1, 2**31 - 1]) | st.integers(-9, 999))
                whole[data.draw(st.integers(0, len(whole) - 1))] = value
            content = bytearray(whole.tobytes())
        made = with_header(entries, bytes(content), data.draw)
        wild.write_bytes(made[: data.draw(st.integers(0, len(made)))] if kind == "cut" else made)
        found = loaded(int8, wild, wild)
        if found is not None and same_tensors(shortlist, wild):
            assert found == limited

    return header, configuration, numbers, flips, lists


def main(int8, floats, shortlist, scratch, examples):
    for check in checks(*map(Path, (int8, floats, shortlist, scratch)), int(examples)):
        check()
        print(check.__name__, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
