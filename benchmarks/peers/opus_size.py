"""Write a Marian folder of an OPUS-MT model's size with random weights, which do not affect the speed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

VOCABULARY = 58101
SHAPE = {
    "vocab_size": VOCABULARY,
    "decoder_vocab_size": VOCABULARY,
    "d_model": 512,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 8,
    "decoder_attention_heads": 8,
    "encoder_ffn_dim": 2048,
    "decoder_ffn_dim": 2048,
    "max_position_embeddings": 512,
    "activation_function": "swish",
    "pad_token_id": VOCABULARY - 1,
    "eos_token_id": 0,
    "bos_token_id": 0,
    "decoder_start_token_id": VOCABULARY - 1,
    "forced_eos_token_id": None,
    "scale_embedding": True,
    "static_position_embeddings": True,
}


def write_marian(folder: Path, seed: int = 1) -> None:
    """Write the folder with transformers; the tokeniser is a tiny one with a full vocabulary."""
    import torch
    from transformers import MarianConfig, MarianMTModel

    from uwaga.settings import TextSettings
    from uwaga.tokenizers.training import train_tokeniser

    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(seed)
    model = MarianMTModel(MarianConfig(**SHAPE)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.normal_(std=parameter.shape[1] ** -0.5)
        model.model.shared.weight[SHAPE["pad_token_id"]] = (
            0  # as in trained ones; CTranslate2 starts from zeros
        )
    model.generation_config.forced_eos_token_id = None
    model.generation_config.max_length = 512
    model.generation_config.bad_words_ids = [[VOCABULARY - 1]]
    model.save_pretrained(folder)
    text = Path(__file__).read_text(encoding="utf-8").splitlines() * 20
    tokeniser = train_tokeniser(text, TextSettings(kind="bpe", size=400), folder / "tiny")
    pieces = [tokeniser.pieces([number])[0] for number in range(4, tokeniser.size)]
    pieces += [_word(number) for number in range(VOCABULARY - 3 - len(pieces))]
    vocabulary = {piece: number for number, piece in enumerate(["</s>", "<unk>", *pieces, "<pad>"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    for side in ("source", "target"):
        (folder / f"{side}.spm").write_bytes(tokeniser.model_bytes)
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}))


def sources(count: int, seed: int = 0, shortest: int = 10, longest: int = 20) -> list[list[int]]:
    """Return random sources of 15 tokens on average, including the end symbol."""
    rng = np.random.default_rng(seed)
    return [
        [*rng.integers(2, VOCABULARY - 1, int(length) - 1).tolist(), 0]
        for length in rng.integers(shortest, longest + 1, count)
    ]


def _word(number: int) -> str:
    """Return a piece that consists of letters.

    If it had digits, the numbers of each translation would be compared with those of its source.
    """
    return "zz" + "".join(chr(ord("a") + int(digit)) for digit in str(number))
