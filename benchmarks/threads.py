"""Measure concurrent requests of one sentence from many callers, against the same sentences as a list.

    python benchmarks/threads.py flores.dev.en
    python benchmarks/threads.py flores.dev.en --model opus-mt-en-de --clients 1 32 --seconds 10

Each caller requests the next sentence as soon as it has the answer. "plain" are threads that call one
Translator, "shared" are threads that call ``Translator.shared()``, and "asyncio" are tasks of an
AsyncTranslator. Then requests come at random times, at half the rate of 32 callers. Finally, callers of short
sentences run beside a caller of a text of 500 words. See benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from peers.machine import machine, show_machine

import uwaga
from uwaga import AsyncTranslator, Translator

CLIENTS = 32
WORDS = 500
Translate = Callable[[str], object]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sentences", type=Path, help="file with one sentence per line")
    parser.add_argument("--model", help="folder or name of a model; default: the bundled model")
    parser.add_argument(
        "--threads", type=int, default=0, help="number of threads of the model; 0 for all cores"
    )
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--beam", type=int, help="beam size; default: that of the model's settings")
    parser.add_argument("--max-length", type=int, help="length limit for a model with random weights")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, CLIENTS])
    parser.add_argument("--seconds", type=float, default=5.0, help="seconds of each measurement")
    parser.add_argument("--only", nargs="+", default=["plain", "shared", "asyncio", "half", "beside"])
    arguments = parser.parse_args()
    texts = arguments.sentences.read_text(encoding="utf-8").splitlines()
    show_machine(machine())
    loaded = Translator.load(arguments.model, threads=arguments.threads, dtype=arguments.dtype)
    options = loaded.options(beam=arguments.beam, max_length=arguments.max_length)
    translator = Translator(replace(loaded.model, decoding=options, score_stats=None))
    print(f"model    {translator!r}, beam {translator.decoding.beam}")
    measure(translator, texts, arguments)


def measure(translator: Translator, texts: list[str], arguments: argparse.Namespace) -> None:
    """Print the requested figures."""
    seconds = arguments.seconds
    translator.translate(texts[:8])
    list_rate = as_list(translator, texts, seconds)
    print(f"\nas a list           {list_rate:8.1f} sentences/s")
    shared = translator.shared()
    lone, best = 0.0, {}
    for name, translate in (("plain", translator.translate), ("shared", shared.translate)):
        if name not in arguments.only:
            continue
        for clients in arguments.clients:
            took, rate = crowd(translate, texts, clients, seconds)
            show(f"{name}, {clients} threads", took, rate, list_rate)
            best[name, clients] = rate
            if name == "shared" and clients == 1:
                lone = percentile(took, 95)
    if "asyncio" in arguments.only:
        for clients in arguments.clients:
            took, rate = asyncio.run(tasks(translator, texts, clients, seconds))
            show(f"asyncio, {clients} tasks", took, rate, list_rate)
    capacity = best.get(("shared", CLIENTS), list_rate)
    if not lone:
        lone = percentile(crowd(shared.translate, texts, 1, seconds)[0], 95)
    if "half" in arguments.only:
        took = at_rate(shared.translate, texts, capacity / 2, seconds)
        print(f"half load, {capacity / 2:6.1f}/s  p95 {1000 * percentile(took, 95):7.1f} ms", end="  ")
        print(f"{percentile(took, 95) / lone:5.2f} of a lone request's {1000 * lone:.1f} ms")
    if "beside" in arguments.only:
        measure_with_long_text(shared.translate, texts, seconds)


def measure_with_long_text(translate: Translate, texts: list[str], seconds: float) -> None:
    """Measure callers of short texts beside a caller of long texts."""
    long = " ".join(itertools.islice(itertools.cycle(" ".join(texts).split()), WORDS))
    for clients in (1, 4, 8):
        baseline = percentile(crowd(translate, texts, clients, seconds)[0], 95)
        with Company(translate, long) as completed:
            loaded = percentile(crowd(translate, texts, clients, seconds)[0], 95)
        print(f"{clients} callers            p95 {1000 * baseline:7.1f} ms", end="  ")
        print(f"{loaded / baseline:5.2f} of it beside a text of {WORDS} words ({len(completed)} of them)")


class Company:
    """A thread that requests the translation of the same text repeatedly within the block."""

    def __init__(self, translate: Translate, text: str) -> None:
        self._ask, self._text, self._ended, self._done = translate, text, threading.Event(), list[float]()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._ask(self._text)
            self._done.append(time.perf_counter())

    def __enter__(self) -> list[float]:
        self._thread.start()
        return self._done

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def as_list(translator: Translator, texts: list[str], seconds: float) -> float:
    """Return the sentences per second of a list of lines, which takes about ``seconds``."""
    started = time.perf_counter()
    translator.translate(texts[:64])
    count = max(64, int(64 * seconds / (time.perf_counter() - started)))
    lines = list(itertools.islice(itertools.cycle(texts), count))
    started = time.perf_counter()
    translator.translate(lines)
    return count / (time.perf_counter() - started)


def crowd(translate: Translate, texts: list[str], clients: int, seconds: float) -> tuple[list[float], float]:
    """Return the seconds of each request of several threads, and the requests per second."""
    remaining: Iterator[str] = itertools.cycle(texts)
    took: list[float] = []
    end = time.perf_counter() + seconds

    def work() -> None:
        while (started := time.perf_counter()) < end:
            translate(next(remaining))
            took.append(time.perf_counter() - started)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    started_at = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took, len(took) / (time.perf_counter() - started_at)


async def tasks(
    translator: Translator, texts: list[str], clients: int, seconds: float
) -> tuple[list[float], float]:
    """Return the seconds of each request of several tasks, and the requests per second."""
    remaining, took, end = itertools.cycle(texts), list[float](), time.perf_counter() + seconds
    async with AsyncTranslator(translator) as shared:

        async def work() -> None:
            while (started := time.perf_counter()) < end:
                await shared.translate(next(remaining))
                took.append(time.perf_counter() - started)

        started_at = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(clients)))
        return took, len(took) / (time.perf_counter() - started_at)


def at_rate(translate: Translate, texts: list[str], rate: float, seconds: float) -> list[float]:
    """Return the seconds of each request if requests come at random times, ``rate`` per second."""
    random.seed(1)
    took: list[float] = []

    def work(text: str) -> None:
        started = time.perf_counter()
        translate(text)
        took.append(time.perf_counter() - started)

    threads = []
    due, end = time.perf_counter(), time.perf_counter() + seconds
    for text in itertools.cycle(texts):
        due += random.expovariate(rate)
        if due > end:
            break
        time.sleep(max(due - time.perf_counter(), 0))
        threads.append(threading.Thread(target=work, args=(text,)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    return took


def percentile(took: list[float], percent: int) -> float:
    """Return a percentile of seconds by the nearest-rank method."""
    return sorted(took)[min(len(took) * percent // 100, len(took) - 1)]


def show(name: str, took: list[float], rate: float, list_rate: float) -> None:
    """Print a line of the table."""
    median, percentile_95 = statistics.median(took), percentile(took, 95)
    print(f"{name:20}{rate:8.1f} requests/s   {rate / list_rate:5.2f} of the list", end="   ")
    print(f"p50 {1000 * median:7.1f} ms   p95 {1000 * percentile_95:7.1f} ms", flush=True)


if __name__ == "__main__":
    print(f"uwaga    {uwaga.__version__}")
    main()
