"""Parallel corpora: readers, a memory-mapped store, and batches of a token budget in a resumable order."""
