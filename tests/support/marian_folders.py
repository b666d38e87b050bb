"""Random Marian folders, saved by ``transformers``."""

import json

import pytest
import tiny_models as tiny
import torch

transformers = pytest.importorskip("transformers")
SEPARATE = {"separate_vocabs": True}
TEXTS = ["the dog sees the cat", "Hi", "Where is the station? It is not far from here.", "a car"]


def make(folder, shared=True, seed=0, safe=True, end=6.0, **changes):
    """Save a random model of unusual sizes with trained tokenisers, and return it."""
    folder.mkdir()
    vocabularies = []
    for side in ("source", "target"):
        model = tiny.tokeniser(side, size=320)
        (folder / f"{side}.spm").write_bytes(model.model_bytes)
        vocabularies.append([model.pieces([n])[0] for n in range(4, model.size)])
    if shared:
        vocabularies = [sorted({*vocabularies[0], *vocabularies[1], ">>deu<<", ">>fra<<"})]
    names = ["vocab.json", "target_vocab.json"][: len(vocabularies)]
    sizes = []
    max_size = max(map(len, vocabularies))
    for name, pieces in zip(names, vocabularies, strict=True):
        pieces = [*pieces, *(f"unused{n}" for n in range(max_size - len(pieces)))]
        ids = {piece: n for n, piece in enumerate(["</s>", "<unk>", *pieces, "<pad>"])}
        (folder / name).write_text(json.dumps(ids))
        sizes.append(len(ids))
    pad = sizes[0] - 1
    config = {
        "vocab_size": sizes[0], "decoder_vocab_size": sizes[-1], "share_encoder_decoder_embeddings": shared,
        "d_model": 18, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 3,
        "decoder_attention_heads": 2, "encoder_ffn_dim": 22, "decoder_ffn_dim": 26,
        "max_position_embeddings": 40, "activation_function": "swish", "pad_token_id": pad, "eos_token_id": 0,
        "bos_token_id": 0, "decoder_start_token_id": pad, "forced_eos_token_id": 0, "scale_embedding": True,
        "init_std": 0.35,
    }  # fmt: skip
    torch.manual_seed(seed)
    model = transformers.MarianMTModel(transformers.MarianConfig(**config | changes)).eval()
    with torch.no_grad():
        model.final_logits_bias.normal_(0.0, 1.0)
        model.final_logits_bias[0, 0] = end
    generation = {"max_length": 14, "num_beams": 4, "bad_words_ids": [[pad]], "forced_eos_token_id": 0}
    model.generation_config.update(**generation)
    model.save_pretrained(folder)
    if not safe:
        (folder / "model.safetensors").unlink()
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    tokeniser = {"separate_vocabs": not shared, "source_lang": "en", "target_lang": "de"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokeniser))
    return model
