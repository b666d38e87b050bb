"""Random texts and options, and mutated model files: each gives a result or a UwagaError within limits.

python tests/support/fuzz.py [--count N] [--seconds S] [--seed K]

A case is determined by its number, so that failures can be repeated (``--case FORMAT NUMBER``); tests run
the cases that once failed, which are listed in ``fuzz_cases.json``. Cases run in child processes, so that
crashes are noticed; a case has 10 s of CPU time, and twice the memory of the intact file.
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
    *(str(Path(__file__).parents[1] / name) for name in ("checkpoints", "generation", "translator")),
]

from fuzz_formats import MODEL, make_all
from large_weights import enlarge

import uwaga
from uwaga.checkpoints.registry import describe
from uwaga.errors import UwagaError
from uwaga.settings import load_settings

CASES = Path(__file__).parent / "fuzz_cases.json"
CPU_SECONDS, MEMORY_SLACK, CASES_PER_PROCESS = 10, 96 << 10, 40
"""CPU seconds per case; KiB of memory beyond twice that of the intact file; cases per process."""
ODD_VALUES = [
    0, -1, 1, 2, 10**6, 10**9, 2**31, 2**63, 10**40, 1.5, -0.0, 1e308, None, True, "", "x", "\ud800", [], {},
]  # fmt: skip
WORDS = [
    "twenty", "one", "three", "\0", "€", "👩‍👩‍👧", "\ud800", "\u2028", "\n", "\r\n", "\t", "<s>", "</s>",
    "<unk>",
]  # fmt: skip
WORDS += [
    "\u2581", "a" * 300, "1" * 50, "العربية", "日本語。", ">>deu<<", "&amp;", "\ufeff", "\u202e", ". ", "! ",
]  # fmt: skip
OPTION_VALUES = [
    *ODD_VALUES, 3, 5, 9, 0.1, 0.5, 0.9, float("nan"), float("inf"), "never", "auto", "estimate", False,
    (1, 2),
]  # fmt: skip
OPTIONS = ["beam", "nbest", "length_penalty", "length_formula", "early_stopping", "min_length", "max_length"]
OPTIONS += ["max_ratio", "max_extra", "force_end", "no_repeat_ngram", "start", "first", "banned", "unknown"]
OPTIONS += ["renormalise", "sample", "temperature", "top_k", "top_p", "seed", "attention", "batch_tokens"]
OPTIONS += ["prefix", "split", "score_forced", "source", "target"]
LARGE = "large "
"""Prefix of formats whose files are intact except for large finite weights."""
SEARCHES = [
    {"beam": 1}, {"beam": 3, "nbest": 3}, {"beam": 12, "renormalise": True}, {"beam": 2, "prefix": "ein"},
    {"sample": True, "seed": 1}, {"sample": True, "top_k": 3, "top_p": 0.5, "seed": 2},
]  # fmt: skip


def use(name, path, samples):
    """Use a model file as users do: describe it, load it, and run it once."""
    if name == "settings":
        load_settings(path)
        return
    if name == "shortlist":
        uwaga.load(samples["int8"], threads=1, shortlist=path).translate("twenty one", max_length=8)
        return
    if name.startswith(LARGE) and name.removeprefix(LARGE) not in ("bert", "gpt2", "gguf"):
        search_all(uwaga.load(path, device="cpu", threads=1, shortlist=shortlist_for(name, samples)))
        return
    name = name.removeprefix(LARGE)
    with contextlib.suppress(UwagaError):
        describe(path)
    if name == "bert":
        uwaga.MaskFiller.load(path, device="cpu").fill("a [MASK] b")
    elif name in ("gpt2", "gguf"):
        uwaga.TextGenerator.load(path, device="cpu", threads=1).generate("the dog", max_length=4)
    else:
        uwaga.load(path, device="cpu", threads=1).translate("twenty one", max_length=8)


def shortlist_for(name, samples):
    """Return the ``shortlist`` option with which models of a format are loaded."""
    return samples["shortlist"] if name == LARGE + "shortlist" else None


def search_all(model):
    """Run all kinds of searches; each may raise a UwagaError."""
    for options in SEARCHES:
        with contextlib.suppress(UwagaError):
            model.translate(["twenty one", "three hundred"], max_length=8, **options)


def enlarged_copy(name, samples, scratch, rng):
    """Return a copy of an intact model in which some weights are large."""
    intact = samples["int8" if name == LARGE + "shortlist" else name.removeprefix(LARGE)]
    copy = copy_to(intact, scratch)
    enlarge(copy, rng)
    return copy


def copy_to(intact, scratch):
    """Return a copy in an empty folder."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    copy = scratch / intact.name
    return Path(shutil.copy(intact, copy) if intact.is_file() else shutil.copytree(intact, copy))


