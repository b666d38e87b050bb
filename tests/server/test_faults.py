"""Whatever a request raises, and wherever: it is answered, and the server goes on."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import faulty_server
import httpx
import pytest
from faulty_server import PLACES, drawn_exception
from running_server import running_server

from uwaga.server.api_errors import ApiError, as_api_error, in_thread
from uwaga.server.document_worker import DocumentWorker
from uwaga.server.middleware import _clear_frames
from uwaga.translator import Translator
from uwaga.translator.asynchronous import AsyncTranslator

FAULTS = 250
"""Drawn exceptions; their numbers are those of the cases."""
GRACE = 10.0
"""Seconds for the server to stop, with no request in progress."""


def test_after_any_exception_anywhere_the_server_answers_and_stops(tmp_path: Path):
    with running_server(tmp_path, (), [faulty_server.__file__]) as server:
        with httpx.Client(base_url=server.url, timeout=10) as client:
            for number in range(FAULTS):
                place = random.Random(number).choice(PLACES)
                try:
                    answer = client.post(f"/fault/{place}/{number}")
                except httpx.RemoteProtocolError:
                    assert place == "stream"  # whose status has been sent
                else:
                    drawn = drawn_exception(number)
                    expected = drawn.status if isinstance(drawn, ApiError) else range(400, 600)
                    assert place == "stream" or answer.status_code in (
                        expected if isinstance(expected, range) else [expected]
                    ), (number, answer.text)
                assert client.get("/health", timeout=1).json() == {"status": "ok"}, number
        began = time.monotonic()
        assert server.stop() in (0, -signal.SIGTERM)
        assert time.monotonic() - began < GRACE


def test_a_full_file_of_suggestions_does_not_stop_the_server(tmp_path: Path):
    full, folder = tmp_path / "full.jsonl", tmp_path / "folder"
    with full.open("wb") as file:
        file.truncate(64 << 20)
    folder.mkdir()  # cannot be opened as a file
    suggestion = {"q": "a", "s": "b", "source": "en", "target": "de"}
    for path, status in ((full, 507), (folder, 503)):
        with running_server(tmp_path, suggestions=str(path)) as server:
            for _ in range(3):
                assert httpx.post(f"{server.url}/suggest", json=suggestion).status_code == status
                assert httpx.get(f"{server.url}/health", timeout=1).status_code == 200


def test_an_error_response_is_raised_as_it_is():
    problem = ApiError(507, "storage_full", "the disk is full")

    def fail() -> None:
        raise problem

    async def raised() -> BaseException:
        with pytest.raises(ApiError) as caught:
            await in_thread(fail)
        return caught.value

    assert asyncio.run(raised()) is problem
    assert problem.__cause__ is None
    with pytest.raises(ApiError) as caught, as_api_error():
        fail()
    assert caught.value is problem
    assert problem.__cause__ is None


@pytest.mark.parametrize(
    "kind", [StopIteration, SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError]
)
def test_what_no_task_can_raise_arrives_as_an_error(kind: type[BaseException]):
    def fail(*_: object) -> None:
        raise kind("broken")

    translator = Translator.load(threads=1)

    async def raised() -> None:
        async with asyncio.timeout(10):
            with pytest.raises(ApiError):
                await in_thread(fail)
            async with AsyncTranslator(translator) as shared:
                with pytest.raises(RuntimeError, match=kind.__name__):
                    await shared.call(fail)

    asyncio.run(raised())


def test_frames_of_errors_in_a_circle_are_cleared():
    def frame(error: Exception) -> Exception:
        held = bytearray(10)  # noqa: F841 (what the frame holds)
        try:
            raise error
        except Exception as raised:
            return raised

    errors = [frame(ValueError()) for _ in range(3)]
    for error, cause in zip(errors, [*errors[1:], errors[0]], strict=True):
        error.__cause__ = cause
    _clear_frames(errors[0])
    for error in errors:
        assert error.__traceback__ is not None
        assert error.__traceback__.tb_frame.f_locals == {}


class Claimed(SimpleNamespace):
    """A document whose processing fails in these places."""

    __hash__ = object.__hash__

    def fail(self, message: str, code: str) -> None:
        self.code = code
        self.stop("fail")

    def release(self) -> None:
        self.stop("release")

    def count(self, characters: int) -> None:
        self.stop("count")

    def stop(self, place: str) -> None:
        if place in self.places:
            raise drawn_exception(self.number)


def test_a_document_that_fails_in_any_way_is_followed_by_the_next():
    draw = random.Random(1)
    spec = SimpleNamespace(format="txt", source="en", target="de", owner="", characters=0, name="a.txt")
    documents = [
        Claimed(
            number=number, places=draw.sample(["count", "fail", "release", "take"], 2), spec=spec, code="",
            id=str(number), characters=None, document=Path("missing.txt"), output=Path("output.txt"),
        )
        for number in range(60)
    ]  # fmt: skip
    waiting = list(documents)

    def take() -> Claimed | None:
        if not waiting:
            worker.stopping.set()
            return None
        claimed = waiting.pop(0)
        claimed.stop("take")
        return claimed

    class Worker(DocumentWorker):
        def __init__(self) -> None:
            super().__init__(SimpleNamespace(documents=SimpleNamespace(take=take)), None)  # type: ignore[arg-type]
            self.stopping = threading.Event()

    async def work() -> None:
        worker.start()
        while not worker.stopping.is_set():
            worker.wake()  # does not wait after a failure
            await asyncio.sleep(0.001)
        await worker.stop()

    worker = Worker()
    asyncio.run(work())
    taken = [claimed for claimed in documents if "take" not in claimed.places]
    assert taken
    assert all(claimed.code for claimed in taken)
