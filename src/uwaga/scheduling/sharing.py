"""Models whose searches many requests share."""

from __future__ import annotations

import threading
from collections.abc import Callable

from uwaga.decoder import Decoder
from uwaga.scheduling.batching_decoder import SharedDecoder
from uwaga.scheduling.request import Request
from uwaga.scheduling.shared_search import SharedSearch


class SharedModels:
    """The running batch of each model that requests have come to; made at the first.

    Args:
        nice: as of :class:`uwaga.scheduling.shared_search.SharedSearch`.
    """

    def __init__(self, nice: int = 0) -> None:
        self._lock, self._nice = threading.Lock(), nice
        self._searches: dict[int, SharedSearch] = {}  # by the id of a decoder, which the search holds

    def way(self, request: Request) -> Callable[[Decoder], Decoder]:
        """From a model to the decoder that stands for it in the searches of a request."""
        return lambda decoder: SharedDecoder(self.of(decoder), request)

    def of(self, decoder: Decoder) -> SharedSearch:
        """The batch of a model."""
        with self._lock:
            return self._searches.setdefault(id(decoder), SharedSearch(decoder, nice=self._nice))

    @property
    def searches(self) -> list[SharedSearch]:
        """All batches."""
        return list(self._searches.values())

    def close(self) -> None:
        """End them, with the searches that are running."""
        with self._lock:
            for search in self._searches.values():
                search.close()
