"""Random models of BART and related families with published settings, saved by ``transformers``."""

from dataclasses import dataclass, replace

import torch
import transformers
from numbered_tokens import read_numbers

SIZE = 61
CHANNEL = 2
LANGUAGES = range(SIZE - 4, SIZE)

SHAPE = {
    "vocab_size": SIZE, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 3,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 22, "decoder_ffn_dim": 26, "max_position_embeddings": 24,
    "d_model": 18, "encoder_layerdrop": 0.05, "decoder_layerdrop": 0.05, "init_std": 0.35,
}  # fmt: skip
FAIRSEQ = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
MBART = {"scale_embedding": True, "normalize_before": True, "normalize_embedding": True}
OLDER_SETTINGS = {"add_bias_logits": False, "static_position_embeddings": False, "output_past": True}


@dataclass(frozen=True)
class PublishedCheckpoint:
    """A published checkpoint: its classes, the settings of its ``config.json``, and its decoding settings.

    Random models repeat one token forever, or end at once. To vary the lengths of outputs, the end symbol
    has a large ``bias``, or its score rises with the position: ``gain`` times a channel of the sinusoidal
    positions, minus ``hold``.
    """

    model: type
    config: type
    settings: dict
    generation: dict
    bias: float = 5.0
    gain: float = 0.0
    hold: float = 0.0
    seed: int = 0


PUBLISHED = {
    "bart-large-cnn": PublishedCheckpoint(
        transformers.BartForConditionalGeneration,
        transformers.BartConfig,
        FAIRSEQ
        | OLDER_SETTINGS
        | {
            "activation_function": "gelu", "decoder_start_token_id": 2, "add_final_layer_norm": False,
            "normalize_before": False, "normalize_embedding": True, "scale_embedding": False,
            "force_bos_token_to_be_generated": True, "forced_eos_token_id": 2, "prefix": " ",
            "task_specific_params": {"summarization": {"num_beams": 4}},
        },
        {
            "num_beams": 4, "length_penalty": 2.0, "early_stopping": True, "no_repeat_ngram_size": 3,
            "min_length": 6, "max_length": 16, "forced_bos_token_id": 0, "forced_eos_token_id": 2,
        },
    ),
    "mbart-large-en-ro": PublishedCheckpoint(
        transformers.MBartForConditionalGeneration,
        transformers.MBartConfig,
        FAIRSEQ
        | OLDER_SETTINGS
        | MBART
        | {"add_final_layer_norm": True, "decoder_start_token_id": LANGUAGES[1]},
        {"num_beams": 5, "max_length": 20, "forced_eos_token_id": 2},
    ),
    "mbart-large-50-many-to-one-mmt": PublishedCheckpoint(
        transformers.MBartForConditionalGeneration,
        transformers.MBartConfig,
        FAIRSEQ
        | OLDER_SETTINGS
        | MBART
        | {"add_final_layer_norm": True, "activation_function": "relu", "decoder_start_token_id": 2},
        {
            "num_beams": 5, "max_length": 20, "early_stopping": True, "forced_bos_token_id": LANGUAGES[2],
            "forced_eos_token_id": 2,
        },
    ),
    "pegasus-xsum": PublishedCheckpoint(
        transformers.PegasusForConditionalGeneration,
        transformers.PegasusConfig,
        {
            "bos_token_id": 0, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0,
            "activation_function": "relu", "scale_embedding": True, "normalize_before": True,
            "normalize_embedding": False, "add_final_layer_norm": True, "add_bias_logits": False,
            "static_position_embeddings": True, "extra_pos_embeddings": 1,
            "force_bos_token_to_be_generated": False,
        },
        {"num_beams": 8, "length_penalty": 0.6, "max_length": 18, "forced_eos_token_id": 1},
        bias=0.0,
        gain=160.0,
        hold=4.0,
        seed=1,
    ),
    "m2m100_418M": PublishedCheckpoint(
        transformers.M2M100ForConditionalGeneration,
        transformers.M2M100Config,
        FAIRSEQ | {"activation_function": "relu", "scale_embedding": True, "decoder_start_token_id": 2},
        {"num_beams": 5, "max_length": 22, "early_stopping": True, "forced_bos_token_id": LANGUAGES[3]},
        gain=40.0,
        hold=8.0,
    ),
    "nllb-200-distilled-600M": PublishedCheckpoint(
        transformers.M2M100ForConditionalGeneration,
        transformers.M2M100Config,
        FAIRSEQ
        | {
            "activation_function": "relu", "scale_embedding": True, "decoder_start_token_id": 2,
            "tokenizer_class": "NllbTokenizer",
        },
        {"max_length": 22},
        gain=80.0,
        hold=8.0,
    ),
}  # fmt: skip


def make(folder, name, **changes):
    """Save a random model with the shape and settings of a published one."""
    published = PUBLISHED[name]
    torch.manual_seed(published.seed)
    config = published.config(**SHAPE | published.settings | changes)
    model = published.model(config).eval()
    with torch.no_grad():
        bias = getattr(model, "final_logits_bias", None)
        if bias is not None:
            bias.normal_(0.0, 1.0)
            bias[0, config.eos_token_id] = published.bias
        if published.gain:
            _raise_end_score(model, published)
    model.generation_config = transformers.GenerationConfig(
        **{name: published.settings.get(name) for name in ("bos_token_id", "pad_token_id", "eos_token_id")},
        decoder_start_token_id=config.decoder_start_token_id,
        **published.generation,
    )
    model.save_pretrained(folder)
    return model


def _raise_end_score(model, published, step=0.05):
    shared, decoder = model.get_input_embeddings().weight, model.get_decoder()
    shared[:, CHANNEL] = 0.0
    shared[model.config.eos_token_id, CHANNEL] = step
    for layer in decoder.layers:
        for linear in (layer.fc2, layer.self_attn.out_proj, layer.encoder_attn.out_proj):
            linear.weight[CHANNEL] = linear.bias[CHANNEL] = 0.0
    decoder.layer_norm.weight[CHANNEL] = published.gain / step
    decoder.layer_norm.bias[CHANNEL] = -published.hold / step


def read_as_numbers(monkeypatch):
    """Patch the readers so that they load folders without a tokeniser."""
    from uwaga.checkpoints.formats.huggingface import bart, marian

    for module, name in ((bart, "BART_TRAITS"), (bart, "MBART_TRAITS"), (marian, "PEGASUS_TRAITS")):
        monkeypatch.setattr(module, name, replace(getattr(module, name), tokenisers=read_numbers))
    for name in ("read_m2m100_tokeniser", "read_nllb_tokeniser"):
        monkeypatch.setattr(bart, name, read_numbers)
