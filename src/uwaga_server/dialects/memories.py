"""Access to the translation memories that requests name, for all dialects."""

from __future__ import annotations

from uwaga.translator.memories import DEFAULT_THRESHOLD, TranslationMemory
from uwaga_server.api_errors import ApiError, run_in_thread
from uwaga_server.auth import Client
from uwaga_server.context import ServerContext


async def request_memory(
    context: ServerContext, client: Client, memory_id: str, source: str | None, target: str
) -> TranslationMemory:
    """Return the memory that a request names by its id, after checking the languages of the memory."""
    return await run_in_thread(
        lambda: context.stores.memories.for_languages(context.owner(client), memory_id, target, source)
    )


def check_threshold(memory_id: str | None, threshold: int | None) -> float:
    """Return the similarity threshold of a request, raised to 1 if it is lower, or the default threshold.

    Raises:
        ApiError: the request has a threshold but no memory.
    """
    if threshold is not None and memory_id is None:
        message = "Parameter 'translation_memory_threshold' requires 'translation_memory_id'."
        raise ApiError(400, "invalid_request", message, "translation_memory_threshold")
    return max(1.0, DEFAULT_THRESHOLD if threshold is None else float(threshold))
