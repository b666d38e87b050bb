"""AsyncTranslator: agreement with Translator, rejected requests, deadlines and cancellation."""

import asyncio
import gc
import os
import subprocess
import sys
import threading

import pytest

from uwaga import AsyncTranslator, Translator
from uwaga.errors import BusyError, CancelledRequestError, DataError, DeadlineError, SettingsError
from uwaga.scheduling.batching_decoder import BatchingBeamSearch
from uwaga.translator.request import Request

pytestmark = pytest.mark.anyio

TEXTS = ["A dog runs across the grass.", "Two men are cooking.", "A girl in a red dress.\n\nShe smiles.", ""]


async def test_asynchronous_results_equal_synchronous_results(translator: Translator) -> None:
    async with AsyncTranslator(translator) as shared:
        requests = [shared.translate(text, nbest=2) for text in TEXTS]
        *separate, batch = await asyncio.gather(*requests, shared.translate(TEXTS, beam=1))
        assert (shared.waiting, shared.running) == (0, 0)
    assert separate == [translator.translate(text, nbest=2) for text in TEXTS]
    assert batch == translator.translate(TEXTS, beam=1)


async def test_joined_stream_pieces_equal_the_translation(translator: Translator) -> None:
    async with AsyncTranslator(translator) as shared:
        pieces = [piece async for piece in shared.stream(TEXTS[2])]
    assert "".join(pieces) == translator.translate(TEXTS[2], beam=1).text


@pytest.mark.parametrize("max_length", [2, 99])
async def test_stream_reports_a_truncated_translation(translator: Translator, max_length: int) -> None:
    request, truncated = Request(TEXTS[0], search={"beam": 1, "max_length": max_length}), asyncio.Event()
    async with AsyncTranslator(translator) as shared:
        async for _ in shared.run_stream(request, on_truncated=truncated.set):
            assert not truncated.is_set()
    [translation] = translator.run([request])
    assert truncated.is_set() == translation.truncated == (max_length == 2)


async def test_errors_are_raised_in_the_caller(translator: Translator) -> None:
    async with AsyncTranslator(translator) as shared:
        with pytest.raises(SettingsError, match="beam"):
            await shared.translate("A dog.", beam=0)
        with pytest.raises(DataError):
            await shared.translate("A dog\ud800.")
        with pytest.raises(SettingsError, match="beam"):
            async for _ in shared.stream("A dog.", beam=3):
                pass
    with pytest.raises(CancelledRequestError, match="closed"):
        await shared.translate("A dog.")


async def test_full_queue_rejects_new_requests(translator: Translator) -> None:
    async with AsyncTranslator(translator, max_waiting=2, workers=1) as shared:
        results = await asyncio.gather(
            *(shared.translate(TEXTS[0]) for _ in range(12)), return_exceptions=True
        )
    refused = [result for result in results if isinstance(result, BusyError)]
    assert refused
    assert all(error.retry_after > 0 for error in refused)
    expected = translator.translate(TEXTS[0])
    assert all(result == expected for result in results if not isinstance(result, BusyError))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities per thread")
async def test_nice_option_lowers_engine_thread_priority(translator: Translator) -> None:
    process_priority = os.getpriority(os.PRIO_PROCESS, 0)
    async with AsyncTranslator(translator, nice=3) as shared:
        await shared.translate(TEXTS[0])
        thread_ids = [thread.native_id for thread in threading.enumerate() if thread.name == "uwaga-batch"]
        assert process_priority + 3 in [
            os.getpriority(os.PRIO_PROCESS, thread_id) for thread_id in thread_ids if thread_id is not None
        ]
        assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == process_priority
    with pytest.raises(SettingsError, match="nice"):
        AsyncTranslator(translator, nice=20)


async def test_expired_deadline_raises_an_error(translator: Translator) -> None:
    async with AsyncTranslator(translator, workers=1) as shared:
        with pytest.raises(DeadlineError, match="not answered within"):
            await shared.translate(TEXTS * 50, deadline=0.01)
        assert await shared.translate(TEXTS[0], deadline=60) == translator.translate(TEXTS[0])


def test_completed_request_leaves_no_reference_cycles(translator: Translator) -> None:
    def count_searches() -> int:
        return sum(type(obj) is BatchingBeamSearch for obj in gc.get_objects())

    async def translate_all() -> int:
        async with AsyncTranslator(translator) as shared:
            await asyncio.gather(*(shared.translate(TEXTS, beam=beam) for beam in (1, 2)))
            return count_searches()

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(translate_all()) == count_searches() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "task_state",
    [*(pytest.param(state, marks=pytest.mark.slow) for state in ("answered", "cancelled")), "running"],
)
def test_interpreter_exits_regardless_of_the_state_of_tasks(task_state: str) -> None:
    count = 4 if task_state == "answered" else 100
    program = f"""
import asyncio, uwaga

async def main():
    translator = uwaga.AsyncTranslator(uwaga.Translator.load(threads=1))
    print((await translator.translate("A dog.")).text, flush=True)
    task = asyncio.ensure_future(translator.translate(["A dog runs across the grass."] * {count}))
    while {task_state != "answered"} and not translator.running:
        await asyncio.sleep(0.001)
    if {task_state == "answered"}:
        await task
    return task

if {task_state == "running"}:  # the loop is never closed, and nobody waits for its task
    loop = asyncio.new_event_loop()
    task = loop.run_until_complete(main())
else:
    asyncio.run(main())
"""
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    expected_stderr = "" if task_state != "running" else "Task was destroyed but it is pending!"
    assert (process.returncode, process.stdout.count("\n")) == (0, 1), process.stderr
    assert process.stderr.startswith(expected_stderr)
    assert "Traceback" not in process.stderr
    assert "Fatal" not in process.stderr
