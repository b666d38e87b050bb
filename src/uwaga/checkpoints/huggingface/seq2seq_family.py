"""What BART, mBART, Pegasus and M2M100 have in common beyond their layout: a folder to its recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from uwaga.checkpoints.files.torch_files import Tensors
from uwaga.checkpoints.huggingface import seq2seq_layout as fairseq
from uwaga.checkpoints.huggingface.config import GENERATION, ConfigReader
from uwaga.checkpoints.huggingface.recipe import Recipe
from uwaga.checkpoints.weight_map import Table
from uwaga.errors import ModelError, SettingsError
from uwaga.models.transformer import Transformer
from uwaga.settings import TransformerSettings, parse
from uwaga.text.pretrained import Sides, TokenIds

LONGEST = 256
"""Target tokens where the folder states no limit: the other library's 20 would cut most texts."""

BARE = ("shared.", "encoder.", "decoder.")
"""Names that begin so are those of a model without its output layer, such as ``BartModel``."""

SHARED = "model.shared.weight"
EMBEDDINGS = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")


@dataclass(frozen=True)
class Kind:
    """A family.

    Attributes:
        settings: of the Transformer, beside those that ``config.json`` states.
        lacking: its features that we lack, with the values that switch them off.
        tokenisers: reads the tokenisers; the function is looked up when a folder is read.
        activation: the activation function where ``config.json`` names none.
        scaled: whether embeddings are scaled where it does not say so.
        end, pad: special tokens where it does not state them.
        forces_end: whether the last permitted token is the end symbol where nothing is said of that.
        table: where each weight is stored.
    """

    settings: Mapping[str, Any]
    lacking: Mapping[str, tuple[object, ...]]
    tokenisers: Callable[[Path, TokenIds], Sides]
    activation: str = "gelu"
    scaled: bool = False
    end: int = 2
    pad: int = 1
    forces_end: bool = True
    table: Callable[[Transformer, bool], Table] = field(default=fairseq.table)


def recipe(kind: Kind, folder: Path, config: Mapping[str, Any], start: int | None = None) -> Recipe:
    """Understand a folder of this kind.

    Args:
        kind: the family.
        folder: the folder.
        config: its ``config.json``.
        start: what decoding starts from where the folder does not say so.

    Raises:
        ModelError: a feature that we lack, a value that is impossible, or a bad tokeniser.
    """
    reader = ConfigReader(folder, config)
    reader.refuse(kind.lacking)
    size = reader.whole("vocab_size", least=4)
    tied = reader.flag("tie_word_embeddings", True)
    values = fairseq.common_settings(reader, kind.activation, kind.scaled)
    values |= {**kind.settings, "tie": "all" if tied else "none"}
    try:
        settings = parse(TransformerSettings, values, str(reader.path))
    except SettingsError as error:
        raise ModelError(str(error)) from None
    end, pad = reader.whole("eos_token_id", kind.end), reader.whole("pad_token_id", kind.pad)
    begin = reader.stated_start()
    begin = start if begin is None else begin
    given = {"eos_token_id": end, "pad_token_id": pad}
    reader.within(size, **given, **({} if begin is None else {"decoder_start_token_id": begin}))
    sides = kind.tokenisers(folder, TokenIds(size, begin, end, pad))
    return Recipe(
        settings,
        size,
        size,
        sides.source,
        sides.target,
        lambda model: kind.table(model, tied),
        prepare=partial(prepare, shared=tied),
        unstated=_unstated(kind, reader, end),
    )


def prepare(stored: Tensors, shared: bool) -> Tensors:
    """The tensors under the names of the whole model; ``shared``: one embedding serves both sides.

    Embeddings that are not shared may still be stored once.
    """
    renamed = {name: f"model.{name}" if name.startswith(BARE) else name for name in stored.values}
    values: dict[str, Tensor] = {renamed[name]: tensor for name, tensor in stored.values.items()}
    origin = {renamed[name]: path for name, path in stored.origin.items()}
    if not shared and SHARED in values:
        once, where = values.pop(SHARED), origin[SHARED]
        for name in EMBEDDINGS:
            if name not in values:
                values[name], origin[name] = once, where
    return replace(stored, values=values, origin=origin)


def _unstated(kind: Kind, reader: ConfigReader, end: int) -> dict[str, Any]:
    """Generation settings that the folder leaves to its library."""
    found: dict[str, Any] = {"max_length": LONGEST + 1}
    if (reader.path.parent / GENERATION).exists():
        return found
    if kind.forces_end:
        found["forced_eos_token_id"] = end
    if reader.flag("force_bos_token_to_be_generated", False):  # before 2021, for forced_bos_token_id
        found["forced_bos_token_id"] = reader.whole("bos_token_id", 0)
    return found
