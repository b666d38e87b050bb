"""Keys, and what a client may ask for in a minute."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from uwaga.errors import SettingsError
from uwaga.server import auth as module
from uwaga.server.api_errors import ApiError
from uwaga.server.auth import Client, KeyRing, add_key, read_keys, remove_key
from uwaga.server.limits import SLOTS, RateLimiter


def test_the_file_holds_no_key(tmp_path: Path):
    path = tmp_path / "keys.json"
    key = add_key(path, "ann")
    assert key.rpartition("-")[2] not in path.read_text(encoding="utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert KeyRing(path, Client("")).client(key) == Client("ann")


@pytest.mark.parametrize("change", [lambda key: key[:-1], lambda key: key + "a", lambda key: "", str.upper])
def test_a_wrong_key_is_refused(tmp_path: Path, change):
    path = tmp_path / "keys.json"
    key = add_key(path, "ann")
    with pytest.raises(ApiError) as refused:
        KeyRing(path, Client("")).client(change(key))
    assert refused.value.status in (401, 403)


def test_every_key_is_compared_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, compared = tmp_path / "keys.json", []
    key = add_key(path, "ann")
    real = module.hmac.compare_digest
    monkeypatch.setattr(
        module.hmac, "compare_digest", lambda one, two: compared.append(len(two)) or real(one, two)
    )
    for given in (key, key[:-1] + "?", "no key of ours", "uwk-00000000-" + "a" * 43):
        try:
            KeyRing(path, Client("")).client(given)
        except ApiError:
            continue
    assert compared == [64] * 4


def test_a_running_server_learns_of_new_and_removed_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "RECHECKED", 0.0)
    path = tmp_path / "keys.json"
    first = add_key(path, "ann", requests_per_minute=5, characters=9)
    ring = KeyRing(path, Client("", 60, 1000))
    assert ring.client(first) == Client("ann", 5, 1000, 9)
    second = add_key(path, "bob")
    assert ring.client(second) == Client("bob", 60, 1000)
    remove_key(path, "ann")
    with pytest.raises(ApiError):
        ring.client(first)
    path.write_text("{", encoding="utf-8")  # half-copied: those that are known stay
    assert ring.client(second).name == "bob"


def test_bad_names_and_files(tmp_path: Path):
    path = tmp_path / "keys.json"
    add_key(path, "ann")
    for name in ("ann", "", "a b", "../x"):
        with pytest.raises(SettingsError):
            add_key(path, name)
    with pytest.raises(SettingsError, match="ann"):
        remove_key(path, "eve")
    path.write_text(json.dumps({"keys": [{"name": 3}]}), encoding="utf-8")
    with pytest.raises(SettingsError, match="keys"):
        read_keys(path)


def test_a_bucket_fills_all_the_time():
    now = [0.0]
    limiter = RateLimiter(clock=lambda: now[0])
    client = Client("ann", requests_per_minute=60)
    for _ in range(60):
        limiter.take(client)
    with pytest.raises(ApiError) as refused:
        limiter.take(client)
    assert (refused.value.status, refused.value.retry_after) == (429, pytest.approx(1.0))
    limiter.take(Client("bob", requests_per_minute=60))  # another's bucket
    now[0] = 1.0
    limiter.take(client)
    with pytest.raises(ApiError):
        limiter.take(client)


def test_a_request_of_more_than_a_minute_is_let_in_and_paid_for():
    now = [0.0]
    limiter = RateLimiter(clock=lambda: now[0])
    client = Client("ann", characters_per_minute=100)
    limiter.take(client, 300)
    now[0] = 60.0
    with pytest.raises(ApiError):
        limiter.take(client, 10)
    now[0] = 150.0
    limiter.take(client, 10)


def test_processes_count_a_minute_together(tmp_path: Path):
    path = tmp_path / "buckets"
    count = (
        "import sys; from pathlib import Path; from uwaga.server.auth import Client\n"
        "from uwaga.server.limits import RateLimiter\n"
        "from uwaga.server.api_errors import ApiError\n"
        "limiter = RateLimiter(Path(sys.argv[1]), clock=lambda: 7.0)\n"
        "let = 0\n"
        "for _ in range(1000):\n"
        "    try: limiter.take(Client('ann', requests_per_minute=1500)); let += 1\n"
        "    except ApiError: pass\n"
        "print(let)"
    )
    command = [sys.executable, "-c", count, str(path)]
    each = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert sum(int(one.communicate()[0]) for one in each) == 1500


def test_clients_that_share_a_file_have_buckets_of_their_own(tmp_path: Path):
    limiter = RateLimiter(tmp_path / "buckets", clock=lambda: 7.0)
    clients = [Client(f"client-{number}", requests_per_minute=1) for number in range(1000)]
    for client in clients:
        limiter.take(client)
        limiter.take(client, 5)  # of characters it may ask for any number
    for client in clients:
        with pytest.raises(ApiError):
            limiter.take(client)


def test_a_full_table_forgets_the_least_recently_used_client(tmp_path: Path):
    now = [0.0]
    limiter = RateLimiter(tmp_path / "buckets", groups=1, clock=lambda: now[0])

    def known(name: str) -> bool:
        """Whether a client's only request of the minute is spent already."""
        now[0] += 0.1
        try:
            limiter.take(Client(name, requests_per_minute=1))
        except ApiError:
            return True
        return False

    assert not any(known(f"client-{number}") for number in range(1, SLOTS + 1))
    assert known("client-1")
    assert not known("new")
    assert known("client-1")
    assert not known("client-2")  # the new one had its place
