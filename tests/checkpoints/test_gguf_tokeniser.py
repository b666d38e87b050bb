"""Tokenisers in GGUF files: their ids equal those of the original models."""

import io
import json
import re
import sys

import gguf_files
import numpy as np
import pytest
import sentencepiece
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers
from transformers.models.qwen2.tokenization_qwen2 import PRETOKENIZE_REGEX

from uwaga.checkpoints.formats.gguf.read import read_gguf
from uwaga.checkpoints.formats.gguf.tokeniser import PRE_TOKENISERS
from uwaga.checkpoints.formats.uwaga.int8 import tokeniser_files, tokeniser_kind
from uwaga.errors import MissingExtraError, ModelError
from uwaga.tokenizers.codecs import SentencePieceCodec

SAMPLE = [
    "The dog sees the cat in the house at 12:45.",
    "the cat's house, and the dogs' houses: 1999 and 2024!",
    "Der Hund sieht die Katze im Haus; das Haus ist groß.",
    "    def f(x):\n        return x + 1\n\n\n",
    "日本語のテキスト、そして漢字。 한국어",
] * 3
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30) | st.lists(
    st.sampled_from(
        [
            "the", " ", "  ", "\n", "cat", "'s", "DON'T", "12345", "é", "e\u0301", "日本", "<s>", "x", "\t",
            "!!",
        ]
    )
).map("".join)  # fmt: skip


def read(path, **metadata):
    """Return the tokeniser read from a GGUF file with the given metadata."""
    model = gguf_files.peer("llama")
    size = len(metadata["tokenizer.ggml.tokens"])
    tensors = {name: np.zeros((size, 64), np.float32) for name in ("token_embd.weight", "output.weight")}
    return read_gguf(gguf_files.write(path, "llama", model, tensors=tensors, tokeniser=metadata)).source


def train_sentencepiece(byte_fallback, dummy_prefix):
    """Train a SentencePiece model of type BPE and return it."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SAMPLE),
        model_writer=model,
        model_type="bpe",
        vocab_size=420 if byte_fallback else 160,
        byte_fallback=byte_fallback,
        add_dummy_prefix=dummy_prefix,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        user_defined_symbols=["\u2581\u2581", "\n\n", "<h1>"],
        control_symbols=["<|turn|>"],
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def sentencepiece_metadata(model, dummy_prefix):
    """Return a SentencePiece model as metadata; user-defined tokens have spaces, as in llama.cpp."""
    ids = range(model.get_piece_size())
    kinds = ((model.is_unknown, 2), (model.is_control, 3), (model.is_unused, 5), (model.is_byte, 6))
    types = [next((kind for is_kind, kind in kinds if is_kind(token)), 1) for token in ids]
    pieces = model.id_to_piece(list(ids))
    types = [
        4 if piece in ("\u2581\u2581", "\n\n", "<h1>") else kind
        for piece, kind in zip(pieces, types, strict=True)
    ]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": [
            piece.replace("\u2581", " ") if kind == 4 else piece
            for piece, kind in zip(pieces, types, strict=True)
        ],
        "tokenizer.ggml.scores": [model.get_score(token) for token in ids],
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.bos_token_id": model.bos_id(),
        "tokenizer.ggml.eos_token_id": model.eos_id(),
        "tokenizer.ggml.add_space_prefix": dummy_prefix,
    }


@pytest.fixture(scope="module", params=[(True, True), (True, False), (False, True)])
def sentencepieces(request, tmp_path_factory):
    model = train_sentencepiece(*request.param)
    tokeniser = read(
        tmp_path_factory.mktemp("spm") / "m.gguf", **sentencepiece_metadata(model, request.param[1])
    )
    return tokeniser, model


@given(text=ANY_TEXT)
def test_sentencepiece_ids_match_the_original_model(sentencepieces, text):
    tokeniser, model = sentencepieces
    text = re.sub(r"</?s>|<unk>", "", text).replace("\0", "")
    assert tokeniser.encode(text) == model.encode(text)
    assert tokeniser.decode(tokeniser.encode(text)) == model.decode(model.encode(text)).replace(
        " \u2047 ", ""
    )


def test_sentencepiece_control_tokens_are_treated_as_special_tokens(sentencepieces):
    tokeniser, model = sentencepieces
    turn, end = model.piece_to_id("<|turn|>"), model.eos_id()
    ids = tokeniser.encode("the cat<|turn|>the dog</s>")
    assert ids == [*model.encode("the cat"), turn, *model.encode("the dog"), end]
    assert tokeniser.decode(ids) == model.decode(model.encode("the cat") + model.encode("the dog"))
    assert tokeniser.add_special_tokens([5]) == [model.bos_id(), 5]
    assert (
        tokeniser.symbols.unknown == model.unk_id() and tokeniser.symbols.end == end == tokeniser.symbols.pad
    )


def split(pattern):
    words = pre_tokenizers.Split(tokenizers.Regex(pattern), "isolated")
    return pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


DIGITS = pre_tokenizers.Digits(individual_digits=True)
PEER_PRE_TOKENISERS = {
    "gpt-2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "smollm": pre_tokenizers.Sequence([DIGITS, pre_tokenizers.ByteLevel(add_prefix_space=False)]),
    "llama-bpe": split(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "qwen2": split(PRETOKENIZE_REGEX),
}
"""The pre-tokenisers in the ``tokenizer.json`` of the original models, by llama.cpp's names."""


