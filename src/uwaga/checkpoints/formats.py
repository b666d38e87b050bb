"""Which reader a model of another library needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from uwaga.checkpoints.argos.package import is_argos, load_argos
from uwaga.checkpoints.ctranslate2.folder import is_ctranslate2, load_ctranslate2
from uwaga.checkpoints.huggingface.registry import Pretrained, load_pretrained
from uwaga.checkpoints.languages import resolve_languages
from uwaga.checkpoints.marian.npz import is_marian_npz, load_marian_npz
from uwaga.checkpoints.uwaga.schema import Dtype

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


def load_foreign(
    path: Path,
    device: str = "cpu",
    dtype: Dtype = "float32",
    source_language: str | None = None,
    target_language: str | None = None,
) -> Pretrained:
    """A translator in any format but uwaga's own.

    Raises:
        ModelError, SettingsError: as :func:`uwaga.checkpoints.huggingface.registry.load_pretrained`.
    """
    read = other_format(path)
    if read is None:
        return load_pretrained(path, device, dtype, source_language, target_language)
    found = read(path, device, dtype)
    return replace(
        found, languages=resolve_languages(found.languages, source_language, target_language, str(path))
    )
