"""BART (Lewis et al. 2019), mBART (Liu et al. 2020; Tang et al. 2020) and M2M-100 (Fan et al. 2020)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from uwaga.checkpoints.formats.huggingface.folder import (
    GENERATION,
    ConfigReader,
    FamilyModel,
    HuggingFaceFolder,
)
from uwaga.checkpoints.storage.json_file import read_optional
from uwaga.checkpoints.storage.tensors import StoredTensor
from uwaga.checkpoints.weight_map import Table, View, is_constant
from uwaga.engine.layout import sinusoids
from uwaga.results.attention import Floats
from uwaga.settings import TransformerSettings
from uwaga.tokenizers.multilingual import read_m2m100_tokeniser, read_mbart_tokeniser, read_nllb_tokeniser
from uwaga.tokenizers.pretrained import Sides, TokenIds, read_bart_tokeniser

ENCODER = (("attention", "self_attn"), ("attention_norm", "self_attn_layer_norm"))
DECODER = (
    ("self_attention", "self_attn"),
    ("self_attention_norm", "self_attn_layer_norm"),
    ("cross_attention", "encoder_attn"),
    ("cross_attention_norm", "encoder_attn_layer_norm"),
)
BOTH = (
    ("feed_forward.inner", "fc1"),
    ("feed_forward.outer", "fc2"),
    ("feed_forward_norm", "final_layer_norm"),
)
ATTENTION = (("query", ("q_proj",)), ("key_value", ("k_proj", "v_proj")), ("output", ("out_proj",)))
KINDS = ("weight", "bias")
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")


def common_settings(reader: ConfigReader, activation: str = "gelu", scaled: bool = False) -> dict[str, Any]:
    """Return the settings that all these families store under the same keys.

    Args:
        reader: reads ``config.json``.
        activation: the default activation function.
        scaled: the default of ``scale_embedding``.
    """
    reader.refuse({"scale_attention": (False,), "layernorm_embedding": (True, False)})
    return {
        "encoder_layers": reader.whole("encoder_layers", least=1),
        "decoder_layers": reader.whole("decoder_layers", least=1),
        "width": reader.whole("d_model", least=1),
        "heads": reader.whole("encoder_attention_heads", least=1),
        "decoder_heads": reader.whole("decoder_attention_heads", least=1),
        "feed_forward": reader.whole("encoder_ffn_dim", least=1),
        "decoder_feed_forward": reader.whole("decoder_ffn_dim", least=1),
        "activation": reader.activation("activation_function", activation),
        "max_length": reader.whole("max_position_embeddings", least=1),
        "embedding_scale": reader.flag("scale_embedding", scaled),
        "output_bias": True,
        "dropout": 0.0,
    }


def with_own_positions(
    settings: TransformerSettings, tensors: Mapping[str, StoredTensor]
) -> TransformerSettings:
    """Return the settings, with learned positions if the stored ones are not the family's sinusoids.

    `transformers` and CTranslate2's converter use a stored table as it is, and so does this;
    :mod:`uwaga.checkpoints.formats.huggingface.export` writes such tables.
    """
    shape = (settings.max_length, settings.width)
    stored = [tensors[name] for name in POSITIONS if name in tensors and tensors[name].shape == shape]
    if all(is_constant(one, sinusoids(settings)) for one in stored):
        return settings
    return settings.model_copy(update={"positions": "learned"})


def table(settings: TransformerSettings, shared: bool) -> Table:
    """Return the table of a model's weights; ``shared``: one embedding serves both sides."""
    weights = dict(_blocks("encoder", settings.encoder_layers, (*ENCODER, *BOTH)))
    weights |= _blocks("decoder", settings.decoder_layers, (*DECODER, *BOTH))
    same = {"lm_head.weight": "model.decoder.embed_tokens.weight"}
    if shared:
        copies = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
        same = dict.fromkeys((*copies, "lm_head.weight"), "model.shared.weight")
    sides = (("source", "encoder"), ("target", "decoder"))
    for side, stack in sides:
        name = f"model.{stack}.embed_tokens.weight"
        weights[f"{side}_embedding.weight"] = (View(same.get(name, name)),)
        if settings.positions == "learned":
            weights[f"{side}_positions.weight"] = (View(f"model.{stack}.embed_positions.weight"),)
        for kind in KINDS:
            if settings.norm == "pre":
                weights[f"{stack}_norm.{kind}"] = (View(f"model.{stack}.layer_norm.{kind}"),)
            if settings.embedding_norm:
                weights[f"{side}_norm.{kind}"] = (View(f"model.{stack}.layernorm_embedding.{kind}"),)
    if settings.tie == "none":
        same.pop("lm_head.weight")
        weights["output_weight"] = (View("lm_head.weight"),)
    else:
        weights["output_weight"] = (View(same["lm_head.weight"]),)
    zero = {"output_bias"} if settings.output_bias else set()
    if settings.output_bias:
        weights["output_bias"] = (View("final_logits_bias"),)
    computed = ((settings.max_length, settings.width), partial(sinusoids, settings))
    constant = dict.fromkeys(POSITIONS, computed) if settings.positions == "sinusoidal" else {}
    return Table(weights, same, constant, ("model.encoder.version", "model.decoder.version"), zero)


