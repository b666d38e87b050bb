"""Tokenisers of decoder-only families: the ids and texts of transformers and of SentencePiece itself."""

import json
import random
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

transformers = pytest.importorskip("transformers")

from decoder_tokenisers import BEGINS, KINDS, folder, pieces
from pretrained_texts import LINES, ODD, PLAIN, write_json
from sentencepiece import SentencePieceProcessor

from uwaga.errors import DataError, ModelError
from uwaga.tokenizers.decoder_families import read_decoder_tokeniser
from uwaga.tokenizers.pretrained import TokenIds

KIND = pytest.mark.parametrize("kind", KINDS)
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def both(place, spare=0):
    """Our tokeniser and that of transformers."""
    peer = transformers.AutoTokenizer.from_pretrained(place)
    size = len(peer) + spare
    return read_decoder_tokeniser(place, TokenIds(size)), peer


def ids(tokeniser, text):
    return tokeniser.add_special_tokens(tokeniser.encode(text))


def spelt(kind):
    tokens = KINDS[kind]
    return [f"{one}the dog {other} and{other}{one} " for one in tokens for other in tokens]


@KIND
def test_ids_and_texts_equal_transformers(kind):
    ours, peer = both(folder(kind), spare=7)
    for text in [*PLAIN, *ODD, *LINES[::5], *spelt(kind)]:
        row = peer(text).input_ids
        assert ids(ours, text) == row, text
        assert ours.decode(row) == peer.decode(row, skip_special_tokens=True)
        assert ours.pieces(row) == peer.convert_ids_to_tokens(row)
    assert (ours.prefix == (BEGINS[kind],)) if kind in BEGINS else ours.prefix == ()
    assert ours.suffix == ()
    assert ours.symbols.end == peer.eos_token_id


def test_the_end_is_the_tokenisers_own_if_the_folder_states_it():
    def end(*stated):
        return read_decoder_tokeniser(folder("qwen"), TokenIds(500), stated).symbols.end

    assert (end(), end(0), end(0, 2), end(1, 0)) == (2, 0, 2, 1)  # <|im_end|> is 2


@KIND
@settings(max_examples=40, deadline=None)
@given(ANY)
def test_any_text_has_transformers_ids(kind, text):
    ours, peer = both_once(kind)
    assert ids(ours, text) == peer(text).input_ids


@KIND
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_ids_have_transformers_text(kind, data):
    ours, peer = both_once(kind)
    row = data.draw(st.lists(st.integers(0, len(peer) - 1), max_size=12))
    assert ours.decode(row) == peer.decode(row, skip_special_tokens=True)


KEPT = {}


def both_once(kind):
    if kind not in KEPT:
        KEPT[kind] = both(folder(kind))
    return KEPT[kind]


def many(count, seed=0):
    """Lines of words, numbers, punctuation, white space and characters of any script, drawn at random."""
    draw = random.Random(seed)
    words = [word for line in [*LINES, *PLAIN] for word in line.split() if len(word) < 40]
    odd = [*" \t\n\u00a0\u3000\u200d.,;:!?'\"()[]<>|", "  ", "\r\n", "12345", "...", "'s", "🏳️‍🌈", "e\u0301"]
    any_script = [*range(1, 0xD800), *range(0xE000, 0x20000)]

    def part():
        number = draw.random()
        if number < 0.7:
            return draw.choice(words) + draw.choice(["", " ", " ", " "])
        return draw.choice(odd) if number < 0.9 else chr(draw.choice(any_script))

    return ["".join(part() for _ in range(draw.randint(0, 25))) for _ in range(count)]


@pytest.mark.slow
@KIND
def test_ten_thousand_lines_have_transformers_ids_and_texts(kind):
    ours, peer = both_once(kind)
    lines = many(10_000)
    rows = peer(lines).input_ids
    assert [ids(ours, line) for line in lines] == rows
    assert [ours.decode(row) for row in rows] == peer.batch_decode(rows, skip_special_tokens=True)


@KIND
def test_texts_come_back(kind):
    ours, _ = both_once(kind)
    for text in [*LINES[::11], "naïve 🚗\n日本語\t x"]:
        assert ours.decode(ids(ours, text)) == text


@pytest.mark.parametrize("begin", [True, False])
@pytest.mark.parametrize("end", [True, False])
def test_begin_and_end_are_added_as_the_settings_say(begin, end):
    ours, peer = both(pieces("llama2", add_bos_token=begin, add_eos_token=end))
    assert ids(ours, "the dog") == peer("the dog").input_ids


