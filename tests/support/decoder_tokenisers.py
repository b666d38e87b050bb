"""Small tokenisers of each kind that current decoder-only models use, in folders like published ones."""

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
SPECIAL_TOKENS = {
    "llama3": ("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"), "qwen": ("<|endoftext|>", *CHAT),
    "smollm2": ("<|endoftext|>", *CHAT), "hunyuan": ("<|startoftext|>", "<|eos|>", "<|pad|>"),
    "llama2": ("<unk>", "<s>", "</s>"), "mistral": ("<unk>", "<s>", "</s>", "[INST]"),
    "eurollm": ("<unk>", "<s>", "</s>", *CHAT),
    "gemma": ("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>"),
}  # fmt: skip
"""The special tokens of each kind of tokeniser."""
BOS_IDS = {"llama3": 0, "llama2": 1, "mistral": 1, "eurollm": 1, "gemma": 2}
"""Index of the beginning-of-text token in the special tokens of each kind."""
EOS_IDS = {
    "llama3": 1, "qwen": 2, "smollm2": 2, "hunyuan": 1, "llama2": 2, "mistral": 2, "eurollm": 2, "gemma": 1,
}  # fmt: skip
CONFIG_SETTINGS = {
    "qwen": {"add_bos_token": False, "add_prefix_space": False},
    "eurollm": {"add_bos_token": True, "add_eos_token": False},
    "gemma": {"add_bos_token": True, "add_eos_token": False},
}


def byte_level(kind: str) -> Tokenizer:
    """Train a byte-level BPE with a pre-tokenising pattern."""
    tokeniser = Tokenizer(models.BPE())
    split = {
        "llama3": pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
        "qwen": pre_tokenizers.Split(Regex(QWEN), "isolated"),
        "hunyuan": pre_tokenizers.Split(Regex(HUNYUAN), "isolated"),
        "smollm2": pre_tokenizers.Digits(individual_digits=True),
    }[kind]
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind == "smollm2")
    tokeniser.pre_tokenizer = pre_tokenizers.Sequence([split, last])
    tokeniser.decoder = decoders.ByteLevel()
    if kind == "qwen":
        tokeniser.normalizer = normalizers.NFC()
    trainer = BpeTrainer(
        vocab_size=450,
        special_tokens=[AddedToken(token, special=True) for token in SPECIAL_TOKENS[kind]],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokeniser.train_from_iterator(LINES, trainer)
    return tokeniser


def byte_fallback(kind: str) -> Tokenizer:
    """Train a BPE tokeniser with byte fallback, like tokenisers converted from SentencePiece."""
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", "\u2581")
    trained.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")
    trained.train_from_iterator(LINES, BpeTrainer(vocab_size=400, show_progress=False, limit_alphabet=70))
    learned = json.loads(trained.to_str())["model"]
    pieces = [*SPECIAL_TOKENS[kind], *BYTES, *sorted(learned["vocab"], key=learned["vocab"].get)]
    tokeniser = Tokenizer(
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
        tokeniser.normalizer = normalizers.Replace(" ", "\u2581")
        tokeniser.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    elif kind == "mistral":
        tokeniser.pre_tokenizer = pre_tokenizers.Metaspace("\u2581", prepend_scheme="first", split=False)
        steps.append(decoders.Strip(" ", 1, 0))
    else:
        prepend = [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
        tokeniser.normalizer = normalizers.Sequence(prepend)
        steps.append(decoders.Strip(" ", 1, 0))
    tokeniser.decoder = decoders.Sequence(steps)
    tokeniser.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS[kind]]
    )
    return tokeniser


@cache
def folder(kind: str) -> Path:
    """Return a folder with ``tokenizer.json`` and ``tokenizer_config.json``."""
    path = Path(mkdtemp()) / kind
    path.mkdir()
    tokens = SPECIAL_TOKENS[kind]
    tokeniser = byte_level(kind) if kind in ("llama3", "qwen", "smollm2", "hunyuan") else byte_fallback(kind)
    if kind in BOS_IDS:
        bos = tokens[BOS_IDS[kind]]
        tokeniser.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, BOS_IDS[kind])]
        )
    tokeniser.save(str(path / "tokenizer.json"))
    bos = tokens[BOS_IDS.get(kind, 0)] if kind != "qwen" else None
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": bos,
        "eos_token": tokens[EOS_IDS[kind]],
        "clean_up_tokenization_spaces": kind in ("llama3", "gemma"),
    }
    write_json(path / "tokenizer_config.json", config | CONFIG_SETTINGS.get(kind, {}))
    return path


SENTENCEPIECE_SETTINGS = {
    "llama2": {
        "byte_fallback": True,
        "normalization_rule_name": "identity",
        "remove_extra_whitespaces": False,
    },
    "gemma": {
        "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
        "add_dummy_prefix": False, "pad_id": 0, "eos_id": 1, "bos_id": 2, "unk_id": 3, "pad_piece": "<pad>",
        "eos_piece": "<eos>", "bos_piece": "<bos>",
        "user_defined_symbols": ["<start_of_turn>", "<end_of_turn>", "\n", "\n\n"],
    },
}  # fmt: skip
"""Settings of the SentencePiece trainer."""


@cache
def sentencepiece_folder(kind: str, **settings: object) -> Path:
    """Return a folder with ``tokenizer.model`` and ``tokenizer_config.json``."""
    path = Path(mkdtemp()) / f"{kind}-pieces"
    path.mkdir()
    (path / "tokenizer.model").write_bytes(sentencepiece("bpe", 560, **SENTENCEPIECE_SETTINGS[kind]))
    bos, eos = ("<bos>", "<eos>") if kind == "gemma" else ("<s>", "</s>")
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": bos,
        "eos_token": eos,
        "unk_token": "<unk>",
    }
    write_json(
        path / "tokenizer_config.json", config | {"add_bos_token": True, "add_eos_token": False} | settings
    )
    return path
