"""The engine on busy processors: threads that start late do not change results.

``native/tests/workers_test.cpp`` tests the threads separately, some of them delayed on purpose.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from native_models import native_model, random_model, sentences
from prompted_models import prompts, random_decoder
from search_inputs import inputs

from uwaga.decoder import Choice
from uwaga.search import SearchOptions, search
from uwaga.settings import DecoderOnlySettings, TransformerSettings

ROOT = Path(__file__).resolve().parents[2]
EXPECTED_LINES = {"pace: passed", "late members: passed", "threads: passed"}
SHAPE = TransformerSettings(
    encoder_layers=1, decoder_layers=2, width=64, heads=4, feed_forward=96, max_length=60, norm="pre",
    tie="decoder",
)  # fmt: skip
DECODER_ONLY = DecoderOnlySettings(
    layers=2, width=64, heads=4, feed_forward=96, max_length=60, norm="pre", tie_output=True
)


def run_program(*settings, target="workers"):
    """Build a C++ test program with the given make settings, run it and return its output lines."""
    if shutil.which("make") is None or shutil.which("g++") is None:
        pytest.skip("no make or no g++ here")
    command = ["make", "-C", ROOT / "native" / "tests", "CXX=g++", *settings, target]
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if "cannot find" in process.stderr and "tsan" in process.stderr:
        pytest.skip("this compiler has no thread sanitizer")
    if "ThreadSanitizer: unexpected memory mapping" in process.stderr:
        pytest.skip("the thread sanitizer does not run on this kernel")
    assert process.returncode == 0, (process.stdout + process.stderr)[-4000:]
    assert "warning:" not in process.stderr
    return set(process.stdout.splitlines())


@pytest.mark.slow
def test_engine_does_not_wait_for_threads_that_start_late():
    """Teams of threads shrink and grow, do not wait for threads that start late, and pass on errors."""
    assert run_program(f"BUILD={ROOT / 'build' / 'workers'}", "OPTIMISE=-O2") >= EXPECTED_LINES


@pytest.mark.slow
def test_unused_memory_pages_are_released():
    """Memory pages of keys and values are retained while they are used, and released afterwards."""
    assert run_program(f"BUILD={ROOT / 'build' / 'pages'}", "OPTIMISE=-O2", target="pages") >= {
        "pages: passed"
    }


@pytest.mark.slow
def test_json_numbers_are_parsed_exactly():
    build = ROOT / "build" / "decimal"
    assert run_program(f"BUILD={build}", "OPTIMISE=-O1", target="decimal") >= {"decimal: passed"}


@pytest.mark.release
def test_threads_that_start_late_cause_no_data_races():
    assert (
        run_program(f"BUILD={ROOT / 'build' / 'workers-tsan'}", "OPTIMISE=-O1", "SANITIZE=thread")
        >= EXPECTED_LINES
    )


@pytest.fixture
def busy_cores():
    """Run a busy process on each core."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    command = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for process in processes:
            assert process.stdout.readline() == b"\n"
        yield
        assert all(process.poll() is None for process in processes)
    finally:
        for process in processes:
            process.kill()
            process.communicate()


@pytest.mark.slow
def test_results_do_not_depend_on_how_busy_the_cores_are(busy_cores):
    """Teams of two to four threads shrink and grow during a search."""
    model = random_model(SHAPE, spread=2.0, source=97, target=9001)  # four chunks of the vocabulary
    sources = sentences(4, seed=1, max_length=30, vocabulary=97)
    options = SearchOptions(beam=3, nbest=2, max_length=40)
    for precision in ("float32", "int8"):
        expected = None
        for threads in (1, 2, 3, 4):
            engine = native_model(model, precision, threads, shared_width=1)
            results = [search(engine, inputs([source]), options) for source in sources]
            results.append(search(engine, inputs(sources * 8), options))
            expected = expected or results
            assert results == expected


@pytest.mark.slow
def test_results_for_prompts_do_not_depend_on_how_busy_the_cores_are(busy_cores):
    model = random_decoder(DECODER_ONLY, spread=2.0, vocabulary=97)
    sources = prompts(12, seed=2, max_length=50, vocabulary=97)
    tokens = np.arange(12)
    expected = None
    for threads in (1, 2, 3, 4):
        engine = native_model(model, "int8", threads, shared_width=1)
        for _ in range(12):
            state = engine.start(engine.encode(sources), 1)
            steps = []
            for _ in range(6):
                step = engine.step(tokens, state, Choice(3, attention=True))
                steps.append((step.log_probs, step.tokens, step.attention))
                state = step.state
            expected = expected or steps
            for step, expected_step in zip(steps, expected, strict=True):
                assert all(np.array_equal(*pair) for pair in zip(step, expected_step, strict=True))