def mutated_copy(name, intact, scratch, rng):
    """Return a copy of an intact model with one or two damaged files."""
    copy = copy_to(intact, scratch)
    if intact.is_file():
        damage(copy, rng)
        return copy
    files = sorted(path for path in copy.rglob("*") if path.is_file())
    for path in rng.sample(files, rng.choice([1, 1, 1, 2]) if len(files) > 1 else 1):
        damage(path, rng)
    return copy


def damage(path, rng):
    """Damage a file by a mutation of its format."""
    content = path.read_bytes()
    kinds = [flip_bits, truncate, splice]
    if path.suffix in (".json", ".yml", ".yaml", ".md", ".txt"):
        kinds = [flip_bits, truncate, splice, replace_word, replace_word]
    if path.suffix == ".json":
        kinds += [replace_key, replace_key, replace_key, replace_key]
    if path.suffix == ".safetensors":
        kinds += [replace_header, replace_header, replace_numbers]
    if path.suffix == ".gguf":
        kinds += [replace_count, replace_count, replace_count]
    if zipfile.is_zipfile(path):
        kinds += [change_member, change_member, change_member]
    path.write_bytes(rng.choice(kinds)(content, rng))


def flip_bits(content, rng):
    """Return the content with some bits flipped."""
    flipped = bytearray(content or b"\0")
    for _ in range(rng.choice([1, 1, 3, 30])):
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return bytes(flipped)


def truncate(content, rng):
    """Return a truncated copy of the content."""
    return content[: rng.choice([0, 1, rng.randrange(len(content) + 1), len(content) - 1])]


def splice(content, rng):
    """Return the content with a part deleted, duplicated or moved."""
    first, last = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    last = min(last, first + 5000)
    return rng.choice([content[:first] + content[last:], content[:last] + content[first:], content[last:]])


def replace_word(content, rng):
    """Return a text with one number or word replaced."""
    import re

    matches = list(re.finditer(rb"[\w.+-]+", content))
    if not matches:
        return content
    match = rng.choice(matches)
    odd = rng.choice(
        [b"-1", b"0", b"1e309", b"9" * 5000, b"*a", b"&a x", b"!!int x", b".nan", b"[" * 999, b"\xff", b"~"]
    )
    return content[: match.start()] + odd + content[match.end() :]


def replace_key(content, rng):
    """Return a JSON file with one value replaced or deleted."""
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
            group[key] = rng.choice(ODD_VALUES)
            if isinstance(group, dict) and rng.random() < 0.2:
                del group[key]
            break
        group = group[key]
    return json.dumps(values).encode()


def replace_header(content, rng):
    """Return a safetensors file with a damaged header."""
    size = int.from_bytes(content[:8], "little")
    text = rng.choice([replace_key, replace_key, replace_word, flip_bits])(content[8 : 8 + size], rng)
    text += b" " * (-(8 + len(text)) % 64)
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


def replace_numbers(content, rng):
    """Return the content with some weights replaced by NaN, infinity, the largest float or 0."""
    damaged = bytearray(content)
    offset = rng.randrange(int.from_bytes(content[:8], "little") + 8, max(len(damaged) - 4, 1)) // 4 * 4
    damaged[offset : offset + 4] = rng.choice(
        [b"\0\0\xc0\x7f", b"\0\0\x80\x7f", b"\xff\xff\x7f\x7f", b"\0\0\0\0"]
    )
    return bytes(damaged)


def replace_count(content, rng):
    """Return a GGUF file with a number in its header replaced, usually a size, a count or a type."""
    damaged, size = bytearray(content), rng.choice([4, 8])
    offset = rng.randrange(rng.choice([64, 2000, len(damaged)]))
    number = rng.choice([0, 1, 2, 7, 8, 9, 31, 255, 10**6, 2**31, 2**32 - 1, 2**60, 2**63, 2**64 - 1])
    damaged[offset : offset + size] = (number % 2 ** (8 * size)).to_bytes(size, "little")
    return bytes(damaged)


def change_member(content, rng):
    """Return a zip file in which a member is damaged, recompressed, duplicated or removed."""
    archive, kind = io.BytesIO(), rng.choice(["harm", "harm", "harm", "pack", "twice", "lack", "many"])
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(archive, "w") as new:
        names = old.namelist()
        target = rng.choice(names)
        for name in names:
            inner, method = old.read(name), zipfile.ZIP_STORED
            if name == target and kind == "harm":
                inner = rng.choice([flip_bits, truncate, splice, replace_word])(inner, rng)
            if name == target and kind == "pack":
                method = rng.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
            if name == target and kind == "lack":
                continue
            for _ in range(2 if name == target and kind == "twice" else 1):
                new.writestr(name, inner, method)
        for number in range(500 if kind == "many" else 0):
            new.writestr(f"x{number}.npy", b"")
    return archive.getvalue()


