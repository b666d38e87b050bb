"""Byte-level BPE in the native engine: ids, texts and files equal those of the library ``tokenizers``."""

import json
from functools import cache

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from uwaga.engine._core import BytePairs
from uwaga.errors import ModelError
from uwaga.tokenizers import pretrained_files
from uwaga.tokenizers.codecs import BytePairCodec, TokenizersCodec, byte_level_codec, read_tokenizer_json
from uwaga.tokenizers.pretrained_files import read_tokeniser_config

LETTERS = BytePairs.letters()
CORPUS = [
    "the cat sat on the mat, and the rat ate the oat",
    "der Hund läuft über die grüne Wiese; 12345 Kühe sehen zu",
    "日本語の文章です。今日は良い天気ですね。 😀😀",
]
TEXTS = st.text(max_size=60) | st.text("the cat, läuft 123\n", max_size=60)


@cache
def train_library(whole_words=False, normaliser=False):
    """Train a small tokeniser of ``tokenizers``, with special tokens inside and after its vocabulary."""
    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    model.decoder = decoders.ByteLevel()
    if normaliser:
        model.normalizer = normalizers.NFC()
    trainer = trainers.BpeTrainer(
        vocab_size=340,
        show_progress=False,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=list(LETTERS[10:]),
    )
    model.train_from_iterator(CORPUS * 2, trainer)
    values = json.loads(model.to_str())
    values["model"]["ignore_merges"] = whole_words
    model = Tokenizer.from_str(json.dumps(values))
    model.add_special_tokens([AddedToken("<|end|>", special=True)])
    model.add_tokens([AddedToken("[tool]", lstrip=True), AddedToken("!")])
    model.post_processor = processors.TemplateProcessing(
        single="<s> $A <|end|>",
        special_tokens=[(token, model.token_to_id(token)) for token in ("<s>", "<|end|>")],
    )
    return model


def write_and_read(folder, model):
    (folder / "tokenizer.json").write_text(model.to_str())
    return read_tokenizer_json(folder, read_tokeniser_config(folder))


@pytest.fixture(scope="module", params=[(False, False), (True, True)], ids=["merges", "whole words"])
def pair(request, tmp_path_factory):
    library = train_library(*request.param)
    return library, write_and_read(tmp_path_factory.mktemp("bpe"), library)


def test_supported_tokeniser_loads_as_native_byte_pair_codec(pair):
    library, codec = pair
    assert type(codec) is BytePairCodec
    assert codec.size == library.get_vocab_size()
    assert codec.added_tokens == {
        token.content: number for number, token in library.get_added_tokens_decoder().items()
    }
    assert codec.unknown is None
    assert codec.special_token_frame() == ((library.token_to_id("<s>"),), (library.token_to_id("<|end|>"),))


@settings(deadline=None)
@given(data=st.data())
def test_ids_and_texts_match_the_tokenizers_library(pair, data):
    library, codec = pair
    special = st.sampled_from(["<s>", "</s>", "<|end|>", " [tool] ", "!"])
    text = "".join(data.draw(st.lists(TEXTS | special, max_size=5)))
    ids = library.encode(text, add_special_tokens=False).ids
    assert codec.encode(text) == ids
    assert codec.decode(ids) == library.decode(ids)
    any_ids = data.draw(st.lists(st.integers(0, library.get_vocab_size() + 3), max_size=20))
    assert codec.decode(any_ids) == library.decode(any_ids)
    plain = Tokenizer.from_str(library.to_str())
    plain.encode_special_tokens = True
    assert codec.encode_plain(text) == plain.encode(text, add_special_tokens=False).ids


def test_piece_and_id_lookups_match_the_tokenizers_library(pair):
    library, codec = pair
    for number in range(library.get_vocab_size() + 2):
        assert codec.piece(number) == library.id_to_token(number)
    for piece in (*library.get_vocab(), "no such piece", ""):
        assert codec.token_id(piece) == library.token_to_id(piece)


def test_written_tokenizer_json_matches_that_of_the_tokenizers_library(pair, tmp_path):
    library, codec = pair
    assert Tokenizer.from_str(codec.content.decode()).to_str() == library.to_str()
    (tmp_path / "tokenizer.json").write_bytes(codec.content)
    assert read_tokenizer_json(tmp_path, read_tokeniser_config(tmp_path)).content == codec.content


def test_tokenizer_json_of_a_byte_level_codec_matches_that_of_the_tokenizers_library():
    bpe = json.loads(train_library().to_str())["model"]
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    merges = list(map(" ".join, bpe["merges"]))
    codec = byte_level_codec(tokenizers, BytePairs(list(bpe["vocab"]), merges), "pieces", splitter)
    pairs = [tuple(pair) for pair in bpe["merges"]]
    library = Tokenizer(models.BPE(bpe["vocab"], pairs, continuing_subword_prefix="", end_of_word_suffix=""))
    library.pre_tokenizer, library.decoder = splitter, decoders.ByteLevel()
    expected = json.loads(library.to_str())
    expected["model"]["merges"] = merges
    assert json.loads(codec.content) == expected


