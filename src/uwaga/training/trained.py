"""What an update changes: the model of a run itself, or this process's share of a copy."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from uwaga.models.base import Seq2Seq
from uwaga.settings import TrainingSettings
from uwaga.training.ranks import Ranks
from uwaga.training.step import Updater


class Trained:
    """The weights that are trained, in ``model``: here of the run's model itself."""

    def __init__(self, model: Seq2Seq, settings: TrainingSettings, ranks: Ranks) -> None:
        self.model, self.settings, self.ranks = model, settings, ranks

    def updater(self, optimiser: torch.optim.Optimizer) -> Updater:
        """What updates them."""
        return Updater(self.model, optimiser, self.settings, self.ranks)

    def fill(self, model: Seq2Seq) -> None:
        """Take the weights of the run's model."""

    def collect(self, model: Seq2Seq, keep: bool) -> None:
        """Put the weights into the run's model, where it is to ``keep`` them; all processes take part."""

    @contextlib.contextmanager
    def at_hand(self, model: Seq2Seq) -> Iterator[None]:
        """Inside, the run's model is where it can be computed with."""
        yield
