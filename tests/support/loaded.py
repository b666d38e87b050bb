"""A checkpoint and its torch model, for tests that look at both."""

from dataclasses import dataclass

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.checkpoints.to_torch import to_torch


@dataclass(frozen=True)
class Loaded:
    model: object
    checkpoint: Checkpoint
    languages: tuple[str, str]

    @property
    def source(self):
        return self.checkpoint.source

    @property
    def target(self):
        return self.checkpoint.target

    @property
    def options(self):
        return self.checkpoint.decoding


def load_torch(place, device="cpu", dtype="float32", read=formats.read):
    """What a place holds, in torch, between the languages that it states itself."""
    checkpoint = read(place)
    return Loaded(to_torch(checkpoint, device, dtype), checkpoint, checkpoint.languages.stated)
