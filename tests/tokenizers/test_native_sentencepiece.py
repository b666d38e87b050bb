"""SentencePiece in C++: agreement with the library `sentencepiece`; damaged models are rejected."""

from collections.abc import Callable
from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pretrained_texts import LINES, ODD_TEXTS, sentencepiece
from sentencepiece import SentencePieceProcessor

from uwaga.engine._core import SentencePiece

MODELS = {
    "unigram": {},
    "bpe": {"kind": "bpe", "size": 500},
    "bytes": {"byte_fallback": True, "size": 600, "user_defined_symbols": ["<tag>", "ab"]},
    "bpe of bytes": {"kind": "bpe", "byte_fallback": True, "size": 600, "user_defined_symbols": ["<tag>"]},
    "spaces kept": {"remove_extra_whitespaces": False, "control_symbols": [">>deu<<"]},
    "no prefix": {"kind": "bpe", "size": 500, "add_dummy_prefix": False},
    "suffix": {"treat_whitespace_as_suffix": True},
    "words": {"kind": "word", "size": 40},
    "words of bytes": {"kind": "word", "byte_fallback": True, "size": 300},
    "characters": {"kind": "char", "size": 50, "user_defined_symbols": ["<tag>", "ab"]},
    "symbols": {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "unk_surface": "?"},
}
SCRIPTS = {
    "Latin": (0x20, 0x24F), "Greek": (0x370, 0x3FF), "Cyrillic": (0x400, 0x4FF), "Arabic": (0x600, 0x6FF),
    "Devanagari": (0x900, 0x97F), "Chinese": (0x4E00, 0x9FFF), "emoji": (0x1F300, 0x1F64F),
    "combining": (0x300, 0x36F), "punctuation": (0x2000, 0x206F), "wide": (0xFF00, 0xFFEF),
    "any": (0x1, 0xD7FF),
}  # fmt: skip
SPECIAL_TEXTS = [
    "<tag>", "<unk>", "<s>", "</s>", "<0x41>", "▁", " ", "  ", "\t", "\u3000", "ﬁ", "ab", ">>deu<<",
]  # fmt: skip
runs = st.one_of(
    *(
        st.text(st.characters(min_codepoint=first, max_codepoint=last), min_size=1, max_size=6)
        for first, last in SCRIPTS.values()
    ),
    st.sampled_from([*SPECIAL_TEXTS, *ODD_TEXTS, *LINES[:50]]),
)
texts = st.lists(runs, max_size=8).map("".join)


@cache
def trained_model(name: str) -> bytes:
    return sentencepiece(**MODELS[name])


NORMAL, UNKNOWN, CONTROL = 1, 2, 3


def piece_message(text: str, kind: int) -> bytes:
    """Return the serialised message of a piece with score 0."""
    body = b"\x0a" + bytes((len(text.encode()),)) + text.encode() + bytes((0x15, 0, 0, 0, 0, 0x18, kind))
    return b"\x0a" + bytes((len(body),)) + body


@cache
def peer_and_native(name: str) -> tuple[SentencePieceProcessor, SentencePiece]:
    model = trained_model(name)
    return SentencePieceProcessor(model_proto=model), SentencePiece(model)


def check(name: str, text: str) -> None:
    library, native = peer_and_native(name)
    ids, pieces = library.encode(text), library.encode(text, out_type=str)
    assert native.normalise(text) == library.normalize(text)
    assert [native.number(piece) for piece in pieces] == [library.piece_to_id(piece) for piece in pieces]
    assert native.encode(text) == ids
    assert native.pieces(text) == pieces
    assert native.decode(ids) == library.decode(ids)
    assert native.join(pieces) == library.decode_pieces(pieces)


@pytest.mark.parametrize("name", MODELS)
def test_encoded_and_decoded_texts_match_the_sentencepiece_library(name: str) -> None:
    library, native = peer_and_native(name)
    assert len(native) == library.get_piece_size()
    assert native.symbols == (library.bos_id(), library.eos_id(), library.pad_id(), library.unk_id())
    numbers = range(len(native))
    assert [native.piece(number) for number in numbers] == [library.id_to_piece(number) for number in numbers]
    assert [native.is_control(number) for number in numbers] == [
        library.is_control(number) for number in numbers
    ]
    assert [native.is_byte(number) for number in numbers] == [library.is_byte(number) for number in numbers]
    for text in [*LINES, *ODD_TEXTS]:
        check(name, text)
    assert native.encode_batch([*LINES, *ODD_TEXTS]) == library.encode([*LINES, *ODD_TEXTS])


