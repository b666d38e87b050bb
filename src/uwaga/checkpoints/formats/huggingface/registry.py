"""The supported families of Hugging Face's folders and their readers."""

from __future__ import annotations

from pathlib import Path

from uwaga.checkpoints.checkpoint import Checkpoint, Memory
from uwaga.checkpoints.formats.huggingface.bart import read_bart, read_m2m100, read_mbart
from uwaga.checkpoints.formats.huggingface.bert import read_bert
from uwaga.checkpoints.formats.huggingface.folder import FamilyReader, HuggingFaceFolder
from uwaga.checkpoints.formats.huggingface.gpt2 import read_gpt2
from uwaga.checkpoints.formats.huggingface.llama import READERS
from uwaga.checkpoints.formats.huggingface.marian import read_marian, read_pegasus
from uwaga.checkpoints.formats.huggingface.prophetnet import read_prophetnet
from uwaga.checkpoints.formats.huggingface.t5 import read_t5
from uwaga.checkpoints.formats.uwaga.names import CONFIG
from uwaga.checkpoints.storage.json_file import read_mapping
from uwaga.errors import ModelError, quoted

FAMILIES: dict[str, FamilyReader] = {
    "bart": read_bart,
    "bert": read_bert,
    "gpt2": read_gpt2,
    "m2m_100": read_m2m100,
    "marian": read_marian,
    "mbart": read_mbart,
    "mt5": read_t5,
    "pegasus": read_pegasus,
    "prophetnet": read_prophetnet,
    "t5": read_t5,
    **READERS,
}
"""Readers by ``model_type``."""


def read_folder(path: Path, memory: Memory = "fast") -> Checkpoint:
    """Read a folder of any family.

    Args:
        path: the folder.
        memory: ``none`` opens no weights, see :class:`uwaga.checkpoints.registry.Format`.
    """
    config = read_mapping(path / CONFIG)
    return HuggingFaceFolder(path, config, memory != "none").checkpoint(family_of(path, config))


def family_of(path: Path, config: dict[str, object]) -> FamilyReader:
    """Return the reader of the family that a folder's ``config.json`` names."""
    name = config.get("model_type")
    if isinstance(name, str) and name in FAMILIES:
        return FAMILIES[name]
    raise ModelError(
        f"{path / CONFIG}: the family {quoted(name)} is unknown; uwaga runs {', '.join(sorted(FAMILIES))}"
    )
