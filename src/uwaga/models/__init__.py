"""Trainable models, implemented in torch."""
