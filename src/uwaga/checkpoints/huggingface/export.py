"""A uwaga Transformer as a Hugging Face folder: Marian's where norms stand behind the blocks, Pegasus' where
they stand before.

The two are one layout with one difference, the place of the norms, and no weights of the one compute the
other. Both have sinusoidal positions, and both are written with Marian's tokeniser files. ``transformers``
loads them as ``MarianMTModel`` and ``PegasusForConditionalGeneration`` with ``MarianTokenizer``, and
CTranslate2's converter takes them too.

CTranslate2 starts Marian's decoder from a zero embedding, whatever the start token's is. Where ours is not
zero it moves into the first row of the decoder's position table, which only ever meets the start token: the
sum, and so everything behind it, is the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import safetensors.torch
import torch
from torch import Tensor

from uwaga.checkpoints.files.atomic import write_folder
from uwaga.checkpoints.huggingface import seq2seq_layout as fairseq
from uwaga.checkpoints.huggingface.config import GENERATION
from uwaga.checkpoints.huggingface.deinterleave import deinterleave
from uwaga.checkpoints.skip_init import SkipInit
from uwaga.checkpoints.uwaga.schema import CONFIG, SOURCE, TARGET, WEIGHTS
from uwaga.contracts import Symbols
from uwaga.decoding import SearchOptions, from_settings, to_generation_config
from uwaga.errors import ModelError, SettingsError
from uwaga.models.transformer import Transformer
from uwaga.nn.positions import sinusoids
from uwaga.settings import DecodingSettings, TransformerSettings
from uwaga.text.marian import END, PAD, UNKNOWN, MarianTokeniser
from uwaga.text.subwords import Subwords
from uwaga.text.tokeniser import Tokeniser

Format = Literal["marian", "pegasus"]
NORMS = {"marian": "post", "pegasus": "pre"}
CLASSES = {"marian": "MarianMTModel", "pegasus": "PegasusForConditionalGeneration"}
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu_tanh": "gelu_new", "silu": "swish"}
VOCABULARY, TARGET_VOCABULARY, TOKENISER = "vocab.json", "target_vocab.json", "tokenizer_config.json"
EPSILON = 1e-5
"""Of both formats' norms; neither can say another."""
NEVER = -1e4
"""A logit bias that leaves a token probability exactly 0 in float32, and is a number in 16 bits too."""


@dataclass(frozen=True)
class Side:
    """What ``.spm`` and vocabulary file of one side hold; ``pieces`` stand in the order of their ids."""

    model: bytes
    pieces: tuple[str, ...]


