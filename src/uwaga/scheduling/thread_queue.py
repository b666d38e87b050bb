"""A queue that any thread writes to and a coroutine reads from."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

Item = TypeVar("Item")


class ThreadQueue(Generic[Item]):
    """A queue of items, other than None, which any thread can send and over which a coroutine iterates.

    The queue is created, closed and read in an event loop.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[Item | None] = asyncio.Queue()

    def put(self, item: Item) -> None:
        """Send an item; do nothing if the event loop is closed."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._items.put_nowait, item)

    def close(self) -> None:
        """End the iteration after the items that have arrived."""
        self._items.put_nowait(None)

    def close_after(self, task: asyncio.Task[object]) -> None:
        """Close the queue when a task is done, and mark any exception of the task as retrieved."""

        def stop(task: asyncio.Task[object]) -> None:
            self.close()
            if not task.cancelled():
                task.exception()

        task.add_done_callback(stop)

    def __aiter__(self) -> ThreadQueue[Item]:
        return self

    async def __anext__(self) -> Item:
        item = await self._items.get()
        if item is None:
            raise StopAsyncIteration
        return item
