"""Model folders in Hugging Face's format: settings, weights and tokenisers of the families we know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from uwaga.checkpoints.files.torch_files import read_tensors
from uwaga.checkpoints.huggingface.bart import bart
from uwaga.checkpoints.huggingface.bert import bert
from uwaga.checkpoints.huggingface.config import DECODER, read_mapping, search_options
from uwaga.checkpoints.huggingface.gpt2 import gpt2
from uwaga.checkpoints.huggingface.m2m100 import m2m100
from uwaga.checkpoints.huggingface.marian import marian
from uwaga.checkpoints.huggingface.mbart import mbart
from uwaga.checkpoints.huggingface.pegasus import pegasus
from uwaga.checkpoints.huggingface.recipe import Family, Recipe
from uwaga.checkpoints.huggingface.t5 import t5
from uwaga.checkpoints.languages import in_languages
from uwaga.checkpoints.skip_init import SkipInit
from uwaga.checkpoints.uwaga.schema import CONFIG, Dtype
from uwaga.checkpoints.uwaga.weights import DTYPES
from uwaga.checkpoints.weight_map import fill
from uwaga.decoding import SearchOptions
from uwaga.errors import ModelError
from uwaga.models.base import Seq2Seq
from uwaga.models.masked import MaskedEncoder
from uwaga.text.framed import FramedTokeniser
from uwaga.text.subwords import Subwords

FAMILIES: Mapping[str, Family] = {
    "bart": bart,
    "m2m_100": m2m100,
    "marian": marian,
    "mbart": mbart,
    "mt5": t5,
    "pegasus": pegasus,
    "t5": t5,
}
"""Encoder–decoders, by ``model_type``."""
DECODERS: Mapping[str, Family] = {"gpt2": gpt2}
"""What continues texts."""
ENCODERS: Mapping[str, Family] = {"bert": bert}
"""What fills gaps in texts."""
KINDS = (
    (FAMILIES, "an encoder–decoder", "uwaga.Translator and `uwaga translate`"),
    (DECODERS, *DECODER),
    (ENCODERS, "an encoder-only model", "uwaga.MaskFiller and `uwaga fill`"),
)
"""Each kind of model, and what runs it."""


@dataclass(frozen=True)
class Pretrained:
    """A pretrained model with all that is needed to translate; ``options`` are its decoding defaults."""

    model: Seq2Seq
    source: Subwords
    target: Subwords
    options: SearchOptions
    languages: tuple[str, str]


@dataclass(frozen=True)
class PretrainedEncoder:
    """A pretrained encoder with its tokeniser."""

    model: MaskedEncoder
    tokeniser: FramedTokeniser


def load_pretrained(
    folder: Path,
    device: str = "cpu",
    dtype: Dtype = "float32",
    source_language: str | None = None,
    target_language: str | None = None,
) -> Pretrained:
    """Load an encoder–decoder from a folder in Hugging Face's format.

    Args:
        folder: the folder.
        device: ``cpu``, ``cuda`` or ``cuda:N``.
        dtype: number format to compute in.
        source_language: code of the language to translate from, where the model knows several.
        target_language: code of the language to translate to.

    Raises:
        SettingsError: the model lacks the language, or needs one that nobody has stated.
        ModelError: an unknown family, a feature that uwaga lacks, a missing, damaged or unsafe file, a
            weight that is missing, unknown or of another shape, a vocabulary of another size.
    """
    languages = (source_language, target_language)
    recipe, model, options = _loaded(folder, FAMILIES, device, dtype, languages)
    assert isinstance(model, Seq2Seq)
    return Pretrained(model, recipe.source, recipe.target, options, recipe.languages)


def load_decoder(folder: Path, device: str = "cpu", dtype: Dtype = "float32") -> Pretrained:
    """Load a decoder-only model, as :func:`load_pretrained` loads an encoder–decoder.

    Raises:
        ModelError: as there.
    """
    recipe, model, options = _loaded(folder, DECODERS, device, dtype)
    assert isinstance(model, Seq2Seq)
    return Pretrained(model, recipe.source, recipe.target, options, recipe.languages)


def load_encoder(folder: Path, device: str = "cpu", dtype: Dtype = "float32") -> PretrainedEncoder:
    """Load an encoder-only model, as :func:`load_pretrained` loads an encoder–decoder.

    Raises:
        ModelError: as there.
    """
    recipe, model, _ = _loaded(folder, ENCODERS, device, dtype)
    assert isinstance(model, MaskedEncoder)
    assert isinstance(recipe.source, FramedTokeniser)
    return PretrainedEncoder(model, recipe.source)


def _loaded(
    folder: Path,
    families: Mapping[str, Family],
    device: str,
    dtype: Dtype,
    languages: tuple[str | None, str | None] = (None, None),
) -> tuple[Recipe, nn.Module, SearchOptions]:
    config = read_mapping(folder / CONFIG)
    name = config.get("model_type")
    if not isinstance(name, str) or name not in families:
        raise ModelError(f"{folder / CONFIG}: {_misplaced(name)}")
    recipe = families[name](folder, config)
    options = search_options(folder, config, recipe.unstated)
    recipe, options = in_languages(recipe, options, config, *languages, str(folder))
    stored = recipe.prepare(read_tensors(folder))
    with SkipInit():
        model = recipe.build(recipe, stored)
    fill(model, recipe.table(model), stored)
    model.eval()
    try:
        model.to(device=device, dtype=DTYPES[dtype])
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"{folder}: cannot be put on device {device!r}: {error}") from None
    return recipe, model, options


def _misplaced(name: object) -> str:
    """Why a folder of this ``model_type`` cannot be loaded here, and where it can be."""
    for families, kind, runner in KINDS:
        if name in families:
            return f"the family {name!r} is {kind}, which {runner} run"
    known = sorted({family for families, _, _ in KINDS for family in families})
    return f"the family {name!r} is unknown; uwaga runs {', '.join(known)}"