def write_hugging_face(
    folder: Path,
    to: Format,
    model: object,
    source: Subwords,
    target: Subwords,
    decoding: DecodingSettings | SearchOptions,
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
        languages: codes of source and target.

    Returns:
        What uwaga does with texts and a program that loads the folder does not, a sentence each.

    Raises:
        ModelError: the model has a feature that the format lacks, named in the message; or the folder
            exists or cannot be written. Nothing is written then.
        SettingsError: the format cannot say how the model decodes.
    """
    if to not in get_args(Format):
        raise SettingsError(f"there is no format {to!r}; there are: {', '.join(get_args(Format))}")
    if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise ModelError(f"{folder}: exists and is not empty, so it is not overwritten; give another folder")
    if not isinstance(model, Transformer):
        raise ModelError(
            f"a model of the kind {type(model).__name__} cannot be written as {to}: its weights are not an "
            "encoder-decoder Transformer's"
        )
    _refuse(model, to, source, target)
    options = from_settings(decoding)[0] if isinstance(decoding, DecodingSettings) else decoding
    options = replace(options, nbest=1)
    sides = (_side(source), _side(target))
    written = _marian(model, sides) if to == "marian" else _pegasus(model, sides)
    separate = written.sides[0].pieces != written.sides[1].pieces
    generation = to_generation_config(options, written.symbols, model.max_target, written.unused)
    files = {
        CONFIG: _json(_config(model, to, written, generation)),
        GENERATION: _json(generation),
        SOURCE: written.sides[0].model,
        TARGET: written.sides[1].model,
        VOCABULARY: _json(_numbered(written.sides[0])),
        TOKENISER: _json(_tokeniser_config(model, languages, separate)),
        WEIGHTS: _weight_bytes(model, to, written),
    }
    if separate:
        files[TARGET_VOCABULARY] = _json(_numbered(written.sides[1]))
    write_folder(folder, files)
    return _differences(model, source, decoding, options, to, separate)


@dataclass(frozen=True)
class Written:
    """A model as it will stand in the folder, by uwaga's names of weights.

    ``unused``: tokens that are never to be produced, although they have a row of the output layer.
    """

    weights: dict[str, Tensor]
    sides: tuple[Side, Side]
    symbols: Symbols
    unused: tuple[int, ...]


def _refuse(model: Transformer, to: Format, source: Subwords, target: Subwords) -> None:
    """Name what the format has no place for."""
    settings = model.settings
    if settings.norm != NORMS[to]:
        other = "pegasus" if to == "marian" else "marian"
        places = {"pre": "before", "post": "behind"}
        raise ModelError(
            f"the model's norms stand {places[settings.norm]} its blocks and {to}'s {places[NORMS[to]]} "
            f"them; no weights of {to} compute the same. `--to {other}` writes it: the same layout, with "
            f"norms {places[settings.norm]}, which transformers and CTranslate2 load as well"
        )
    wanted: dict[str, tuple[object, ...]] = {
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
    if settings.tie == "all" and _side(source).pieces != _side(target).pieces:
        raise ModelError(f"{to}: one embedding for both sides, but their vocabularies differ")


def _side(tokeniser: Subwords) -> Side:
    if isinstance(tokeniser, Tokeniser):
        return Side(tokeniser.model_bytes, tuple(tokeniser.pieces(range(tokeniser.size))))
    if isinstance(tokeniser, MarianTokeniser):
        model, ids = tokeniser.files
        return Side(model, tuple(sorted(ids, key=ids.__getitem__)))
    raise ModelError(
        f"tokenisers of the kind {type(tokeniser).__name__} cannot be written as Marian's, which are "
        "SentencePiece models with a vocabulary"
    )


def _named(side: Side, size: int, named: dict[int, str]) -> Side:
    """The side with ``size`` pieces, of which these ids have these names and no others do."""
    pieces = [*side.pieces, *(f"<unused{number}>" for number in range(len(side.pieces), size))]
    taken = set(named.values())
    for number, piece in enumerate(pieces):
        if piece in taken and named.get(number) != piece:
            pieces[number] = f"<unused{number}>"
    for number, piece in named.items():
        pieces[number] = piece
    return Side(side.model, tuple(pieces))


def _pegasus(model: Transformer, sides: tuple[Side, Side]) -> Written:
    """Every token keeps its row; the start symbol is what that format and CTranslate2 call padding."""
    symbols = model.symbols
    if symbols.start == symbols.end:
        raise ModelError(
            "pegasus: the start symbol is padding there, but the model starts from its end symbol"
        )
    named = {symbols.start: PAD, symbols.end: END, symbols.unknown: UNKNOWN}
    both = [_named(side, len(side.pieces), named) for side in sides]
    unused = (symbols.start, symbols.pad)
    start = Symbols(start=symbols.start, end=symbols.end, pad=symbols.start, unknown=symbols.unknown)
    return Written(_weights(model), (both[0], both[1]), start, unused)


def _marian(model: Transformer, sides: tuple[Side, Side]) -> Written:
    """Padding, which is the start symbol too, is the last token, with a zero embedding."""
    symbols, weights = model.symbols, _weights(model)
    size = max(len(side.pieces) for side in sides)
    pad = symbols.pad
    begins = weights["target_embedding.weight"][symbols.start].clone()  # (width,)
    if not (symbols.start == pad == size - 1 and not begins.any() and len(sides[0].pieces) == size):
        pad, size = size, size + 1
        _lengthen(weights, size)
        weights["target_positions.weight"][0] += begins * model.scale
    named = {pad: PAD, symbols.end: END, symbols.unknown: UNKNOWN}
    both = [_named(side, size, named) for side in sides]
    start = Symbols(start=pad, end=symbols.end, pad=pad, unknown=symbols.unknown)
    return Written(weights, (both[0], both[1]), start, tuple({symbols.start, symbols.pad, pad}))


def _lengthen(weights: dict[str, Tensor], size: int) -> None:
    """Give the vocabulary more tokens: zero embeddings, and probability 0."""
    tables = ("source_embedding.weight", "target_embedding.weight", "output_weight")
    made: dict[int, Tensor] = {}
    for name in tables:
        old = weights[name]
        longer = torch.zeros(size - old.shape[0], old.shape[1])
        weights[name] = made.setdefault(id(old), torch.cat([old, longer]))
    bias = weights["output_bias"]
    weights["output_bias"] = torch.cat([bias, torch.full((size - len(bias),), NEVER)])


def _weights(model: Transformer) -> dict[str, Tensor]:
    """All weights in float32, in Marian's order of columns, with both position tables and every bias."""
    settings = model.settings
    stored = dict(model.state_dict(keep_vars=True))
    if settings.positions == "sinusoidal":
        for side, positions in (("source", model.source_positions), ("target", model.target_positions)):
            stored[f"{side}_positions.weight"] = positions.get_buffer("table")
    else:
        for side in ("source", "target"):
            rows = stored[f"{side}_positions.weight"]
            stored[f"{side}_positions.weight"] = rows[settings.position_offset :]
    made: dict[int, Tensor] = {}
    turned = settings.positions == "sinusoidal" and settings.sinusoids == "interleaved"
    weights: dict[str, Tensor] = {}
    for name, tensor in stored.items():
        if id(tensor) not in made:
            plain = tensor.detach().to("cpu", torch.float32)
            made[id(tensor)] = deinterleave({name: plain})[name] if turned else plain
        weights[name] = made[id(tensor)]
    weights["target_positions.weight"] = weights["target_positions.weight"].clone()
    weights.setdefault("output_bias", torch.zeros(model.vocabulary))
    return weights


def _target_settings(model: Transformer) -> TransformerSettings:
    """What the folder says the model is."""
    wanted = {
        "positions": "learned",
        "position_offset": 0,
        "attention_bias": True,
        "feed_forward_bias": True,
        "output_bias": True,
    }
    return model.settings.model_copy(update=wanted)


def _weight_bytes(model: Transformer, to: Format, written: Written) -> bytes:
    """The weights under the format's names, those of :func:`fairseq.table` read the other way round."""
    settings = _target_settings(model)
    sizes = [len(side.pieces) for side in written.sides]
    with torch.device("meta"), SkipInit():
        skeleton = Transformer(settings, model.symbols, sizes[0], sizes[1])
    shared = settings.tie == "all"
    table = fairseq.table(skeleton, shared)
    stored: dict[str, Tensor] = {}
    for name, shape in ((name, weight.shape) for name, weight in skeleton.state_dict().items()):
        weight = written.weights.get(name)
        if weight is None:
            assert name.endswith(".bias"), name
            weight = torch.zeros(shape)
        if weight.shape != shape:
            raise ModelError(
                f"weight {name!r} has shape {tuple(weight.shape)} in the model and {tuple(shape)} by its "
                "settings and tokenisers; the model is not written"
            )
        if not bool(torch.isfinite(weight).all()):
            raise ModelError(f"weight {name!r} is not finite; the model is not written")
        names = table.weights[name]
        for stored_name, part in zip(names, weight.chunk(len(names)), strict=True):
            stored[stored_name] = part.contiguous()
    stored["final_logits_bias"] = stored["final_logits_bias"][None]  # (1, vocabulary)
    if to == "marian":
        _drop_usual_positions(stored, settings)
    return safetensors.torch.save(stored, metadata={"format": "pt"})


def _drop_usual_positions(stored: dict[str, Tensor], settings: TransformerSettings) -> None:
    """Marian's folders hold position tables only where they are not its sinusoids."""
    usual = sinusoids(settings.max_length, settings.width, "halves")
    if all(torch.equal(stored[name], usual) for name in fairseq.POSITIONS):
        for name in fairseq.POSITIONS:
            del stored[name]


def _config(model: Transformer, to: Format, written: Written, generation: dict[str, Any]) -> dict[str, Any]:
    settings, symbols = model.settings, written.symbols
    sizes = [len(side.pieces) for side in written.sides]
    values: dict[str, Any] = {
        "architectures": [CLASSES[to]],
        "model_type": to,
        "is_encoder_decoder": True,
        "vocab_size": sizes[0],
        "d_model": settings.width,
        "encoder_layers": settings.encoder_layers,
        "decoder_layers": settings.decoder_layers,
        "encoder_attention_heads": settings.heads,
        "decoder_attention_heads": settings.decoder_heads or settings.heads,
        "encoder_ffn_dim": settings.feed_forward,
        "decoder_ffn_dim": settings.decoder_feed_forward or settings.feed_forward,
        "max_position_embeddings": settings.max_length,
        "activation_function": ACTIVATIONS[settings.activation],
        "scale_embedding": settings.embedding_scale,
        "normalize_before": to == "pegasus",  # CTranslate2's converter reads these three
        "normalize_embedding": False,
        "add_final_layer_norm": to == "pegasus",
        "static_position_embeddings": True,
        "tie_word_embeddings": settings.tie != "none",
        "decoder_start_token_id": symbols.start,
        "bos_token_id": None,
        "eos_token_id": symbols.end,
        "pad_token_id": symbols.pad,
        "forced_eos_token_id": generation["forced_eos_token_id"],
        "dropout": settings.dropout,
        "attention_dropout": settings.attention_dropout,
        "activation_dropout": settings.activation_dropout,
        "use_cache": True,
        "dtype": "float32",
        "torch_dtype": "float32",
    }
    if to == "marian":
        values["decoder_vocab_size"] = sizes[1]
        values["share_encoder_decoder_embeddings"] = settings.tie == "all"
    return values


def _tokeniser_config(model: Transformer, languages: tuple[str, str], separate: bool) -> dict[str, Any]:
    return {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": languages[0],
        "target_lang": languages[1],
        "separate_vocabs": separate,
        "eos_token": END,
        "unk_token": UNKNOWN,
        "pad_token": PAD,
        "model_max_length": model.settings.max_length,
        "clean_up_tokenization_spaces": False,
    }


def _numbered(side: Side) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(side.pieces)}