def translate_random(number, models):
    """Translate random texts with random options."""
    rng = random.Random(number)
    model = rng.choice(models)
    sentences = [
        "".join(rng.choice(WORDS) + rng.choice([" ", ""]) for _ in range(rng.choice([0, 1, 3, 9])))
        for _ in range(3)
    ]
    options = {name: rng.choice(OPTION_VALUES) for name in rng.sample(OPTIONS, rng.choice([0, 1, 2, 4]))}
    options.setdefault("max_length", 8)
    if isinstance(options["max_length"], int) and not 0 < options["max_length"] < 50:
        options["max_length"] = 8
    for large in ("beam", "nbest", "min_length"):
        if type(options.get(large)) is int and options[large] > 9:
            options[large] = 9
    model.translate(rng.choice([sentences, sentences[0], sentences[0]]), **options)


def memory():
    """Return the resident memory and its peak since the last reset, in KiB."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]), int(status["VmHWM"].split()[0])


def run_child(cases, samples, scratch, pipe):
    """Run cases in a child process, which sends their problems through the pipe."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    models = []

    def time_out(*_):
        raise AssertionError(f"more than {CPU_SECONDS} s of CPU")

    signal.signal(signal.SIGPROF, time_out)
    for name, number in cases:
        pipe.send((name, number, None))
        problem = None
        try:
            if name == "texts":
                models = models or [
                    uwaga.load(threads=1),
                    uwaga.load(MODEL, threads=1),
                    uwaga.load(samples["int8"]),
                ]
                path = None
            elif name.startswith(LARGE):
                path = enlarged_copy(name, samples, scratch, random.Random(f"{name} {number}"))
            else:
                path = samples[name]
                if number >= 0:
                    path = mutated_copy(name, samples[name], scratch, random.Random(f"{name} {number}"))
            Path("/proc/self/clear_refs").write_text("5")
            before, _ = memory()
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            try:
                translate_random(number, models) if name == "texts" else use(name, path, samples)
            except UwagaError as error:
                str(error).encode("utf-8", "surrogatepass")
                problem = f"a message of {len(str(error))} characters" if len(str(error)) > 4000 else None
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            used = memory()[1] - before
            if number < 0:
                (scratch.parent / "taken").write_text(str(used))
            elif (
                name != "texts"
                and used > 2 * samples["memory"].get(name.removeprefix(LARGE), 0) + MEMORY_SLACK
            ):
                problem = f"{used} KiB of memory"
        except BaseException:
            problem = traceback.format_exc()
        pipe.send((name, number, problem or ""))
    pipe.send(None)


def run(cases, samples, scratch, failures):
    """Run cases in a child process; the case in which it crashes counts as failed."""
    receiver, sender = multiprocessing.Pipe(False)
    process = multiprocessing.get_context("fork").Process(
        target=run_child, args=(cases, samples, scratch, sender)
    )
    process.start()
    sender.close()
    case, count = None, 0
    while True:
        try:
            report = receiver.recv() if receiver.poll(120) else "late"
        except EOFError:
            report = "dead"
        if report is None:
            break
        if isinstance(report, str):
            process.kill()
            failures.append((*(case or cases[0]), f"the process is {report}"))
            break
        case = report[:2]
        if report[2] is not None:
            count += 1
            if report[2]:
                failures.append(report)
                print(f"== {report[0]} {report[1]}\n{report[2][-1500:]}", flush=True)
    process.join()
    return count


def prepare(folder):
    """Write intact models of all formats; return their paths and the memory in KiB that each needs."""
    samples = make_all(folder) | {"memory": {}}
    for name in [name for name in samples if name != "memory"]:
        failures = []
        run([(name, -1)], samples, folder / "x", failures)
        if failures:
            raise AssertionError(failures)
        samples["memory"][name] = int((folder / "taken").read_text())
    return samples


def format_names(samples):
    """Return the names of formats, followed by those with large weights."""
    names = [name for name in samples if name != "memory"]
    return names + [LARGE + name for name in names if name != "settings"]


def main(arguments=None):
    """Run cases up to a count or a time limit; exit with 1 if one has failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=("texts", "files", "both"), default="both")
    parser.add_argument("--case", nargs=2, metavar=("FORMAT", "NUMBER"))
    options = parser.parse_args(arguments)
    started, failures, count = time.monotonic(), [], 0
    with tempfile.TemporaryDirectory() as name:
        samples = prepare(Path(name))
        formats = format_names(samples)
        if options.case:
            count = run([(options.case[0], int(options.case[1]))], samples, Path(name) / "x", failures)
        rng, number = random.Random(options.seed), options.seed * 10**6
        limit = options.count * (2 if options.kind == "both" else 1)
        while not options.case and count < limit and time.monotonic() - started < options.seconds:
            cases = []
            for _ in range(CASES_PER_PROCESS):
                number += 1
                kind = ("texts", "files")[number % 2] if options.kind == "both" else options.kind
                cases.append(("texts" if kind == "texts" else rng.choice(formats), number))
            count += run(cases, samples, Path(name) / "x", failures)
    print(f"{count} cases in {time.monotonic() - started:.0f} s, {len(failures)} failed", flush=True)
    for name, number, problem in failures:
        print(name, number, problem.strip().splitlines()[-1][:200])
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
