"""Requests that share a running batch: each has the answer that it has alone, and nothing is left behind."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from uwaga import Translator
from uwaga.errors import CancelledRequestError, DataError, DeadlineError
from uwaga.scheduling.batching_decoder import ModelBatches
from uwaga.scheduling.call_context import CallContext

TEXTS = [
    "A dog runs across the grass.",
    "Two men are cooking.",
    "A girl in a <b>red</b> dress.\n\nShe smiles.",
    "",
    "12 345",
    "People sit at a table in a park and eat, while a man plays the guitar for them.",
]
WAYS: list[dict[str, Any]] = [
    {},
    {"beam": 1},
    {"beam": 4, "nbest": 4},
    {"beam": 2, "min_length": 12, "max_length": 20},
    {"prefix": "Ein"},
    {"prefix": "Ein", "beam": 1},
    {"glossary": {"dog": "Köter", "men": "Kerle"}},
    {"glossary": {"dog": "Köter"}, "glossary_mode": "soft", "beam": 3},
    {"format": "html"},
    {"alignment": True},
    {"attention": "all", "beam": 1},
    {"attention": True},
    {"no_repeat_ngram": 2},
    {"sample": True, "seed": 5, "nbest": 2},
    {"mbr": 3, "seed": 2},
    {"entropy": True},
    {"split": "sentences", "length_penalty": 0.6},
    {"early_stopping": False, "length_formula": "gnmt"},
]
QUIET = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(threads=1)


@pytest.fixture(scope="module")
def models() -> ModelBatches:
    return ModelBatches()


@pytest.fixture(scope="module")
def alone(translator: Translator) -> Callable[[int, int], object]:
    known: dict[tuple[int, int], object] = {}

    def answer(text: int, way: int) -> object:
        if (text, way) not in known:
            known[text, way] = translator.translate(TEXTS[text], **WAYS[way])
        return known[text, way]

    return answer


def is_empty(models: ModelBatches) -> bool:
    return all(
        (one.budget.waiting, one.budget.running, one.budget.used) == (0, 0, 0) for one in models.batches
    )


def in_threads(*works: Callable[[], None]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()


@QUIET
@given(st.data())
def test_any_mixture_gives_what_each_gets_alone(
    translator: Translator, models: ModelBatches, alone: Callable[[int, int], object], data: st.DataObject
) -> None:
    asked = data.draw(
        st.lists(
            st.tuples(
                st.integers(0, len(TEXTS) - 1),
                st.integers(0, len(WAYS) - 1),
                st.floats(0, 0.05),
                st.none() | st.floats(0, 0.08),
                st.sampled_from(["", "a", "b"]),
            ),
            min_size=1,
            max_size=14,
        )
    )
    made: dict[int, object] = {}

    def work(number: int) -> None:
        text, way, after, cancelled, client = asked[number]
        request = CallContext(client)
        time.sleep(after)
        if cancelled is not None:
            threading.Timer(cancelled, request.cancel).start()
        here = translator.searched_by(models.decoder_for(request))
        try:
            made[number] = here.translate(TEXTS[text], **WAYS[way])
        except CancelledRequestError as error:
            made[number] = error

    in_threads(*(lambda number=number: work(number) for number in range(len(asked))))
    for number, (text, way, _, cancelled, _) in enumerate(asked):
        if cancelled is None or not isinstance(made[number], CancelledRequestError):
            assert made[number] == alone(text, way)
    assert is_empty(models)


def test_streams_beside_each_other_and_beside_beams(translator: Translator, models: ModelBatches) -> None:
    made: dict[int, object] = {}

    def work(number: int) -> None:
        here = translator.searched_by(models.decoder_for(CallContext()))
        if number % 3:
            made[number] = list(here.stream(TEXTS[number % 3]))
        else:
            made[number] = here.translate(TEXTS)

    in_threads(*(lambda number=number: work(number) for number in range(12)))
    for number, one in made.items():
        if number % 3:
            assert one == list(translator.stream(TEXTS[number % 3]))
        else:
            assert one == translator.translate(TEXTS)
    assert is_empty(models)


def test_a_stream_that_nobody_reads_on_leaves(translator: Translator, models: ModelBatches) -> None:
    pieces = translator.searched_by(models.decoder_for(CallContext())).stream(TEXTS[5])
    next(pieces)
    pieces.close()
    gc.collect()
    assert is_empty(models)


def test_a_stream_comes_in_pieces(translator: Translator) -> None:
    assert len(list(translator.shared().stream(TEXTS[5]))) > 10


def test_what_else_a_translator_holds_stays(translator: Translator, models: ModelBatches) -> None:
    here = translator.searched_by(models.decoder_for(CallContext()))
    assert (here.languages, here.model.score_stats, here.decoding) == (
        translator.languages,
        translator.model.score_stats,
        translator.decoding,
    )
    pairs = [("A dog.", "Ein Hund.")]
    assert here.score(pairs) == translator.score(pairs)
    assert here.align(pairs) == translator.align(pairs)


def test_models_one_after_the_other_share_theirs(translator: Translator, models: ModelBatches) -> None:
    back = Translator(replace(translator.model, languages=("de", "en")))
    pivot = translator.then(back)
    made: dict[int, object] = {}

    def work(number: int) -> None:
        here = pivot.searched_by(models.decoder_for(CallContext()))
        made[number] = here.translate(TEXTS[: 1 + number % 3], nbest=1 + number % 2, beam=2)

    in_threads(*(lambda number=number: work(number) for number in range(6)))
    for number, one in made.items():
        assert one == pivot.translate(TEXTS[: 1 + number % 3], nbest=1 + number % 2, beam=2)
    assert len(pivot.searched_by(models.decoder_for(CallContext())).stream(TEXTS[0]).__next__()) > 0
    gc.collect()
    assert is_empty(models)


def test_deadlines_and_cancellations_end_a_long_search(translator: Translator, models: ModelBatches) -> None:
    long = TEXTS * 60
    with pytest.raises(DeadlineError, match=r"not answered within 0\.05 s"):
        translator.searched_by(models.decoder_for(CallContext(seconds=0.05))).translate(long)
    assert is_empty(models)
    request = CallContext()
    threading.Timer(0.1, request.cancel).start()
    began = time.monotonic()
    with pytest.raises(CancelledRequestError):
        translator.searched_by(models.decoder_for(request)).translate(
            long, sample=True
        )  # steps in this thread
    with pytest.raises(CancelledRequestError):
        translator.searched_by(models.decoder_for(request)).translate("A dog.")
    assert time.monotonic() - began < 20
    assert is_empty(models)


def test_an_error_reaches_its_own_request_alone(translator: Translator, models: ModelBatches) -> None:
    made: dict[str, object] = {}

    def good() -> None:
        made["good"] = translator.searched_by(models.decoder_for(CallContext())).translate(TEXTS)

    def bad() -> None:
        try:
            translator.searched_by(models.decoder_for(CallContext())).translate(["A dog.", "\ud800"])
        except DataError as error:
            made["bad"] = error

    in_threads(good, bad)
    assert made["good"] == translator.translate(TEXTS)
    assert isinstance(made["bad"], DataError)
    assert is_empty(models)


def test_a_short_one_does_not_wait_for_a_long_one(translator: Translator, models: ModelBatches) -> None:
    here = translator.searched_by(models.decoder_for(CallContext("short")))
    here.translate(TEXTS[1])
    ended: list[float] = []

    def long() -> None:
        translator.searched_by(models.decoder_for(CallContext("long"))).translate(TEXTS * 40)
        ended.append(time.monotonic())

    thread = threading.Thread(target=long)
    thread.start()
    time.sleep(0.1)
    here.translate(TEXTS[1])
    assert not ended
    thread.join()


def test_closing_tells_who_waits_and_the_next_begins_anew(translator: Translator) -> None:
    models = ModelBatches()
    here = translator.searched_by(models.decoder_for(CallContext()))
    told: list[object] = []

    def long() -> None:
        try:
            here.translate(TEXTS * 60)
        except CancelledRequestError as error:
            told.append(error)

    thread = threading.Thread(target=long)
    thread.start()
    time.sleep(0.3)
    models.close()
    thread.join(30)
    assert told
    assert not [one for one in threading.enumerate() if one.name == "uwaga-batch" and not one.daemon]
    assert here.translate(TEXTS[0]) == translator.translate(TEXTS[0])
    models.close()


def test_its_thread_ends_with_it(translator: Translator) -> None:
    before = set(threading.enumerate())
    here = translator.shared()
    here.translate(TEXTS[0])
    [made] = set(threading.enumerate()) - before
    del here
    gc.collect()
    made.join(30)
    assert not made.is_alive()


def test_a_forked_child_has_a_batch_of_its_own(translator: Translator) -> None:
    here = translator.shared()
    expected = here.translate(TEXTS[0]).text
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, here.translate(TEXTS[0]).text.encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(read, 1000).decode() == expected
    assert here.translate(TEXTS[0]).text == expected


PROGRAM = """
import threading, time, uwaga, os, signal
here = uwaga.Translator.load(threads=1).shared()
print(here.translate("A dog.").text, flush=True)
{}
"""


def run(code: str) -> tuple[int, str, str]:
    made = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(code)], capture_output=True, text=True, timeout=120, check=False
    )
    return made.returncode, made.stdout, made.stderr


def test_the_interpreter_ends_while_others_translate() -> None:
    code = """
threading.Thread(target=lambda: here.translate(["A dog."] * 5000), daemon=True).start()
while not here.decoder.shared.waiting:
    time.sleep(0.001)
"""
    assert run(code)[0] == 0


def test_ctrl_c_ends_a_wait_and_the_batch_goes_on() -> None:
    code = """
stopped = threading.Event()
def press():  # again if Python was in a callback, where it ignores exceptions
    while not stopped.wait(0.5):
        os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=press, daemon=True).start()
try:
    here.translate(["A dog runs across the grass."] * 5000)
except KeyboardInterrupt:
    stopped.set()
    print("stopped", here.translate("A dog.").text, here.decoder.shared.budget.running)
"""
    code, out, err = run(code)
    assert code == 0, err
    first, second = out.split("\n")[:2]
    assert second == f"stopped {first} 0"
