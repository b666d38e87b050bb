"""Fault injection: ``make faults COUNT=100`` kills processes, fills disks and starts two at once.

``COUNT`` kills with ``kill -9`` at random moments in each of train, convert, average, translate and the
download of a model (there every fifth fault is a full disk instead), a fifth as many full disks in training,
as many pairs of processes that train in one folder, and as many kills of one of two processes of a run. After
each fault existing files must be complete; the next start must produce the same bytes as without the fault,
and leave no other files.
"""

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

from model_server import model_files, serve_catalogue, serve_models
from torchrun_processes import launch, wait_for_exit, workers
from toy import toy_values, write_reversal_corpus

from uwaga.errors import UwagaError
from uwaga.training.checkpoint import checkpoint_path, checkpoint_steps, read_checkpoint

ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
MODEL = ROOT / "tests/support/models/numbers-en-de"
CATALOGUE_MODEL = "firefox-en-pt-tiny"
MAX_SECONDS = 120.0  # seconds that no process may take
DISK_FULL_MESSAGES = "no space left", "No space left", "File too large"


@dataclass
class Outcome:
    """Results of a kind of fault: number of faults, number that hit a running process, and failures."""

    name: str
    faults: int = 0
    hit: int = 0
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def expect(self, condition: bool, message: str) -> None:
        if not condition:
            self.wrong.append(message)


def start(*arguments: object, limit: int | None = None, cwd: Path) -> subprocess.Popen[str]:
    """Start ``uwaga`` with the given arguments; ``limit`` is the maximum file size in bytes."""

    def limit_file_size() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, "-m", "uwaga", *map(str, arguments)], cwd=cwd, env=ENVIRONMENT,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=limit_file_size,
    )  # fmt: skip


