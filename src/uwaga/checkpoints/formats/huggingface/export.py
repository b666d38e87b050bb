"""A uwaga Transformer as a Hugging Face folder: Marian's where norms stand behind the blocks, Pegasus' where
they stand before.

The two are one layout with one difference, the place of the norms, and no weights of the one compute the
other. Both have sinusoidal positions, and both are written with Marian's tokeniser files. ``transformers``
loads them as ``MarianMTModel`` and ``PegasusForConditionalGeneration`` with ``MarianTokenizer``, and
CTranslate2's converter takes them too.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from uwaga.checkpoints.formats.huggingface.config import GENERATION
from uwaga.checkpoints.formats.huggingface.export_config import (
    ExportFormat,
    model_config,
    tokeniser_config,
)
from uwaga.checkpoints.formats.huggingface.export_weights import (
    ExportedModel,
    as_marian,
    as_pegasus,
    exported_vocabulary,
    weight_bytes,
)
from uwaga.checkpoints.formats.uwaga.names import CONFIG, SOURCE, TARGET, WEIGHTS
from uwaga.errors import ModelError, SettingsError
from uwaga.files.atomic import write_folder
from uwaga.models.transformer import Transformer
from uwaga.search import SearchOptions, to_generation_config
from uwaga.settings import TransformerSettings
from uwaga.tokenizers.subwords import Subwords
from uwaga.tokenizers.text import TextOptions

NORMS = {"marian": "post", "pegasus": "pre"}
VOCABULARY, TARGET_VOCABULARY, TOKENISER = "vocab.json", "target_vocab.json", "tokenizer_config.json"
EPSILON = 1e-5
"""Of both formats' norms; neither can say another."""


def write_hugging_face(
    folder: Path,
    to: ExportFormat,
    model: object,
    source: Subwords,
    target: Subwords,
    decoding: SearchOptions,
    text: TextOptions,
    languages: tuple[str, str],
) -> list[str]:
    """Write a translation model as a Hugging Face folder, whole or not at all.

    Args:
        folder: the folder to make.
        to: ``marian`` or ``pegasus``.
        model: a :class:`Transformer`.
        source: tokeniser of the source side.
        target: tokeniser of the target side.
        decoding: how it translates unless told otherwise; goes into ``generation_config.json``.
        text: how it takes its texts, which the format cannot say.
        languages: codes of source and target.

    Returns:
        What uwaga does with texts and a program that loads the folder does not, a sentence each.

    Raises:
        ModelError: the model has a feature that the format lacks, named in the message; or the folder
            exists or cannot be written. Nothing is written then.
        SettingsError: the format cannot say how the model decodes.
    """
    transformer = _checked(folder, to, model)
    sides = (exported_vocabulary(source), exported_vocabulary(target))
    if transformer.settings.tie == "all" and sides[0].pieces != sides[1].pieces:
        raise ModelError(f"{to}: one embedding for both sides, but their vocabularies differ")
    options = replace(decoding, nbest=1)
    written = as_marian(transformer, sides) if to == "marian" else as_pegasus(transformer, sides)
    write_folder(folder, _files(to, transformer, written, options, languages))
    return _differences(transformer.settings, source, text, options, to, written.separate)


def _files(
    to: ExportFormat,
    model: Transformer,
    written: ExportedModel,
    options: SearchOptions,
    languages: tuple[str, str],
) -> dict[str, bytes]:
    """What stands in the folder, by file name."""
    source, target = written.sides
    generation = to_generation_config(options, written.symbols, model.max_target, written.unused)
    limit = model.settings.max_length
    files = {
        CONFIG: _json(model_config(to, model.settings, written.symbols, written.sizes, generation)),
        GENERATION: _json(generation),
        SOURCE: source.model,
        TARGET: target.model,
        VOCABULARY: _json(source.ids()),
        TOKENISER: _json(tokeniser_config(languages, limit, separate=written.separate)),
        WEIGHTS: weight_bytes(model, written, drop_sinusoids=to == "marian"),
    }
    if written.separate:
        files[TARGET_VOCABULARY] = _json(target.ids())
    return files


def _checked(folder: Path, to: ExportFormat, model: object) -> Transformer:
    """The model, if it can be written so."""
    if to not in get_args(ExportFormat):
        raise SettingsError(f"there is no format {to!r}; there are: {', '.join(get_args(ExportFormat))}")
    if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise ModelError(f"{folder}: exists and is not empty, so it is not overwritten; give another folder")
    if not isinstance(model, Transformer):
        raise ModelError(
            f"a model of the kind {type(model).__name__} cannot be written as {to}: its weights are not an "
            "encoder-decoder Transformer's"
        )
    _refuse(model.settings, to)
    return model


def _refuse(settings: TransformerSettings, to: ExportFormat) -> None:
    """Name what the format has no place for."""
    if settings.norm != NORMS[to]:
        other = "pegasus" if to == "marian" else "marian"
        places = {"pre": "before", "post": "behind"}
        raise ModelError(
            f"the model's norms stand {places[settings.norm]} its blocks and {to}'s {places[NORMS[to]]} "
            f"them; no weights of {to} compute the same. `--to {other}` writes it: the same layout, with "
            f"norms {places[settings.norm]}, which transformers and CTranslate2 load as well"
        )
    wanted: dict[str, tuple[object, ...]] = {
        "self_attention": ("attention",),
        "gated": (False,),
        "positions": ("sinusoidal", "learned"),
        "embedding_norm": (False,),
        "norm_kind": ("layer",),
        "norm_epsilon": (EPSILON,),
        "attention_scale": (True,),
        "output_scale": (False,),
        "head_width": (None, settings.width // settings.heads),
        "tie": ("none", "decoder", "all") if to == "marian" else ("all",),
    }
    for name, allowed in wanted.items():
        value = getattr(settings, name)
        if value not in allowed:
            raise ModelError(
                f"the model's setting {name} = {value!r} is a feature that {to} lacks (it has "
                f"{' or '.join(map(repr, allowed))}); its weights cannot be written so"
            )


def _json(values: dict[str, Any]) -> bytes:
    return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()


def _differences(
    settings: TransformerSettings,
    source: Subwords,
    text: TextOptions,
    options: SearchOptions,
    to: ExportFormat,
    separate: bool,
) -> list[str]:
    found: list[str] = []
    if source.encode("a  b ") != source.encode("a b"):
        found.append("uwaga drops blanks at the ends of a line and takes a run of them for one space")
    if text.split_above:
        found.append(
            f"uwaga cuts a line of more than {text.split_above} tokens into sentences and translates "
            "each alone (split_above)"
        )
    if text.lower_capitals:
        found.append("uwaga lower-cases a sentence that is written in capitals (lower_capitals)")
    limit = min(options.max_length or settings.max_length, settings.max_length)
    if options.max_extra + options.max_ratio < limit:
        found.append(
            f"uwaga ends a target at {options.max_ratio:g} times the source's tokens + {options.max_extra}; "
            f"only the limit of {limit} tokens is written"
        )
    if to == "marian" and separate:
        found.append("CTranslate2's converter knows one vocabulary only and cannot take this folder's two")
    if (settings.decoder_heads or settings.heads) != settings.heads:
        found.append("CTranslate2's converter takes the encoder's number of heads for the decoder's too")
    return found
