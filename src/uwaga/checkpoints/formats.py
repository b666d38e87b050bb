"""Which reader a model of another library needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from uwaga.checkpoints.argos import is_argos, load_argos
from uwaga.checkpoints.ctranslate2 import is_ctranslate2, load_ctranslate2
from uwaga.checkpoints.marian_npz import is_marian_npz, load_marian_npz
from uwaga.checkpoints.pretrained import Pretrained
from uwaga.checkpoints.schema import Dtype

Reader = Callable[[Path, str, Dtype], Pretrained]


def other_format(path: Path) -> Reader | None:
    """The reader of a model that is not a folder with a ``config.json`` of ours or Hugging Face's, or None.

    An Argos package, a CTranslate2 folder, or a Marian ``.npz`` (the file, or a folder with one).
    """
    readers: tuple[tuple[Callable[[Path], bool], Reader], ...] = (
        (is_argos, load_argos),
        (is_ctranslate2, load_ctranslate2),
        (is_marian_npz, load_marian_npz),
    )
    for applies, reader in readers:
        if applies(path):
            return reader
    return None
