"""Workers, stopping, clients that go or are slow: what happens to the others."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from running_server import RunningServer, running_server
from waiting import eventually

import uwaga

TEXT = "A man and a woman are walking in the park with their dog."
LONG = " ".join([TEXT] * 40)


def ask(server: RunningServer, text: str = TEXT) -> httpx.Response:
    body = {"q": text, "source": "en", "target": "de"}
    return httpx.post(f"{server.url}/translate", json=body, timeout=60)


def connected(server: RunningServer) -> socket.socket:
    parts = urlsplit(server.url)
    return socket.create_connection((parts.hostname, parts.port), timeout=30)


def request(text: str, path: str = "/translate") -> bytes:
    body = json.dumps({"q": text, "source": "en", "target": "de"}).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"content-type: application/json\r\n\r\n" + body


def logged(server: RunningServer, event: str) -> list[dict[str, object]]:
    lines = server.log.read_text(encoding="utf-8").splitlines()
    return [
        one
        for one in map(json.loads, filter(lambda line: line.startswith("{"), lines))
        if one["event"] == event
    ]


def test_what_was_taken_is_answered_before_the_end(tmp_path: Path):
    with running_server(tmp_path) as server:
        with ThreadPoolExecutor() as pool:
            asked = [pool.submit(ask, server, LONG * 3) for _ in range(4)]
            eventually(lambda: "uwaga_requests_running 5.0" in httpx.get(f"{server.url}/metrics").text)
            server.process.send_signal(signal.SIGTERM)
            assert [one.result().status_code for one in asked] == [200] * 4
        assert server.process.wait(30) in (0, 143, -signal.SIGTERM)
        with pytest.raises(httpx.ConnectError):
            ask(server)


@pytest.mark.slow
def test_workers_answer_alike_and_one_that_dies_is_replaced(tmp_path: Path):
    wanted = uwaga.Translator.load(threads=1).translate(TEXT).text
    with running_server(tmp_path, workers=2) as server:
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        workers = [
            int(pid)
            for pid in children.read_text().split()
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        assert len(workers) == 2
        assert {ask(server).json()["translatedText"] for _ in range(8)} == {wanted}
        os.kill(workers[0], signal.SIGKILL)
        until, answered = time.monotonic() + 20, 0
        while time.monotonic() < until and answered < 20:
            try:
                answered += ask(server).json()["translatedText"] == wanted
            except httpx.TransportError:
                continue  # the killed one had it
        assert answered == 20
        counted = [
            line for line in httpx.get(f"{server.url}/metrics").text.splitlines() if "/translate" in line
        ]
        assert any(float(line.rpartition(" ")[2]) >= 20 for line in counted)  # all workers' together


def test_a_client_that_goes_takes_its_request_along(tmp_path: Path):
    with running_server(tmp_path) as server:
        with connected(server) as gone:
            gone.sendall(request(LONG * 4))
            time.sleep(0.3)
        eventually(lambda: any(one["status"] == 499 for one in logged(server, "request")))
        assert ask(server).status_code == 200
        none = 'uwaga_model_requests{model="bundled"} 0.0'
        eventually(lambda: none in httpx.get(f"{server.url}/metrics").text)


def test_slow_and_silent_clients_hold_nobody_up(tmp_path: Path):
    with running_server(tmp_path, limits={"body_seconds": 1.0}) as server:
        idle = [connected(server) for _ in range(300)]
        slow = connected(server)
        whole = request(TEXT)
        slow.sendall(whole[:-10])
        deaf = connected(server)
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        deaf.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 60)  # and reads nothing
        assert ask(server).status_code == 200  # while these stand open
        assert b" 408 " in slow.recv(4096)
        for one in (*idle, slow, deaf):
            one.close()


@pytest.mark.slow
def test_a_full_queue_refuses_with_a_time_to_come_again(tmp_path: Path):
    with running_server(tmp_path, limits={"waiting": 2, "deadline": 120}) as server:
        with ThreadPoolExecutor(120) as pool:
            answers = list(pool.map(lambda _: ask(server, " ".join([TEXT] * 8)), range(120)))
        statuses = {one.status_code for one in answers}
        assert statuses == {200, 503}
        refused = next(one for one in answers if one.status_code == 503)
        assert int(refused.headers["retry-after"]) >= 1
        assert ask(server).status_code == 200


def test_a_deadline_is_kept(tmp_path: Path):
    with running_server(tmp_path, limits={"deadline": 2.0, "characters": 1_000_000}) as server:
        answer = ask(server, LONG * 200)
        assert (answer.status_code, "error" in answer.json()) == (504, True)
        assert ask(server, "Hello!").status_code == 200


def test_a_port_that_is_taken_is_said(tmp_path: Path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with (
            pytest.raises(AssertionError, match="choose another --port"),
            running_server(tmp_path, port=taken.getsockname()[1]),
        ):
            pass
