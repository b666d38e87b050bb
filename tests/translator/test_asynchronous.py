"""AsyncTranslator: the answers of a plain translator, refusals, deadlines, cancellations."""

from __future__ import annotations

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

TEXTS = ["A dog runs across the grass.", "Two men are cooking.", "A girl in a red dress.\n\nShe smiles.", ""]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load(threads=1)


def test_answers_are_those_of_translate(translator: Translator) -> None:
    async def answers() -> list[object]:
        async with AsyncTranslator(translator) as shared:
            alone = [shared.translate(text, nbest=2) for text in TEXTS]
            made = await asyncio.gather(*alone, shared.translate(TEXTS, beam=1))
            assert (shared.waiting, shared.running) == (0, 0)
            return list(made)

    *alone, together = asyncio.run(answers())
    assert alone == [translator.translate(text, nbest=2) for text in TEXTS]
    assert together == translator.translate(TEXTS, beam=1)


def test_a_stream_joined_is_the_translation(translator: Translator) -> None:
    async def pieces() -> str:
        async with AsyncTranslator(translator) as shared:
            return "".join([piece async for piece in shared.stream(TEXTS[2])])

    assert asyncio.run(pieces()) == translator.translate(TEXTS[2], beam=1).text


def test_errors_reach_who_asked(translator: Translator) -> None:
    async def ask() -> None:
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

    asyncio.run(ask())


def test_more_than_may_wait_are_refused(translator: Translator) -> None:
    async def ask() -> list[object]:
        async with AsyncTranslator(translator, most_waiting=2, workers=1) as shared:
            return await asyncio.gather(
                *(shared.translate(TEXTS[0]) for _ in range(12)), return_exceptions=True
            )

    made = asyncio.run(ask())
    refused = [one for one in made if isinstance(one, BusyError)]
    assert refused
    assert all(one.retry_after > 0 for one in refused)
    expected = translator.translate(TEXTS[0])
    assert all(one == expected for one in made if not isinstance(one, BusyError))


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priorities of their own")
def test_threads_of_the_engine_step_back_as_far_as_they_are_told(translator: Translator) -> None:
    async def run() -> None:
        async with AsyncTranslator(translator, nice=3) as ours:
            await ours.translate(TEXTS[0])
            ids = [one.native_id for one in threading.enumerate() if one.name == "uwaga-batch"]
            assert usual + 3 in [os.getpriority(os.PRIO_PROCESS, one) for one in ids if one is not None]
            assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == usual

    usual = os.getpriority(os.PRIO_PROCESS, 0)
    asyncio.run(run())
    with pytest.raises(SettingsError, match="nice"):
        AsyncTranslator(translator, nice=20)


def test_a_deadline_that_has_passed(translator: Translator) -> None:
    async def ask() -> None:
        async with AsyncTranslator(translator, workers=1) as shared:
            with pytest.raises(DeadlineError, match="not answered within"):
                await shared.translate(TEXTS * 50, deadline=0.01)
            assert await shared.translate(TEXTS[0], deadline=60) == translator.translate(TEXTS[0])

    asyncio.run(ask())


def test_an_answered_request_leaves_nothing_for_the_collector_of_cycles(translator: Translator) -> None:
    def searches() -> int:
        return sum(type(one) is BatchingBeamSearch for one in gc.get_objects())

    async def ask() -> int:
        async with AsyncTranslator(translator) as shared:
            await asyncio.gather(*(shared.translate(TEXTS, beam=beam) for beam in (1, 2)))
            return searches()

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(ask()) == searches() == 0
    finally:
        gc.enable()


@pytest.mark.parametrize("left", ["answered", "cancelled", "running"])
def test_the_interpreter_ends_however_a_translator_was_left(left: str) -> None:
    count = 4 if left == "answered" else 500
    program = f"""
import asyncio, uwaga

async def main():
    translator = uwaga.AsyncTranslator(uwaga.Translator.load(threads=1))
    print((await translator.translate("A dog.")).text, flush=True)
    task = asyncio.ensure_future(translator.translate(["A dog runs across the grass."] * {count}))
    while {left != "answered"} and not translator.running:
        await asyncio.sleep(0.001)
    if {left == "answered"}:
        await task
    return task

if {left == "running"}:  # the loop is never closed, and nobody waits for its task
    loop = asyncio.new_event_loop()
    task = loop.run_until_complete(main())
else:
    asyncio.run(main())
"""
    made = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False
    )
    told = "" if left != "running" else "Task was destroyed but it is pending!"
    assert (made.returncode, made.stdout.count("\n")) == (0, 1), made.stderr
    assert made.stderr.startswith(told)
    assert "Traceback" not in made.stderr
    assert "Fatal" not in made.stderr
