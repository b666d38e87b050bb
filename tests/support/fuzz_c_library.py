"""Fuzzing of the sanitised C library: each damaged model folder translates or is rejected.

python tests/support/fuzz_c_library.py [--count N] [--seconds S] [--seed K] [--case NUMBER]

A case is determined by its number, so that failures can be repeated.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from c_library import build_sanitised_check, check_damaged
from damaged_models import damage, intact_models

CASES_PER_PROCESS = 100
"""Number of cases per process."""


def run(program, intact, numbers, scratch):
    """Run cases; return the error messages of the failing cases by their numbers."""
    scratch.mkdir()
    folders = {number: damage(intact, number, scratch / str(number)) for number in numbers}
    failures = {}
    try:
        check_damaged(program, folders.values())
    except (AssertionError, subprocess.TimeoutExpired) as problem_of_batch:
        for number, folder in folders.items():
            try:
                check_damaged(program, [folder])
            except (AssertionError, subprocess.TimeoutExpired) as problem:
                failures[number] = str(problem)
        failures = failures or {numbers[0]: f"one of {len(numbers)} cases, not alone: {problem_of_batch}"}
    shutil.rmtree(scratch)
    return failures


def main(arguments=None):
    """Run cases until there are enough or time is up; exit with 1 if one has failed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int)
    options = parser.parse_args(arguments)
    start, completed, failures = time.monotonic(), 0, {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, intact = build_sanitised_check(folder / "check", "address,undefined"), intact_models(folder)
        first, count = (options.seed * 10**6, options.count) if options.case is None else (options.case, 1)
        while completed < count and time.monotonic() - start < options.seconds:
            numbers = range(first + completed, first + min(completed + CASES_PER_PROCESS, count))
            failures |= run(program, intact, numbers, folder / "x")
            completed += len(numbers)
    print(f"{completed} cases in {time.monotonic() - start:.0f} s, {len(failures)} failed", flush=True)
    for number, problem in failures.items():
        print(f"== {number}\n{problem}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
