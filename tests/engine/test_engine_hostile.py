"""No damaged file, invalid request, interruption or fork makes the engine crash, hang or stop halfway."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hostile_files import make_files

import uwaga
from uwaga.decoder import MAX_BEAM
from uwaga.engine import Shortlist, _core
from uwaga.engine.model import MAX_THREADS
from uwaga.errors import DataError, ModelError, SettingsError

SUPPORT = Path(__file__).resolve().parents[1] / "support"
MODEL = SUPPORT / "models" / "numbers-en-de"
TEXT = "twenty one"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Create an int8 model folder and a shortlist of the same model."""
    folder = tmp_path_factory.mktemp("hostile")
    make_files(MODEL, folder)
    return folder


def python(*arguments, seconds=120, **variables):
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, *map(str, arguments)], capture_output=True, text=True, env=environment, check=False,
        timeout=seconds,
    )  # fmt: skip


@pytest.mark.parametrize("examples", [10, pytest.param(200, marks=pytest.mark.release)])
def test_damaged_model_files_load_or_raise_an_error_that_names_them(files, tmp_path, examples):
    script = SUPPORT / "hostile_files.py"
    process = python(script, files / "int8", MODEL, files / "list", tmp_path / "scratch", examples)
    assert process.returncode == 0, (process.stdout + process.stderr)[-4000:]
    assert process.stdout.split() == ["header", "configuration", "numbers", "flips", "lists"]


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "loop", "empty"])
def test_special_files_are_rejected(files, tmp_path, kind):
    """Reading from a pipe or a device would never end."""
    for original in (files / "int8", MODEL):
        for path in sorted(original.iterdir()):
            if path.name == "card.md":
                continue
            folder = tmp_path / f"{original.name}-{path.name}"
            shutil.copytree(original, folder)
            (folder / path.name).unlink()
            replace_file(folder / path.name, kind)
            with pytest.raises(ModelError, match=str(folder)):
                uwaga.load(folder, engine="native")
    replace_file(tmp_path / "list", kind)
    with pytest.raises(ModelError, match=str(tmp_path / "list")):
        uwaga.load(MODEL, engine="native", shortlist=tmp_path / "list")


def replace_file(path, kind):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "empty":
        path.touch()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else path)


def test_symbolic_links_are_followed(files, tmp_path):
    for path in (files / "int8").iterdir():
        (tmp_path / path.name).symlink_to(path)
    expected = uwaga.load(files / "int8", threads=1).translate(TEXT)
    assert uwaga.load(tmp_path, threads=1).translate(TEXT) == expected


def test_overflowing_shortlist_offsets_are_rejected():
    """Differences of 32-bit numbers may wrap around to positive numbers."""
    end = 2**31 - 1
    with pytest.raises(ModelError, match="first: the offsets"):
        Shortlist(
            *(np.array(part, dtype=np.int32) for part in ([1], [0, end, -end - 1, -1, 2], [0, 1])),
            vocabulary=4,
        )


def test_stored_int8_sums_and_levels_are_validated():
    rng = np.random.default_rng(0)
    for outputs, inputs in ((1, 1), (33, 70), (40, 5000)):
        panels, scales, sums = _core.pack_int8(rng.normal(size=(outputs, inputs)).astype(np.float32), 127)
        arrays = (panels, scales, sums)
        _core.Matrix.int8(outputs, inputs, 127, *arrays)
        with pytest.raises(ValueError, match="the 63 levels"):
            _core.Matrix.int8(outputs, inputs, 63, *arrays)
        for part, change in ((0, 1), (2, 128), (2, -1)):
            copied = [panels, scales.copy(), sums.copy()]
            if part == 0:  # must stay on 64 bytes
                position = int(rng.integers(0, len(panels)))
                panels[position] ^= change
            else:
                copied[2][int(rng.integers(0, outputs))] += change
            with pytest.raises(ValueError, match="sums: "):
                _core.Matrix.int8(outputs, inputs, 127, *copied)
            if part == 0:
                panels[position] ^= change
    extreme = np.full((2, 65536), -1.0, dtype=np.float32)
    panels, scales, sums = _core.pack_int8(extreme, 127)
    assert sums[0] == -128 * 127 * 65536
    _core.Matrix.int8(2, 65536, 127, panels, scales, sums)
    with pytest.raises(ValueError, match=r"65537 inputs.* at most 65536"):
        _core.pack_int8(np.zeros((1, 65537), dtype=np.float32), 127)


