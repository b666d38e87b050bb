"""Requests that share a running batch get the results of separate requests and leave the batch empty."""

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
    "A dog runs across the grass.", "Two men are cooking.", "A girl in a <b>red</b> dress.\n\nShe smiles.",
    "", "12 345", "People sit at a table in a park and eat, while a man plays the guitar for them.",
]  # fmt: skip
OPTIONS: list[dict[str, Any]] = [
    {}, {"beam": 1}, {"beam": 4, "nbest": 4}, {"beam": 2, "min_length": 12, "max_length": 20},
    {"prefix": "Ein"}, {"prefix": "Ein", "beam": 1}, {"glossary": {"dog": "Köter", "men": "Kerle"}},
    {"glossary": {"dog": "Köter"}, "glossary_mode": "soft", "beam": 3}, {"format": "html"},
    {"alignment": True}, {"attention": "all", "beam": 1}, {"attention": True}, {"no_repeat_ngram": 2},
    {"sample": True, "seed": 5, "nbest": 2}, {"mbr": 3, "seed": 2}, {"entropy": True},
    {"split": "sentences", "length_penalty": 0.6}, {"early_stopping": False, "length_formula": "gnmt"},
]  # fmt: skip
ALLOW_SLOW_EXAMPLES = settings(suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(scope="module")
def models() -> ModelBatches:
    return ModelBatches()


@pytest.fixture(scope="module")
def expected_result(translator: Translator) -> Callable[[int, int], object]:
    cache: dict[tuple[int, int], object] = {}

    def translate(text_index: int, options_index: int) -> object:
        if (text_index, options_index) not in cache:
            cache[text_index, options_index] = translator.translate(
                TEXTS[text_index], **OPTIONS[options_index]
            )
        return cache[text_index, options_index]

    return translate


def is_empty(models: ModelBatches) -> bool:
    return all(
        (batch.budget.waiting, batch.budget.running, batch.budget.used) == (0, 0, 0)
        for batch in models.batches
    )


def run_in_threads(*functions: Callable[[], None]) -> None:
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()


@ALLOW_SLOW_EXAMPLES
@given(st.data())
def test_concurrent_requests_give_the_results_of_separate_requests(translator, models, expected_result, data):
    requests = data.draw(
        st.lists(
            st.tuples(
                st.integers(0, len(TEXTS) - 1), st.integers(0, len(OPTIONS) - 1), st.floats(0, 0.05),
                st.none() | st.floats(0, 0.08), st.sampled_from(["", "a", "b"]),
            ),
            min_size=1,
            max_size=14,
        )
    )  # fmt: skip
    results: dict[int, object] = {}

    def translate(index: int) -> None:
        text_index, options_index, delay, cancel_after, client = requests[index]
        request = CallContext(client)
        time.sleep(delay)
        if cancel_after is not None:
            threading.Timer(cancel_after, request.cancel).start()
        shared = translator.wrap_decoders(models.decoder_for(request))
        try:
            results[index] = shared.translate(TEXTS[text_index], **OPTIONS[options_index])
        except CancelledRequestError as error:
            results[index] = error

    run_in_threads(*(lambda index=index: translate(index) for index in range(len(requests))))
    for index, (text_index, options_index, _, cancel_after, _) in enumerate(requests):
        if cancel_after is None or not isinstance(results[index], CancelledRequestError):
            assert results[index] == expected_result(text_index, options_index)
    assert is_empty(models)


def test_concurrent_streams_and_translations_equal_separate_calls(translator, models) -> None:
    results: dict[int, object] = {}

    def translate(index: int) -> None:
        shared = translator.wrap_decoders(models.decoder_for(CallContext()))
        if index % 3:
            results[index] = list(shared.stream(TEXTS[index % 3]))
        else:
            results[index] = shared.translate(TEXTS)

    run_in_threads(*(lambda index=index: translate(index) for index in range(12)))
    for index, result in results.items():
        if index % 3:
            assert result == list(translator.stream(TEXTS[index % 3]))
        else:
            assert result == translator.translate(TEXTS)
    assert is_empty(models)


def test_closed_stream_leaves_the_batch(translator: Translator, models: ModelBatches) -> None:
    pieces = translator.wrap_decoders(models.decoder_for(CallContext())).stream(TEXTS[5])
    next(pieces)
    pieces.close()
    gc.collect()
    assert is_empty(models)


def test_stream_in_a_shared_batch_yields_pieces_incrementally(translator: Translator) -> None:
    assert len(list(translator.shared().stream(TEXTS[5]))) > 10


def test_shared_translator_keeps_languages_and_score_statistics(translator, models) -> None:
    shared = translator.wrap_decoders(models.decoder_for(CallContext()))
    assert (shared.languages, shared.model.score_stats, shared.decoding) == (
        translator.languages,
        translator.model.score_stats,
        translator.decoding,
    )
    pairs = [("A dog.", "Ein Hund.")]
    assert shared.score(pairs) == translator.score(pairs)
    assert shared.align(pairs) == translator.align(pairs)


def test_concurrent_pivot_translations_equal_separate_calls(translator, models) -> None:
    backward = Translator(replace(translator.model, languages=("de", "en")))
    pivot = translator.then(backward)
    results: dict[int, object] = {}

    def translate(index: int) -> None:
        shared = pivot.wrap_decoders(models.decoder_for(CallContext()))
        results[index] = shared.translate(TEXTS[: 1 + index % 3], nbest=1 + index % 2, beam=2)

    run_in_threads(*(lambda index=index: translate(index) for index in range(6)))
    for index, result in results.items():
        assert result == pivot.translate(TEXTS[: 1 + index % 3], nbest=1 + index % 2, beam=2)
    assert len(pivot.wrap_decoders(models.decoder_for(CallContext())).stream(TEXTS[0]).__next__()) > 0
    gc.collect()
    assert is_empty(models)


def test_deadline_and_cancellation_end_a_long_search(translator: Translator, models: ModelBatches) -> None:
    texts = TEXTS * 60
    with pytest.raises(DeadlineError, match=r"not answered within 0\.05 s"):
        translator.wrap_decoders(models.decoder_for(CallContext(seconds=0.05))).translate(texts)
    assert is_empty(models)
    request = CallContext()
    threading.Timer(0.1, request.cancel).start()
    start = time.monotonic()
    with pytest.raises(CancelledRequestError):
        # Sampling runs its steps in this thread.
        translator.wrap_decoders(models.decoder_for(request)).translate(texts, sample=True)
    with pytest.raises(CancelledRequestError):
        translator.wrap_decoders(models.decoder_for(request)).translate("A dog.")
    assert time.monotonic() - start < 20
    assert is_empty(models)


def test_error_affects_only_the_request_it_occurs_in(translator: Translator, models: ModelBatches) -> None:
    results: dict[str, object] = {}

    def translate_valid() -> None:
        results["good"] = translator.wrap_decoders(models.decoder_for(CallContext())).translate(TEXTS)

    def translate_invalid() -> None:
        try:
            translator.wrap_decoders(models.decoder_for(CallContext())).translate(["A dog.", "\ud800"])
        except DataError as error:
            results["bad"] = error

    run_in_threads(translate_valid, translate_invalid)
    assert results["good"] == translator.translate(TEXTS)
    assert isinstance(results["bad"], DataError)
    assert is_empty(models)


def test_short_request_finishes_before_an_earlier_long_one(translator, models) -> None:
    shared = translator.wrap_decoders(models.decoder_for(CallContext("short")))
    shared.translate(TEXTS[1])
    finish_times: list[float] = []

    def translate_long() -> None:
        translator.wrap_decoders(models.decoder_for(CallContext("long"))).translate(TEXTS * 40)
        finish_times.append(time.monotonic())

    thread = threading.Thread(target=translate_long)
    thread.start()
    time.sleep(0.1)
    shared.translate(TEXTS[1])
    assert not finish_times
    thread.join()


def test_close_cancels_waiting_requests_and_allows_new_ones(translator: Translator) -> None:
    models = ModelBatches()
    shared = translator.wrap_decoders(models.decoder_for(CallContext()))
    errors: list[object] = []

    def translate_long() -> None:
        try:
            shared.translate(TEXTS * 60)
        except CancelledRequestError as error:
            errors.append(error)

    thread = threading.Thread(target=translate_long)
    thread.start()
    time.sleep(0.3)
    models.close()
    thread.join(30)
    assert errors
    assert not [
        other_thread
        for other_thread in threading.enumerate()
        if other_thread.name == "uwaga-batch" and not other_thread.daemon
    ]
    assert shared.translate(TEXTS[0]) == translator.translate(TEXTS[0])
    models.close()


def test_batch_thread_ends_when_the_translator_is_deleted(translator: Translator) -> None:
    before = set(threading.enumerate())
    shared = translator.shared()
    shared.translate(TEXTS[0])
    [batch_thread] = set(threading.enumerate()) - before
    del shared
    gc.collect()
    batch_thread.join(30)
    assert not batch_thread.is_alive()


def test_forked_child_uses_a_separate_batch(translator: Translator) -> None:
    shared = translator.shared()
    expected = shared.translate(TEXTS[0]).text
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, shared.translate(TEXTS[0]).text.encode())
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(read, 1000).decode() == expected
    assert shared.translate(TEXTS[0]).text == expected


