"""ProphetNet (Qi et al. 2020)."""

from __future__ import annotations

from collections.abc import Iterator

from uwaga.checkpoints.formats.huggingface.folder import FamilyModel, HuggingFaceFolder
from uwaga.checkpoints.weight_map import Table, View
from uwaga.settings import ProphetNetSettings
from uwaga.tokenizers.pretrained import TokenIds, read_prophetnet_tokeniser

UNSUPPORTED = {"add_cross_attention": (True,), "tie_word_embeddings": (True,), "is_decoder": (False,)}
LONGEST = 256
"""Target tokens where the folder states no limit: the other library's 20 would cut most texts."""

MODEL = "prophetnet."
EMBEDDING = "word_embeddings.weight"
COPIES = (f"encoder.{EMBEDDING}", f"decoder.{EMBEDDING}", "lm_head.weight")
STREAMS = "decoder.ngram_embeddings.weight"
KINDS = ("weight", "bias")

ATTENTION = (("query", ("query_proj",)), ("key_value", ("key_proj", "value_proj")), ("output", ("out_proj",)))
FEED_FORWARD = (("inner", ("intermediate",)), ("outer", ("output",)))
RELATIVE = (("relative", ("relative_pos_embeddings",)),)
WHOLE = (("", ("",)),)
ENCODER = (
    ("attention", "self_attn", ATTENTION),
    ("attention_norm", "self_attn_layer_norm", WHOLE),
    ("feed_forward", "feed_forward", FEED_FORWARD),
    ("feed_forward_norm", "feed_forward_layer_norm", WHOLE),
)
DECODER = (
    ("self_attention", "self_attn", ATTENTION + RELATIVE),
    ("self_attention_norm", "self_attn_layer_norm", WHOLE),
    ("cross_attention", "cross_attn", ATTENTION),
    ("cross_attention_norm", "cross_attn_layer_norm", WHOLE),
    *ENCODER[2:],
)
Parts = tuple[tuple[str, str, tuple[tuple[str, tuple[str, ...]], ...]], ...]


def read_prophetnet(folder: HuggingFaceFolder) -> FamilyModel:
    """Read a ProphetNet folder; a :data:`~uwaga.checkpoints.formats.huggingface.folder.FamilyReader`."""
    reader = folder.reader
    reader.refuse(UNSUPPORTED)
    size = reader.whole("vocab_size", 30522, least=4)
    pad, end = reader.whole("pad_token_id", 0), reader.whole("eos_token_id", 2)
    # Positions start after the padding's id, and those of a predicting stream are greater by one.
    positions = reader.whole("max_position_embeddings", 512, least=pad + 3)
    values = {
        "encoder_layers": reader.whole("num_encoder_layers", 12, least=1),
        "decoder_layers": reader.whole("num_decoder_layers", 12, least=1),
        "width": reader.whole("hidden_size", 1024, least=1),
        "heads": reader.whole("num_encoder_attention_heads", 16, least=1),
        "decoder_heads": reader.whole("num_decoder_attention_heads", 16, least=1),
        "feed_forward": reader.whole("encoder_ffn_dim", 4096, least=1),
        "decoder_feed_forward": reader.whole("decoder_ffn_dim", 4096, least=1),
        "activation": reader.activation("activation_function", "gelu"),
        "ngram": reader.whole("ngram", 2, least=1),
        "relative_buckets": reader.whole("num_buckets", 32, least=4),
        "relative_distance": reader.whole("relative_max_distance", 128, least=4),
        "max_length": positions - pad - 2,
        "position_offset": pad + 1,
        "dropout": 0.0,
    }
    settings = folder.settings(ProphetNetSettings, values, size)
    stated = reader.stated_start()
    start = 0 if stated is None else stated
    reader.within(size, decoder_start_token_id=start, eos_token_id=end, pad_token_id=pad)
    sides = read_prophetnet_tokeniser(folder.path, TokenIds(size, start, end, pad))
    tensors = {name.removeprefix(MODEL): tensor for name, tensor in folder.tensors.items()}
    unstated = {"max_length": LONGEST + 1}
    return FamilyModel(settings, (size, size), sides, table(settings), tensors, unstated=unstated)


def table(settings: ProphetNetSettings) -> Table:
    """Return the table of weights."""
    weights = dict(_blocks("encoder", settings.encoder_layers, ENCODER))
    weights |= _blocks("decoder", settings.decoder_layers, DECODER)
    weights["embedding.weight"] = (View(EMBEDDING),)
    # The last stored initial vector is the first stream's; the others follow in order.
    order = (settings.ngram - 1, *range(settings.ngram - 1))
    weights["streams.weight"] = tuple(View(STREAMS, False, at, at + 1, settings.ngram) for at in order)
    for side, stack in (("source", "encoder"), ("target", "decoder")):
        weights[f"{side}_positions.weight"] = (View(f"{stack}.position_embeddings.weight"),)
        for kind in KINDS:
            weights[f"{side}_norm.{kind}"] = (View(f"{stack}.embeddings_layer_norm.{kind}"),)
    return Table(weights, dict.fromkeys(COPIES, EMBEDDING))


def _blocks(stack: str, layers: int, parts: Parts) -> Iterator[tuple[str, tuple[View, ...]]]:
    for layer in range(layers):
        for ours, theirs, inner in parts:
            for name, stored in inner:
                for kind in KINDS:
                    full = ".".join(filter(None, (stack, str(layer), ours, name, kind)))
                    places = (
                        ".".join(filter(None, (stack, "layers", str(layer), theirs, one, kind)))
                        for one in stored
                    )
                    yield full, tuple(map(View, places))
