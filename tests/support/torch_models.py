"""Loading of checkpoints together with their torch models."""

import json
from dataclasses import dataclass

from uwaga.checkpoints import registry as formats
from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.checkpoints.to_torch import to_torch


@dataclass(frozen=True)
class LoadedModel:
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


def load_torch(path, device="cpu", dtype="float32", read=formats.read):
    """Load the checkpoint at a path and its torch model, with the given languages."""
    checkpoint = read(path)
    return LoadedModel(to_torch(checkpoint, device, dtype), checkpoint, checkpoint.languages.stated)


def edit_config(folder, **changes):
    """Update keys of a folder's configuration."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


class Payload:
    """A pickle that opens a file when it is loaded."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))