def byte_level(name):
    """Return a trained byte-level tokeniser with the named pre-tokeniser, and its GGUF metadata."""
    model = tokenizers.Tokenizer(tokenizers.models.BPE(ignore_merges=PRE_TOKENISERS[name].whole_words))
    model.pre_tokenizer = PEER_PRE_TOKENISERS.get(name, PEER_PRE_TOKENISERS["gpt-2"])
    model.decoder = tokenizers.decoders.ByteLevel()
    if PRE_TOKENISERS[name].uses_nfc:
        model.normalizer = tokenizers.normalizers.NFC()
    special = ["<|end|>", "<|begin|>"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train_from_iterator(SAMPLE, trainer)
    model.add_tokens(["<think>"])
    ids = model.get_vocab()
    tokens = sorted(ids, key=ids.get)
    merges = json.loads(model.to_str())["model"]["merges"]
    types = [3 if token in special else 4 if token == "<think>" else 1 for token in tokens]
    return model, {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": name,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": [" ".join(pair) for pair in merges],
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
    }


@pytest.fixture(scope="module", params=PEER_PRE_TOKENISERS)
def byte_levels(request, tmp_path_factory):
    model, metadata = byte_level(request.param)
    return read(tmp_path_factory.mktemp("bpe") / "m.gguf", **metadata), model


@given(text=ANY_TEXT)
def test_byte_level_bpe_ids_match_the_original_model(byte_levels, text):
    tokeniser, model = byte_levels
    expected = model.encode(text, add_special_tokens=False).ids
    assert tokeniser.encode(text) == expected
    assert tokeniser.decode(expected) == model.decode(expected)


def test_byte_level_bpe_does_not_split_special_or_added_tokens(byte_levels):
    tokeniser, model = byte_levels
    think = model.token_to_id("<think>")
    assert tokeniser.encode("a<|end|><think>b") == [*model.encode("a").ids, 0, think, *model.encode("b").ids]
    assert tokeniser.decode(tokeniser.encode("a<|end|><think>b")) == "a<think>b"


@pytest.mark.parametrize("name", PRE_TOKENISERS)
def test_texts_survive_a_round_trip_with_each_pre_tokeniser(tmp_path, name):
    _, metadata = byte_level(name)
    tokeniser = read(tmp_path / "m.gguf", **metadata)
    for text in SAMPLE:
        assert tokeniser.decode(tokeniser.encode(text)) == text
    digits = {"smollm": 1, "qwen2": 1, "deepseek-r1-qwen": 1, "tekken": 1, "gpt-2": 9}.get(name, 3)
    pieces = [piece.strip("\u0120") for piece in tokeniser.pieces(tokeniser.encode("in 1999 and 2024"))]
    assert max(len(piece) for piece in pieces if piece.isdigit()) <= digits
    has_bos = name in ("llama-bpe", "llama3", "llama-v3", "tekken")
    assert tokeniser.add_special_tokens([9]) == ([1, 9] if has_bos else [9])


def test_metadata_determines_special_tokens(tmp_path):
    _, metadata = byte_level("smollm")
    keys = {"tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True}
    assert read(tmp_path / "m.gguf", **metadata, **keys).add_special_tokens([9]) == [1, 9, 0]
    turns = {"tokenizer.ggml.eot_token_id": 7, "tokenizer.ggml.eom_token_id": 0}
    assert read(tmp_path / "m.gguf", **metadata, **turns).symbols.ends == (0, 7)
    spaced = read(tmp_path / "m.gguf", **metadata, **{"tokenizer.ggml.add_space_prefix": True})
    assert spaced.encode("the cat") == spaced.encode(" the cat")


KEY_PREFIX = "tokenizer.ggml."
INVALID_BYTE_LEVEL_METADATA = [
    ({"pre": "bloom"}, "pre' is 'bloom', a pre-tokenisation that uwaga does not support; it supports gpt-2"),
    ({"pre": None}, "pre' must be a string, not missing"),
    ({"model": "rwkv"}, "model' is 'rwkv', which is not supported"),
    ({"merges": ["a"]}, "entry 0 of 'tokenizer.ggml.merges' is not a pair"),
    ({"merges": ["zz zzz"]}, "merges' disagree with"),
    ({"merges": None}, "merges' must be an array of strings, not missing"),
    ({"eos_token_id": None}, "eos_token_id' is missing"),
    ({"eos_token_id": 10_000}, "eos_token_id' is 10000, but there are"),
    ({"bos_token_id": None, "add_bos_token": True}, "add_bos_token' is true, but bos_token_id is missing"),
    ({"token_type": [1, 1]}, "token_type' must be an array of"),
    ({"add_bos_token": 1}, "add_bos_token' must be true or false, not 1"),
]
INVALID_SENTENCEPIECE_METADATA = [
    ({"scores": None}, "scores' must be an array of 276 numbers, not missing"),
    ({"scores": [0.0] * 275 + [float("nan")]}, "scores' must be an array of 276 numbers"),
    ({"token_type": [7] * 276}, "token_type' contains a type that is not from 1 to 6"),
    ({"token_type": [1] * 276, "unknown_token_id": None},
     "unknown_token_id' is missing, and no token is of the"),
    ({"token_type": [2, 2, *[1] * 274]}, "tokens 0 and 1 both represent unknown characters"),
    ({"token_type": [2, 6, *[1] * 274]}, "1 tokens represent single bytes, not 256"),
    ({"tokens": ["<unk>", *["a"] * 275]}, "entry 1 of 'tokenizer.ggml.tokens' is 'a', which occurs twice"),
    ({"tokens": ["<unk>", "", *map(str, range(274))]}, "entry 1 of 'tokenizer.ggml.tokens' is empty"),
    ({"precompiled_charsmap": "x"}, "precompiled_charsmap' .* is not supported"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("tokens", "changes", "words"),
    [
        *(("gpt2", *fault) for fault in INVALID_BYTE_LEVEL_METADATA),
        *(("llama", *fault) for fault in INVALID_SENTENCEPIECE_METADATA),
    ],
)
def test_invalid_tokeniser_metadata_is_rejected(tmp_path, tokens, changes, words):
    metadata = byte_level("smollm")[1] if tokens == "gpt2" else gguf_files.sentencepiece_metadata()
    metadata |= {f"{KEY_PREFIX}{name}": value for name, value in changes.items()}
    with pytest.raises(ModelError, match=words) as caught:
        read(tmp_path / "m.gguf", **metadata)
    assert str(tmp_path / "m.gguf") in str(caught.value)


def test_vocabulary_that_does_not_fit_the_weights_is_rejected(tmp_path):
    tensors = {name: np.zeros((2000, 64), np.float32) for name in ("token_embd.weight", "output.weight")}
    with pytest.raises(ModelError, match=r"tokens' has 276 tokens, but the weights are for 2000"):
        read_gguf(gguf_files.write(tmp_path / "m.gguf", tensors=tensors))


def test_byte_level_bpe_requires_the_tokenizers_library(tmp_path, monkeypatch):
    _, metadata = byte_level("smollm")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match=r"needs `tokenizers`; `pip install 'uwaga\[train\]'`"):
        read(tmp_path / "m.gguf", **metadata)


def test_sentencepiece_tokeniser_is_stored_as_a_sentencepiece_model(sentencepieces):
    """Besides the SentencePiece model, an int8 folder stores only the special tokens added to texts."""
    tokeniser, _ = sentencepieces
    files = tokeniser_files(tokeniser, tokeniser)
    assert list(files) == ["source.spm"] and tokeniser_kind(tokeniser) == "sentencepiece"
    codec = SentencePieceCodec.from_piece_types(files["source.spm"], "source.spm")
    text = "the cat<|turn|>the  dog é 日</s>"
    assert codec.content == tokeniser.codec.content and codec.encode(text) == tokeniser.encode(text)
    with pytest.raises(ModelError, match=r"source\.spm: damaged or not a SentencePiece model"):
        SentencePieceCodec.from_piece_types(files["source.spm"][:-9], "source.spm")
