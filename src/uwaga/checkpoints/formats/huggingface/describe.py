"""What a Hugging Face folder is, from its settings and the headers of its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from uwaga.checkpoints.card import read_card
from uwaga.checkpoints.description import (
    SEARCH,
    Description,
    Pairs,
    WeightSummary,
    attempt,
    file_size,
)
from uwaga.checkpoints.files.json_file import read_mapping
from uwaga.checkpoints.files.safetensors_read import read_header, read_index
from uwaga.checkpoints.formats.huggingface.config import GENERATION, search_options
from uwaga.checkpoints.formats.huggingface.folder import (
    NAME,
    OLD,
    SAFE,
    SAFE_INDEX,
    HuggingFaceFolder,
)
from uwaga.checkpoints.formats.huggingface.registry import FAMILIES
from uwaga.checkpoints.formats.uwaga.names import CONFIG
from uwaga.errors import ModelError
from uwaga.search import SearchOptions

SIZES: Mapping[str, tuple[str, ...]] = {
    "width": ("d_model", "hidden_size", "n_embd"),
    "encoder layers": ("encoder_layers", "num_encoder_layers", "num_layers"),
    "decoder layers": ("decoder_layers", "num_decoder_layers", "num_layers"),
    "layers": ("n_layer",),
    "heads": (
        "encoder_attention_heads",
        "num_encoder_attention_heads",
        "num_attention_heads",
        "num_heads",
        "n_head",
    ),
    "feed-forward": ("encoder_ffn_dim", "intermediate_size", "d_ff", "n_inner"),
    "positions": ("max_position_embeddings", "n_positions"),
}
"""Our words, and the keys of ``config.json`` in the order in which they are looked for."""


def describe_folder(path: Path) -> Description:
    """Describe a folder of whatever family.

    Raises:
        ModelError: its settings cannot be read.
    """
    config = read_mapping(path / CONFIG)
    card, family = read_card(path), str(config["model_type"])
    problems: list[str] = []
    size = config.get("vocab_size")
    folder = HuggingFaceFolder(path, config)
    nothing: Pairs = ((), ())
    known = FAMILIES.get(family)
    languages = nothing if known is None else attempt(lambda: known.languages(folder), nothing, problems)
    return Description(
        place=str(path),
        format=NAME,
        family=family,
        sizes=_sizes(config),
        weights=attempt(lambda: read_headers(path), WeightSummary(None, 0, ()), problems),
        vocabulary=tuple(one for one in (size, config.get("decoder_vocab_size", size)) if type(one) is int),
        languages=languages if any(languages) else (card.languages, card.languages),
        licence=card.licence,
        decoding=attempt(lambda: _search(path, config), {}, problems),
        problems=tuple(problems),
    )


def read_headers(folder: Path) -> WeightSummary:
    """What the headers of a folder's weight files say; of ``pytorch_model.bin`` only its size.

    Raises:
        ModelError: there are no weights, or a header is damaged.
    """
    paths = [folder / SAFE] if (folder / SAFE).is_file() else []
    if not paths and (folder / SAFE_INDEX).is_file():
        paths = sorted(set(read_index(folder / SAFE_INDEX).values()))
    if not paths:
        older = sorted(folder.glob(f"{Path(OLD).stem}*.bin"))
        if not older:
            raise ModelError(f"{folder}: holds no weights ({SAFE}); fetch or save the model again")
        return WeightSummary(None, file_size(older), ())
    return WeightSummary.of([one for path in paths for one in read_header(path).values()], file_size(paths))


def _sizes(config: Mapping[str, Any]) -> dict[str, int | float | str | bool]:
    found: dict[str, int | float | str | bool] = {}
    for name, keys in SIZES.items():
        stated = [config[key] for key in keys if type(config.get(key)) is int]
        if stated:
            found[name] = stated[0]
    if "encoder layers" not in found and type(config.get("num_hidden_layers")) is int:
        found["layers"] = config["num_hidden_layers"]
    return found


def _search(folder: Path, config: Mapping[str, Any]) -> dict[str, object]:
    """The decoding defaults that the folder states."""
    path = folder / GENERATION
    stated = read_mapping(path) if path.exists() else config
    options = search_options(folder, config)
    shown = {one.name: getattr(options, one.name) for one in fields(SearchOptions) if one.name in SEARCH}
    if stated.get("max_length") is None and stated.get("max_new_tokens") is None:
        del shown["max_length"]
    return shown
