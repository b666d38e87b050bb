"""What a batch job costs beside `uwaga translate`, what a second worker gives, and its memory by rows.

    python benchmarks/lake.py
    python benchmarks/lake.py --lines 20000 --memory 20000 60000 --json lake.json
    python benchmarks/lake.py --lines 1000000 --ray --kill 2      # two nodes on loopback, one killed twice
    python benchmarks/lake.py --lines 0 --memory 1000000 3000000 10000000 --tiny

The lines are made of some fifty words, all different. Each measurement is of a process of its own; memory
is the most that the largest process of the command ever held (``ru_maxrss``). ``--tiny`` translates with
a random model of width 16, so that the time is the job's own and not the model's; it needs torch to make
it. Every job's parts, joined, are held against the lines of `uwaga translate`.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

MADE = 50_000  # lines written at one time


def write_lines(path: Path, count: int) -> None:
    """So many lines of 4 to 11 words, all different by their numbers."""
    stems = ("small", "red", "old", "young", "happy", "quiet", "little", "green", "tall", "brown")
    words = [f"{stem}{end}" for stem in stems for end in ("", "er", "est", "ly")]
    words += [
        "man",
        "dog",
        "woman",
        "girl",
        "boy",
        "child",
        "car",
        "house",
        "street",
        "ball",
        "water",
        "park",
    ]
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, count, MADE):
            lines = []
            for number in range(start, min(count, start + MADE)):
                draw = number * 2654435761 % 2**32
                picked = [words[(draw >> at) % len(words)] for at in range(4 + draw % 8)]
                lines.append(f"The {' '.join(picked)} is number {number} .\n")
            file.writelines(lines)


def timed(command: list[str]) -> tuple[float, int]:
    """Seconds that a command takes, and the most bytes that it or one of its children held."""
    code = (
        "import json, resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)\n"
        "print(json.dumps([done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))"
    )
    started = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, *command], check=True, stdout=subprocess.PIPE)
    seconds = time.perf_counter() - started
    status, kilobytes = json.loads(done.stdout)
    if status:
        raise SystemExit(f"{' '.join(command)} ended with {status}")
    return seconds, kilobytes * 1024


def uwaga(*words: object) -> list[str]:
    """A command line of uwaga."""
    return [sys.executable, "-m", "uwaga", *map(str, words)]


def joined(folder: Path, path: Path) -> Path:
    """All parts of a job in one file."""
    with path.open("wb") as file:
        for part in sorted(folder.glob("part-*"), key=lambda one: (len(one.name), one.name)):
            with part.open("rb") as content:
                shutil.copyfileobj(content, file)
    return path


def overhead(folder: Path, lines: int, how: list[str], part_rows: int) -> dict[str, Any]:
    """The same lines by `uwaga translate`, by a job in one process, and by one and two workers of a core."""
    source = folder / "in.txt"
    write_lines(source, lines)
    plain, _ = timed(
        uwaga("translate", "--input", source, "--output", folder / "plain.txt", "--threads", 1, *how)
    )
    found: dict[str, Any] = {"lines": lines, "translate_s": plain}
    ways = {
        "batch": ["--threads", 1],
        "workers_1": ["--workers", 1, "--threads", 1],
        "workers_2": ["--workers", 2, "--threads", 1],
    }
    for name, words in ways.items():
        out = folder / name
        found[f"{name}_s"], _ = timed(uwaga("batch", source, out, "--part-rows", part_rows, *words, *how))
        found[f"{name}_equal"] = filecmp.cmp(
            joined(out, folder / "joined.txt"), folder / "plain.txt", shallow=False
        )
    found["overhead"] = found["batch_s"] / plain - 1
    found["linear_2"] = found["workers_1_s"] / found["workers_2_s"] / 2
    return found


def on_cluster(folder: Path, how: list[str], part_rows: int, kills: int) -> dict[str, Any]:
    """The same lines on two nodes of a core, of which one is killed so many times; after :func:`overhead`."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
    out, parts = folder / "ray", -(-sum(1 for _ in (folder / "in.txt").open()) // part_rows)
    started = time.perf_counter()
    command = uwaga("batch", folder / "in.txt", out, "--part-rows", part_rows, "--workers", 2, *how)
    try:
        with subprocess.Popen([*command, "--ray", cluster.address]) as process:
            left = [parts * (at + 1) // (kills + 1) for at in range(kills)]
            while process.poll() is None:
                if left and len(list(out.glob("part-*"))) >= left[0]:
                    left.pop(0)
                    cluster.remove_node(nodes.pop(0), allow_graceful=False)
                    nodes.append(cluster.add_node(num_cpus=1))
                time.sleep(0.05)
        seconds = time.perf_counter() - started
    finally:
        cluster.shutdown()
    equal = filecmp.cmp(joined(out, folder / "joined.txt"), folder / "plain.txt", shallow=False)
    return {"ray_s": seconds, "kills": kills - len(left), "ray_equal": equal, "status": process.returncode}


def memory(folder: Path, sizes: list[int], how: list[str], part_rows: int) -> list[dict[str, float]]:
    """Time and the most memory of a job by rows, in one process, so that reading and writing count too."""
    found = []
    for size in sizes:
        source, out = folder / f"in-{size}.txt", folder / f"out-{size}"
        write_lines(source, size)
        words = ["--part-rows", part_rows, "--threads", 1]
        seconds, most = timed(uwaga("batch", source, out, *words, *how))
        found.append({"lines": size, "seconds": seconds, "bytes": most})
        shutil.rmtree(out)
        source.unlink()
    return found


def tiny_model(folder: Path) -> Path:
    """A random model of width 16, whose translations end after 14 tokens at most."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
    from tiny_models import DECODING, TINY, tokeniser, transformer

    from uwaga.checkpoints.uwaga.folder import save_model

    both = tokeniser()
    model = transformer(TINY, both, both)
    save_model(folder / "tiny", model, TINY, DECODING, both, both, ("qaa", "qab"), "made for a measurement")
    return folder / "tiny"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--memory", type=int, nargs="*", default=[20_000, 60_000])
    parser.add_argument("--part-rows", type=int, default=2_000)
    parser.add_argument("--model", default="bundled")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--ray", action="store_true")
    parser.add_argument("--kill", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found: dict[str, Any] = {"load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        how = ["--beam", "1", "--model", str(tiny_model(folder)) if given.tiny else given.model]
        if given.lines:
            found["overhead"] = overhead(folder, given.lines, how, given.part_rows)
            print(found["overhead"])
        if given.lines and given.ray:
            found["ray"] = on_cluster(folder, how, given.part_rows, given.kill)
            print(found["ray"])
        found["memory"] = memory(folder, given.memory, how, given.part_rows)
    for one in found["memory"]:
        print(f"{one['lines']:>10,} lines {one['seconds']:8.1f} s {one['bytes'] / 1e6:8.1f} MB")
    for small, large in pairwise(found["memory"]):
        ratio = large["lines"] / small["lines"]
        print(
            f"x {ratio:.1f} lines: x {large['seconds'] / small['seconds']:.2f} time, "
            f"x {large['bytes'] / small['bytes']:.2f} memory"
        )
    if given.json:
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
