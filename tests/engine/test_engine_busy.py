"""The engine beside other processes: its threads come late, never the wrong result.

``native/tests/workers_test.cpp`` has the threads by themselves, some of which are made to come late.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from native_models import native, random_model, sentences
from prompted_models import native_decoder, prompts, random_decoder

from uwaga.decoder import Choice
from uwaga.search import SearchOptions, search
from uwaga.settings import DecoderOnlySettings, TransformerSettings

ROOT = Path(__file__).resolve().parents[2]
LAWS = {"pace: passed", "late members: passed", "threads: passed"}
SHAPE = TransformerSettings(
    encoder_layers=1,
    decoder_layers=2,
    width=64,
    heads=4,
    feed_forward=96,
    max_length=60,
    norm="pre",
    tie="decoder",
)
DECODER_ONLY = DecoderOnlySettings(
    layers=2, width=64, heads=4, feed_forward=96, max_length=60, norm="pre", tie_output=True
)


def found(*settings, target="workers"):
    """What the threads' own test says, or another of C++, built with these settings of make."""
    if shutil.which("make") is None or shutil.which("g++") is None:
        pytest.skip("no make or no g++ here")
    command = ["make", "-C", ROOT / "native" / "tests", "CXX=g++", *settings, target]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if "cannot find" in done.stderr and "tsan" in done.stderr:
        pytest.skip("this compiler has no thread sanitizer")
    if "ThreadSanitizer: unexpected memory mapping" in done.stderr:
        pytest.skip("the thread sanitizer does not run on this kernel")
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert "warning:" not in done.stderr
    return set(done.stdout.splitlines())


def test_late_threads_are_left_out_for_a_while():
    """Teams shrink and are tried again, nobody who has not begun is waited for, errors reach the caller."""
    assert found(f"BUILD={ROOT / 'build' / 'workers'}", "OPTIMISE=-O2") >= LAWS


def test_I11_memory_that_many_callers_needed_once_goes_back():
    """Of keys and values as much is kept as is needed again and again; what is freed is not resident."""
    assert found(f"BUILD={ROOT / 'build' / 'pages'}", "OPTIMISE=-O2", target="pages") >= {"pages: passed"}


def test_numbers_of_json_are_the_nearest():
    build = ROOT / "build" / "decimal"
    assert found(f"BUILD={build}", "OPTIMISE=-O1", target="decimal") >= {"decimal: passed"}


@pytest.mark.slow
def test_late_threads_do_not_race():
    assert found(f"BUILD={ROOT / 'build' / 'workers-tsan'}", "OPTIMISE=-O1", "SANITIZE=thread") >= LAWS


@pytest.fixture
def busy_cores():
    """Every core has another process that never pauses."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    command = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
    burning = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for process in burning:
            assert process.stdout.readline() == b"\n"
        yield
        assert all(process.poll() is None for process in burning)
    finally:
        for process in burning:
            process.kill()
            process.communicate()


def test_results_are_the_same_bits_on_busy_cores(busy_cores):
    """Teams of two to four become smaller and larger in the middle of a search."""
    model = random_model(SHAPE, spread=2.0, source=97, target=9001)  # four chunks of the vocabulary
    sources = sentences(4, seed=1, longest=30, vocabulary=97)
    options = SearchOptions(beam=3, nbest=2, max_length=40)
    for precision in ("float32", "int8"):
        expected = None
        for threads in (1, 2, 3, 4):
            engine = native(model, precision, threads, shared_width=1)
            made = [search(engine, [source], options) for source in sources]
            made.append(search(engine, sources * 8, options))
            expected = expected or made
            assert made == expected


def test_prompts_give_the_same_bits_on_busy_cores(busy_cores):
    model = random_decoder(DECODER_ONLY, spread=2.0, vocabulary=97)
    given = prompts(12, seed=2, longest=50, vocabulary=97)
    tokens = np.arange(12)
    expected = None
    for threads in (1, 2, 3, 4):
        engine = native_decoder(model, "int8", threads, shared_width=1)
        for _ in range(12):
            state = engine.start(engine.encode(given), 1)
            steps = []
            for _ in range(6):
                step = engine.step(tokens, state, Choice(3, attention=True))
                steps.append((step.log_probs, step.tokens, step.attention))
                state = step.state
            expected = expected or steps
            for one, other in zip(steps, expected, strict=True):
                assert all(np.array_equal(*pair) for pair in zip(one, other, strict=True))
