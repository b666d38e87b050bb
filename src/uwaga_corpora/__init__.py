"""Parallel corpora: cleaning, and resumable jobs that translate corpora and tables."""
