"""Texts with random options and mutated model files: an answer or an error of ours, soon, in little memory.

python tests/support/fuzz.py [--count N] [--seconds S] [--seed K]

Each case has a number that alone decides it, so that one that fails can be run again (``--case FORMAT
NUMBER``); those that once failed stand in ``fuzz_cases.json`` and are run by the tests. Cases run in child
processes, so that a crash is seen; a case has 10 s of CPU, and twice the memory that the sound file takes.
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from pathlib import Path

sys.path[:0] = [
    str(Path(__file__).parent),
    *(str(Path(__file__).parents[1] / name) for name in ("checkpoints", "translator")),
]

from fuzz_formats import MODEL, make_all
from large_weights import enlarge

import uwaga
from uwaga.checkpoints.registry import describe
from uwaga.errors import UwagaError
from uwaga.settings import load_settings

CASES = Path(__file__).parent / "fuzz_cases.json"
CPU, SLACK, BATCH = 10, 96 << 10, 40
"""Seconds of a case; KiB of memory beyond twice the sound file's; cases of a child process."""
ODD = [
    0,
    -1,
    1,
    2,
    10**6,
    10**9,
    2**31,
    2**63,
    10**40,
    1.5,
    -0.0,
    1e308,
    None,
    True,
    "",
    "x",
    "\ud800",
    [],
    {},
]
WORDS = [
    "twenty",
    "one",
    "three",
    "\0",
    "€",
    "👩‍👩‍👧",
    "\ud800",
    "\u2028",
    "\n",
    "\r\n",
    "\t",
    "<s>",
    "</s>",
    "<unk>",
]
WORDS += [
    "\u2581",
    "a" * 300,
    "1" * 50,
    "العربية",
    "日本語。",
    ">>deu<<",
    "&amp;",
    "\ufeff",
    "\u202e",
    ". ",
    "! ",
]
VALUES = [
    *ODD,
    3,
    5,
    9,
    0.1,
    0.5,
    0.9,
    float("nan"),
    float("inf"),
    "never",
    "auto",
    "estimate",
    False,
    (1, 2),
]
OPTIONS = ["beam", "nbest", "length_penalty", "length_formula", "early_stopping", "min_length", "max_length"]
OPTIONS += ["max_ratio", "max_extra", "force_end", "no_repeat_ngram", "start", "first", "banned", "unknown"]
OPTIONS += ["renormalise", "sample", "temperature", "top_k", "top_p", "seed", "attention", "batch_tokens"]
OPTIONS += ["prefix", "split", "score_forced", "source", "target"]
LARGE = "large "
"""The name of a format with this before it: sound files, but for large finite weights."""
SEARCHES = [
    {"beam": 1},
    {"beam": 3, "nbest": 3},
    {"beam": 12, "renormalise": True},
    {"beam": 2, "prefix": "ein"},
    {"sample": True, "seed": 1},
    {"sample": True, "top_k": 3, "top_p": 0.5, "seed": 2},
]


def use(name, place, made):
    """Do with a file what users do: describe it, load it, run it once."""
    if name == "settings":
        load_settings(place)
        return
    if name == "shortlist":
        uwaga.load(made["int8"], threads=1, shortlist=place).translate("twenty one", max_length=8)
        return
    if name.startswith(LARGE) and name.removeprefix(LARGE) not in ("bert", "gpt2", "gguf"):
        search_all(uwaga.load(place, device="cpu", threads=1, shortlist=listed(name, made)))
        return
    name = name.removeprefix(LARGE)
    with contextlib.suppress(UwagaError):
        describe(place)
    if name == "bert":
        uwaga.MaskFiller.load(place, device="cpu").fill("a [MASK] b")
    elif name in ("gpt2", "gguf"):
        uwaga.TextGenerator.load(place, device="cpu", threads=1).generate("the dog", max_length=4)
    else:
        uwaga.load(place, device="cpu", threads=1).translate("twenty one", max_length=8)


def listed(name, made):
    """The shortlist that a format is loaded with."""
    return made["shortlist"] if name == LARGE + "shortlist" else None


def search_all(model):
    """Search in every way; the answer of one may be an error."""
    for options in SEARCHES:
        with contextlib.suppress(UwagaError):
            model.translate(["twenty one", "three hundred"], max_length=8, **options)


def enlarged(name, made, scratch, rng):
    """A copy of a sound model in which some weights are large."""
    sound = made["int8" if name == LARGE + "shortlist" else name.removeprefix(LARGE)]
    copied = copy_of(sound, scratch)
    enlarge(copied, rng)
    return copied


