"""Random GPT-2 folders saved by ``transformers``, and the errors that unsupported ones cause."""

import pytest
import torch

transformers = pytest.importorskip("transformers")
EOS = 36
SIZES = {
    "vocab_size": 37, "n_positions": 40, "n_embd": 18, "n_layer": 3, "n_head": 3, "bos_token_id": EOS,
    "eos_token_id": EOS,
}  # fmt: skip
VARIANTS = {
    "gpt2": {},
    "variant": {
        **{"n_inner": 25, "activation_function": "relu", "scale_attn_weights": False},
        **{"tie_word_embeddings": False, "layer_norm_epsilon": 1e-4},
    },
}
PROMPTS = [[5], [7, 9, 30], [EOS, 3, 3, 2, 35, 12, 14, 18, 1, 0, 28], [11, EOS, 4, 6], [21, 22]]


def make(folder, seed=1, **changes):
    """Save a random model of unusual sizes with ``transformers``, and return it."""
    torch.manual_seed(seed)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**SIZES | changes)).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("weight") and "ln_" in name:
                weight.uniform_(0.5, 1.5)
            else:
                weight.normal_(0.0, 0.4)
    model.generation_config.update(max_new_tokens=11, pad_token_id=EOS)
    model.save_pretrained(folder)
    return model


UNSUPPORTED = {
    r"'add_cross_attention' = True is not supported": {"add_cross_attention": True},
    r"'scale_attn_by_inverse_layer_idx' = True is not supported": {"scale_attn_by_inverse_layer_idx": True},
    r"'activation_function' = 'tanh' is not supported": {"activation_function": "tanh"},
    r"'wpe\.weight' has shape \(40, 18\), but config\.json requires \(50, 18\)": {"n_positions": 50},
    r"h\.3\..* missing": {"n_layer": 4},
    r"h\.2\..* unknown": {"n_layer": 2},
    r"width 18 is not a multiple of heads 5": {"n_head": 5},
    r"eos_token_id is 37, but the vocabulary has 37": {"eos_token_id": 37},
    r"the family 'gpt3' is not supported; uwaga supports bart.*bert, .*gpt2": {"model_type": "gpt3"},
}