def test_invalid_thread_counts_and_beams_are_rejected():
    for threads in (-1, MAX_THREADS + 1, 10**6, 2**70):
        with pytest.raises(SettingsError, match="threads must be"):
            uwaga.load(MODEL, engine="native", threads=threads)
    model = uwaga.load(MODEL, engine="native", threads=0)
    assert 1 <= model.decoder.threads <= MAX_THREADS
    with pytest.raises(SettingsError, match="beam must be 1024 or less"):
        model.translate(TEXT, beam=MAX_BEAM + 1)
    memory = model.decoder.encode([(5, 3)])
    for beams in (0, -1, 2**16 + 1, 2**62):
        with pytest.raises(DataError, match="beams must be from 1 to"):
            model.decoder.start(memory, beams)
    with pytest.raises(ValueError, match="None is no"):
        _core.State.join([None])


def test_instruction_set_names_are_case_insensitive(monkeypatch):
    for name in ("PORTABLE", " Portable "):
        monkeypatch.setenv("UWAGA_ISA", name)
        assert uwaga.load(MODEL, engine="native", threads=1).decoder.isa == "portable"


FEW_THREADS_PROGRAM = """
import resource, sys
import numpy as np
from uwaga.settings import TransformerSettings
from uwaga.decoder import Choice, Symbols
from uwaga.engine import NativeModel, pack
from uwaga.engine.layout import stored_shapes

shape = TransformerSettings(
    encoder_layers=1, decoder_layers=1, width=32, heads=2, feed_forward=64, max_length=40
)
rng = np.random.default_rng(0)
sizes = stored_shapes(shape, 90, 90)
weights = {name: rng.normal(0, 0.2, size).astype(np.float32) for name, size in sizes.items()}
packed = pack(shape, (90, 90), weights.__getitem__)
symbols = Symbols(start=2, end=3, pad=0, unknown=1)
sources = [rng.integers(4, 90, 30).tolist() for _ in range(40)]

def found(threads, width, beams):
    model = NativeModel(shape, symbols, (90, 90), packed, threads, shared_width=width)
    state = model.start(model.encode(sources), beams)
    return model.step(np.full(40 * beams, 2), state, Choice(5)).log_probs

expected = {beams: found(1, 1, beams) for beams in (1, 4)}
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
for room in (0.5, 2.5):  # GB; a thread's stack takes one
    for width, beams in ((1, 1), (1, 4), (384, 4)):
        resource.setrlimit(resource.RLIMIT_AS, (used + int(room * 2**30), resource.RLIM_INFINITY))
        few = found(6, width, beams)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        assert np.array_equal(few, expected[beams])
print("done")
"""


def test_results_do_not_change_if_too_few_threads_start():
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    if hard != resource.RLIM_INFINITY or not Path("/proc/self/statm").exists():
        pytest.skip("stacks of a gigabyte are not allowed here")
    process = subprocess.run(
        [sys.executable, "-c", FEW_THREADS_PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (1 << 30, hard)),
    )
    assert (process.stdout, process.returncode) == ("done\n", 0), process.stderr