def copy_of(sound, scratch):
    """A copy in an empty folder."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    copied = scratch / sound.name
    return Path(shutil.copy(sound, copied) if sound.is_file() else shutil.copytree(sound, copied))


def mutated(name, sound, scratch, rng):
    """A copy of a sound model with something wrong in one of its files, or in two."""
    copied = copy_of(sound, scratch)
    if sound.is_file():
        harm(copied, rng)
        return copied
    files = sorted(path for path in copied.rglob("*") if path.is_file())
    for path in rng.sample(files, rng.choice([1, 1, 1, 2]) if len(files) > 1 else 1):
        harm(path, rng)
    return copied


def harm(path, rng):
    """Damage a file in a way of its kind."""
    content = path.read_bytes()
    kinds = [bits, cut, spliced]
    if path.suffix in (".json", ".yml", ".yaml", ".md", ".txt"):
        kinds = [bits, cut, spliced, words, words]
    if path.suffix == ".json":
        kinds += [keys, keys, keys, keys]
    if path.suffix == ".safetensors":
        kinds += [header, header, numbers]
    if path.suffix == ".gguf":
        kinds += [counts, counts, counts]
    if zipfile.is_zipfile(path):
        kinds += [members, members, members]
    path.write_bytes(rng.choice(kinds)(content, rng))


def bits(content, rng):
    """Some bits turned."""
    made = bytearray(content or b"\0")
    for _ in range(rng.choice([1, 1, 3, 30])):
        made[rng.randrange(len(made))] ^= 1 << rng.randrange(8)
    return bytes(made)


def cut(content, rng):
    """The beginning alone, or nothing."""
    return content[: rng.choice([0, 1, rng.randrange(len(content) + 1), len(content) - 1])]


def spliced(content, rng):
    """A part left out, said twice or put elsewhere."""
    first, last = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    last = min(last, first + 5000)
    return rng.choice([content[:first] + content[last:], content[:last] + content[first:], content[last:]])


def words(content, rng):
    """A number or word in the text replaced."""
    import re

    found = list(re.finditer(rb"[\w.+-]+", content))
    if not found:
        return content
    place = rng.choice(found)
    odd = rng.choice(
        [b"-1", b"0", b"1e309", b"9" * 5000, b"*a", b"&a x", b"!!int x", b".nan", b"[" * 999, b"\xff", b"~"]
    )
    return content[: place.start()] + odd + content[place.end() :]


def keys(content, rng):
    """Another value in one place of a JSON file."""
    try:
        values = json.loads(content)
    except ValueError:
        return content
    group = values
    for _ in range(6):
        if not isinstance(group, dict | list) or not group:
            break
        key = rng.choice(sorted(group)) if isinstance(group, dict) else rng.randrange(len(group))
        if not isinstance(group[key], dict | list) or not group[key] or rng.random() < 0.3:
            group[key] = rng.choice(ODD)
            if isinstance(group, dict) and rng.random() < 0.2:
                del group[key]
            break
        group = group[key]
    return json.dumps(values).encode()


def header(content, rng):
    """Another header of a safetensors file."""
    size = int.from_bytes(content[:8], "little")
    text = rng.choice([keys, keys, words, bits])(content[8 : 8 + size], rng)
    text += b" " * (-(8 + len(text)) % 64)
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


def numbers(content, rng):
    """Numbers that are none among the weights."""
    made = bytearray(content)
    place = rng.randrange(int.from_bytes(content[:8], "little") + 8, max(len(made) - 4, 1)) // 4 * 4
    made[place : place + 4] = rng.choice([b"\0\0\xc0\x7f", b"\0\0\x80\x7f", b"\xff\xff\x7f\x7f", b"\0\0\0\0"])
    return bytes(made)


def counts(content, rng):
    """Another number in the header of a GGUF file, of which most are sizes, counts and types."""
    made, size = bytearray(content), rng.choice([4, 8])
    place = rng.randrange(rng.choice([64, 2000, len(made)]))
    number = rng.choice([0, 1, 2, 7, 8, 9, 31, 255, 10**6, 2**31, 2**32 - 1, 2**60, 2**63, 2**64 - 1])
    made[place : place + size] = (number % 2 ** (8 * size)).to_bytes(size, "little")
    return bytes(made)


def members(content, rng):
    """A zip file with a member harmed, packed otherwise, doubled or missing."""
    made, kind = io.BytesIO(), rng.choice(["harm", "harm", "harm", "pack", "twice", "lack", "many"])
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(made, "w") as new:
        names = old.namelist()
        chosen = rng.choice(names)
        for name in names:
            inner, method = old.read(name), zipfile.ZIP_STORED
            if name == chosen and kind == "harm":
                inner = rng.choice([bits, cut, spliced, words])(inner, rng)
            if name == chosen and kind == "pack":
                method = rng.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
            if name == chosen and kind == "lack":
                continue
            for _ in range(2 if name == chosen and kind == "twice" else 1):
                new.writestr(name, inner, method)
        for number in range(500 if kind == "many" else 0):
            new.writestr(f"x{number}.npy", b"")
    return made.getvalue()


def texts(number, models):
    """A call with random texts and options."""
    rng = random.Random(number)
    model = rng.choice(models)
    some = [
        "".join(rng.choice(WORDS) + rng.choice([" ", ""]) for _ in range(rng.choice([0, 1, 3, 9])))
        for _ in range(3)
    ]
    options = {name: rng.choice(VALUES) for name in rng.sample(OPTIONS, rng.choice([0, 1, 2, 4]))}
    options.setdefault("max_length", 8)
    if isinstance(options["max_length"], int) and not 0 < options["max_length"] < 50:
        options["max_length"] = 8
    for large in ("beam", "nbest", "min_length"):
        if type(options.get(large)) is int and options[large] > 9:
            options[large] = 9
    model.translate(rng.choice([some, some[0], some[0]]), **options)


def memory():
    """Resident memory now and its peak since it was asked to be forgotten, in KiB."""
    found = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(found["VmRSS"].split()[0]), int(found["VmHWM"].split()[0])


def child(cases, made, scratch, pipe):
    """Run cases in a process of its own; what is wrong with them goes into the pipe."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    models = []

    def late(*_):
        raise AssertionError(f"more than {CPU} s of CPU")

    signal.signal(signal.SIGPROF, late)
    for name, number in cases:
        pipe.send((name, number, None))
        wrong = None
        try:
            if name == "texts":
                models = models or [
                    uwaga.load(threads=1),
                    uwaga.load(MODEL, threads=1),
                    uwaga.load(made["int8"]),
                ]
                place = None
            elif name.startswith(LARGE):
                place = enlarged(name, made, scratch, random.Random(f"{name} {number}"))
            else:
                place = made[name]
                if number >= 0:
                    place = mutated(name, made[name], scratch, random.Random(f"{name} {number}"))
            Path("/proc/self/clear_refs").write_text("5")
            before, _ = memory()
            signal.setitimer(signal.ITIMER_PROF, CPU)
            try:
                texts(number, models) if name == "texts" else use(name, place, made)
            except UwagaError as error:
                str(error).encode("utf-8", "surrogatepass")
                wrong = f"a message of {len(str(error))} characters" if len(str(error)) > 4000 else None
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            taken = memory()[1] - before
            if number < 0:
                (scratch.parent / "taken").write_text(str(taken))
            elif name != "texts" and taken > 2 * made["memory"].get(name.removeprefix(LARGE), 0) + SLACK:
                wrong = f"{taken} KiB of memory"
        except BaseException:
            wrong = traceback.format_exc()
        pipe.send((name, number, wrong or ""))
    pipe.send(None)


