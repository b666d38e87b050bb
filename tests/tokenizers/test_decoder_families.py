"""Tokenisers of decoder-only families: agreement with transformers and SentencePiece."""

import json
import random
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

transformers = pytest.importorskip("transformers")

from decoder_tokenisers import BOS_IDS, SPECIAL_TOKENS, folder, sentencepiece_folder
from pretrained_texts import LINES, ODD_TEXTS, PLAIN_TEXTS, write_json
from sentencepiece import SentencePieceProcessor

from uwaga.errors import DataError, ModelError
from uwaga.tokenizers.decoder_families import read_decoder_tokeniser
from uwaga.tokenizers.pretrained import TokenIds

EACH_KIND = pytest.mark.parametrize("kind", SPECIAL_TOKENS)
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def read_both(directory, spare=0):
    """Return the tokenisers of uwaga and of transformers."""
    peer = transformers.AutoTokenizer.from_pretrained(directory)
    size = len(peer) + spare
    return read_decoder_tokeniser(directory, TokenIds(size)), peer


def ids(tokeniser, text):
    return tokeniser.add_special_tokens(tokeniser.encode(text))


def special_texts(kind):
    tokens = SPECIAL_TOKENS[kind]
    return [f"{first}the dog {second} and{second}{first} " for first in tokens for second in tokens]


@EACH_KIND
def test_ids_and_texts_match_transformers(kind):
    uwaga_tokeniser, peer = read_both(folder(kind), spare=7)
    for text in [*PLAIN_TEXTS, *ODD_TEXTS, *LINES[::5], *special_texts(kind)]:
        row = peer(text).input_ids
        assert ids(uwaga_tokeniser, text) == row, text
        assert uwaga_tokeniser.decode(row) == peer.decode(row, skip_special_tokens=True)
        assert uwaga_tokeniser.pieces(row) == peer.convert_ids_to_tokens(row)
    assert (uwaga_tokeniser.prefix == (BOS_IDS[kind],)) if kind in BOS_IDS else uwaga_tokeniser.prefix == ()
    assert uwaga_tokeniser.suffix == ()
    assert uwaga_tokeniser.symbols.end == peer.eos_token_id


def test_end_symbol_declared_by_the_model_is_preferred():
    def end(*declared):
        return read_decoder_tokeniser(folder("qwen"), TokenIds(500), declared).symbols.end

    assert (end(), end(0), end(0, 2), end(1, 0)) == (2, 0, 2, 1)  # <|im_end|> is 2


@EACH_KIND
@given(ANY_TEXT)
def test_encoding_any_text_matches_transformers(kind, text):
    uwaga_tokeniser, peer = cached_both(kind)
    assert ids(uwaga_tokeniser, text) == peer(text).input_ids


@EACH_KIND
@given(st.data())
def test_decoding_any_ids_matches_transformers(kind, data):
    uwaga_tokeniser, peer = cached_both(kind)
    row = data.draw(st.lists(st.integers(0, len(peer) - 1), max_size=12))
    assert uwaga_tokeniser.decode(row) == peer.decode(row, skip_special_tokens=True)


CACHED_PAIRS = {}


def cached_both(kind):
    if kind not in CACHED_PAIRS:
        CACHED_PAIRS[kind] = read_both(folder(kind))
    return CACHED_PAIRS[kind]


def random_lines(count, seed=0):
    """Return random lines of words, numbers, punctuation, white space and characters of any script."""
    rng = random.Random(seed)
    words = [word for line in [*LINES, *PLAIN_TEXTS] for word in line.split() if len(word) < 40]
    odd = [*" \t\n\u00a0\u3000\u200d.,;:!?'\"()[]<>|", "  ", "\r\n", "12345", "...", "'s", "🏳️‍🌈", "e\u0301"]
    any_script = [*range(1, 0xD800), *range(0xE000, 0x20000)]

    def part():
        number = rng.random()
        if number < 0.7:
            return rng.choice(words) + rng.choice(["", " ", " ", " "])
        return rng.choice(odd) if number < 0.9 else chr(rng.choice(any_script))

    return ["".join(part() for _ in range(rng.randint(0, 25))) for _ in range(count)]


@pytest.mark.release
@EACH_KIND
def test_ids_of_ten_thousand_lines_match_transformers(kind):
    uwaga_tokeniser, peer = cached_both(kind)
    lines = random_lines(10_000)
    rows = peer(lines).input_ids
    assert [ids(uwaga_tokeniser, line) for line in lines] == rows
    assert [uwaga_tokeniser.decode(row) for row in rows] == peer.batch_decode(rows, skip_special_tokens=True)


@EACH_KIND
def test_texts_survive_a_round_trip(kind):
    uwaga_tokeniser, _ = cached_both(kind)
    for text in [*LINES[::11], "naïve 🚗\n日本語\t x"]:
        assert uwaga_tokeniser.decode(ids(uwaga_tokeniser, text)) == text


@pytest.mark.parametrize("start", [True, False])
@pytest.mark.parametrize("end", [True, False])
def test_declared_start_and_end_symbols_are_added(start, end):
    uwaga_tokeniser, peer = read_both(sentencepiece_folder("llama2", add_bos_token=start, add_eos_token=end))
    assert ids(uwaga_tokeniser, "the dog") == peer("the dog").input_ids


