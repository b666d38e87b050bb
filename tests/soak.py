"""Mixed calls from several threads for a long time: ``make soak COUNT=100000``.

Threads translate texts and lists, stream, sample, score and pass invalid options, in random order. Resident
memory must not grow by more than 3% after the first tenth of the work.
"""

import argparse
import contextlib
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import uwaga
from uwaga.errors import UwagaError

MAX_GROWTH = 0.03
WORDS = (Path(__file__).parents[1] / "docs/sample.en").read_text(encoding="utf-8").split()


def resident_mebibytes() -> float:
    """Return the resident memory size of this process in MiB."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS in /proc/self/status: this needs Linux")


def sentence(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 20)))


def calls(translator: uwaga.Translator) -> list[Callable[[random.Random], int]]:
    """Return functions that call the translator; each returns its number of sentences."""

    def translate_list(rng: random.Random) -> int:
        texts = [sentence(rng) for _ in range(rng.randint(1, 32))]
        return len(translator.translate(texts, beam=rng.choice([1, 1, 1, 4]), max_length=30))

    def translate_text(rng: random.Random) -> int:
        translator.translate(sentence(rng), beam=3, nbest=3, attention=rng.random() < 0.3, max_length=30)
        return 1

    def sample(rng: random.Random) -> int:
        translator.translate(sentence(rng), sample=True, nbest=2, seed=rng.randrange(9), max_length=30)
        return 1

    def stream(rng: random.Random) -> int:
        pieces = translator.stream(sentence(rng), max_length=30)
        for _ in range(rng.randint(1, 9)):  # the consumer may stop early
            if next(pieces, None) is None:
                break
        pieces.close()
        return 1

    def score(rng: random.Random) -> int:
        pairs = [(sentence(rng), sentence(rng)) for _ in range(rng.randint(1, 8))]
        return len(translator.score(pairs))

    def invalid_call(rng: random.Random) -> int:
        with contextlib.suppress(UwagaError):
            text = rng.choice(["\ud800", "a " * 5000])
            translator.translate(text, split="never", beam=rng.choice([1, -1]))
        return 1

    return [
        translate_list, translate_list, translate_list, translate_text, sample, stream, score, invalid_call,
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="sentences")
    parser.add_argument("--threads", type=int, default=3, help="threads that share the translator")
    options = parser.parse_args()
    translator = uwaga.load(threads=1)
    functions, lock, total = calls(translator), threading.Lock(), 0
    readings: list[tuple[int, float]] = []
    started = time.monotonic()

    def work(seed: int) -> None:
        nonlocal total
        rng = random.Random(seed)
        while total < options.count:
            translated = rng.choice(functions)(rng)
            with lock:
                total += translated
                if total >= options.count * (len(readings) + 1) / 20:
                    readings.append((total, resident_mebibytes()))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(options.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for count, size in readings:
        print(f"{count:>9,} sentences  {size:8.1f} MiB")
    first, last = readings[1][1], readings[-1][1]
    print(
        f"{total:,} sentences in {time.monotonic() - started:.0f} s; from a tenth on {last / first - 1:+.2%}"
    )
    if last > first * (1 + MAX_GROWTH):
        sys.exit(f"error: grown by more than {MAX_GROWTH:.0%}")


if __name__ == "__main__":
    main()
