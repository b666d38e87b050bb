"""Compare translation speed on CPUs: uwaga's native engine, CTranslate2 int8 and transformers float32.

    python benchmarks/engine.py
    python benchmarks/engine.py --cores 1 2 --rounds 7 --json engine.json
    python benchmarks/engine.py --isa avx2          # both engines held to it
    python benchmarks/engine.py --only memory cold growth

All systems have the same random weights, of the size of an OPUS-MT model (d 512, 6 + 6 layers, feed-forward
2048, 58,101 tokens). They generate the same number of target tokens: the end symbol is suppressed up to a
length limit. Rounds alternate between the systems; a figure is the median of its rounds, after a warm-up.
CTranslate2 runs int8, on two cores with two threads in one worker and with two workers; the faster of the two
is compared.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from peers.environments import installed_environment
from peers.machine import machine
from peers.opus_size import SHAPE, sources, write_marian

from uwaga.engine.cpu import available_isas

FOLDER = Path(__file__).parent
TARGET = 16
CASES = ((1, 1), (8, 1), (32, 1), (64, 1), (32, 4))
"""Numbers of sentences and beam sizes."""
PEER_ISA = {
    "avx2": ("AVX2", "AVX2"),
    "avxvnni": ("AVX2", "AVX2_VNNI"),
    "avx512vnni": ("AVX512", "AVX512_CORE_VNNI"),
    "amx": ("AVX512", "AVX512_CORE_AMX"),
}
"""Values that limit CTranslate2 to an instruction set: for its kernels, and for the products of oneDNN or
MKL.
"""
BUNDLED = "I want to buy a car."
LENGTHS = (10, 20, 30, 50, 75, 100, 150, 200, 250, 300, 400, 500)
"""Source and target lengths at which the cost is measured."""
PARTS = ("speed", "memory", "cold", "growth", "install")


def prepare(folder: Path) -> None:
    """Write folders with the same weights for all systems: Marian, uwaga int8 and CTranslate2 int8."""
    if not (folder / "marian" / "config.json").exists():
        write_marian(folder / "marian")
    if not (folder / "uwaga-int8").exists():
        from uwaga.conversion.quantise import quantise

        print(quantise(folder / "marian", folder / "uwaga-int8"))
    if not (folder / "ct2-int8").exists():
        from ctranslate2.converters import TransformersConverter

        TransformersConverter(str(folder / "marian")).convert(str(folder / "ct2-int8"), quantization="int8")


# --- the systems, each a function from (sentences, beam, target tokens) to nothing


def uwaga_system(folder: Path, cores: int) -> Callable[[list[list[int]], int, int], None]:
    """Return a function that translates with the int8 folder, as ``uwaga translate`` does."""
    from uwaga.checkpoints.registry import read
    from uwaga.checkpoints.to_engine import to_engine
    from uwaga_bench.searches import search_fixed_length

    model = to_engine(read(folder / "uwaga-int8"), threads=cores)

    def run(batch: list[list[int]], beam: int, target: int) -> None:
        assert search_fixed_length(model, batch, beam, target) == len(batch) * target

    return run


def ctranslate2_system(folder: Path, inner: int, outer: int) -> Callable[[list[list[int]], int, int], None]:
    """Return a function that translates with ``outer`` workers of ``inner`` threads each, in int8."""
    import ctranslate2

    translator = ctranslate2.Translator(
        str(folder / "ct2-int8"), compute_type="int8", intra_threads=inner, inter_threads=outer
    )
    pieces = {number: piece for piece, number in _vocabulary(folder).items()}

    def run(batch: list[list[int]], beam: int, target: int) -> None:
        text = [[pieces[token] for token in ids] for ids in batch]
        share = -(-len(text) // outer)
        results = translator.translate_batch(
            text, beam_size=beam, max_batch_size=share, min_decoding_length=target, max_decoding_length=target
        )
        for result in results:
            assert len(result.hypotheses[0]) == target

    return run


def transformers_system(folder: Path, cores: int) -> Callable[[list[list[int]], int, int], None]:
    """Return a function that translates with transformers in float32."""
    import torch
    from transformers import MarianMTModel

    torch.set_num_threads(cores)
    model = MarianMTModel.from_pretrained(folder / "marian").eval()
    pad = SHAPE["pad_token_id"]

    def run(batch: list[list[int]], beam: int, target: int) -> None:
        longest = max(map(len, batch))
        ids = torch.tensor([[*row, *[pad] * (longest - len(row))] for row in batch])
        with torch.inference_mode():
            outputs = model.generate(
                input_ids=ids,
                attention_mask=(ids != pad).long(),
                num_beams=beam,
                do_sample=False,
                min_new_tokens=target,
                max_new_tokens=target,
            )
        assert outputs.shape[1] == target + 1

    return run


def _vocabulary(folder: Path) -> dict[str, int]:
    values: dict[str, int] = json.loads((folder / "marian" / "vocab.json").read_text())
    return values


# --- workers: one process per number of cores


def work_speed(folder: Path, cores: int, rounds: int, peers: list[str]) -> dict[str, Any]:
    """Return the tokens per second of each system and case, as medians of alternating rounds."""
    systems = {"uwaga": uwaga_system(folder, cores)}
    if "ctranslate2" in peers:
        systems["ctranslate2"] = ctranslate2_system(folder, cores, 1)
        if cores > 1:
            systems["ctranslate2-workers"] = ctranslate2_system(folder, 1, cores)
    if "transformers" in peers:
        systems["transformers"] = transformers_system(folder, cores)
    rates: dict[str, Any] = {}
    for size, beam in CASES:
        batch = sources(size)
        times: dict[str, list[float]] = {name: [] for name in systems}
        for number in range(rounds + 1):
            for name, system in systems.items():
                if name == "transformers" and (number > 2 or (size, beam) != (32, 1)):
                    continue
                repeats = 1 if name == "transformers" else max(1, 64 // (size * beam))
                start = time.perf_counter()
                for _ in range(repeats):
                    system(batch, beam, TARGET)
                if number:
                    times[name].append((time.perf_counter() - start) / repeats)
        rates[f"{size}x{beam}"] = {
            name: size * TARGET / statistics.median(values) for name, values in times.items() if values
        }
    return rates


def work_memory(folder: Path, name: str) -> dict[str, Any]:
    """Return the peak memory of a process that loads a system and translates a batch of 32 with beam 4."""
    system = uwaga_system(folder, 1) if name == "uwaga" else ctranslate2_system(folder, 1, 1)
    loaded = peak_mib()
    system(sources(32), 4, TARGET)
    return {"loaded_mib": loaded, "peak_mib": peak_mib()}


def peak_mib() -> float:
    """Return the peak resident memory of this process in MiB.

    ``getrusage`` would include that of the parent process.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def work_growth(folder: Path, rounds: int) -> dict[str, Any]:
    """Return the seconds per sentence by the length of the source, and by the length of the target."""
    system = uwaga_system(folder, 1)
    times: dict[str, dict[int, list[float]]] = {"source": {}, "target": {}}
    for number in range(rounds + 1):
        for length in LENGTHS:
            batch = sources(4, shortest=length, longest=length)
            for kind, inputs, target in (("source", batch, TARGET), ("target", sources(4), length)):
                start = time.perf_counter()
                system(inputs, 1, target)
                if number:
                    seconds = (time.perf_counter() - start) / len(inputs)
                    times[kind].setdefault(length, []).append(seconds)
    return {
        kind: {length: statistics.median(seconds) for length, seconds in values.items()}
        for kind, values in times.items()
    }


