"""Prefetching gives the same items, raises the same errors, and leaves no thread behind."""

from __future__ import annotations

import threading
import time

import pytest

from uwaga.data.batches import prefetch


def workers() -> int:
    return sum(thread.name == "uwaga-prefetch" for thread in threading.enumerate())


@pytest.mark.parametrize("depth", [1, 2, 7])
def test_items_in_order(depth: int) -> None:
    assert list(prefetch(range(100), depth)) == list(range(100))
    assert list(prefetch([], depth)) == []
    assert workers() == 0


def test_an_error_comes_after_the_items_before_it() -> None:
    def items():
        yield 1
        yield 2
        raise ValueError("broken")

    ahead = prefetch(items())
    assert [next(ahead), next(ahead)] == [1, 2]
    with pytest.raises(ValueError, match="broken"):
        next(ahead)
    assert workers() == 0


def test_it_runs_ahead_by_the_depth_and_no_more() -> None:
    made: list[int] = []

    def items():
        for item in range(100):
            made.append(item)
            yield item

    ahead = prefetch(items(), depth=3)
    assert next(ahead) == 0
    for _ in range(200):
        if len(made) == 5:
            break
        time.sleep(0.01)
    time.sleep(0.05)
    assert len(made) == 5  # one taken, three waiting, one in hand
    ahead.close()


def test_closing_early_stops_the_thread_and_the_source() -> None:
    closed = threading.Event()

    def items():
        try:
            while True:
                yield 0
        finally:
            closed.set()

    ahead = prefetch(items())
    next(ahead)
    assert workers() == 1
    ahead.close()
    assert closed.is_set()
    assert workers() == 0
    assert list(ahead) == []
