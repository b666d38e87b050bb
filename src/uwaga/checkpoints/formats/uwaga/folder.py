"""Writer of uwaga's model folders.

A folder contains ``config.json`` (:mod:`uwaga.checkpoints.formats.uwaga.read`), ``model.safetensors``,
``source.spm``, ``target.spm`` (absent if both sides share one tokeniser) and ``card.md``. Reading a folder
executes none of its contents as code.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch

from uwaga.checkpoints.alignment_head import HEAD_FILE, head_bytes
from uwaga.checkpoints.card import CARD
from uwaga.checkpoints.checkpoint import StoredDtype
from uwaga.checkpoints.formats.uwaga.names import CONFIG, FILES, FORMAT, SOURCE, TARGET, WEIGHTS
from uwaga.checkpoints.formats.uwaga.read import (
    FIRST_VERSION,
    RECURRENT_VERSION,
    SCORE_STATS_VERSION,
    VERSION,
    FolderConfig,
    SymbolIds,
    check_config,
    check_tokenisers,
    config_bytes,
    has_self_attention,
)
from uwaga.checkpoints.score_stats import ScoreStats
from uwaga.checkpoints.storage.json_file import peek
from uwaga.checkpoints.storage.tensors import SCALES, to_int8
from uwaga.checkpoints.to_torch import DTYPES, distinct_tensors, skip_init
from uwaga.errors import ModelError
from uwaga.files.atomic import write_folder
from uwaga.models.build import build_model
from uwaga.settings import AlignmentHead, DecoderOnlySettings, DecodingSettings, ModelSettings, StrictModel
from uwaga.tokenizers.tokeniser import Tokeniser


@dataclass(frozen=True)
class FolderContents:
    """The contents of a model folder, apart from the weights.

    Attributes:
        settings: settings of the model.
        decoding: default decoding settings.
        source: tokeniser of the source side.
        target: tokeniser of the target side; not stored separately if it equals ``source``.
        languages: codes of the source and target languages.
        card: the model card in Markdown: data, licence, and metrics with their sacreBLEU signatures.
        score_stats: statistics of the model's scores, None if they have not been measured.
        alignment_head: the attention head that aligns words, None if none has been chosen.
    """

    settings: ModelSettings
    decoding: DecodingSettings
    source: Tokeniser
    target: Tokeniser
    languages: tuple[str, str]
    card: str
    score_stats: ScoreStats | None = None
    alignment_head: AlignmentHead | None = None


def save_model(
    folder: Path, model: torch.nn.Module, contents: FolderContents, dtype: StoredDtype = "float32"
) -> None:
    """Write a model folder atomically, replacing any uwaga model in the folder.

    Args:
        folder: the folder to create.
        model: a model built from the settings; tied weights are stored once.
        contents: the contents of the folder apart from the weights.
        dtype: number format of the stored weights; ``int8`` rounds each row of a matrix to 255 steps.
    """
    settings, source, target = contents.settings, contents.source, contents.target
    folder = Path(folder)
    _check_replaceable(folder)
    joint = source.model_bytes == target.model_bytes
    values = {
        "format": FORMAT,
        "version": _format_version(settings, contents.score_stats),
        "languages": contents.languages,
        "normalisation": source.normalisation,
        "weights": dtype,
        "vocabulary": {"source": source.size, "target": target.size, "joint": joint},
        "symbols": SymbolIds.from_symbols(target.symbols).model_dump(exclude_none=True),
        "model": settings.model_dump(),
        "decoding": contents.decoding.model_dump(),
    }
    if contents.score_stats is not None:
        values["usual_score"] = contents.score_stats.model_dump()
    config = check_config(values, f"{folder / CONFIG}")
    check_tokenisers(folder, config, source, target)
    _check_same_weights(model, config)
    weights = weight_bytes(model, dtype)
    config = config.model_copy(update={"sha256": hashlib.sha256(weights).hexdigest()})
    files = {
        CONFIG: config_bytes(config),
        WEIGHTS: weights,
        SOURCE: source.model_bytes,
        CARD: contents.card.encode("utf-8"),
    }
    if contents.alignment_head is not None:
        files[HEAD_FILE] = head_bytes(contents.alignment_head)
    if not joint:
        files[TARGET] = target.model_bytes
    write_folder(folder, files)


def _format_version(settings: StrictModel, score_stats: ScoreStats | None) -> int:
    """Return the oldest format version that can represent a model."""
    if isinstance(settings, DecoderOnlySettings):
        return VERSION
    if not has_self_attention(settings):
        return RECURRENT_VERSION
    return FIRST_VERSION if score_stats is None else SCORE_STATS_VERSION


def _check_replaceable(folder: Path) -> None:
    """Raise ModelError if the folder exists and contains anything but a uwaga model."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir():
        raise ModelError(f"{folder}: is a file; give another folder")
    existing_names = sorted(path.name for path in folder.iterdir())
    if not existing_names:
        return
    foreign_names = [name for name in existing_names if name not in FILES]
    if foreign_names or peek(folder / CONFIG).get("format") != FORMAT:
        problem = f"{foreign_names[0]!r}, which does" if foreign_names else f"a {CONFIG} that does"
        raise ModelError(
            f"{folder}: contains {problem} not belong to a uwaga model, so the folder is not "
            "overwritten; give the model another folder or empty this one"
        )


def _check_same_weights(model: torch.nn.Module, config: FolderConfig) -> None:
    """Raise ModelError if the model's weight names or shapes do not follow from the settings.

    Such a model could not be loaded again.
    """
    sizes = config.vocabulary
    skeleton = skip_init(
        lambda: build_model(config.model, config.symbols.symbols(), sizes.source, sizes.target), "meta"
    )
    expected_shapes = {name: tuple(tensor.shape) for name, tensor in skeleton.state_dict().items()}
    actual_shapes = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    for name in sorted(expected_shapes.keys() | actual_shapes.keys()):
        if expected_shapes.get(name) != actual_shapes.get(name):
            raise ModelError(
                f"weight {name!r} has shape {actual_shapes.get(name)}, but the model's settings and "
                f"tokenisers require {expected_shapes.get(name)}; the model was not saved"
            )


def weight_bytes(model: torch.nn.Module, dtype: StoredDtype) -> bytes:
    """Return the contents of a safetensors file with the weights; floating-point weights are in ``dtype``."""
    stored_tensors: dict[str, torch.Tensor] = {}
    for name, tensor in distinct_tensors(model).items():
        value = tensor.detach().cpu()
        if value.is_floating_point():
            value = value.to(torch.float32 if dtype == "int8" else DTYPES[dtype])
            if not bool(torch.isfinite(value).all()):
                raise ModelError(
                    f"weight {name!r} contains numbers that are not finite in {dtype}; the model was not "
                    "saved"
                )
        if dtype == "int8" and value.ndim == 2:
            integers, scales = to_int8(value.numpy())
            value, stored_tensors[name + SCALES] = torch.from_numpy(integers), torch.from_numpy(scales)
        stored_tensors[name] = value.contiguous()
    return safetensors.torch.save(stored_tensors, metadata={"format": "pt"})