def test_overlong_line_gives_a_short_error_message():
    process = subprocess.run(
        [sys.executable, "-m", "uwaga", "translate", "--split", "never", "--model", MODEL],
        input="twenty " * 100_000, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert process.returncode == 1
    assert process.stdout == ""
    assert process.stderr.startswith("error: line 1: the sentence 'twenty twenty")
    assert len(process.stderr) < 400


FORK_PROGRAM = """
import os, sys, uwaga
model = uwaga.load(sys.argv[1], engine="native", threads=4)
texts = ["twenty one", "three hundred and five"] * 20
expected = [one.text for one in model.translate(texts)]
for ends in (os._exit, sys.exit):
    child = os.fork()
    if child == 0:
        ends(0 if [one.text for one in model.translate(texts)] == expected else 3)
    assert os.waitpid(child, 0)[1] == 0
assert [one.text for one in model.translate(texts)] == expected
"""


def test_forked_process_translates():
    process = python("-c", FORK_PROGRAM, MODEL, seconds=60)
    assert process.returncode == 0, process.stderr


TRANSLATING_PROGRAM = """
import sys, uwaga
model = uwaga.load(sys.argv[1], engine="native", threads=4)
texts = ["nine hundred and ninety nine"] * 200_000
first = model.translate(texts[:3])
print("ready", flush=True)
try:
    model.translate(texts, beam=4)
except KeyboardInterrupt:
    assert model.translate(texts[:3]) == first
    print("interrupted", flush=True)
"""


LONG_CALL_PROGRAM = """
import sys
import numpy as np
from uwaga.settings import TransformerSettings
from uwaga.decoder import Symbols
from uwaga.engine import NativeModel, pack
from uwaga.engine.layout import stored_shapes

shape = TransformerSettings(
    encoder_layers=6, decoder_layers=1, width=64, heads=4, feed_forward=8, positions="relative"
)
rng = np.random.default_rng(0)
sizes = stored_shapes(shape, 90, 90)
weights = {name: rng.normal(0, 0.2, size).astype(np.float32) for name, size in sizes.items()}
symbols = Symbols(start=2, end=3, pad=0, unknown=1)
model = NativeModel(shape, symbols, (90, 90), pack(shape, (90, 90), weights.__getitem__), int(sys.argv[1]))
long = rng.integers(4, 90, 60_000).tolist()
print("ready", flush=True)
try:
    model.encode([long] * 6)
except KeyboardInterrupt:
    assert model.encode([long[:300]] * 6).lengths.tolist() == [300] * 6
    print("interrupted", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "4"])
def test_ctrl_c_stops_a_long_call(threads):
    """A call that takes minutes checks for signals in the main thread and stops all threads."""
    check_interrupt("-c", LONG_CALL_PROGRAM, threads)


def test_ctrl_c_stops_a_search_and_leaves_the_engine_usable():
    check_interrupt("-c", TRANSLATING_PROGRAM, str(MODEL))


def check_interrupt(*arguments):
    process = subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        start = time.monotonic()
        out, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (out, process.returncode) == ("interrupted\n", 0), errors
    assert time.monotonic() - start < 20  # a step is milliseconds; the machine may be busy


KILLED_WRITER_PROGRAM = """
import ctypes, os, signal, sys
from pathlib import Path
import numpy as np
import uwaga
from uwaga.checkpoints.formats.uwaga.shortlist import read_shortlist, write_shortlist
from uwaga.engine import Shortlist
from uwaga.conversion.quantise import quantise

model, place = Path(sys.argv[1]), Path(sys.argv[2])
translator = uwaga.load(model, engine="native", threads=1)
size = translator.decoder.vocabulary
sides = (translator.source, translator.target)

def make_folder(folder, new):
    quantise(model, folder, ("output",) if new else ())

def sound_folder(folder):
    assert uwaga.load(folder, threads=1).translate("twenty one").text

def make_list(path, new):
    first, targets = np.zeros(size + 1, dtype=np.int32), np.zeros(0, dtype=np.int32)
    common = np.arange(3 if new else 9, dtype=np.int32)
    write_shortlist(path, Shortlist(common, first, targets, size), *sides)

def sound_list(path):
    read_shortlist(path, *sides, size, size)

def dying(function, left):
    def wrapped(*arguments, **options):
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **options)
    return wrapped

def killed_at(moment, make, out):
    child = os.fork()
    if child == 0:
        left = [moment]
        os.fsync, os.replace = dying(os.fsync, left), dying(os.replace, left)
        for name in ("mkdir", "open", "rename", "unlink"):
            setattr(Path, name, dying(getattr(Path, name), left))
        make(out, True)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])

def no_library(name):
    raise OSError("folders cannot change places in one step")

library = ctypes.CDLL
cases = [(make_folder, sound_folder, library), (make_folder, sound_folder, no_library)]
cases += [(make_list, sound_list, library)]
for make, sound, ctypes.CDLL in cases:
    for existing in (False, True):
        moment = 0
        while True:
            out = place / f"{make.__name__}-{ctypes.CDLL.__name__}-{existing}-{moment}" / "out"
            out.parent.mkdir(parents=True)
            if existing:
                make(out, False)
            killed = killed_at(moment, make, out)
            if out.exists():
                sound(out)
            else:  # between two renames: all is there, under hidden names
                hidden = {path.suffix for path in out.parent.iterdir() if path.suffix in (".old", ".part")}
                assert killed and (not existing or hidden == {".old", ".part"})
                if existing:
                    for path in out.parent.iterdir():
                        sound(path)
            make(out, True)  # what is left in the way stops nobody
            sound(out)
            if sound is sound_folder:
                assert [path.name for path in out.parent.iterdir()] == ["out"]
            if not killed:
                break
            moment += 1
        print(make.__name__, existing, moment)
        assert moment >= 3
"""


@pytest.mark.slow
def test_killed_writers_leave_only_complete_files(tmp_path):
    process = python("-c", KILLED_WRITER_PROGRAM, MODEL, tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr
    assert len(process.stdout.splitlines()) == 6