def wait(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the exit status and output of a process; one that does not end is killed, with status 124."""
    try:
        out, errors = process.communicate(timeout=MAX_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return 124, "it did not end in time"
    return process.returncode, out + errors


def kill_at_random(rng: random.Random, duration: float, *arguments: object, cwd: Path) -> bool:
    """Start a process, ``kill -9`` it at a random moment, and return True if it was still running."""
    process = start(*arguments, cwd=cwd)
    time.sleep(rng.uniform(0.2 * duration, duration))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


def folder_content(folder: Path) -> dict[str, bytes]:
    """Return the contents of a file, or of the files of a folder, by name."""
    if folder.is_file():
        return {folder.name: folder.read_bytes()}
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def write_corpus(folder: Path, steps: int) -> None:
    write_reversal_corpus(folder, pairs=200)
    values = toy_values(
        folder, steps=steps, save_every=3, validate_every=9, average=3, validation_sentences=4
    )
    values["run"] = "run"
    (folder / "settings.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")


def check_checkpoints(run: Path, outcome: Outcome) -> None:
    """Check that all checkpoints of a run can be read, and that its model is complete."""
    for step in checkpoint_steps(run / "checkpoints"):
        try:
            read_checkpoint(checkpoint_path(run / "checkpoints", step))
        except UwagaError as error:
            outcome.wrong.append(str(error))
    if (run / "model").exists():
        outcome.expect((run / "model/config.json").exists(), "a model without its config.json")


def check_finished_run(run: Path, reference: dict[str, bytes], outcome: Outcome) -> None:
    """Check that a finished run has the expected model, one line per validation, and no other files."""
    expected_names = {"settings.yaml", "metrics.jsonl", "samples.jsonl", "report.html", "finished.json"}
    expected_names |= {"text", "data", "checkpoints", "logs", "model"}
    leftovers = {path.name for path in run.iterdir()} - expected_names
    leftovers |= {path.name for path in (run / "checkpoints").iterdir() if path.suffix != ".safetensors"}
    leftovers |= {path.name for path in (run / "text").iterdir() if path.suffix != ".spm"}
    leftovers |= {path.name for path in (run / "data").iterdir()} - {"train", "dev"}
    outcome.expect(not leftovers, f"left behind: {sorted(leftovers)}")
    outcome.expect(
        folder_content(run / "model") == reference, "the model differs from one trained without faults"
    )
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [(line["part"], line["step"]) for line in lines]
    outcome.expect(len(set(steps)) == len(steps), f"a step is logged twice: {steps}")


def kill_train(folder: Path, count: int, rng: random.Random) -> Outcome:
    outcome = Outcome("kill -9 in train")
    write_corpus(folder, steps=60)
    started = time.monotonic()
    code, output = wait(start("train", "settings.yaml", "--set", "run=whole", cwd=folder))
    duration = time.monotonic() - started
    outcome.expect(code == 0, output)
    reference = folder_content(folder / "whole/model")
    for _ in range(count):
        outcome.faults += 1
        hit = kill_at_random(rng, duration, "train", "settings.yaml", cwd=folder)
        outcome.hit += hit
        check_checkpoints(folder / "run", outcome)
        if not hit:  # it was finished: check it, and start another run
            check_finished_run(folder / "run", reference, outcome)
            shutil.rmtree(folder / "run")
    code, output = wait(start("train", "settings.yaml", cwd=folder))
    outcome.expect(code == 0, output)
    check_finished_run(folder / "run", reference, outcome)
    return outcome


def kill_ranks(folder: Path, count: int, rng: random.Random) -> Outcome:
    """Kill one of two processes at random steps of a run, which torchrun restarts."""
    outcome = Outcome("kill -9 of a rank")
    write_corpus(folder, steps=30 * count)
    changes = ("training.accumulate=2", "training.validate_every=50")
    arguments = ["train", "settings.yaml", *(word for change in changes for word in ("--set", change))]
    uninterrupted = launch(folder, 2, *arguments, "--set", "run=whole")
    code, output = wait_for_exit(uninterrupted, 10 * MAX_SECONDS)
    outcome.expect(code == 0, output[-1000:])
    process = launch(folder, 2, *arguments, restarts=count)
    checkpoints = folder / "run" / "checkpoints"
    newest = 0
    for _ in range(count):
        while process.poll() is None and max(checkpoint_steps(checkpoints), default=0) <= newest:
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.3))
        outcome.faults += 1
        if process.poll() is None and (running := set(workers(process).values())):
            os.kill(rng.choice(sorted(running)), signal.SIGKILL)
            outcome.hit += 1
            while running & set(workers(process).values()):
                time.sleep(0.01)
        newest = max(checkpoint_steps(checkpoints), default=0)
    code, output = wait_for_exit(process, 10 * MAX_SECONDS)
    outcome.expect(code == 0, output[-1000:])
    outcome.expect(output.count("resuming from step") == outcome.hit, "it did not resume after each kill")
    for step in checkpoint_steps(folder / "whole/checkpoints"):
        (expected_state, expected), (state, tensors) = (
            read_checkpoint(checkpoint_path(run / "checkpoints", step))
            for run in (folder / "whole", folder / "run")
        )
        equal = expected.keys() == tensors.keys() and all(
            expected[key].equal(tensors[key]) for key in expected
        )
        outcome.expect(expected_state == state and equal, f"another checkpoint of step {step}")
    check_finished_run(folder / "run", folder_content(folder / "whole/model"), outcome)
    return outcome


def kill_output(name: str, folder: Path, count: int, rng: random.Random, *arguments: object) -> Outcome:
    """Kill a command whose last argument is its output file, which already exists in half of the cases."""
    outcome = Outcome(f"kill -9 in {name}")
    out = folder / "place" / "out"
    out.parent.mkdir()
    started = time.monotonic()
    code, output = wait(start(*arguments, out, cwd=folder))
    duration = time.monotonic() - started
    outcome.expect(code == 0, output)
    reference = folder_content(out)
    for number in range(count):
        outcome.faults += 1
        if number % 2:
            shutil.rmtree(out) if out.is_dir() else out.unlink(missing_ok=True)
        existed = out.exists()
        outcome.hit += kill_at_random(rng, duration, *arguments, out, cwd=folder)
        if existed or out.exists():
            outcome.expect(out.exists() and folder_content(out) == reference, "the output is incomplete")
    code, output = wait(start(*arguments, out, cwd=folder))
    outcome.expect(code == 0, output)
    outcome.expect(out.exists() and folder_content(out) == reference, "the result after the kills differs")
    leftovers = sorted({path.name for path in out.parent.iterdir()} - {out.name})
    outcome.expect(not leftovers, f"left behind: {leftovers[:3]} and so on, {len(leftovers)} in all")
    return outcome


def kill_convert(folder: Path, count: int, rng: random.Random) -> Outcome:
    return kill_output("convert", folder, count, rng, "convert", "--force", "--int8", MODEL)


def kill_average(folder: Path, count: int, rng: random.Random) -> Outcome:
    write_corpus(folder, steps=9)
    code, output = wait(start("train", "settings.yaml", cwd=folder))
    outcome = kill_output("average", folder, count, rng, "average", "--force", "run")
    outcome.expect(code == 0, output)
    return outcome


def kill_translate(folder: Path, count: int, rng: random.Random) -> Outcome:
    (folder / "in").write_text("one two three\nfour five\n" * 300)
    arguments = ("translate", "--model", MODEL, "--input", "in", "--output")
    return kill_output("translate", folder, count, rng, *arguments)


def kill_download(folder: Path, count: int, rng: random.Random) -> Outcome:
    """Kill downloads from a server on this machine, or limit file sizes; some downloads are concurrent."""
    outcome = Outcome("kill -9 in models download")
    files = model_files("en-pt", 2_000_000)
    home = folder / "models"
    ENVIRONMENT.update(UWAGA_HOME=str(folder), no_proxy="*")
    with serve_models() as server:
        serve_catalogue(server, {("en-pt", "tiny"): files})
        for behaviour in server.paths.values():
            behaviour.throttle = (1 << 15, 0.005)
        arguments = ("models", "download", "en-pt", "--yes", "--mirror", server.url)
        for number in range(count):
            outcome.faults += 1
            if number % 5:
                concurrent = start(*arguments, cwd=folder) if number % 3 == 0 else None
                outcome.hit += kill_at_random(rng, 2.0, *arguments, cwd=folder)
                if concurrent is not None:
                    code, output = wait(concurrent)
                    outcome.expect(code == 0, output)
            else:
                code, output = wait(start(*arguments, limit=rng.randrange(500, 2_000_000), cwd=folder))
                outcome.hit += code == 1
                outcome.expect(
                    code == 1 and "Traceback" not in output, f"no clear error message: {output[-300:]}"
                )
                outcome.expect(
                    any(word in output for word in DISK_FULL_MESSAGES), f"unexpected error: {output[-300:]}"
                )
            visible = list(home.glob("[!.]*"))
            outcome.expect(
                [path.name for path in visible] in ([], [CATALOGUE_MODEL]), f"left behind: {visible}"
            )
            for installed in visible:
                downloaded = folder_content(installed)
                outcome.expect(
                    all(downloaded.get(name) == data for name, data in files.items()),
                    "a downloaded model is incomplete",
                )
                shutil.rmtree(installed)
        code, output = wait(start(*arguments, cwd=folder))
        outcome.expect(code == 0, output)
    remaining = sorted(path.name for path in home.iterdir())
    outcome.expect(remaining == [".incomplete", ".locks", CATALOGUE_MODEL], f"left behind: {remaining}")
    outcome.expect(not list((home / ".incomplete").iterdir()), "parts are left behind")
    return outcome


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[bool]:
    """Mount a disk of ``size`` bytes on ``folder``; yield False if this is not permitted."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def disk_full(folder: Path, count: int, rng: random.Random) -> Outcome:
    outcome = Outcome("disk full in train")
    write_corpus(folder, steps=30)
    code, output = wait(start("train", "settings.yaml", "--set", "run=whole", cwd=folder))
    outcome.expect(code == 0, output)
    reference = folder_content(folder / "whole/model")
    total = sum(len(data) for data in folder_content(folder / "whole").values())
    for number in range(count):
        outcome.faults += 1
        disk = folder / f"disk{number}"
        disk.mkdir()
        capacity = rng.randrange(4096, total)
        with small_disk(disk, capacity) as mounted:
            run = disk / "run"
            limit = None if mounted else rng.randrange(500, 200_000)
            code, output = wait(
                start("train", "settings.yaml", "--set", f"run={run}", limit=limit, cwd=folder)
            )
            if code != 0:
                outcome.hit += 1
                outcome.expect(code == 1, f"exit status {code}: {output[-300:]}")
                outcome.expect(
                    "error:" in output and "Traceback" not in output,
                    f"no clear error message: {output[-300:]}",
                )
                outcome.expect(
                    any(word in output for word in DISK_FULL_MESSAGES), f"unexpected error: {output[-300:]}"
                )
            if run.exists():
                check_checkpoints(run, outcome)
            if mounted:
                subprocess.run(["mount", "-o", "remount,size=1g", str(disk)], check=True)
            code, output = wait(start("train", "settings.yaml", "--set", f"run={run}", cwd=folder))
            outcome.expect(code == 0, output)
            check_finished_run(run, reference, outcome)
    return outcome


def run_two_processes(folder: Path, count: int, rng: random.Random) -> Outcome:
    outcome = Outcome("two train in one folder")
    write_corpus(folder, steps=60)
    code, output = wait(start("train", "settings.yaml", "--set", "run=whole", cwd=folder))
    outcome.expect(code == 0, output)
    reference = folder_content(folder / "whole/model")
    for _ in range(count):
        outcome.faults += 1
        first = start("train", "settings.yaml", cwd=folder)
        time.sleep(rng.choice([0.0, rng.uniform(0.0, 3.0)]))
        second = start("train", "settings.yaml", cwd=folder)
        results = [wait(first), wait(second)]
        refusals = [
            output
            for code, output in results
            if code == 1 and "has been training here since" in output.replace("\n", " ")
        ]
        outcome.hit += len(refusals)
        outcome.expect(
            sorted(code for code, _ in results) in ([0, 1], [0, 0]), f"exit statuses and outputs: {results}"
        )
        outcome.expect(
            len(refusals) == [code for code, _ in results].count(1), f"unexpected error: {results}"
        )
        check_finished_run(folder / "run", reference, outcome)
        shutil.rmtree(folder / "run")
    return outcome


FaultFunction = Callable[[Path, int, random.Random], Outcome]
FAULT_KINDS: dict[str, tuple[FaultFunction, int]] = {
    "train": (kill_train, 1), "ranks": (kill_ranks, 5), "convert": (kill_convert, 1),
    "average": (kill_average, 1), "translate": (kill_translate, 1), "download": (kill_download, 1),
    "disk": (disk_full, 5), "two": (run_two_processes, 5),
}  # fmt: skip
"""Kinds of faults by name: the function that injects them, and the divisor of COUNT."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--count", type=int, default=100, help="kills in each command; a fifth as many of the other faults"
    )
    parser.add_argument("--only", nargs="*", choices=FAULT_KINDS, default=list(FAULT_KINDS))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_args()
    rng = random.Random(options.seed)
    print(f"seed {options.seed}")
    print(f"{'fault':26}{'times':>6}{'while running':>14}{'wrong':>7}{'seconds':>9}", flush=True)
    failure_count = 0
    for name in options.only:
        kind, share = FAULT_KINDS[name]
        with tempfile.TemporaryDirectory(prefix="uwaga-faults-") as folder:
            started = time.monotonic()
            outcome = kind(Path(folder), -(-options.count // share), rng)
            outcome.seconds = time.monotonic() - started
        failure_count += len(outcome.wrong)
        row = (
            f"{outcome.name:26}{outcome.faults:6}{outcome.hit:14}{len(outcome.wrong):7}{outcome.seconds:9.0f}"
        )
        print("\n".join([row, *(f"  {line}" for line in outcome.wrong)]), flush=True)
    sys.exit(1 if failure_count else 0)


if __name__ == "__main__":
    main()
