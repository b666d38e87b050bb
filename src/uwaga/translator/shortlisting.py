"""A model held to a vocabulary shortlist."""

from __future__ import annotations

from pathlib import Path

from uwaga.checkpoints.formats.uwaga.shortlist import read_shortlist
from uwaga.decoder import Decoder
from uwaga.engine import NativeModel
from uwaga.errors import SettingsError
from uwaga.tokenizers.subwords import Subwords


def limited(decoder: Decoder, source: Subwords, target: Subwords, path: Path) -> NativeModel:
    """The same model with the shortlist of a file.

    Raises:
        SettingsError: the model does not run on the native engine.
        ModelError: as :func:`uwaga.checkpoints.formats.uwaga.shortlist.read_shortlist`.
    """
    model = native_of(decoder)
    shortlist = read_shortlist(path, source, target, model.source_vocabulary, model.vocabulary)
    return model.with_shortlist(shortlist)


def native_of(decoder: Decoder) -> NativeModel:
    """The decoder, if it is the native engine's.

    Raises:
        SettingsError: it is not.
    """
    if not isinstance(decoder, NativeModel):
        raise SettingsError(
            "shortlists are the native engine's alone, and this model runs on torch: leave out the "
            "shortlist, or engine and device"
        )
    return decoder
