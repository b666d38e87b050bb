"""Faults on purpose: ``make faults COUNT=100`` kills, fills disks, starts two at once.

``COUNT`` kills with ``kill -9`` at random moments in each of train, convert, average, translate and the
download of a model (there every fifth fault is a full disk instead), a fifth as many full disks in training,
as many pairs of processes that train in one folder, and as many kills of one of two processes of a run. After
each fault what was there must be whole; the next start must end with the same bytes as if nothing had
happened, and leave nothing beside them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "src")]

from launched import ended, launch, workers
from model_server import contents, serving, storage
from toy import toy_values, write_reversal_corpus

from uwaga.errors import UwagaError
from uwaga.training.checkpoint import checkpoint_path, checkpoint_steps, read_checkpoint

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
MODEL = ROOT / "tests/support/models/numbers-en-de"
INSTALLED = "firefox-en-pt-tiny"
LONGEST = 120.0  # seconds that no process may take
FULL = "no space left", "No space left", "File too large"


@dataclass
class Outcome:
    """Of one kind of fault: how many there were, how many hit a process at work, and what was wrong."""

    name: str
    faults: int = 0
    hit: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def expect(self, right: bool, what: str) -> None:
        if not right:
            self.wrong.append(what)


def start(*words: object, limit: int | None = None, cwd: Path) -> subprocess.Popen[str]:
    """``uwaga`` with these words; ``limit`` bounds the bytes of a file."""

    def bound() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, "-m", "uwaga", *map(str, words)],
        cwd=cwd,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=bound,
    )


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Its exit status and what it said; a process that does not end is killed and gives 124."""
    try:
        out, errors = process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return 124, "it never ended"
    return process.returncode, out + errors


def killed(draw: random.Random, whole: float, *words: object, cwd: Path) -> bool:
    """Start, and ``kill -9`` at a random moment of what the whole takes; whether it was still at work."""
    process = start(*words, cwd=cwd)
    time.sleep(draw.uniform(0.2 * whole, whole))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def content(place: Path) -> dict[str, bytes]:
    """The files of a folder, or a file, by name."""
    if place.is_file():
        return {place.name: place.read_bytes()}
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


def corpus(folder: Path, steps: int) -> None:
    write_reversal_corpus(folder, pairs=200)
    values = toy_values(
        folder, steps=steps, save_every=3, validate_every=9, average=3, validation_sentences=4
    )
    values["run"] = "run"
    (folder / "settings.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")


def run_is_whole(run: Path, outcome: Outcome) -> None:
    """Every checkpoint of a run can be read, and the model too where there is one."""
    for step in checkpoint_steps(run / "checkpoints"):
        try:
            read_checkpoint(checkpoint_path(run / "checkpoints", step))
        except UwagaError as error:
            outcome.wrong.append(str(error))
    if (run / "model").exists():
        outcome.expect((run / "model/config.json").exists(), "a model without its config.json")


def run_is_clean(run: Path, reference: dict[str, bytes], outcome: Outcome) -> None:
    """A finished run has the reference's model and checkpoints, one line a validation, and nothing beside."""
    known = {"settings.yaml", "metrics.jsonl", "samples.jsonl", "report.html", "finished.json"}
    known |= {"text", "data", "checkpoints", "logs", "model"}
    beside = {path.name for path in run.iterdir()} - known
    beside |= {path.name for path in (run / "checkpoints").iterdir() if path.suffix != ".safetensors"}
    beside |= {path.name for path in (run / "text").iterdir() if path.suffix != ".spm"}
    beside |= {path.name for path in (run / "data").iterdir()} - {"train", "dev"}
    outcome.expect(not beside, f"left behind: {sorted(beside)}")
    outcome.expect(content(run / "model") == reference, "another model than without the fault")
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    places = [(line["part"], line["step"]) for line in lines]
    outcome.expect(len(set(places)) == len(places), f"a step is logged twice: {places}")


def kill_train(folder: Path, count: int, draw: random.Random) -> Outcome:
    outcome = Outcome("kill -9 in train")
    corpus(folder, steps=60)
    begun = time.monotonic()
    code, told = end(start("train", "settings.yaml", "--set", "run=whole", cwd=folder))
    whole = time.monotonic() - begun
    outcome.expect(code == 0, told)
    reference = content(folder / "whole/model")
    for _ in range(count):
        outcome.faults += 1
        hit = killed(draw, whole, "train", "settings.yaml", cwd=folder)
        outcome.hit += hit
        run_is_whole(folder / "run", outcome)
        if not hit:  # it was done: look, and begin another
            run_is_clean(folder / "run", reference, outcome)
            shutil.rmtree(folder / "run")
    code, told = end(start("train", "settings.yaml", cwd=folder))
    outcome.expect(code == 0, told)
    run_is_clean(folder / "run", reference, outcome)
    return outcome