def cold(rounds: int) -> dict[str, Any]:
    """Return the wall time and peak memory of ``uwaga translate`` with the bundled model in new processes."""
    times, peaks = [], []
    code = (
        "import sys\nfrom uwaga.cli.start import start\n"
        "try: start()\nfinally: print(next(line.split()[1] for line in "
        "open('/proc/self/status') if line.startswith('VmHWM')), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "translate", BUNDLED]
    with installed_environment() as compiled:
        for number in range(rounds + 1):
            start = time.perf_counter()
            process = subprocess.run(command, env=compiled, capture_output=True, text=True, check=True)
            if number:
                times.append(time.perf_counter() - start)
                peaks.append(int(process.stderr.split()[-1]) / 1024)
    return {"seconds": statistics.median(times), "peak_mib": max(peaks), "text": process.stdout.strip()}


def install() -> dict[str, Any]:
    """Return the size in MB of a plain installation: each package's files, and their bytecode."""
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        subprocess.run([*pip, "--target", folder, str(FOLDER.parent)], check=True)
        packages: dict[str, list[float]] = {}
        for record in Path(folder).glob("*.dist-info/RECORD"):
            sizes = packages[record.parent.name.removesuffix(".dist-info")] = [0.0, 0.0]
            with record.open(newline="") as lines:
                for name, *_ in csv.reader(lines):
                    path = record.parent.parent / name
                    if path.suffix != ".pyc" and path.is_file():
                        sizes[0] += path.stat().st_size / 1e6
                        compiled = path.parent.glob(f"__pycache__/{path.stem}.*.pyc")
                        sizes[1] += sum(
                            file.stat().st_size / 1e6 for file in compiled if path.suffix == ".py"
                        )
        return {
            "mb": [sum(columns) for columns in zip(*packages.values(), strict=True)],
            "packages": packages,
        }


def show_install(results: dict[str, Any]) -> None:
    files, bytecode = results["mb"]
    print(f"\nplain install, MB: {files + bytecode:.1f}; without the bytecode that pip writes: {files:.1f}")
    for name, sizes in sorted(results["packages"].items(), key=lambda item: -sum(item[1])):
        print(f"{name:>28} {sizes[0]:7.2f} {sizes[1]:7.2f}")


# --- the driver


def environment(threads: int, isa: str | None) -> dict[str, str]:
    """Return the environment of a process that uses ``threads`` threads.

    ``isa`` selects the instruction set of both engines; with None, each uses its fastest.
    """
    variables = dict(os.environ, OMP_NUM_THREADS=str(threads))
    if isa:
        isa_name, products = PEER_ISA[isa]
        variables.update(
            UWAGA_ISA=isa,
            CT2_FORCE_CPU_ISA=isa_name,
            ONEDNN_MAX_CPU_ISA=products,
            DNNL_MAX_CPU_ISA=products,
            MKL_ENABLE_INSTRUCTIONS=isa_name,
        )
    elif "avx512vnni" in available_isas():
        variables["CT2_FORCE_CPU_ISA"] = (
            "AVX512"  # left alone it takes AVX2 on AMD's processors, which is slower
        )
    return variables


def in_process(folder: Path, arguments: list[str], cores: int, isa: str | None) -> dict[str, Any]:
    """Run this script as a worker on ``cores`` cores, and return the figures that it prints."""
    allowed = sorted(os.sched_getaffinity(0))[:cores]
    process = subprocess.run(
        [sys.executable, __file__, "--folder", str(folder), *arguments],
        env=environment(cores, isa),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        preexec_fn=lambda: os.sched_setaffinity(0, allowed),
    )
    figures: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return figures


def show_speed(figures: dict[str, dict[str, float]], cores: int) -> None:
    print(f"\ntarget tokens a second, cores: {cores}")
    names = ("batch x beam", "uwaga", "CTranslate2", "ratio", "transformers", "ratio")
    widths = (12, 9, 12, 6, 13, 6)
    print(" ".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True)))
    for case, speeds in figures.items():
        peer = max((speed for name, speed in speeds.items() if name.startswith("ctranslate2")), default=None)
        line = f"{case:>12} {speeds['uwaga']:9.0f}"
        for speed, width in ((peer, 12), (speeds.get("transformers"), 13)):
            line += f" {speed:{width}.0f} {speeds['uwaga'] / speed:6.2f}" if speed else " " * (width + 8)
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--isa", choices=list(PEER_ISA), help="instruction set for uwaga and CTranslate2")
    parser.add_argument("--peers", nargs="*", default=["ctranslate2", "transformers"])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--folder", type=Path, help="folder for the models; default: a temporary folder")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", choices=("speed", "memory", "growth"), help=argparse.SUPPRESS)
    parser.add_argument("--system", default="uwaga", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        folder = arguments.folder
        if arguments.worker == "speed":
            print(json.dumps(work_speed(folder, arguments.cores[0], arguments.rounds, arguments.peers)))
        elif arguments.worker == "memory":
            print(json.dumps(work_memory(folder, arguments.system)))
        else:
            print(json.dumps(work_growth(folder, arguments.rounds)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        run_all(arguments, arguments.folder or Path(temporary))


def run_all(arguments: argparse.Namespace, folder: Path) -> None:
    print(machine())
    results: dict[str, Any] = {"isa": arguments.isa}
    if set(arguments.only) - {"cold", "install"}:
        folder.mkdir(parents=True, exist_ok=True)
        prepare(folder)
    if "speed" in arguments.only:
        for cores in arguments.cores:
            worker = ["--worker", "speed", "--cores", str(cores), "--rounds", str(arguments.rounds)]
            worker += ["--peers", *arguments.peers]
            results[f"speed-{cores}"] = in_process(folder, worker, cores, arguments.isa)
            show_speed(results[f"speed-{cores}"], cores)
    if "memory" in arguments.only:
        peaks = {
            name: in_process(folder, ["--worker", "memory", "--system", name], 1, arguments.isa)
            for name in ("uwaga", "ctranslate2")
        }
        results["memory"] = peaks
        uwaga_peak, peer_peak = (peaks[name]["peak_mib"] for name in ("uwaga", "ctranslate2"))
        print(
            f"\npeak memory, MiB: uwaga {uwaga_peak:.0f}, CTranslate2 {peer_peak:.0f}, "
            f"ratio {uwaga_peak / peer_peak:.2f}"
        )
    if "cold" in arguments.only:
        results["cold"] = cold(arguments.rounds)
        print(
            f"\ncold start: {results['cold']['seconds']:.2f} s, {results['cold']['peak_mib']:.0f} MiB at peak"
        )
    if "growth" in arguments.only:
        results["growth"] = in_process(
            folder, ["--worker", "growth", "--rounds", str(arguments.rounds)], 1, arguments.isa
        )
        print("\nmilliseconds a sentence by tokens of its source (target 16), and of its target (source 15)")
        for length, seconds in results["growth"]["source"].items():
            print(f"{length:>6} {seconds * 1e3:9.1f} {results['growth']['target'][length] * 1e3:9.1f}")
    if "install" in arguments.only:
        results["install"] = install()
        show_install(results["install"])
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
