"""The families of Hugging Face's folders that we know: one file each, and one line here."""

from __future__ import annotations

from pathlib import Path

from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.checkpoints.files.json_file import read_mapping
from uwaga.checkpoints.formats.huggingface.bart import BART
from uwaga.checkpoints.formats.huggingface.bert import BERT
from uwaga.checkpoints.formats.huggingface.folder import Family, HuggingFaceFolder
from uwaga.checkpoints.formats.huggingface.gpt2 import GPT2
from uwaga.checkpoints.formats.huggingface.m2m100 import M2M100
from uwaga.checkpoints.formats.huggingface.marian import MARIAN
from uwaga.checkpoints.formats.huggingface.mbart import MBART
from uwaga.checkpoints.formats.huggingface.pegasus import PEGASUS
from uwaga.checkpoints.formats.huggingface.prophetnet import PROPHETNET
from uwaga.checkpoints.formats.huggingface.t5 import T5
from uwaga.checkpoints.formats.uwaga.names import CONFIG
from uwaga.errors import ModelError, shown

FAMILIES: dict[str, Family] = {
    "bart": BART,
    "bert": BERT,
    "gpt2": GPT2,
    "m2m_100": M2M100,
    "marian": MARIAN,
    "mbart": MBART,
    "mt5": T5,
    "pegasus": PEGASUS,
    "prophetnet": PROPHETNET,
    "t5": T5,
}
"""By ``model_type``."""


def read_folder(path: Path) -> Checkpoint:
    """Read a folder of any family.

    Raises:
        ModelError: an unknown family, a feature that uwaga lacks, a missing, damaged or unsafe file, a
            weight that is missing, unknown or of another shape, a vocabulary of another size.
        MissingExtraError: a file that only torch reads, or a tokeniser of a library, which is not installed.
    """
    config = read_mapping(path / CONFIG)
    return HuggingFaceFolder(path, config).checkpoint(family_of(path, config).read)


def family_of(path: Path, config: dict[str, object]) -> Family:
    """The family that a folder's ``config.json`` names.

    Raises:
        ModelError: it is none that we know; lists those that are.
    """
    name = config.get("model_type")
    if isinstance(name, str) and name in FAMILIES:
        return FAMILIES[name]
    raise ModelError(
        f"{path / CONFIG}: the family {shown(name)} is unknown; uwaga runs {', '.join(sorted(FAMILIES))}"
    )