@pytest.mark.parametrize("merge", [("a", "b"), ("a", " b"), ("#version", "b")])
def test_bpe_merges_survive_a_round_trip(merge, tmp_path):
    pairs = BytePairs([*LETTERS, "".join(merge), *sorted({*merge} - {*LETTERS})], [merge])
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    codec = byte_level_codec(tokenizers, pairs, "pieces", splitter)
    (tmp_path / "tokenizer.json").write_bytes(codec.content)
    copy = read_tokenizer_json(tmp_path, read_tokeniser_config(tmp_path))
    assert type(copy) is BytePairCodec
    assert copy.content == codec.content
    library = Tokenizer.from_str(codec.content.decode())
    assert json.loads(library.to_str())["model"]["merges"] == [list(merge)]


def test_added_tokens_get_ids_after_the_vocabulary(tmp_path):
    library = Tokenizer.from_str(train_library().to_str())
    codec = write_and_read(tmp_path, library)
    codec.add(map(pretrained_files.AddedToken, ("<later>", "the", "<s>")))
    library.add_special_tokens([AddedToken("<later>"), AddedToken("the"), AddedToken("<s>")])
    text = "the cat<later> in other words<s>"
    assert codec.encode(text) == library.encode(text, add_special_tokens=False).ids
    assert codec.size == library.get_vocab_size()
    assert Tokenizer.from_str(codec.content.decode()).to_str() == library.to_str()


@st.composite
def vocabularies(draw):
    """Return random pieces of a few bytes, and merges in any order; several may form the same piece."""
    pieces, merges = list("abcd"), []
    for _ in range(draw(st.integers(0, 25))):
        left, right = draw(st.sampled_from(pieces)), draw(st.sampled_from(pieces))
        if left + right not in pieces:
            pieces.append(left + right)
        merges.append((left, right))
    return pieces, draw(st.permutations(merges))


@given(vocabularies(), st.text("abcde", max_size=40), st.booleans())
def test_merge_order_matches_the_tokenizers_library(vocabulary, word, whole_words):
    pieces, merges = vocabulary
    library = models.BPE(
        {piece: number for number, piece in enumerate(pieces)}, merges, ignore_merges=whole_words
    )
    pairs = BytePairs(pieces, merges, whole_words)
    expected = [token.id for token in library.tokenize(word)] if word else []
    assert pairs.encode([ord(letter) for letter in word], [0] * len(word), []) == expected
    assert [(pieces[left], pieces[right]) for left, right in pairs.merges()] == list(merges)
    assert BytePairs(pieces, [" ".join(merge) for merge in merges]).merges() == pairs.merges()


def test_encoding_a_long_word_takes_linear_time():
    pairs = BytePairs(["a", "aa", "aaaa"], [("a", "a"), ("aa", "aa")])
    count = 1 << 20
    assert pairs.encode([97] * count, [0] * count, []) == [2] * (count // 4)


@pytest.mark.parametrize(
    ("pieces", "merges", "message"),
    [
        (["a", "a"], [], "two pieces are 'a'"),
        (["a", "b"], [("a", "b")], "'ab'"),
        (["a", "ab"], [("a", "b")], "'b'"),
        (["a", "aa"], ["a a", "aa"], "'aa' is not two pieces"),
        (["a", "aa"], ["a a", "a a "], "'a a ' is not two pieces"),
    ],
)
def test_inconsistent_pieces_and_merges_are_rejected(pieces, merges, message):
    with pytest.raises(ValueError, match=message):
        BytePairs(pieces, merges)


@pytest.mark.parametrize(
    "damage",
    [
        lambda model: model["merges"].append(["the", "no such piece"]),
        lambda model: model["merges"].append(["the"]),
        lambda model: model["merges"].append(7),
        lambda model: model.update(vocab=[1]),
    ],
)
def test_damaged_tokenizer_json_is_rejected(tmp_path, damage):
    values = json.loads(train_library().to_str())
    damage(values["model"])
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        read_tokenizer_json(tmp_path, read_tokeniser_config(tmp_path))


@pytest.mark.parametrize(
    "change", [{"dropout": 0.1}, {"continuing_subword_prefix": "##"}, {"unk_token": "<s>"}]
)
def test_unsupported_bpe_models_fall_back_to_the_tokenizers_library(tmp_path, change):
    values = json.loads(train_library().to_str())
    values["model"] |= change
    if "continuing_subword_prefix" in change:
        values["model"]["merges"] = []
    (tmp_path / "tokenizer.json").write_text(json.dumps(values))
    assert type(read_tokenizer_json(tmp_path, read_tokeniser_config(tmp_path))) is TokenizersCodec
