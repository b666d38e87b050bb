"""Translation memories in requests, for all dialects."""

from __future__ import annotations

from uwaga.translator.memories import DEFAULT_THRESHOLD, TranslationMemory
from uwaga_server.api_errors import ApiError, run_in_thread
from uwaga_server.auth import Client
from uwaga_server.context import ServerContext


async def request_memory(
    context: ServerContext, client: Client, memory_id: str, source: str | None, target: str
) -> TranslationMemory:
    """Return the memory named by a request, after checking its languages."""
    return await run_in_thread(
        lambda: context.stores.memories.for_languages(context.owner(client), memory_id, target, source)
    )


def check_threshold(memory_id: str | None, threshold: int | None) -> float:
    """Return the threshold of a request, at least 1; a threshold needs a memory."""
    if threshold is not None and memory_id is None:
        message = "Parameter 'translation_memory_threshold' needs 'translation_memory_id'."
        raise ApiError(400, "invalid_request", message, "translation_memory_threshold")
    return max(1.0, DEFAULT_THRESHOLD if threshold is None else float(threshold))
