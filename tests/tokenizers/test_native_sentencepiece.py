"""SentencePiece in C++: equal to the library `sentencepiece` both ways; damaged models are refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pretrained_texts import LINES, ODD, sentencepiece
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
    "Latin": (0x20, 0x24F),
    "Greek": (0x370, 0x3FF),
    "Cyrillic": (0x400, 0x4FF),
    "Arabic": (0x600, 0x6FF),
    "Devanagari": (0x900, 0x97F),
    "Chinese": (0x4E00, 0x9FFF),
    "emoji": (0x1F300, 0x1F64F),
    "combining": (0x300, 0x36F),
    "punctuation": (0x2000, 0x206F),
    "wide": (0xFF00, 0xFFEF),
    "any": (0x1, 0xD7FF),
}
SPELLED = ["<tag>", "<unk>", "<s>", "</s>", "<0x41>", "▁", " ", "  ", "\t", "\u3000", "ﬁ", "ab", ">>deu<<"]
runs = st.one_of(
    *(
        st.text(st.characters(min_codepoint=first, max_codepoint=last), min_size=1, max_size=6)
        for first, last in SCRIPTS.values()
    ),
    st.sampled_from([*SPELLED, *ODD, *LINES[:50]]),
)
texts = st.lists(runs, max_size=8).map("".join)


@cache
def trained(name: str) -> bytes:
    return sentencepiece(**MODELS[name])


NORMAL, UNKNOWN, CONTROL = 1, 2, 3


def piece(text: str, kind: int) -> bytes:
    """The message of a piece with the score 0."""
    body = b"\x0a" + bytes((len(text.encode()),)) + text.encode() + bytes((0x15, 0, 0, 0, 0, 0x18, kind))
    return b"\x0a" + bytes((len(body),)) + body


@cache
def both(name: str) -> tuple[SentencePieceProcessor, SentencePiece]:
    model = trained(name)
    return SentencePieceProcessor(model_proto=model), SentencePiece(model)


def check(name: str, text: str) -> None:
    library, ours = both(name)
    ids, pieces = library.encode(text), library.encode(text, out_type=str)
    assert ours.normalise(text) == library.normalize(text)
    assert [ours.number(piece) for piece in pieces] == [library.piece_to_id(piece) for piece in pieces]
    assert ours.encode(text) == ids
    assert ours.pieces(text) == pieces
    assert ours.decode(ids) == library.decode(ids)
    assert ours.join(pieces) == library.decode_pieces(pieces)


@pytest.mark.parametrize("name", MODELS)
def test_texts_are_segmented_and_joined_as_by_the_library(name: str) -> None:
    library, ours = both(name)
    assert len(ours) == library.get_piece_size()
    assert ours.symbols == (library.bos_id(), library.eos_id(), library.pad_id(), library.unk_id())
    every = range(len(ours))
    assert [ours.piece(number) for number in every] == [library.id_to_piece(number) for number in every]
    assert [ours.is_control(number) for number in every] == [library.is_control(number) for number in every]
    assert [ours.is_byte(number) for number in every] == [library.is_byte(number) for number in every]
    for text in [*LINES, *ODD]:
        check(name, text)
    assert ours.encode_batch([*LINES, *ODD]) == library.encode([*LINES, *ODD])


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(list(MODELS)), text=texts)
def test_any_text_is_segmented_as_by_the_library(name: str, text: str) -> None:
    check(name, text)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(list(MODELS)), seed=st.integers(0, 2**32), count=st.integers(0, 12))
def test_any_ids_are_joined_as_by_the_library(name: str, seed: int, count: int) -> None:
    library, ours = both(name)
    random = Random(seed)
    ids = [random.randrange(len(ours)) for _ in range(count)]
    assert ours.decode(ids) == library.decode(ids)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_hundred_thousand_lines_of_seven_scripts_are_equal(name: str) -> None:
    library, ours = both(name)
    random = Random(7)
    spans = list(SCRIPTS.values())
    lines = []
    for _ in range(100_000 // len(MODELS)):
        first, last = random.choice(spans)
        words = (
            "".join(chr(random.randint(first, last)) for _ in range(random.randint(1, 7)))
            for _ in range(random.randint(1, 9))
        )
        lines.append(" ".join([*words, random.choice([*SPELLED, *LINES, ""])]))
    ids = library.encode(lines)
    assert [ours.encode(line) for line in lines] == ids
    assert [ours.decode(row) for row in ids] == library.decode(ids)


def test_without_a_prefix_no_space_is_added() -> None:
    no_prefix = b"\x1a\x02\x18\x00"  # normalizer_spec.add_dummy_prefix = false; a later field wins
    model = sentencepiece()
    bare, ours = SentencePieceProcessor(model_proto=model + no_prefix), SentencePiece(model)
    assert ours.encode("cats here", prefix=False) == bare.encode("cats here")
    assert ours.normalise("cats here", prefix=False) == bare.normalize("cats here")


def test_ids_outside_the_vocabulary_are_refused() -> None:
    _, ours = both("unigram")
    for wrong in (-1, len(ours)):
        for call, number in ((ours.decode, [wrong]), (ours.piece, wrong), (ours.is_control, wrong)):
            with pytest.raises(IndexError, match=f"no piece has the id {wrong}"):
                call(number)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: b"", "no unknown symbol"),
        (lambda: b"not a model", "damaged"),
        (lambda: b"\x0a\xff\xff\xff\xff\x7f", "damaged"),
        (lambda: trained("unigram")[:-3], "damaged"),
        (lambda: trained("unigram") + b"\x12\x02\x18\x05", "algorithm is unknown"),
        (lambda: trained("unigram") + piece("the", NORMAL) + piece("the", NORMAL), "is there twice"),
        (lambda: trained("unigram") + 2 * piece("<more>", CONTROL), "is there twice"),
        (lambda: trained("unigram") + piece("", NORMAL), "is empty"),
        (lambda: trained("unigram") + piece("<more>", UNKNOWN), "two unknown symbols"),
        (lambda: piece("<unk>", UNKNOWN), "no pieces"),
        (lambda: trained("unigram") + b"\x1a\x06\x12\x04\xff\xff\xff\xff", "character map is damaged"),
    ],
)
def test_a_damaged_or_unknown_model_is_refused(model: Callable[[], bytes], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SentencePiece(model())


def test_a_control_symbol_may_be_spelt_as_a_normal_piece() -> None:
    _, before = both("unigram")
    spelt = before.pieces(LINES[0])[0]
    model = trained("unigram") + piece(spelt, CONTROL)
    library, ours = SentencePieceProcessor(model_proto=model), SentencePiece(model)
    assert ours.number(spelt) == library.piece_to_id(spelt) == len(before)
    assert ours.encode(LINES[0]) == library.encode(LINES[0])
    assert ours.pieces(LINES[0]) == library.encode(LINES[0], out_type=str)


@settings(max_examples=80, deadline=None)
@given(name=st.sampled_from(["unigram", "bpe of bytes"]), seed=st.integers(0, 2**32), text=texts)
def test_a_mutated_model_is_refused_or_segments_the_text(name: str, seed: int, text: str) -> None:
    random = Random(seed)
    model = bytearray(trained(name))
    for _ in range(random.randint(1, 30)):
        model[random.randrange(len(model))] = random.randrange(256)
    try:
        ours = SentencePiece(bytes(model[: random.randint(1, len(model))] if seed % 3 == 0 else model))
        ours.decode(ours.encode(text))
    except ValueError:
        pass
