"""Parallel corpora: reading, a store larger than memory, and token-budget batches in a resumable order."""
