"""Prefetching yields the same items, raises the same errors, and leaves no thread running."""

import threading
import time

import pytest

from uwaga.data.batches import prefetch


def count_threads() -> int:
    return sum(thread.name == "uwaga-prefetch" for thread in threading.enumerate())


@pytest.mark.parametrize("depth", [1, 2, 7])
def test_prefetching_preserves_the_order_of_the_items(depth: int) -> None:
    assert list(prefetch(range(100), depth)) == list(range(100))
    assert list(prefetch([], depth)) == []
    assert count_threads() == 0


def test_prefetch_error_is_raised_after_the_preceding_items() -> None:
    def items():
        yield 1
        yield 2
        raise ValueError("broken")

    prefetched = prefetch(items())
    assert [next(prefetched), next(prefetched)] == [1, 2]
    with pytest.raises(ValueError, match="broken"):
        next(prefetched)
    assert count_threads() == 0


def test_prefetch_depth_limits_the_number_of_prefetched_items() -> None:
    produced: list[int] = []

    def items():
        for item in range(100):
            produced.append(item)
            yield item

    prefetched = prefetch(items(), depth=3)
    assert next(prefetched) == 0
    for _ in range(200):
        if len(produced) == 5:
            break
        time.sleep(0.01)
    time.sleep(0.05)
    assert len(produced) == 5  # one taken, three waiting, one in hand
    prefetched.close()


def test_closing_the_prefetcher_stops_its_thread_and_source() -> None:
    closed = threading.Event()

    def items():
        try:
            while True:
                yield 0
        finally:
            closed.set()

    prefetched = prefetch(items())
    next(prefetched)
    assert count_threads() == 1
    prefetched.close()
    assert closed.is_set()
    assert count_threads() == 0
    assert list(prefetched) == []
