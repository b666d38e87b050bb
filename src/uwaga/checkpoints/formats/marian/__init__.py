"""Marian's own files."""
