"""The supported families of Hugging Face models and their readers."""

from __future__ import annotations

from pathlib import Path

from uwaga.checkpoints.checkpoint import Checkpoint, Memory
from uwaga.checkpoints.formats.huggingface.folder import FamilyReader, HuggingFaceFolder
from uwaga.checkpoints.formats.uwaga.names import CONFIG
from uwaga.checkpoints.storage.json_file import read_mapping
from uwaga.errors import ModelError, quoted
from uwaga.plugins import Registry

FAMILIES: Registry[FamilyReader] = Registry(
    "Hugging Face family",
    "uwaga.hugging_face_families",
    {
        "bart": "uwaga.checkpoints.formats.huggingface.bart:read_bart",
        "bert": "uwaga.checkpoints.formats.huggingface.bert:read_bert",
        "gemma2": "uwaga.checkpoints.formats.huggingface.llama:read_decoder",
        "gemma3": "uwaga.checkpoints.formats.huggingface.llama:read_gemma3",
        "gemma3_text": "uwaga.checkpoints.formats.huggingface.llama:read_decoder",
        "gpt2": "uwaga.checkpoints.formats.huggingface.gpt2:read_gpt2",
        "hunyuan_v1_dense": "uwaga.checkpoints.formats.huggingface.llama:read_decoder",
        "llama": "uwaga.checkpoints.formats.huggingface.llama:read_decoder",
        "m2m_100": "uwaga.checkpoints.formats.huggingface.bart:read_m2m100",
        "marian": "uwaga.checkpoints.formats.huggingface.marian:read_marian",
        "mbart": "uwaga.checkpoints.formats.huggingface.bart:read_mbart",
        "mistral": "uwaga.checkpoints.formats.huggingface.llama:read_decoder",
        "mt5": "uwaga.checkpoints.formats.huggingface.t5:read_t5",
        "pegasus": "uwaga.checkpoints.formats.huggingface.marian:read_pegasus",
        "prophetnet": "uwaga.checkpoints.formats.huggingface.prophetnet:read_prophetnet",
        "qwen2": "uwaga.checkpoints.formats.huggingface.llama:read_decoder",
        "qwen3": "uwaga.checkpoints.formats.huggingface.llama:read_decoder",
        "t5": "uwaga.checkpoints.formats.huggingface.t5:read_t5",
    },
)
"""Readers by the value of ``model_type``."""


def read_folder(path: Path, memory: Memory = "fast") -> Checkpoint:
    """Read a Hugging Face folder of any supported family.

    Args:
        path: path of the folder.
        memory: ``none`` to read no weights; see :class:`uwaga.checkpoints.registry.Format`.
    """
    config = read_mapping(path / CONFIG)
    return HuggingFaceFolder(path, config, memory != "none").checkpoint(model_family(path, config))


def model_family(path: Path, config: dict[str, object]) -> FamilyReader:
    """Return the reader of the family that is named in a folder's ``config.json``."""
    name = config.get("model_type")
    if isinstance(name, str) and name in FAMILIES:
        return FAMILIES[name]
    raise ModelError(
        f"{path / CONFIG}: the family {quoted(name)} is not supported; uwaga supports "
        f"{', '.join(sorted(FAMILIES))}"
    )
