"""Parallel corpora: readers, a memory-mapped store, and batches within a token budget in resumable order."""
