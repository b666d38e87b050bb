"""Measurement of the speed of a machine, of the engine's kernels and of a model."""