@pytest.mark.parametrize("kind", ["llama2", "gemma"])
@pytest.mark.parametrize("legacy", [True, False])
def test_a_sentencepiece_model_alone_is_read(kind, legacy):
    """Without ``legacy`` transformers drops a space at the start of a text, which SentencePiece keeps."""
    place = pieces(kind, legacy=legacy)
    ours, peer = both(place)
    own = SentencePieceProcessor(model_file=str(place / "tokenizer.model"))
    bos, eos = ("<bos>", "<eos>") if kind == "gemma" else ("<s>", "</s>")
    for text in [*PLAIN, *ODD, *LINES[::5]]:
        assert ours.encode(text) == own.encode(text), text
        if legacy or not text.startswith(" "):
            assert ids(ours, text) == peer(text).input_ids, text
        assert ours.decode(ours.encode(text)) == text
    for text in [f"{bos}the dog{eos} and{eos} {bos}", f"a{eos}b", f"{eos}  b"]:
        assert ids(ours, text) == peer(text).input_ids, text
    assert ids(ours, "the dog") == [own.bos_id(), *own.encode("the dog")]


@pytest.mark.parametrize("kind", ["llama2", "gemma"])
@settings(max_examples=60, deadline=None)
@given(text=ANY)
def test_any_text_has_sentencepieces_ids(kind, text):
    if kind not in READ:
        place = pieces(kind)
        peer = SentencePieceProcessor(model_file=str(place / "tokenizer.model"))
        READ[kind] = read_decoder_tokeniser(place, TokenIds(peer.get_piece_size())), peer
    ours, peer = READ[kind]
    assert ours.encode(text) == peer.encode(text)
    assert ours.decode(ours.encode(text)) == peer.decode(peer.encode(text))


READ = {}


def test_added_tokens_of_a_sentencepiece_model_have_their_ids(tmp_path):
    place = tmp_path / "m"
    shutil.copytree(pieces("llama2"), place)
    size = SentencePieceProcessor(model_file=str(place / "tokenizer.model")).get_piece_size()
    config = json.loads((place / "tokenizer_config.json").read_text())
    added = {str(size): {"content": "<|im_start|>", "special": True}}
    write_json(
        place / "tokenizer_config.json", config | {"added_tokens_decoder": added, "pad_token": "[PAD]"}
    )
    ours = read_decoder_tokeniser(place, TokenIds(size + 2))
    assert ours.encode("the<|im_start|>dog[PAD]")[1] == size
    assert ours.number("[PAD]") == size + 1
    assert ours.decode(ours.encode("the<|im_start|> dog[PAD]")) == "the  dog"


def test_tokens_without_a_row_are_refused_in_texts_only(tmp_path):
    """Gemma's tokeniser has a token for images that its language model has no row for."""
    size = len(both_once("gemma")[1])
    ours = read_decoder_tokeniser(folder("gemma"), TokenIds(size))
    assert ours.vocabulary == size
    place = tmp_path / "m"
    shutil.copytree(folder("gemma"), place)
    config = json.loads((place / "tokenizer_config.json").read_text())
    write_json(place / "tokenizer_config.json", config | {"mask_token": "<image>"})
    ours = read_decoder_tokeniser(place, TokenIds(size))
    with pytest.raises(DataError, match="no embedding for <image>"):
        ours.encode("an <image>")
    with pytest.raises(ModelError, match=f"has {size + 1} pieces, but the weights are for {size - 1}"):
        read_decoder_tokeniser(place, TokenIds(size - 1))
    with pytest.raises(ModelError, match="different models"):
        read_decoder_tokeniser(place, TokenIds(size + 2000))


def test_bad_folders_are_refused(tmp_path):
    with pytest.raises(
        ModelError, match=r"no tokeniser found; expected tokenizer\.json, or tokenizer\.model"
    ):
        read_decoder_tokeniser(tmp_path, TokenIds(10))
    (tmp_path / "tokenizer.model").write_bytes(b"no model")
    with pytest.raises(ModelError, match="damaged or not a SentencePiece model"):
        read_decoder_tokeniser(tmp_path, TokenIds(10))
    shutil.copytree(pieces("llama2"), tmp_path / "p")
    size = SentencePieceProcessor(model_file=str(tmp_path / "p/tokenizer.model")).get_piece_size()
    config = json.loads((tmp_path / "p/tokenizer_config.json").read_text())
    write_json(tmp_path / "p/tokenizer_config.json", config | {"bos_token": "<new>"})
    with pytest.raises(ModelError, match="adds <new> to texts, but the weights have no row"):
        read_decoder_tokeniser(tmp_path / "p", TokenIds(size))
    write_json(tmp_path / "p/tokenizer_config.json", config | {"added_tokens_decoder": {"99999999": "<far>"}})
    with pytest.raises(ModelError, match="numbers an added token 99999999"):
        read_decoder_tokeniser(tmp_path / "p", TokenIds(600))