def _blocks(
    stack: str, layers: int, parts: tuple[tuple[str, str], ...]
) -> Iterator[tuple[str, tuple[View, ...]]]:
    for layer in range(layers):
        for ours, theirs in parts:
            inner = ATTENTION if ours.endswith("attention") else (("", ("",)),)
            for name, stored in inner:
                for kind in KINDS:
                    full = ".".join(filter(None, (stack, str(layer), ours, name, kind)))
                    names = (
                        ".".join(filter(None, ("model", stack, "layers", str(layer), theirs, one, kind)))
                        for one in stored
                    )
                    yield full, tuple(map(View, names))


LONGEST = 256
"""Target tokens where the folder states no limit: the other library's 20 would cut most texts."""

BARE = ("shared.", "encoder.", "decoder.")
"""Names that begin so are those of a model without its output layer, such as ``BartModel``."""

SHARED = "model.shared.weight"
EMBEDDINGS = ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")


@dataclass(frozen=True)
class Traits:
    """The traits that distinguish one family from the others.

    Attributes:
        settings: of the Transformer, beside those that ``config.json`` states.
        unsupported: features of the family that uwaga lacks, with the values that switch them off.
        tokenisers: function that reads the tokenisers.
        activation: the activation function if ``config.json`` names none.
        scaled: the default of ``scale_embedding``.
        start: the default of ``decoder_start_token_id``.
        end, pad: default ids of the special tokens.
        forces_end: True if, by default, the last permitted token is forced to be the end symbol.
        own_positions: True if stored positions that are not sinusoids are read as learned ones.
        table: function that returns the names under which the weights are stored.
    """

    settings: Mapping[str, Any]
    unsupported: Mapping[str, tuple[object, ...]]
    tokenisers: Callable[[Path, TokenIds], Sides]
    activation: str = "gelu"
    scaled: bool = False
    start: int | None = None
    end: int = 2
    pad: int = 1
    forces_end: bool = True
    own_positions: bool = False
    table: Callable[[TransformerSettings, bool], Table] = field(default=table)


def read_seq2seq(traits: Traits, folder: HuggingFaceFolder) -> FamilyModel:
    """Interpret a folder of such a family."""
    reader = folder.reader
    reader.refuse(traits.unsupported)
    size = reader.whole("vocab_size", least=4)
    tied = reader.flag("tie_word_embeddings", True)
    values = common_settings(reader, traits.activation, traits.scaled)
    values |= {**traits.settings, "tie": "all" if tied else "none"}
    settings = folder.settings(TransformerSettings, values, size)
    end, pad = reader.whole("eos_token_id", traits.end), reader.whole("pad_token_id", traits.pad)
    begin = reader.stated_start()
    begin = traits.start if begin is None else begin
    given = {"eos_token_id": end, "pad_token_id": pad}
    reader.within(size, **given, **({} if begin is None else {"decoder_start_token_id": begin}))
    sides = traits.tokenisers(folder.path, TokenIds(size, begin, end, pad))
    tensors = whole_names(folder.tensors, tied)
    if traits.own_positions:
        settings = with_own_positions(settings, tensors)
    return FamilyModel(
        settings,
        (size, size),
        sides,
        traits.table(settings, tied),
        tensors,
        unstated=_unstated(traits, reader, end),
    )


def whole_names(stored: Mapping[str, StoredTensor], shared: bool) -> dict[str, StoredTensor]:
    """Return the tensors under the names of the full model; ``shared``: one embedding serves both sides.

    Embeddings that are not shared may still be stored only once.
    """
    values = {f"model.{name}" if name.startswith(BARE) else name: one for name, one in stored.items()}
    if not shared and SHARED in values:
        once = values.pop(SHARED)
        for name in EMBEDDINGS:
            values.setdefault(name, once)
    return values


