"""Small tokenisers of each kind that today's decoders have, in folders as they are published."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from pretrained_texts import LINES, sentencepiece, write_json
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import BpeTrainer

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
    r"\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
HUNYUAN = (
    r"[!-/:-~]?[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BYTES = [f"<0x{number:02X}>" for number in range(256)]
CHAT = ("<|im_start|>", "<|im_end|>")
KINDS = {
    "llama3": ("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"),
    "qwen": ("<|endoftext|>", *CHAT),
    "smollm2": ("<|endoftext|>", *CHAT),
    "hunyuan": ("<|startoftext|>", "<|eos|>", "<|pad|>"),
    "llama2": ("<unk>", "<s>", "</s>"),
    "mistral": ("<unk>", "<s>", "</s>", "[INST]"),
    "eurollm": ("<unk>", "<s>", "</s>", *CHAT),
    "gemma": ("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>"),
}
"""The special tokens of each kind."""
BEGINS = {"llama3": 0, "llama2": 1, "mistral": 1, "eurollm": 1, "gemma": 2}
"""The token that is put before a text."""
ENDS = {
    "llama3": 1,
    "qwen": 2,
    "smollm2": 2,
    "hunyuan": 1,
    "llama2": 2,
    "mistral": 2,
    "eurollm": 2,
    "gemma": 1,
}
SETTINGS = {
    "qwen": {"add_bos_token": False, "add_prefix_space": False},
    "eurollm": {"add_bos_token": True, "add_eos_token": False},
    "gemma": {"add_bos_token": True, "add_eos_token": False},
}


def byte_level(kind: str) -> Tokenizer:
    """A byte-level BPE after a split by a pattern."""
    made = Tokenizer(models.BPE())
    split = {
        "llama3": pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        "qwen": pre_tokenizers.Split(Regex(QWEN), "isolated"),
        "hunyuan": pre_tokenizers.Split(Regex(HUNYUAN), "isolated"),
        "smollm2": pre_tokenizers.Digits(individual_digits=True),
    }[kind]
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "smollm2")
    made.pre_tokenizer = pre_tokenizers.Sequence([split, last])
    made.decoder = decoders.ByteLevel()
    if kind == "qwen":
        made.normalizer = normalizers.NFC()
    trainer = BpeTrainer(
        vocab_size=450,
        special_tokens=[AddedToken(token, special=True) for token in KINDS[kind]],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(LINES, trainer)
    return made


def with_bytes(kind: str) -> Tokenizer:
    """A BPE of characters that falls back to bytes, as converted from SentencePiece."""
    first = Tokenizer(models.BPE())
    first.normalizer = normalizers.Replace(" ", "\u2581")
    first.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    first.train_from_iterator(LINES, BpeTrainer(vocab_size=400, show_progress=False, limit_alphabet=70))
    learned = json.loads(first.to_str())["model"]
    pieces = [*KINDS[kind], *BYTES, *sorted(learned["vocab"], key=learned["vocab"].get)]
    made = Tokenizer(
        models.BPE(
            {piece: number for number, piece in enumerate(pieces)},
            [tuple(pair) for pair in learned["merges"]],
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    if kind == "gemma":
        made.normalizer = normalizers.Replace(" ", "\u2581")
        made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    elif kind == "mistral":
        made.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", prepend_scheme="first", split=False)
        steps.append(decoders.Strip(" ", 1, 0))
    else:
        prepend = [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
        made.normalizer = normalizers.Sequence(prepend)
        steps.append(decoders.Strip(" ", 1, 0))
    made.decoder = decoders.Sequence(steps)
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in KINDS[kind]])
    return made


@cache
def folder(kind: str) -> Path:
    """A folder with ``tokenizer.json`` and ``tokenizer_config.json``."""
    place = Path(mkdtemp()) / kind
    place.mkdir()
    tokens = KINDS[kind]
    made = byte_level(kind) if kind in ("llama3", "qwen", "smollm2", "hunyuan") else with_bytes(kind)
    if kind in BEGINS:
        begin = tokens[BEGINS[kind]]
        made.post_processor = processors.TemplateProcessing(
            single=f"{begin} $A", special_tokens=[(begin, BEGINS[kind])]
        )
    made.save(str(place / "tokenizer.json"))
    begin = tokens[BEGINS.get(kind, 0)] if kind != "qwen" else None
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": begin,
        "eos_token": tokens[ENDS[kind]],
        "clean_up_tokenization_spaces": kind in ("llama3", "gemma"),
    }
    write_json(place / "tokenizer_config.json", config | SETTINGS.get(kind, {}))
    return place


PIECES = {
    "llama2": {
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
    },
    "gemma": {
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
        "add_dummy_prefix": False,
        "pad_id": 0,
        "eos_id": 1,
        "bos_id": 2,
        "unk_id": 3,
        "pad_piece": "<pad>",
        "eos_piece": "<eos>",
        "bos_piece": "<bos>",
        "user_defined_symbols": ["<start_of_turn>", "<end_of_turn>", "\n", "\n\n"],
    },
}
"""Settings of SentencePiece."""


@cache
def pieces(kind: str, **settings: object) -> Path:
    """A folder with ``tokenizer.model`` and ``tokenizer_config.json``."""
    place = Path(mkdtemp()) / f"{kind}-pieces"
    place.mkdir()
    (place / "tokenizer.model").write_bytes(sentencepiece("bpe", 560, **PIECES[kind]))
    bos, eos = ("<bos>", "<eos>") if kind == "gemma" else ("<s>", "</s>")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": bos,
        "eos_token": eos,
        "unk_token": "<unk>",
    }
    write_json(
        place / "tokenizer_config.json", config | {"add_bos_token": True, "add_eos_token": False} | settings
    )
    return place
