"""A queue that serves its clients in turn."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Generic, TypeVar

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """First come, first served within a client; between clients, one each in turn.

    A client that puts in a thousand items at once delays another's single one by one item, not by a thousand.
    It holds nothing of clients that have nothing in it. One thread at a time may use it.
    """

    def __init__(self) -> None:
        self._clients: OrderedDict[str, deque[Item]] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, client: str, item: Item) -> None:
        """Let an item of a client wait."""
        self._clients.setdefault(client, deque()).append(item)
        self._size += 1

    def put_first(self, client: str, item: Item) -> None:
        """Let an item wait whose turn is next."""
        self._clients.setdefault(client, deque()).appendleft(item)
        self._clients.move_to_end(client, last=False)
        self._size += 1

    def take(self) -> Item:
        """The item whose turn it is.

        Raises:
            IndexError: nothing waits.
        """
        if not self._clients:
            raise IndexError("nothing waits")
        client, items = self._clients.popitem(last=False)
        item = items.popleft()
        if items:
            self._clients[client] = items
        self._size -= 1
        return item

    def remove(self, client: str, item: Item) -> bool:
        """Take an item of a client out, wherever it stands; False if it does not wait here."""
        items = self._clients.get(client)
        if items is None or item not in items:
            return False
        items.remove(item)
        if not items:
            del self._clients[client]
        self._size -= 1
        return True
