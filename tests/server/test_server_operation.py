"""Operation of a server: workers, shutdown, slow and disconnected clients."""

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
from running_server import UWAGA, RunningServer, running_server
from waiting import eventually

import uwaga

TEXT = "A man and a woman are walking in the park with their dog."
LONG_TEXT = " ".join([TEXT] * 40)


def post(server: RunningServer, text: str = TEXT) -> httpx.Response:
    body = {"q": text, "source": "en", "target": "de"}
    return server.post("/translate", json=body)


def open_connection(server: RunningServer) -> socket.socket:
    parts = urlsplit(server.url)
    return socket.create_connection((parts.hostname, parts.port), timeout=30)


def request_bytes(text: str, path: str = "/translate") -> bytes:
    body = json.dumps({"q": text, "source": "en", "target": "de"}).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"content-type: application/json\r\n\r\n" + body


def log_records(server: RunningServer, event: str) -> list[dict[str, object]]:
    lines = server.log.read_text(encoding="utf-8").splitlines()
    return [
        record
        for record in map(json.loads, filter(lambda line: line.startswith("{"), lines))
        if record["event"] == event
    ]


@pytest.mark.slow
def test_accepted_requests_finish_before_shutdown(tmp_path: Path):
    with running_server(tmp_path, program=UWAGA) as server:
        with ThreadPoolExecutor() as pool:
            futures = [pool.submit(post, server, LONG_TEXT * 2) for _ in range(4)]
            eventually(lambda: "uwaga_requests_running 5.0" in server.get("/metrics").text)
            server.process.send_signal(signal.SIGTERM)
            assert [future.result().status_code for future in futures] == [200] * 4
        assert server.process.wait(30) in (0, 143, -signal.SIGTERM)
        with pytest.raises(httpx.ConnectError):
            post(server)


@pytest.mark.slow
def test_killed_worker_is_replaced(tmp_path: Path):
    expected = uwaga.Translator.load(threads=1).translate(TEXT).text
    with running_server(tmp_path, program=UWAGA, workers=2) as server:
        children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
        workers = [
            int(pid)
            for pid in children.read_text().split()
            if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        assert len(workers) == 2
        assert {post(server).json()["translatedText"] for _ in range(8)} == {expected}
        os.kill(workers[0], signal.SIGKILL)
        deadline, successes = time.monotonic() + 20, 0
        while time.monotonic() < deadline and successes < 20:
            try:
                successes += post(server).json()["translatedText"] == expected
            except httpx.TransportError:
                continue  # the killed worker had accepted it
        assert successes == 20
        lines = [line for line in server.get("/metrics").text.splitlines() if "/translate" in line]
        assert any(float(line.rpartition(" ")[2]) >= 20 for line in lines)  # totals of all workers


@pytest.mark.slow
def test_disconnecting_cancels_the_request(tmp_path: Path):
    with running_server(tmp_path) as server:
        with open_connection(server) as client:
            client.sendall(request_bytes(LONG_TEXT * 4))
            time.sleep(0.3)
        eventually(lambda: any(record["status"] == 499 for record in log_records(server, "request")))
        assert post(server).status_code == 200
        idle = 'uwaga_model_requests{model="bundled"} 0.0'
        eventually(lambda: idle in server.get("/metrics").text)


@pytest.mark.slow
def test_slow_and_silent_clients_do_not_block_other_clients(tmp_path: Path):
    with running_server(tmp_path, limits={"body_seconds": 1.0}) as server:
        idle = [open_connection(server) for _ in range(300)]
        slow = open_connection(server)
        complete = request_bytes(TEXT)
        slow.sendall(complete[:-10])
        nonreader = open_connection(server)
        nonreader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        nonreader.sendall(
            b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 60
        )  # does not read the responses
        assert post(server).status_code == 200  # while these connections are open
        assert b" 408 " in slow.recv(4096)
        for client in (*idle, slow, nonreader):
            client.close()


@pytest.mark.slow
def test_full_queue_rejects_requests_with_a_retry_after_header(tmp_path: Path):
    with running_server(tmp_path, limits={"waiting": 2, "deadline": 120}) as server:
        with ThreadPoolExecutor(120) as pool:
            responses = list(pool.map(lambda _: post(server, " ".join([TEXT] * 8)), range(120)))
        statuses = {response.status_code for response in responses}
        assert statuses == {200, 503}
        refused = next(response for response in responses if response.status_code == 503)
        assert int(refused.headers["retry-after"]) >= 1
        assert post(server).status_code == 200


@pytest.mark.slow
def test_request_beyond_the_deadline_fails(tmp_path: Path):
    with running_server(tmp_path, limits={"deadline": 2.0, "characters": 1_000_000}) as server:
        response = post(server, LONG_TEXT * 200)
        assert (response.status_code, "error" in response.json()) == (504, True)
        assert post(server, "Hello!").status_code == 200


def test_port_in_use_error_suggests_another_port(tmp_path: Path):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        with (
            pytest.raises(AssertionError, match="choose another --port"),
            running_server(tmp_path, port=listener.getsockname()[1]),
        ):
            pass