def _unstated(traits: Traits, reader: ConfigReader, end: int) -> dict[str, Any]:
    """Return the generation settings for which the folder relies on defaults of `transformers`."""
    found: dict[str, Any] = {"max_length": LONGEST + 1}
    if (reader.path.parent / GENERATION).exists():
        return found
    if traits.forces_end:
        found["forced_eos_token_id"] = end
    if reader.flag("force_bos_token_to_be_generated", False):  # until 2021, for forced_bos_token_id
        found["forced_bos_token_id"] = reader.whole("bos_token_id", 0)
    return found


OFFSET = 2
"""Rows of the position table that no token uses."""

BART_TRAITS = Traits(
    settings={"norm": "post", "positions": "learned", "position_offset": OFFSET, "embedding_norm": True},
    unsupported={
        "normalize_before": (False,),
        "normalize_embedding": (True,),
        "add_final_layer_norm": (False,),
        "add_bias_logits": (False,),
        "static_position_embeddings": (False,),
    },
    tokenisers=read_bart_tokeniser,
    start=2,
)


def read_bart(folder: HuggingFaceFolder) -> FamilyModel:
    """Interpret a BART folder; see :data:`uwaga.checkpoints.formats.huggingface.folder.FamilyReader`."""
    return read_seq2seq(BART_TRAITS, folder)


MBART_TRAITS = Traits(
    settings={"norm": "pre", "positions": "learned", "position_offset": OFFSET, "embedding_norm": True},
    unsupported={
        "normalize_before": (True,),
        "normalize_embedding": (True,),
        "add_final_layer_norm": (True,),
        "add_bias_logits": (False,),
        "static_position_embeddings": (False,),
    },
    tokenisers=read_mbart_tokeniser,
)


def read_mbart(folder: HuggingFaceFolder) -> FamilyModel:
    """Interpret an mBART folder; see :data:`uwaga.checkpoints.formats.huggingface.folder.FamilyReader`.

    With 25 languages, decoding starts from the target language's token; with 50, from the end symbol, and
    the language's token is forced first.
    """
    return read_seq2seq(MBART_TRAITS, folder)


M2M100_START, M2M100_PAD = 2, 1
SPARE = 2
"""Rows that a stored position table has beyond the model's length."""


def read_m2m100(folder: HuggingFaceFolder) -> FamilyModel:
    """Interpret a folder of either; see :data:`uwaga.checkpoints.formats.huggingface.folder.FamilyReader`.

    Positions start after the padding symbol's id: the first token has position ``pad + 1``.
    """
    traits = Traits(
        settings={
            "norm": "pre",
            "positions": "sinusoidal",
            "sinusoids": "tensor2tensor",
            "position_offset": folder.reader.whole("pad_token_id", M2M100_PAD) + 1,
            "output_bias": False,
        },
        unsupported={},
        tokenisers=_tokenisers(folder),
        activation="relu",
        scaled=True,
        start=M2M100_START,
        pad=M2M100_PAD,
        forces_end=False,
        table=m2m100_table,
    )
    return read_seq2seq(traits, folder)


def is_nllb(folder: HuggingFaceFolder) -> bool:
    """Return True if the tokeniser is NLLB's, by its stated class or else by the files of the folder."""
    for values in (read_optional(folder.path / "tokenizer_config.json"), folder.config):
        name = str(values.get("tokenizer_class") or "").lower()
        if name.startswith(("nllb", "m2m100")):
            return name.startswith("nllb")
    return not (folder.path / "vocab.json").exists()


def m2m100_table(settings: TransformerSettings, shared: bool) -> Table:
    """Return the table of weights; early files hold the positions too, under another name."""

    def rows() -> Floats:
        whole = {"max_length": settings.max_length + SPARE, "position_offset": 0}
        found = sinusoids(settings.model_copy(update=whole))
        found[settings.position_offset - 1] = 0.0  # the row of the padding symbol
        return found

    shape = (settings.max_length + SPARE, settings.width)
    constant = {f"{name}s": (shape, rows) for name in POSITIONS}
    return replace(table(settings, shared), constant=constant)


def _tokenisers(folder: HuggingFaceFolder) -> Callable[[Path, TokenIds], Sides]:
    return read_nllb_tokeniser if is_nllb(folder) else read_m2m100_tokeniser
