"""Damaged model folders through the C library, built with sanitizers: each is used, or refused in words.

python tests/support/fuzz_c_library.py [--count N] [--seconds S] [--seed K] [--case NUMBER]

The number of a case alone decides it, so that one that fails can be run again.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from c_library import check_damaged, sanitised_check
from damaged_models import damage, sound_models

BATCH = 100
"""Cases of a process."""


def run(program, sound, numbers, place):
    """Run cases; return what is wrong with those that fail, by their numbers."""
    place.mkdir()
    folders = {number: damage(sound, number, place / str(number)) for number in numbers}
    failed = {}
    try:
        check_damaged(program, folders.values())
    except (AssertionError, subprocess.TimeoutExpired) as problem_of_batch:
        for number, folder in folders.items():
            try:
                check_damaged(program, [folder])
            except (AssertionError, subprocess.TimeoutExpired) as problem:
                failed[number] = str(problem)
        failed = failed or {numbers[0]: f"one of {len(numbers)} cases, not alone: {problem_of_batch}"}
    shutil.rmtree(place)
    return failed


def main(arguments=None):
    """Run cases until there are enough or time is up; exit with 1 if one has failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int)
    options = parser.parse_args(arguments)
    start, done, failed = time.monotonic(), 0, {}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        program, sound = sanitised_check(place / "check", "address,undefined"), sound_models(place)
        first, count = (options.seed * 10**6, options.count) if options.case is None else (options.case, 1)
        while done < count and time.monotonic() - start < options.seconds:
            numbers = range(first + done, first + min(done + BATCH, count))
            failed |= run(program, sound, numbers, place / "x")
            done += len(numbers)
    print(f"{done} cases in {time.monotonic() - start:.0f} s, {len(failed)} failed", flush=True)
    for number, problem in failed.items():
        print(f"== {number}\n{problem}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
