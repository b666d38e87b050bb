"""Translation memories: sentences with their translations, looked up by similarity."""

from uwaga_memory.similarity import Penalties
from uwaga_memory.store import AddedCounts, Context, Match, Memory, MemoryStats, Pair

__all__ = ["AddedCounts", "Context", "Match", "Memory", "MemoryStats", "Pair", "Penalties"]
