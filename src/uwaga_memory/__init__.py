"""Translation memories: sentences with their translations, looked up by similarity."""

from uwaga_memory.similarity import Penalties
from uwaga_memory.store import Added, Context, Match, Memory, MemoryStats, Pair

__all__ = ["Added", "Context", "Match", "Memory", "MemoryStats", "Pair", "Penalties"]
