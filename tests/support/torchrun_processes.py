"""Start `torchrun` on this machine."""

import os
import subprocess
import sys
from pathlib import Path

RANK_SCRIPT = """
import os, sys
from uwaga.cli.main import main
from uwaga.training import consistency
rank = os.environ["RANK"]
if "UWAGA_TEST_VERSION" in os.environ and rank == "1":
    consistency.uwaga_version = lambda: os.environ["UWAGA_TEST_VERSION"]
main([word.replace("RANK", rank) for word in sys.argv[1:]])
"""
"""A script that runs ``uwaga`` with the word RANK of its arguments replaced by its rank."""


def launch(
    folder: Path, processes: int, *words: object, restarts: int = 0, script: str = "", **environment: str
) -> subprocess.Popen[str]:
    """Start ``torchrun`` in ``folder``, with processes that run ``uwaga`` or a script."""
    program = ["-m", "uwaga"]
    if script:
        (folder / "script.py").write_text(script, encoding="utf-8")
        program = ["script.py"]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    variables = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen(
        [*command, f"--max-restarts={restarts}", *program, *map(str, words)], cwd=folder,
        env=os.environ | variables, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def wait_for_exit(process: subprocess.Popen[str], seconds: float = 120) -> tuple[int, str]:
    """Return the exit status and error output of a process; kill it and its workers after ``seconds``."""
    try:
        _, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        for worker in workers(process).values():
            os.kill(worker, 9)
        process.kill()
        _, errors = process.communicate()
        raise AssertionError(f"it does not end: {errors}") from None
    return process.returncode, errors


def workers(process: subprocess.Popen[str]) -> dict[int, int]:
    """Return the ids of its running processes by rank."""
    pids = {}
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    except OSError:
        return {}
    for child in children:
        try:
            environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        ranks = [int(variable[5:]) for variable in environment if variable.startswith(b"RANK=")]
        if ranks:
            pids[ranks[0]] = int(child)
    return pids
