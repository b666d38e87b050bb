"""What a format is to the registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uwaga.checkpoints.checkpoint import Checkpoint
    from uwaga.checkpoints.description import Description


@dataclass(frozen=True)
class Files:
    """The files of a format, as patterns of their names; none of them can hold code.

    Attributes:
        beside: settings, vocabularies and cards, which are fetched from the hub whatever the weights are in.
        weights: the weights.
        rather_not: weights that are fetched only where a repository has no others.
        suffixes: what a model that is a single file ends in.
    """

    beside: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    rather_not: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Format:
    """A way to store models. All but :attr:`read` needs to be light: no torch, no weights in memory.

    Attributes:
        name: as ``uwaga info`` shows it.
        detect: whether a folder or file is of this format, sound or not.
        read: the model in a folder or file, checked before memory is taken; raises ModelError.
        describe: what the model is and what is wrong with it; raises ModelError where nothing can be said.
        files: what the hub fetches.
        read_shared: as :attr:`read`, with weights that stay in their mapped file; None of a format whose
            weights are not used as they lie there.
    """

    name: str
    detect: Callable[[Path], bool]
    read: Callable[[Path], Checkpoint]
    describe: Callable[[Path], Description]
    files: Files
    read_shared: Callable[[Path], Checkpoint] | None = None
