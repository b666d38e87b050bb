"""Usage counts are exact with concurrent threads and processes."""

import subprocess
import sys

import pytest
import sqlalchemy as sql
from waiting import in_threads

from uwaga_server.api_errors import QuotaError, StorageError
from uwaga_server.store.database import USAGE, open_database
from uwaga_server.store.database_usage import DatabaseUsage
from uwaga_server.store.usage import Usage, UsageStore


def open_usage(state):
    return UsageStore() if state is None else DatabaseUsage(open_database(state, None))


@pytest.fixture(params=["database", "process"])
def state(request, tmp_path):
    return tmp_path if request.param == "database" else None


@pytest.mark.parametrize("limit", [0, 1000])
def test_usage_is_counted_separately_for_each_owner(state, limit):
    usage = open_usage(state)
    assert usage.read("ann") == Usage()
    usage.add("ann", 5, limit=limit)
    usage.add("../ann", 7, 1, limit=limit)
    assert (usage.read("ann").characters, usage.read("ann").documents) == (5, 0)
    assert (usage.read("../ann").characters, usage.read("../ann").documents) == (7, 1)
    usage.add("../ann", -7, -1, limit=limit)
    assert (usage.read("../ann").characters, usage.read("../ann").documents) == (0, 0)
    if state is not None:
        assert open_usage(state).read("ann") == usage.read("ann")


def test_usage_limit_is_enforced_exactly(state):
    usage = open_usage(state)
    usage.add("ann", 90, limit=100)
    with pytest.raises(QuotaError, match="10 of 100"):
        usage.add("ann", 11, limit=100)
    usage.add("ann", 10, limit=100)
    with pytest.raises(QuotaError):
        usage.add("ann", 1, limit=100)
    assert usage.read("ann").characters == 100


@pytest.mark.parametrize("limit", [0, 1000])
def test_usage_of_concurrent_threads_is_counted(state, limit):
    usage = open_usage(state)

    def work(_):
        for _ in range(20):
            usage.add("ann", 3, 1, limit)
            usage.flush()

    in_threads(work, range(4))
    assert (usage.read("ann").characters, usage.read("ann").documents) == (240, 80)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0, 10000])
def test_usage_of_concurrent_processes_is_counted(tmp_path, limit):
    code = (
        "import sys; from pathlib import Path\n"
        "from uwaga_server.store.database import open_database\n"
        "from uwaga_server.store.database_usage import DatabaseUsage\n"
        "usage = DatabaseUsage(open_database(Path(sys.argv[1]), None))\n"
        "for _ in range(200): usage.add('ann', 2, limit=int(sys.argv[2]))\n"
        "usage.flush()"
    )
    command = [sys.executable, "-c", code, str(tmp_path), str(limit)]
    workers = [subprocess.Popen(command) for _ in range(3)]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert open_usage(tmp_path).read("ann").characters == 1200


def test_usage_counts_stay_in_memory_while_the_database_is_unavailable(tmp_path, monkeypatch):
    usage = open_usage(tmp_path)
    usage.add("ann", 5)
    with open_database(tmp_path, None).begin() as connection:
        connection.execute(USAGE.delete())  # holds the lock of the file
        monkeypatch.setattr(
            usage, "_engine", sql.create_engine(usage._engine.url, connect_args={"timeout": 0.1})
        )
        with pytest.raises(StorageError):
            usage.flush()
    usage.add("ann", 2)
    assert usage.read("ann").characters == 7
