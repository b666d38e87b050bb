"""What BART, mBART, Pegasus and M2M100 have in common beyond their layout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uwaga.checkpoints.formats.huggingface import seq2seq_layout as layout
from uwaga.checkpoints.formats.huggingface.config import GENERATION, ConfigReader
from uwaga.checkpoints.formats.huggingface.folder import FamilyModel, HuggingFaceFolder
from uwaga.checkpoints.storage.tensors import StoredTensor
from uwaga.checkpoints.weight_map import Table
from uwaga.settings import TransformerSettings
from uwaga.tokenizers.pretrained import Sides, TokenIds

LONGEST = 256
"""Target tokens where the folder states no limit: the other library's 20 would cut most texts."""

BARE = ("shared.", "encoder.", "decoder.")
"""Names that begin so are those of a model without its output layer, such as ``BartModel``."""

SHARED = "model.shared.weight"
EMBEDDINGS = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")


@dataclass(frozen=True)
class Traits:
    """What sets a family apart.

    Attributes:
        settings: of the Transformer, beside those that ``config.json`` states.
        unsupported: its features that we lack, with the values that switch them off.
        tokenisers: reads the tokenisers; the function is looked up when a folder is read.
        activation: the activation function where ``config.json`` names none.
        scaled: whether embeddings are scaled where it does not say so.
        start: what decoding starts from where the folder does not say so.
        end, pad: special tokens where it does not state them.
        forces_end: whether the last permitted token is the end symbol where nothing is said of that.
        own_positions: whether stored positions that are not sinusoids are taken as they are.
        table: where each weight is stored.
    """

    settings: Mapping[str, Any]
    unsupported: Mapping[str, tuple[object, ...]]
    tokenisers: Callable[[Path, TokenIds], Sides]
    activation: str = "gelu"
    scaled: bool = False
    start: int | None = None
    end: int = 2
    pad: int = 1
    forces_end: bool = True
    own_positions: bool = False
    table: Callable[[TransformerSettings, bool], Table] = field(default=layout.table)


def read_seq2seq(traits: Traits, folder: HuggingFaceFolder) -> FamilyModel:
    """Understand a folder of such a family.

    Raises:
        ModelError: a feature that we lack, a value that is impossible, or a bad tokeniser.
    """
    reader = folder.reader
    reader.refuse(traits.unsupported)
    size = reader.whole("vocab_size", least=4)
    tied = reader.flag("tie_word_embeddings", True)
    values = layout.common_settings(reader, traits.activation, traits.scaled)
    values |= {**traits.settings, "tie": "all" if tied else "none"}
    settings = folder.settings(TransformerSettings, values, size)
    end, pad = reader.whole("eos_token_id", traits.end), reader.whole("pad_token_id", traits.pad)
    begin = reader.stated_start()
    begin = traits.start if begin is None else begin
    given = {"eos_token_id": end, "pad_token_id": pad}
    reader.within(size, **given, **({} if begin is None else {"decoder_start_token_id": begin}))
    sides = traits.tokenisers(folder.path, TokenIds(size, begin, end, pad))
    tensors = whole_names(folder.tensors, tied)
    if traits.own_positions:
        settings = layout.with_own_positions(settings, tensors)
    return FamilyModel(
        settings,
        (size, size),
        sides,
        traits.table(settings, tied),
        tensors,
        unstated=_unstated(traits, reader, end),
    )


def whole_names(stored: Mapping[str, StoredTensor], shared: bool) -> dict[str, StoredTensor]:
    """The tensors under the names of the whole model; ``shared``: one embedding serves both sides.

    Embeddings that are not shared may still be stored once.
    """
    values = {f"model.{name}" if name.startswith(BARE) else name: one for name, one in stored.items()}
    if not shared and SHARED in values:
        once = values.pop(SHARED)
        for name in EMBEDDINGS:
            values.setdefault(name, once)
    return values


def _unstated(traits: Traits, reader: ConfigReader, end: int) -> dict[str, Any]:
    """Generation settings that the folder leaves to its library."""
    found: dict[str, Any] = {"max_length": LONGEST + 1}
    if (reader.path.parent / GENERATION).exists():
        return found
    if traits.forces_end:
        found["forced_eos_token_id"] = end
    if reader.flag("force_bos_token_to_be_generated", False):  # before 2021, for forced_bos_token_id
        found["forced_bos_token_id"] = reader.whole("bos_token_id", 0)
    return found
