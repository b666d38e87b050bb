"""Hugging Face's folders, as the registry of formats knows them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.checkpoints.alignment_head import HEAD_FILE
from uwaga.checkpoints.files.json_file import peek
from uwaga.checkpoints.format import Files, Format
from uwaga.checkpoints.formats.uwaga.names import CONFIG

if TYPE_CHECKING:
    from uwaga.checkpoints.checkpoint import Checkpoint
    from uwaga.checkpoints.description import Description

FILES = Files(
    beside=(
        *(CONFIG, "generation_config.json", "tokenizer_config.json", "tokenizer.json", "vocab.json"),
        *("target_vocab.json", "source.spm", "target.spm", "merges.txt", "vocab.txt", "spiece.model"),
        *("sentencepiece.bpe.model", "sentencepiece.model", "special_tokens_map.json"),
        *("added_tokens.json", "prophetnet.tokenizer", "README.md", HEAD_FILE),
    ),
    weights=("model.safetensors", "model.safetensors.index.json", "model-*.safetensors"),
    rather_not=("pytorch_model.bin", "pytorch_model.bin.index.json", "pytorch_model-*.bin"),
)


def _is_hugging_face(place: Path) -> bool:
    return isinstance(peek(place / CONFIG).get("model_type"), str)


def _read(place: Path) -> Checkpoint:
    from uwaga.checkpoints.formats.huggingface.registry import read_folder

    return read_folder(place)


def _describe(place: Path) -> Description:
    from uwaga.checkpoints.formats.huggingface.describe import describe_folder

    return describe_folder(place)


HUGGING_FACE = Format("Hugging Face", _is_hugging_face, _read, _describe, FILES)
