"""From a model folder to the native engine, without torch where the folder allows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from uwaga.checkpoints.foreign import read_mapping
from uwaga.checkpoints.native import read_native
from uwaga.checkpoints.schema import CONFIG, FORMAT, FolderConfig
from uwaga.engine import NativeModel, Packed, Precision, pack
from uwaga.errors import ModelError
from uwaga.text.subwords import Subwords

if TYPE_CHECKING:
    from uwaga.models.base import Seq2Seq


class OwnModel(NamedTuple):
    """One of our own folders on the engine."""

    model: NativeModel
    source: Subwords
    target: Subwords
    config: FolderConfig


def is_own(folder: Path) -> bool:
    """Whether a folder is in uwaga's own format, or in none that is known: our own reader says what is wrong.

    Torch-free, where the readers of other formats are not.
    """
    values = _config(folder)
    if values.get("format") != FORMAT and isinstance(values.get("model_type"), str):
        return False
    others = ("model.bin", "model/model.bin")
    return "format" in values or not (
        folder.is_file() or any((folder / name).exists() for name in others) or any(folder.glob("*.npz"))
    )


def is_native(folder: Path) -> bool:
    """Whether the engine runs the model of a folder, as far as its ``config.json`` says."""
    if not is_own(folder):
        return True
    model = _config(folder).get("model")
    return isinstance(model, dict) and model.get("family", "transformer") == "transformer"


def own_model(folder: Path, precision: Precision, threads: int) -> OwnModel:
    """The engine over one of our own folders.

    Raises:
        ModelError: as :func:`uwaga.checkpoints.native.read_native`.
    """
    found = read_native(folder, precision)
    sizes, symbols = found.config.vocabulary, found.config.symbols.symbols()
    model = NativeModel(found.settings, symbols, sizes.source, sizes.target, found.packed, threads)
    return OwnModel(model, found.source, found.target, found.config)


def from_torch(model: Seq2Seq, precision: Precision, threads: int, where: str) -> NativeModel:
    """The engine over the weights of a torch Transformer.

    Raises:
        ModelError: it is no Transformer; the message begins with ``where``.
    """
    from uwaga.models.transformer import Transformer

    if not isinstance(model, Transformer):
        raise ModelError(f"{where}: the native engine runs Transformers; use the engine torch")
    source = model.source_embedding.num_embeddings
    packed = packed_from_torch(model, precision)
    return NativeModel(model.settings, model.symbols, source, model.vocabulary, packed, threads)


def packed_from_torch(
    model: Any, precision: Precision, keep: tuple[str, ...] = (), levels: int = 127
) -> Packed:
    """The packed weights of a :class:`uwaga.models.transformer.Transformer`."""
    state = model.state_dict()
    source = model.source_embedding.num_embeddings
    return pack(
        model.settings,
        source,
        model.vocabulary,
        lambda name: state[name].detach().cpu().float().numpy(),
        precision,
        keep,
        levels,
    )


def _config(folder: Path) -> Mapping[str, Any]:
    """``config.json``, empty where it cannot be read: whoever loads the folder says why."""
    try:
        return read_mapping(folder / CONFIG)
    except ModelError:
        return {}