PROGRAM = """
import threading, time, uwaga, os, signal
shared = uwaga.Translator.load(threads=1).shared()
print(shared.translate("A dog.").text, flush=True)
{}
"""


def run(code: str) -> tuple[int, str, str]:
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(code)], capture_output=True, text=True, timeout=120, check=False
    )
    return process.returncode, process.stdout, process.stderr


@pytest.mark.slow
def test_interpreter_exits_during_a_translation() -> None:
    code = """
threading.Thread(target=lambda: shared.translate(["A dog."] * 5000), daemon=True).start()
while not shared.decoder.shared.waiting:
    time.sleep(0.001)
"""
    assert run(code)[0] == 0


def test_ctrl_c_stops_the_waiting_call_but_not_the_batch() -> None:
    code = """
stopped = threading.Event()
def press():  # again if Python was in a callback, where it ignores exceptions
    while not stopped.wait(0.5):
        os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=press, daemon=True).start()
try:
    shared.translate(["A dog runs across the grass."] * 5000)
except KeyboardInterrupt:
    stopped.set()
    print("stopped", shared.translate("A dog.").text, shared.decoder.shared.budget.running)
"""
    code, out, err = run(code)
    assert code == 0, err
    first, second = out.split("\n")[:2]
    assert second == f"stopped {first} 0"


def test_calls_of_a_shared_model_reuse_tokeniser_data(translator, models):
    shared = [translator.wrap_decoders(models.decoder_for(CallContext())).model for _ in range(2)]
    assert all(model.characters is translator.model.characters for model in shared)
    assert all(model.segmenter() is translator.model.segmenter() for model in shared)
    assert all("byte_tokens" in vars(model) for model in shared)


def test_many_sentences_that_finish_at_the_same_step_are_translated(translator):
    """Sentences that all finish in the same step leave the batch empty before further sentences enter."""
    texts = [f"The weather is nice today. {i:03}" for i in range(600)]
    [first, last] = translator.translate([texts[0], texts[-1]])
    results = translator.shared().translate(texts)
    assert (results[0].text, results[-1].text, len(results)) == (first.text, last.text, len(texts))