def kill_ranks(folder: Path, count: int, draw: random.Random) -> Outcome:
    """Kills of one of two processes at a random step, all in one run, begun again by torchrun."""
    outcome = Outcome("kill -9 of a rank")
    corpus(folder, steps=30 * count)
    changes = ("training.accumulate=2", "training.validate_every=50")
    words = ["train", "settings.yaml", *(word for change in changes for word in ("--set", change))]
    whole = launch(folder, 2, *words, "--set", "run=whole")
    code, told = ended(whole, 10 * LONGEST)
    outcome.expect(code == 0, told[-1000:])
    process = launch(folder, 2, *words, restarts=count)
    folder_of = folder / "run" / "checkpoints"
    newest = 0
    for _ in range(count):
        while process.poll() is None and max(checkpoint_steps(folder_of), default=0) <= newest:
            time.sleep(0.01)
        time.sleep(draw.uniform(0.0, 0.3))
        outcome.faults += 1
        if process.poll() is None and (running := set(workers(process).values())):
            os.kill(draw.choice(sorted(running)), signal.SIGKILL)
            outcome.hit += 1
            while running & set(workers(process).values()):
                time.sleep(0.01)
        newest = max(checkpoint_steps(folder_of), default=0)
    code, told = ended(process, 10 * LONGEST)
    outcome.expect(code == 0, told[-1000:])
    outcome.expect(told.count("resuming from step") == outcome.hit, "it did not go on after each")
    for step in checkpoint_steps(folder / "whole/checkpoints"):
        (one, expected), (two, found) = (
            read_checkpoint(checkpoint_path(place / "checkpoints", step))
            for place in (folder / "whole", folder / "run")
        )
        same = expected.keys() == found.keys() and all(expected[key].equal(found[key]) for key in expected)
        outcome.expect(one == two and same, f"another checkpoint of step {step}")
    run_is_clean(folder / "run", content(folder / "whole/model"), outcome)
    return outcome


def kill_output(name: str, folder: Path, count: int, draw: random.Random, *words: object) -> Outcome:
    """``kill -9`` in a verb whose last word is what it writes, in every second case over what is there."""
    outcome = Outcome(f"kill -9 in {name}")
    out = folder / "place" / "out"
    out.parent.mkdir()
    begun = time.monotonic()
    code, told = end(start(*words, out, cwd=folder))
    whole = time.monotonic() - begun
    outcome.expect(code == 0, told)
    reference = content(out)
    for number in range(count):
        outcome.faults += 1
        if number % 2:
            shutil.rmtree(out) if out.is_dir() else out.unlink(missing_ok=True)
        before = out.exists()
        outcome.hit += killed(draw, whole, *words, out, cwd=folder)
        if before or out.exists():
            outcome.expect(out.exists() and content(out) == reference, "what was there is not whole")
    code, told = end(start(*words, out, cwd=folder))
    outcome.expect(code == 0, told)
    outcome.expect(out.exists() and content(out) == reference, "another result after the kills")
    beside = sorted({path.name for path in out.parent.iterdir()} - {out.name})
    outcome.expect(not beside, f"left behind: {beside[:3]} and so on, {len(beside)} in all")
    return outcome


def kill_convert(folder: Path, count: int, draw: random.Random) -> Outcome:
    return kill_output("convert", folder, count, draw, "convert", "--int8", MODEL)


def kill_average(folder: Path, count: int, draw: random.Random) -> Outcome:
    corpus(folder, steps=9)
    code, told = end(start("train", "settings.yaml", cwd=folder))
    outcome = kill_output("average", folder, count, draw, "average", "run")
    outcome.expect(code == 0, told)
    return outcome


def kill_translate(folder: Path, count: int, draw: random.Random) -> Outcome:
    (folder / "in").write_text("one two three\nfour five\n" * 300)
    words = ("translate", "--model", MODEL, "--input", "in", "--output")
    return kill_output("translate", folder, count, draw, *words)


