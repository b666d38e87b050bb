"""Model folders in Hugging Face's format: settings, weights and tokenisers of the families we know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from uwaga.checkpoints.foreign import read_mapping, search_options
from uwaga.checkpoints.initialisation import Undrawn
from uwaga.checkpoints.marian import marian
from uwaga.checkpoints.recipe import Family
from uwaga.checkpoints.schema import CONFIG, FORMAT, Dtype
from uwaga.checkpoints.table import fill
from uwaga.checkpoints.tensors import read_tensors
from uwaga.checkpoints.weights import DTYPES
from uwaga.decoding import SearchOptions
from uwaga.errors import ModelError
from uwaga.models.base import Seq2Seq
from uwaga.models.transformer import Transformer
from uwaga.text.subwords import Subwords

FAMILIES: Mapping[str, Family] = {"marian": marian}


@dataclass(frozen=True)
class Pretrained:
    """A pretrained model with all that is needed to translate; ``options`` are its decoding defaults."""

    model: Seq2Seq
    source: Subwords
    target: Subwords
    options: SearchOptions
    languages: tuple[str, str]


def is_pretrained(folder: Path) -> bool:
    """Whether the folder's ``config.json`` is another library's."""
    try:
        values = read_mapping(folder / CONFIG)
    except ModelError:
        return False
    return values.get("format") != FORMAT and isinstance(values.get("model_type"), str)


def load_pretrained(folder: Path, device: str = "cpu", dtype: Dtype = "float32") -> Pretrained:
    """Load a folder in Hugging Face's format.

    Args:
        folder: the folder.
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        dtype: number format to compute in.

    Raises:
        ModelError: an unknown family, a feature that uwaga lacks, a missing, damaged or unsafe file, a
            weight that is missing, unknown or of another shape, a vocabulary of another size.
    """
    config = read_mapping(folder / CONFIG)
    name = config.get("model_type")
    if not isinstance(name, str) or name not in FAMILIES:
        raise ModelError(
            f"{folder / CONFIG}: the family {name!r} is unknown; uwaga runs {', '.join(sorted(FAMILIES))}"
        )
    recipe = FAMILIES[name](folder, config)
    options = search_options(folder, config)
    with Undrawn():
        model = Transformer(
            recipe.settings, recipe.target.symbols, recipe.source_vocabulary, recipe.target_vocabulary
        )
    fill(model, recipe.table(model), read_tensors(folder))
    model.eval()
    try:
        model.to(device=device, dtype=DTYPES[dtype])
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"{folder}: cannot be put on device {device!r}: {error}") from None
    return Pretrained(model, recipe.source, recipe.target, options, recipe.languages)