def run(cases, made, scratch, failed):
    """Run some cases in a child; the case in which it dies has failed too."""
    ours, theirs = multiprocessing.Pipe(False)
    process = multiprocessing.get_context("fork").Process(target=child, args=(cases, made, scratch, theirs))
    process.start()
    theirs.close()
    at, done = None, 0
    while True:
        try:
            report = ours.recv() if ours.poll(120) else "late"
        except EOFError:
            report = "dead"
        if report is None:
            break
        if isinstance(report, str):
            process.kill()
            failed.append((*(at or cases[0]), f"the process is {report}"))
            break
        at = report[:2]
        if report[2] is not None:
            done += 1
            if report[2]:
                failed.append(report)
                print(f"== {report[0]} {report[1]}\n{report[2][-1500:]}", flush=True)
    process.join()
    return done


def prepared(place):
    """All formats, with the KiB of memory that each takes when it is sound."""
    made = make_all(place) | {"memory": {}}
    for name in [name for name in made if name != "memory"]:
        failed = []
        run([(name, -1)], made, place / "x", failed)
        if failed:
            raise AssertionError(failed)
        made["memory"][name] = int((place / "taken").read_text())
    return made


def every_format(made):
    """The names of formats: those that are mutated, and those of which weights are enlarged."""
    names = [name for name in made if name != "memory"]
    return names + [LARGE + name for name in names if name != "settings"]


def main(arguments=None):
    """Run cases until there are enough or time is up; exit with 1 if one has failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=("texts", "files", "both"), default="both")
    parser.add_argument("--case", nargs=2, metavar=("FORMAT", "NUMBER"))
    wanted = parser.parse_args(arguments)
    begun, failed, done = time.monotonic(), [], 0
    with tempfile.TemporaryDirectory() as name:
        made = prepared(Path(name))
        formats = every_format(made)
        if wanted.case:
            done = run([(wanted.case[0], int(wanted.case[1]))], made, Path(name) / "x", failed)
        rng, number = random.Random(wanted.seed), wanted.seed * 10**6
        enough = wanted.count * (2 if wanted.kind == "both" else 1)
        while not wanted.case and done < enough and time.monotonic() - begun < wanted.seconds:
            cases = []
            for _ in range(BATCH):
                number += 1
                kind = ("texts", "files")[number % 2] if wanted.kind == "both" else wanted.kind
                cases.append(("texts" if kind == "texts" else rng.choice(formats), number))
            done += run(cases, made, Path(name) / "x", failed)
    print(f"{done} cases in {time.monotonic() - begun:.0f} s, {len(failed)} failed", flush=True)
    for name, number, wrong in failed:
        print(name, number, wrong.strip().splitlines()[-1][:200])
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
