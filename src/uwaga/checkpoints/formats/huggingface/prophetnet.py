"""ProphetNet (Qi et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator

from uwaga.checkpoints.formats.huggingface.folder import FamilyModel, HuggingFaceFolder
from uwaga.checkpoints.weight_map import Table, View
from uwaga.settings import ProphetNetSettings
from uwaga.tokenizers.pretrained import TokenIds, read_prophetnet_tokeniser

UNSUPPORTED = {"add_cross_attention": (True,), "tie_word_embeddings": (True,), "is_decoder": (False,)}
MAX_TARGET_TOKENS = 256
"""Default maximum number of target tokens; the 20 of ``transformers`` would truncate most texts."""

PREFIX = "prophetnet."
EMBEDDING = "word_embeddings.weight"
EMBEDDING_COPIES = (f"encoder.{EMBEDDING}", f"decoder.{EMBEDDING}", "lm_head.weight")
STREAM_VECTORS = "decoder.ngram_embeddings.weight"
PARAMETERS = ("weight", "bias")

ATTENTION_MATRICES = (
    ("query", ("query_proj",)),
    ("key_value", ("key_proj", "value_proj")),
    ("output", ("out_proj",)),
)
FEED_FORWARD_MATRICES = (("inner", ("intermediate",)), ("outer", ("output",)))
RELATIVE_BIAS = (("relative", ("relative_pos_embeddings",)),)
ONLY_MATRIX = (("", ("",)),)
ENCODER_PARTS = (
    ("attention", "self_attn", ATTENTION_MATRICES),
    ("attention_norm", "self_attn_layer_norm", ONLY_MATRIX),
    ("feed_forward", "feed_forward", FEED_FORWARD_MATRICES),
    ("feed_forward_norm", "feed_forward_layer_norm", ONLY_MATRIX),
)
DECODER_PARTS = (
    ("self_attention", "self_attn", ATTENTION_MATRICES + RELATIVE_BIAS),
    ("self_attention_norm", "self_attn_layer_norm", ONLY_MATRIX),
    ("cross_attention", "cross_attn", ATTENTION_MATRICES),
    ("cross_attention_norm", "cross_attn_layer_norm", ONLY_MATRIX),
    *ENCODER_PARTS[2:],
)
LayerParts = tuple[tuple[str, str, tuple[tuple[str, tuple[str, ...]], ...]], ...]


def read_prophetnet(folder: HuggingFaceFolder) -> FamilyModel:
    """Interpret a ProphetNet folder; see :data:`.FamilyReader`."""
    reader = folder.reader
    reader.refuse(UNSUPPORTED)
    size = reader.integer("vocab_size", 30522, minimum=4)
    pad, end = reader.integer("pad_token_id", 0), reader.integer("eos_token_id", 2)
    # Positions start after the padding token's id; those of the predicting streams are greater by one.
    positions = reader.integer("max_position_embeddings", 512, minimum=pad + 3)
    values = {
        "encoder_layers": reader.integer("num_encoder_layers", 12, minimum=1),
        "decoder_layers": reader.integer("num_decoder_layers", 12, minimum=1),
        "width": reader.integer("hidden_size", 1024, minimum=1),
        "heads": reader.integer("num_encoder_attention_heads", 16, minimum=1),
        "decoder_heads": reader.integer("num_decoder_attention_heads", 16, minimum=1),
        "feed_forward": reader.integer("encoder_ffn_dim", 4096, minimum=1),
        "decoder_feed_forward": reader.integer("decoder_ffn_dim", 4096, minimum=1),
        "activation": reader.activation("activation_function", "gelu"),
        "ngram": reader.integer("ngram", 2, minimum=1),
        "relative_buckets": reader.integer("num_buckets", 32, minimum=4),
        "relative_distance": reader.integer("relative_max_distance", 128, minimum=4),
        "max_length": positions - pad - 2,
        "position_offset": pad + 1,
        "dropout": 0.0,
    }
    settings = folder.settings(ProphetNetSettings, values, size)
    start_token = reader.decoder_start_token()
    start = 0 if start_token is None else start_token
    reader.check_ids(size, decoder_start_token_id=start, eos_token_id=end, pad_token_id=pad)
    sides = read_prophetnet_tokeniser(folder.path, TokenIds(size, start, end, pad))
    tensors = {name.removeprefix(PREFIX): tensor for name, tensor in folder.tensors.items()}
    generation_defaults = {"max_length": MAX_TARGET_TOKENS + 1}
    return FamilyModel(
        settings, (size, size), sides, table(settings), tensors, generation_defaults=generation_defaults
    )


def table(settings: ProphetNetSettings) -> Table:
    """Return the table that maps weights to the tensors of a folder."""
    weights = dict(_blocks("encoder", settings.encoder_layers, ENCODER_PARTS))
    weights |= _blocks("decoder", settings.decoder_layers, DECODER_PARTS)
    weights["embedding.weight"] = (View(EMBEDDING),)
    # The last stored initial vector belongs to the first stream; the others follow in order.
    order = (settings.ngram - 1, *range(settings.ngram - 1))
    weights["streams.weight"] = tuple(
        View(STREAM_VECTORS, False, index, index + 1, settings.ngram) for index in order
    )
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        weights[f"{side}_positions.weight"] = (View(f"{stack}.position_embeddings.weight"),)
        for kind in PARAMETERS:
            weights[f"{side}_norm.{kind}"] = (View(f"{stack}.embeddings_layer_norm.{kind}"),)
    return Table(weights, dict.fromkeys(EMBEDDING_COPIES, EMBEDDING))


def _blocks(stack: str, layers: int, parts: LayerParts) -> Iterator[tuple[str, tuple[View, ...]]]:
    for layer in range(layers):
        for part, stored_part, matrices in parts:
            for name, stored_matrices in matrices:
                for kind in PARAMETERS:
                    weight_name = ".".join(filter(None, (stack, str(layer), part, name, kind)))
                    names = (
                        ".".join(filter(None, (stack, "layers", str(layer), stored_part, stored_name, kind)))
                        for stored_name in stored_matrices
                    )
                    yield weight_name, tuple(map(View, names))
