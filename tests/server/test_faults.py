"""The server survives any exception, and the request gets a response."""

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
from faulty_server import FAULT_LOCATIONS, random_exception
from running_server import running_server

from uwaga.translator import Translator
from uwaga.translator.asynchronous import AsyncTranslator
from uwaga_server.api_errors import ApiError, as_api_error, run_in_thread
from uwaga_server.document_worker import DocumentWorker
from uwaga_server.middleware import _clear_frames

pytestmark = pytest.mark.anyio

FAULT_COUNT = 250
"""Number of random exceptions with which the server is tested."""
MAX_STOP_SECONDS = 10.0
"""Maximum number of seconds for the server to stop when no request is in progress."""


@pytest.mark.slow
def test_server_keeps_responding_after_any_exception_and_can_be_stopped(tmp_path: Path):
    with running_server(tmp_path, (), [faulty_server.__file__]) as server:
        with httpx.Client(base_url=server.url, timeout=10) as client:
            for number in range(FAULT_COUNT):
                location = random.Random(number).choice(FAULT_LOCATIONS)
                try:
                    response = client.post(f"/fault/{location}/{number}")
                except httpx.RemoteProtocolError:
                    assert location == "stream"  # its status has been sent
                else:
                    exception = random_exception(number)
                    expected = exception.status if isinstance(exception, ApiError) else range(400, 600)
                    assert location == "stream" or response.status_code in (
                        expected if isinstance(expected, range) else [expected]
                    ), (number, response.text)
                assert client.get("/health", timeout=1).json() == {"status": "ok"}, number
        started = time.monotonic()
        assert server.stop() in (0, -signal.SIGTERM)
        assert time.monotonic() - started < MAX_STOP_SECONDS


@pytest.mark.slow
def test_full_or_unwritable_suggestions_file_does_not_stop_the_server(tmp_path: Path):
    full, folder = tmp_path / "full.jsonl", tmp_path / "folder"
    with full.open("wb") as file:
        file.truncate(64 << 20)
    folder.mkdir()  # cannot be opened as a file
    suggestion = {"q": "a", "s": "b", "source": "en", "target": "de"}
    for path, status in ((full, 507), (folder, 503)):
        with running_server(tmp_path, suggestions=str(path)) as server:
            for _ in range(3):
                assert server.post("/suggest", json=suggestion).status_code == status
                assert server.get("/health", timeout=1).status_code == 200


def test_api_errors_are_raised_unchanged():
    problem = ApiError(507, "storage_full", "the disk is full")

    def fail() -> None:
        raise problem

    async def raised() -> BaseException:
        with pytest.raises(ApiError) as caught:
            await run_in_thread(fail)
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
async def test_exceptions_that_asyncio_tasks_cannot_raise_are_converted(kind: type[BaseException]):
    def fail(*_: object) -> None:
        raise kind("broken")

    translator = Translator.load(threads=1)
    async with asyncio.timeout(10):
        with pytest.raises(ApiError):
            await run_in_thread(fail)
        async with AsyncTranslator(translator) as shared:
            with pytest.raises(RuntimeError, match=kind.__name__):
                await shared.call(fail)


def test_stack_frames_of_cyclically_chained_errors_are_cleared():
    def frame(error: Exception) -> Exception:
        local = bytearray(10)  # noqa: F841 (what the frame holds)
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


class FailingDocument(SimpleNamespace):
    """A claimed document whose methods fail in the given steps."""

    __hash__ = object.__hash__

    def fail(self, message: str, code: str) -> None:
        self.code = code
        self.stop("fail")

    def release(self) -> None:
        self.stop("release")

    def count(self, characters: int) -> None:
        self.stop("count")

    def stop(self, step: str) -> None:
        if step in self.failing_steps:
            raise random_exception(self.number)


async def test_document_worker_continues_after_any_failure():
    rng = random.Random(1)
    spec = SimpleNamespace(format="txt", source="en", target="de", owner="", characters=0, name="a.txt")
    documents = [
        FailingDocument(
            number=number, failing_steps=rng.sample(["count", "fail", "release", "take"], 2), spec=spec,
            code="", id=str(number), characters=None, document=Path("missing.txt"),
            output=Path("output.txt"),
        )
        for number in range(60)
    ]  # fmt: skip
    queue = list(documents)

    def claim_next() -> FailingDocument | None:
        if not queue:
            worker.stopping.set()
            return None
        claimed = queue.pop(0)
        claimed.stop("take")
        return claimed

    class Worker(DocumentWorker):
        def __init__(self) -> None:
            super().__init__(SimpleNamespace(documents=SimpleNamespace(claim_next=claim_next)), None)  # type: ignore[arg-type]
            self.stopping = threading.Event()

    worker = Worker()
    worker.start()
    while not worker.stopping.is_set():
        worker.wake()  # does not wait after a failure
        await asyncio.sleep(0.001)
    await worker.stop()
    processed = [claimed for claimed in documents if "take" not in claimed.failing_steps]
    assert processed
    assert all(claimed.code for claimed in processed)
