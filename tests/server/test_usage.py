"""Counts of usage: exact, whoever counts."""

import subprocess
import sys
import threading

import pytest

from uwaga.server.api_errors import QuotaError
from uwaga.server.stores import open_usage
from uwaga.server.usage import Usage


@pytest.fixture(params=["folder", "database", "process"])
def where(request, tmp_path):
    return {"folder": tmp_path, "database": f"sqlite:///{tmp_path}/usage.db", "process": None}[request.param]


def test_what_is_counted_is_told_and_owners_are_apart(where):
    usage = open_usage(where)
    assert usage.read("ann") == Usage()
    assert usage.take("ann", 5).characters == 5
    usage.take("../ann", 7, 1)
    assert (usage.read("ann").characters, usage.read("ann").documents) == (5, 0)
    assert (usage.read("../ann").characters, usage.read("../ann").documents) == (7, 1)
    if where is not None:
        assert open_usage(where).read("ann") == usage.read("ann")


def test_a_limit_is_reached_exactly_and_nothing_is_counted_beyond_it(where):
    usage = open_usage(where)
    usage.take("ann", 90, limit=100)
    with pytest.raises(QuotaError, match="10 of 100"):
        usage.take("ann", 11, limit=100)
    assert usage.take("ann", 10, limit=100).characters == 100
    with pytest.raises(QuotaError):
        usage.take("ann", 1, limit=100)
    assert usage.read("ann").characters == 100


def test_threads_lose_no_count(where):
    usage = open_usage(where)

    def work():
        for _ in range(20):
            usage.take("ann", 3, 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert (usage.read("ann").characters, usage.read("ann").documents) == (240, 80)


def test_processes_lose_no_count(tmp_path):
    code = (
        "import sys; from uwaga.server.stores import open_usage; usage = open_usage(sys.argv[1])\n"
        "for _ in range(200): usage.take('ann', 2)"
    )
    workers = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(3)]
    assert [one.wait() for one in workers] == [0, 0, 0]
    assert open_usage(tmp_path).read("ann").characters == 1200
