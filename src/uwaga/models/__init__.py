"""Encoder-decoder models behind the one contract (torch)."""
