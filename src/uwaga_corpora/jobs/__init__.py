"""Resumable jobs over tables and corpora."""