def kill_download(folder: Path, count: int, draw: random.Random) -> Outcome:
    """Kills, and files that cannot grow, in downloads from a server on loopback, some of them two at once."""
    outcome = Outcome("kill -9 in models download")
    files = contents("en-pt", 2_000_000)
    home = folder / "models"
    ENVIRONMENT.update(UWAGA_HOME=str(folder), no_proxy="*")
    with serving() as server:
        storage(server, {("en-pt", "tiny"): files})
        for how in server.paths.values():
            how.drip = (1 << 15, 0.005)
        words = ("models", "download", "en-pt", "--yes", "--mirror", server.url)
        for number in range(count):
            outcome.faults += 1
            if number % 5:
                beside = start(*words, cwd=folder) if number % 3 == 0 else None
                outcome.hit += killed(draw, 2.0, *words, cwd=folder)
                if beside is not None:
                    code, told = end(beside)
                    outcome.expect(code == 0, told)
            else:
                code, told = end(start(*words, limit=draw.randrange(500, 2_000_000), cwd=folder))
                outcome.hit += code == 1
                outcome.expect(code == 1 and "Traceback" not in told, f"no clear end: {told[-300:]}")
                outcome.expect(any(word in told for word in FULL), f"another reason: {told[-300:]}")
            shown = list(home.glob("[!.]*"))
            outcome.expect([place.name for place in shown] in ([], [INSTALLED]), f"left behind: {shown}")
            for place in shown:
                found = content(place)
                outcome.expect(all(found.get(name) == one for name, one in files.items()), "not whole")
                shutil.rmtree(place)
        code, told = end(start(*words, cwd=folder))
        outcome.expect(code == 0, told)
    left = sorted(path.name for path in home.iterdir())
    outcome.expect(left == [".incomplete", ".locks", INSTALLED], f"left behind: {left}")
    outcome.expect(not list((home / ".incomplete").iterdir()), "parts are left behind")
    return outcome


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[bool]:
    """A disk of so many bytes in ``folder``, where we may mount one."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    there = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield there
    finally:
        if there:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def disk_full(folder: Path, count: int, draw: random.Random) -> Outcome:
    outcome = Outcome("disk full in train")
    corpus(folder, steps=30)
    code, told = end(start("train", "settings.yaml", "--set", "run=whole", cwd=folder))
    outcome.expect(code == 0, told)
    reference = content(folder / "whole/model")
    need = sum(len(one) for one in content(folder / "whole").values())
    for number in range(count):
        outcome.faults += 1
        disk = folder / f"disk{number}"
        disk.mkdir()
        room = draw.randrange(4096, need)
        with small_disk(disk, room) as mounted:
            run = disk / "run"
            limit = None if mounted else draw.randrange(500, 200_000)
            code, told = end(start("train", "settings.yaml", "--set", f"run={run}", limit=limit, cwd=folder))
            if code != 0:
                outcome.hit += 1
                outcome.expect(code == 1, f"exit status {code}: {told[-300:]}")
                outcome.expect("error:" in told and "Traceback" not in told, f"no clear end: {told[-300:]}")
                outcome.expect(any(word in told for word in FULL), f"another reason: {told[-300:]}")
            if run.exists():
                run_is_whole(run, outcome)
            if mounted:
                subprocess.run(["mount", "-o", "remount,size=1g", str(disk)], check=True)
            code, told = end(start("train", "settings.yaml", "--set", f"run={run}", cwd=folder))
            outcome.expect(code == 0, told)
            run_is_clean(run, reference, outcome)
    return outcome


def two_at_once(folder: Path, count: int, draw: random.Random) -> Outcome:
    outcome = Outcome("two train in one folder")
    corpus(folder, steps=60)
    code, told = end(start("train", "settings.yaml", "--set", "run=whole", cwd=folder))
    outcome.expect(code == 0, told)
    reference = content(folder / "whole/model")
    for _ in range(count):
        outcome.faults += 1
        one = start("train", "settings.yaml", cwd=folder)
        time.sleep(draw.choice([0.0, draw.uniform(0.0, 3.0)]))
        other = start("train", "settings.yaml", cwd=folder)
        ends = [end(one), end(other)]
        refused = [
            told for code, told in ends if code == 1 and "trains here since" in told.replace("\n", " ")
        ]
        outcome.hit += len(refused)
        outcome.expect(sorted(code for code, _ in ends) in ([0, 1], [0, 0]), f"ends: {ends}")
        outcome.expect(len(refused) == [code for code, _ in ends].count(1), f"another error: {ends}")
        run_is_clean(folder / "run", reference, outcome)
        shutil.rmtree(folder / "run")
    return outcome


Kind = Callable[[Path, int, random.Random], Outcome]
KINDS: dict[str, tuple[Kind, int]] = {
    "train": (kill_train, 1),
    "ranks": (kill_ranks, 5),
    "convert": (kill_convert, 1),
    "average": (kill_average, 1),
    "translate": (kill_translate, 1),
    "download": (kill_download, 1),
    "disk": (disk_full, 5),
    "two": (two_at_once, 5),
}
"""Each kind of fault, and of how many in COUNT one is of it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="kills in each verb; a fifth of the others")
    parser.add_argument("--only", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    draw = random.Random(options.seed)
    print(f"seed {options.seed}")
    print(f"{'fault':26}{'times':>6}{'hit at work':>13}{'wrong':>7}{'seconds':>9}", flush=True)
    wrong = 0
    for name in options.only:
        kind, share = KINDS[name]
        with tempfile.TemporaryDirectory(prefix="uwaga-faults-") as place:
            begun = time.monotonic()
            found = kind(Path(place), -(-options.count // share), draw)
            found.seconds = time.monotonic() - begun
        wrong += len(found.wrong)
        row = f"{found.name:26}{found.faults:6}{found.hit:13}{len(found.wrong):7}{found.seconds:9.0f}"
        print("\n".join([row, *(f"  {line}" for line in found.wrong)]), flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
