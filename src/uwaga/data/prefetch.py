"""Making the next items in a background thread while the current one is used."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from queue import Empty, Full, Queue
from threading import Event, Thread
from typing import Generic, TypeVar

Item = TypeVar("Item")
PATIENCE = 0.1  # seconds between looks at whether the reader has gone


def prefetch(items: Iterable[Item], depth: int = 2) -> Generator[Item, None, None]:
    """The items, of which a background thread makes up to ``depth`` ahead.

    An exception while making them is raised here. Closing the generator stops the thread.
    """
    maker = _Maker(items, depth)
    try:
        while True:
            item = maker.queue.get()
            if isinstance(item, _Finished):
                if item.error is not None:
                    raise item.error
                return
            yield item
    finally:
        maker.close()


class _Finished:
    def __init__(self, error: BaseException | None) -> None:
        self.error = error


class _Maker(Generic[Item]):
    def __init__(self, items: Iterable[Item], depth: int) -> None:
        self.queue: Queue[Item | _Finished] = Queue(maxsize=max(1, depth))
        self._closed = Event()
        self._thread = Thread(target=self._work, args=(items,), name="uwaga-prefetch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        try:
            while True:  # so that a maker that waits for room goes on at once
                self.queue.get_nowait()
        except Empty:
            self._thread.join()

    def _work(self, items: Iterable[Item]) -> None:
        end = _Finished(None)
        try:
            for item in items:
                if not self._put(item):
                    break
        except BaseException as error:
            end = _Finished(error)
        finally:
            if isinstance(items, Generator):
                items.close()
        self._put(end)

    def _put(self, item: Item | _Finished) -> bool:
        while not self._closed.is_set():
            try:
                self.queue.put(item, timeout=PATIENCE)
            except Full:
                continue
            return True
        return False
