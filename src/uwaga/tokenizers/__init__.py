"""Subword tokenisers, normalisation, and surface forms of training texts."""