@pytest.mark.parametrize("kind", ["llama2", "gemma"])
@pytest.mark.parametrize("legacy", [True, False])
def test_sentencepiece_model_without_tokenizer_json_is_read(kind, legacy):
    """With ``legacy`` disabled, transformers drops the leading space of a text; SentencePiece keeps it."""
    directory = sentencepiece_folder(kind, legacy=legacy)
    uwaga_tokeniser, peer = read_both(directory)
    processor = SentencePieceProcessor(model_file=str(directory / "tokenizer.model"))
    bos, eos = ("<bos>", "<eos>") if kind == "gemma" else ("<s>", "</s>")
    for text in [*PLAIN_TEXTS, *ODD_TEXTS, *LINES[::5]]:
        assert uwaga_tokeniser.encode(text) == processor.encode(text), text
        if legacy or not text.startswith(" "):
            assert ids(uwaga_tokeniser, text) == peer(text).input_ids, text
        assert uwaga_tokeniser.decode(uwaga_tokeniser.encode(text)) == text
    for text in [f"{bos}the dog{eos} and{eos} {bos}", f"a{eos}b", f"{eos}  b"]:
        assert ids(uwaga_tokeniser, text) == peer(text).input_ids, text
    assert ids(uwaga_tokeniser, "the dog") == [processor.bos_id(), *processor.encode("the dog")]


@pytest.mark.parametrize("kind", ["llama2", "gemma"])
@given(text=ANY_TEXT)
def test_encoding_any_text_matches_sentencepiece(kind, text):
    if kind not in CACHED_SENTENCEPIECE:
        directory = sentencepiece_folder(kind)
        peer = SentencePieceProcessor(model_file=str(directory / "tokenizer.model"))
        CACHED_SENTENCEPIECE[kind] = read_decoder_tokeniser(directory, TokenIds(peer.get_piece_size())), peer
    uwaga_tokeniser, peer = CACHED_SENTENCEPIECE[kind]
    assert uwaga_tokeniser.encode(text) == peer.encode(text)
    assert uwaga_tokeniser.decode(uwaga_tokeniser.encode(text)) == peer.decode(peer.encode(text))


CACHED_SENTENCEPIECE = {}


def test_added_tokens_of_a_sentencepiece_model_are_read(tmp_path):
    directory = tmp_path / "m"
    shutil.copytree(sentencepiece_folder("llama2"), directory)
    size = SentencePieceProcessor(model_file=str(directory / "tokenizer.model")).get_piece_size()
    config = json.loads((directory / "tokenizer_config.json").read_text())
    added = {str(size): {"content": "<|im_start|>", "special": True}}
    write_json(
        directory / "tokenizer_config.json", config | {"added_tokens_decoder": added, "pad_token": "[PAD]"}
    )
    uwaga_tokeniser = read_decoder_tokeniser(directory, TokenIds(size + 2))
    assert uwaga_tokeniser.encode("the<|im_start|>dog[PAD]")[1] == size
    assert uwaga_tokeniser.token_id("[PAD]") == size + 1
    assert uwaga_tokeniser.decode(uwaga_tokeniser.encode("the<|im_start|> dog[PAD]")) == "the  dog"


def test_tokens_without_an_embedding_are_rejected_in_texts(tmp_path):
    """Gemma's tokeniser has an image token for which its language model has no embedding."""
    size = len(cached_both("gemma")[1])
    uwaga_tokeniser = read_decoder_tokeniser(folder("gemma"), TokenIds(size))
    assert uwaga_tokeniser.vocabulary == size
    directory = tmp_path / "m"
    shutil.copytree(folder("gemma"), directory)
    config = json.loads((directory / "tokenizer_config.json").read_text())
    write_json(directory / "tokenizer_config.json", config | {"mask_token": "<image>"})
    uwaga_tokeniser = read_decoder_tokeniser(directory, TokenIds(size))
    with pytest.raises(DataError, match="no embedding for <image>"):
        uwaga_tokeniser.encode("an <image>")
    with pytest.raises(ModelError, match=f"has {size + 1} pieces, but the weights are for {size - 1}"):
        read_decoder_tokeniser(directory, TokenIds(size - 1))
    with pytest.raises(ModelError, match="different models"):
        read_decoder_tokeniser(directory, TokenIds(size + 2000))


def test_invalid_tokeniser_folders_are_rejected(tmp_path):
    with pytest.raises(
        ModelError, match=r"no tokeniser found; expected tokenizer\.json, or tokenizer\.model"
    ):
        read_decoder_tokeniser(tmp_path, TokenIds(10))
    (tmp_path / "tokenizer.model").write_bytes(b"no model")
    with pytest.raises(ModelError, match="damaged or not a SentencePiece model"):
        read_decoder_tokeniser(tmp_path, TokenIds(10))
    shutil.copytree(sentencepiece_folder("llama2"), tmp_path / "p")
    size = SentencePieceProcessor(model_file=str(tmp_path / "p/tokenizer.model")).get_piece_size()
    config = json.loads((tmp_path / "p/tokenizer_config.json").read_text())
    write_json(tmp_path / "p/tokenizer_config.json", config | {"bos_token": "<new>"})
    with pytest.raises(ModelError, match="adds <new>, but the weights have no embedding"):
        read_decoder_tokeniser(tmp_path / "p", TokenIds(size))
    write_json(tmp_path / "p/tokenizer_config.json", config | {"added_tokens_decoder": {"99999999": "<far>"}})
    with pytest.raises(ModelError, match="an added token has the id 99999999"):
        read_decoder_tokeniser(tmp_path / "p", TokenIds(600))
