"""API keys, and rate limits per minute."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from uwaga.errors import SettingsError
from uwaga_server import auth
from uwaga_server.api_errors import ApiError
from uwaga_server.auth import Client, KeyRing, add_key, read_keys, remove_key, rotate_key
from uwaga_server.limits import GROUP_SIZE, RateLimiter


def test_key_file_does_not_contain_the_plain_key(tmp_path: Path):
    path = tmp_path / "keys.json"
    key = add_key(path, "ann")
    assert key[-16:] not in path.read_text(encoding="utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert KeyRing(path, Client("")).client(key) == Client("ann")


@pytest.mark.parametrize("change", [lambda key: key[:-1], lambda key: key + "a", lambda key: "", str.upper])
def test_wrong_api_keys_are_refused(tmp_path: Path, change):
    path = tmp_path / "keys.json"
    key = add_key(path, "ann")
    with pytest.raises(ApiError) as refused:
        KeyRing(path, Client("")).client(change(key))
    assert refused.value.status in (401, 403)


def test_key_digests_are_compared_in_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, compared = tmp_path / "keys.json", []
    key = add_key(path, "ann")
    compare_digest = auth.hmac.compare_digest
    monkeypatch.setattr(
        auth.hmac,
        "compare_digest",
        lambda first, second: compared.append(len(second)) or compare_digest(first, second),
    )
    for presented in (key, key[:-1] + "?", "no key of ours", "uwk-00000000-" + "a" * 43):
        try:
            KeyRing(path, Client("")).client(presented)
        except ApiError:
            continue
    assert compared == [64] * 4


def test_changes_to_the_key_file_are_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(auth, "RECHECK_INTERVAL", 0.0)
    path = tmp_path / "keys.json"
    first = add_key(path, "ann", requests_per_minute=5, characters=9)
    ring = KeyRing(path, Client("", 60, 1000))
    assert ring.client(first) == Client("ann", 5, 1000, 9)
    second = add_key(path, "bob")
    assert ring.client(second) == Client("bob", 60, 1000)
    remove_key(path, "ann")
    with pytest.raises(ApiError):
        ring.client(first)
    path.write_text("{", encoding="utf-8")  # half-copied: the current keys stay valid
    assert ring.client(second).name == "bob"


def test_old_and_new_keys_work_during_rotation(tmp_path: Path):
    path = tmp_path / "keys.json"
    old = add_key(path, "ann", requests_per_minute=5, characters=9)
    add_key(path, "bob")
    new = rotate_key(path, "ann")
    ring = KeyRing(path, Client(""))
    assert ring.client(old) == ring.client(new) == Client("ann", 5, 0, 9)
    remove_key(path, "ann", older=True)
    ring = KeyRing(path, Client(""))
    assert ring.client(new) == Client("ann", 5, 0, 9)
    with pytest.raises(ApiError):
        ring.client(old)
    remove_key(path, "ann")
    assert [stored.name for stored in read_keys(path)] == ["bob"]
    with pytest.raises(SettingsError, match="has no key for 'ann'"):
        rotate_key(path, "ann")


def test_invalid_names_and_key_files_are_rejected(tmp_path: Path):
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


def test_rate_limit_bucket_refills_continuously():
    time = [0.0]
    limiter = RateLimiter(clock=lambda: time[0])
    client = Client("ann", requests_per_minute=60)
    for _ in range(60):
        limiter.consume(client)
    with pytest.raises(ApiError) as refused:
        limiter.consume(client)
    assert (refused.value.status, refused.value.retry_after) == (429, pytest.approx(1.0))
    limiter.consume(Client("bob", requests_per_minute=60))  # another client's bucket
    time[0] = 1.0
    limiter.consume(client)
    with pytest.raises(ApiError):
        limiter.consume(client)


def test_oversized_request_leaves_a_negative_balance_in_the_bucket():
    time = [0.0]
    limiter = RateLimiter(clock=lambda: time[0])
    client = Client("ann", characters_per_minute=100)
    limiter.consume(client, 300)
    time[0] = 60.0
    with pytest.raises(ApiError):
        limiter.consume(client, 10)
    time[0] = 150.0
    limiter.consume(client, 10)


def test_processes_share_rate_limits(tmp_path: Path):
    path = tmp_path / "buckets"
    program = (
        "import sys; from pathlib import Path; from uwaga_server.auth import Client\n"
        "from uwaga_server.limits import RateLimiter\n"
        "from uwaga_server.api_errors import ApiError\n"
        "limiter = RateLimiter(Path(sys.argv[1]), clock=lambda: 7.0)\n"
        "let = 0\n"
        "for _ in range(1000):\n"
        "    try: limiter.consume(Client('ann', requests_per_minute=1500)); let += 1\n"
        "    except ApiError: pass\n"
        "print(let)"
    )
    command = [sys.executable, "-c", program, str(path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert sum(int(process.communicate()[0]) for process in processes) == 1500


def test_clients_have_separate_rate_limit_buckets(tmp_path: Path):
    limiter = RateLimiter(tmp_path / "buckets", clock=lambda: 7.0)
    clients = [Client(f"client-{number}", requests_per_minute=1) for number in range(1000)]
    for client in clients:
        limiter.consume(client)
        limiter.consume(client, 5)  # characters are not limited
    for client in clients:
        with pytest.raises(ApiError):
            limiter.consume(client)


def test_full_table_of_buckets_replaces_the_least_recently_used_one(tmp_path: Path):
    time = [0.0]
    limiter = RateLimiter(tmp_path / "buckets", groups=1, clock=lambda: time[0])

    def is_counted(name: str) -> bool:
        """Return True if the client has used its only request of the minute."""
        time[0] += 0.1
        try:
            limiter.consume(Client(name, requests_per_minute=1))
        except ApiError:
            return True
        return False

    assert not any(is_counted(f"client-{number}") for number in range(1, GROUP_SIZE + 1))
    assert is_counted("client-1")
    assert not is_counted("new")
    assert is_counted("client-1")
    assert not is_counted("client-2")  # replaced by the new one
