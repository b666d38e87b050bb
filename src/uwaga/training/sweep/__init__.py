"""A search for good settings: many runs of ``uwaga train``, drawn and stopped early by Optuna."""

from uwaga.training.sweep.sweep import sweep

__all__ = ["sweep"]