def _json(values: dict[str, Any]) -> bytes:
    return (json.dumps(values, indent=2, ensure_ascii=False) + "\n").encode()


def _differences(
    model: Transformer,
    source: Subwords,
    decoding: DecodingSettings | SearchOptions,
    options: SearchOptions,
    to: Format,
    separate: bool,
) -> list[str]:
    found: list[str] = []
    if source.encode("a  b ") != source.encode("a b"):
        found.append("uwaga drops blanks at the ends of a line and takes a run of them for one space")
    if isinstance(decoding, DecodingSettings) and decoding.split_above:
        found.append(
            f"uwaga cuts a line of more than {decoding.split_above} tokens into sentences and translates "
            "each alone (split_above)"
        )
    if isinstance(decoding, DecodingSettings) and decoding.lower_capitals:
        found.append("uwaga lower-cases a sentence that is written in capitals (lower_capitals)")
    limit = min(options.max_length or model.settings.max_length, model.settings.max_length)
    if options.max_extra + options.max_ratio < limit:
        found.append(
            f"uwaga ends a target at {options.max_ratio:g} times the source's tokens + {options.max_extra}; "
            f"only the limit of {limit} tokens is written"
        )
    if to == "marian" and separate:
        found.append("CTranslate2's converter knows one vocabulary only and cannot take this folder's two")
    if (model.settings.decoder_heads or model.settings.heads) != model.settings.heads:
        found.append("CTranslate2's converter takes the encoder's number of heads for the decoder's too")
    return found


def formats() -> Sequence[str]:
    """What :func:`write_hugging_face` can write."""
    return get_args(Format)
