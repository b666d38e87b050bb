"""Better translations that readers suggest, a line of JSON each, for whoever runs the server."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from uwaga.server.api_errors import ApiError

LARGEST = 64 << 20
"""Bytes of a file of suggestions; further ones are refused."""


class Suggestions:
    """Suggestions in a file that any number of processes add to.

    Args:
        path: the file, made with the first one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def add(self, suggestion: Mapping[str, str]) -> None:
        """Keep one.

        Raises:
            ApiError: the file is full, or cannot be written.
        """
        line = json.dumps({"time": int(time.time()), **suggestion}, ensure_ascii=False) + "\n"
        await asyncio.to_thread(self._append, line.encode("utf-8", "replace"))

    def _append(self, line: bytes) -> None:
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if os.fstat(handle).st_size + len(line) > LARGEST:
                    raise ApiError(507, "storage_full", "the file of suggestions is full")
                os.write(handle, line)  # one call: lines of several processes do not mix
            finally:
                os.close(handle)
        except OSError:
            raise ApiError(
                503, "storage_unavailable", "suggestions cannot be kept now", retry_after=60
            ) from None