@given(name=st.sampled_from(list(MODELS)), text=texts)
def test_encoding_any_text_matches_the_sentencepiece_library(name: str, text: str) -> None:
    check(name, text)


@given(name=st.sampled_from(list(MODELS)), seed=st.integers(0, 2**32), count=st.integers(0, 12))
def test_decoding_any_ids_matches_the_sentencepiece_library(name: str, seed: int, count: int) -> None:
    library, native = peer_and_native(name)
    random = Random(seed)
    ids = [random.randrange(len(native)) for _ in range(count)]
    assert native.decode(ids) == library.decode(ids)


@pytest.mark.release
@pytest.mark.parametrize("name", MODELS)
def test_ids_of_100_000_lines_match_the_sentencepiece_library(name: str) -> None:
    library, native = peer_and_native(name)
    random = Random(7)
    spans = list(SCRIPTS.values())
    lines = []
    for _ in range(100_000 // len(MODELS)):
        first, last = random.choice(spans)
        words = (
            "".join(chr(random.randint(first, last)) for _ in range(random.randint(1, 7)))
            for _ in range(random.randint(1, 9))
        )
        lines.append(" ".join([*words, random.choice([*SPECIAL_TEXTS, *LINES, ""])]))
    ids = library.encode(lines)
    assert [native.encode(line) for line in lines] == ids
    assert [native.decode(row) for row in ids] == library.decode(ids)


def test_encoding_without_a_space_prefix_matches_the_sentencepiece_library() -> None:
    no_prefix = b"\x1a\x02\x18\x00"  # normalizer_spec.add_dummy_prefix = false; a later field wins
    model = sentencepiece()
    library, native = SentencePieceProcessor(model_proto=model + no_prefix), SentencePiece(model)
    assert native.encode("cats here", prefix=False) == library.encode("cats here")
    assert native.normalise("cats here", prefix=False) == library.normalize("cats here")


def test_ids_outside_the_vocabulary_are_rejected() -> None:
    _, native = peer_and_native("unigram")
    for invalid in (-1, len(native)):
        for call, number in (
            (native.decode, [invalid]),
            (native.piece, invalid),
            (native.is_control, invalid),
        ):
            with pytest.raises(IndexError, match=f"no piece has the id {invalid}"):
                call(number)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: b"", "no unknown symbol"),
        (lambda: b"not a model", "damaged"),
        (lambda: b"\x0a\xff\xff\xff\xff\x7f", "damaged"),
        (lambda: trained_model("unigram")[:-3], "damaged"),
        (lambda: trained_model("unigram") + b"\x12\x02\x18\x05", "algorithm is unknown"),
        (lambda: trained_model("unigram") + piece_message("the", NORMAL) + piece_message("the", NORMAL),
         "is there twice"),
        (lambda: trained_model("unigram") + 2 * piece_message("<more>", CONTROL), "is there twice"),
        (lambda: trained_model("unigram") + piece_message("", NORMAL), "is empty"),
        (lambda: trained_model("unigram") + piece_message("<more>", UNKNOWN), "two unknown symbols"),
        (lambda: piece_message("<unk>", UNKNOWN), "no pieces"),
        (lambda: trained_model("unigram") + b"\x1a\x06\x12\x04\xff\xff\xff\xff", "character map is damaged"),
    ],
)  # fmt: skip
def test_damaged_or_unsupported_model_is_rejected(model: Callable[[], bytes], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SentencePiece(model())


def test_control_symbol_spelt_like_a_normal_piece_matches_the_sentencepiece_library() -> None:
    _, before = peer_and_native("unigram")
    spelt = before.pieces(LINES[0])[0]
    model = trained_model("unigram") + piece_message(spelt, CONTROL)
    library, native = SentencePieceProcessor(model_proto=model), SentencePiece(model)
    assert native.number(spelt) == library.piece_to_id(spelt) == len(before)
    assert native.encode(LINES[0]) == library.encode(LINES[0])
    assert native.pieces(LINES[0]) == library.encode(LINES[0], out_type=str)


@given(name=st.sampled_from(["unigram", "bpe of bytes"]), seed=st.integers(0, 2**32), text=texts)
def test_mutated_model_segments_text_or_raises_value_error(name: str, seed: int, text: str) -> None:
    random = Random(seed)
    model = bytearray(trained_model(name))
    for _ in range(random.randint(1, 30)):
        model[random.randrange(len(model))] = random.randrange(256)
    try:
        native = SentencePiece(bytes(model[: random.randint(1, len(model))] if seed % 3 == 0 else model))
        native.decode(native.encode(text))
    except ValueError:
        pass
