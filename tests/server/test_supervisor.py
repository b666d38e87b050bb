"""Ended workers are replaced immediately; silent workers are replaced after the timeout."""

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

from uwaga_server.supervisor import Supervisor, WorkerCheck


class FakeWorker:
    """A worker process as its supervisor sees it, whose state a test sets."""

    def __init__(self):
        self.parent_conn, self._pipe = Pipe()
        self.alive = True
        self.process = SimpleNamespace(is_alive=lambda: self.alive)

    def respond(self):
        while self._pipe.poll():
            self._pipe.recv()
            self._pipe.send(True)

    def close_pipe(self):
        self._pipe.close()


def test_ended_worker_is_detected_immediately():
    worker = FakeWorker()
    check = WorkerCheck(worker)
    assert check(60)
    worker.alive = False
    start = time.monotonic()
    assert not check(60)
    assert time.monotonic() - start < 10


def test_worker_with_a_closed_pipe_is_considered_dead():
    worker = FakeWorker()
    check = WorkerCheck(worker)
    assert check(60)
    worker.close_pipe()
    assert not check(60)


@given(responses=st.lists(st.booleans(), max_size=40), timeout=st.integers(1, 6))
def test_unresponsive_worker_is_considered_dead_after_the_timeout(responses, timeout):
    worker, clock = FakeWorker(), 0.0
    check, last_response = WorkerCheck(worker), 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("uwaga_server.supervisor.time", SimpleNamespace(monotonic=lambda: clock))
        assert check(timeout)
        for responds in responses:
            if responds:
                worker.respond()
            clock += 1
            last_response = clock if responds else last_response
            assert check(timeout) == (clock - last_response < timeout)


async def app(scope, receive, send):
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


@contextmanager
def run_supervisor(workers):
    """Run a supervisor whose workers have responded."""
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


def test_killed_worker_is_replaced_while_another_is_unresponsive():
    with run_supervisor(workers=2) as supervisor:
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
