"""Real processes of `torchrun` on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EACH_ITS_OWN = """
import os, sys
from uwaga.cli.main import main
from uwaga.training import consistency
rank = os.environ["RANK"]
if "UWAGA_TEST_VERSION" in os.environ and rank == "1":
    consistency.made_with = lambda: os.environ["UWAGA_TEST_VERSION"]
main([word.replace("RANK", rank) for word in sys.argv[1:]])
"""
"""A script that is ``uwaga`` with the number of its rank in place of the word RANK."""


def launch(
    folder: Path, processes: int, *words: object, restarts: int = 0, script: str = "", **environment: str
) -> subprocess.Popen[str]:
    """``torchrun`` in ``folder``: so many processes of ``uwaga``, or of a script, with these words."""
    program = ["-m", "uwaga"]
    if script:
        (folder / "script.py").write_text(script, encoding="utf-8")
        program = ["script.py"]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    given = {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen(
        [*command, f"--max-restarts={restarts}", *program, *map(str, words)],
        cwd=folder,
        env=os.environ | given,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )


def ended(process: subprocess.Popen[str], seconds: float = 120) -> tuple[int, str]:
    """Its exit status and what it said; it is killed, with its workers, where it does not end."""
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
    """The numbers of its processes that run now, by rank."""
    found = {}
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    except OSError:
        return {}
    for child in children:
        try:
            environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        ranks = [int(one[5:]) for one in environment if one.startswith(b"RANK=")]
        if ranks:
            found[ranks[0]] = int(child)
    return found
