"""Marian's files."""
