"""Threads over a translator behind the interface of the shared batch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class AsyncTranslator:
    """As :class:`uwaga.AsyncTranslator`."""

    def __init__(self, translator: Any, *, most_waiting: int = 1024, workers: int = 64) -> None:
        self.translator = translator
        self._pool = ThreadPoolExecutor(workers)
        self.waiting = self.running = 0
        self.observer: Any = None

    async def translate(
        self, texts: Any, *, client: str = "", deadline: float | None = None, **options: Any
    ) -> Any:
        """Translate."""
        return await self.run(lambda one: one.translate(texts, **options), client=client, deadline=deadline)

    async def stream(
        self, text: str, *, client: str = "", deadline: float | None = None, **options: Any
    ) -> AsyncGenerator[str, None]:
        """Stream."""
        pieces = self.translator.stream(text, **options)
        loop = asyncio.get_running_loop()
        while (piece := await loop.run_in_executor(self._pool, next, pieces, None)) is not None:
            yield piece

    async def run(
        self, function: Callable[..., Any], *args: Any, client: str = "", deadline: float | None = None
    ) -> Any:
        """Run in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, self.translator, *args)

    async def close(self, drain: bool = True) -> None:
        """Close."""
        self._pool.shutdown(wait=False)
