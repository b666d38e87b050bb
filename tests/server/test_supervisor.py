"""Workers that end are replaced at once, whatever the others do; one that is silent is given its time."""

import os
import signal
import socket
import time
from contextlib import contextmanager
from multiprocessing import Pipe
from types import SimpleNamespace

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from waiting import eventually

from uwaga.server.supervisor import Supervisor, WorkerCheck


class FakeWorker:
    """The parent's side of a worker, which does what a test lets it do."""

    def __init__(self):
        self.parent_conn, self._pipe = Pipe()
        self.alive = True
        self.process = SimpleNamespace(is_alive=lambda: self.alive)

    def answer(self):
        while self._pipe.poll():
            self._pipe.recv()
            self._pipe.send(True)

    def close_pipe(self):
        self._pipe.close()


def test_a_worker_that_ends_between_question_and_answer_is_noticed_at_once():
    worker = FakeWorker()
    check = WorkerCheck(worker)
    assert check(60)
    worker.alive = False
    start = time.monotonic()
    assert not check(60)
    assert time.monotonic() - start < 10


def test_a_worker_whose_pipe_is_closed_has_ended():
    worker = FakeWorker()
    check = WorkerCheck(worker)
    assert check(60)
    worker.close_pipe()
    assert not check(60)


@given(answers=st.lists(st.booleans(), max_size=40), timeout=st.integers(1, 6))
def test_a_worker_is_lost_when_its_answer_is_missing_for_the_whole_time(answers, timeout):
    worker, clock = FakeWorker(), 0.0
    check, answered = WorkerCheck(worker), 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("uwaga.server.supervisor.time", SimpleNamespace(monotonic=lambda: clock))
        assert check(timeout)
        for answer in answers:
            if answer:
                worker.answer()
            clock += 1
            answered = clock if answer else answered
            assert check(timeout) == (clock - answered < timeout)


async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


@contextmanager
def supervised(workers):
    """A supervisor of workers that have answered."""
    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    config = uvicorn.Config(
        app, workers=workers, lifespan="off", log_config=None, timeout_worker_healthcheck=60
    )
    with socket.create_server(("127.0.0.1", 0)) as listening:
        supervisor = Supervisor(config, [listening])
        for number, handler in handlers.items():
            if signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        supervisor.init_processes()
        try:
            for process in supervisor.processes:
                assert process.ping(60)
            yield supervisor
        finally:
            for process in supervisor.processes:
                process.kill()
                process.join()


def test_a_killed_worker_is_replaced_while_another_does_not_answer():
    with supervised(workers=2) as supervisor:
        silent, killed = (process.pid for process in supervisor.processes)
        supervisor.keep_subprocess_alive()
        os.kill(silent, signal.SIGSTOP)
        os.kill(killed, signal.SIGKILL)
        start = time.monotonic()

        def is_replaced():
            supervisor.keep_subprocess_alive()
            return supervisor.processes[1].pid != killed

        eventually(is_replaced)
        assert time.monotonic() - start < 20
        assert supervisor.processes[0].pid == silent
