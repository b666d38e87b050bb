"""Character spans of subword pieces in their text, for various texts and tokenisers."""

import itertools
import unicodedata
from functools import cache

import pytest
import tiny_models as tiny
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pretrained_tokenisers import FAMILIES, newer_format

from uwaga.alignment.piece_alignment import PieceAlignment, align_words, compose_alignments
from uwaga.alignment.piece_spans import piece_spans
from uwaga.alignment.words import split_words, word_spans
from uwaga.decoder import Symbols
from uwaga.results.translation import WordAlignment

WORDS = [
    "the", "Dog", "HOUSE", "naïve", "Straße", "ﬁne", "½", "Ｗｉｄｅ", "…", "日本語", "हिन्दी", "ภาษา", "😀",
    "e\u0301", "▁", "##a", "<s>", "<0x41>", "İ", "\u00ad", "a\u200db", "'", "x.y", "\u2028", "Ġ",
]  # fmt: skip
TEXTS = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=4)), max_size=9).map(" ".join)


class PieceTokeniser:
    """A tokeniser whose token ids are indices into a given list of pieces."""

    def __init__(self, pieces: list[str], unknown: int = -4) -> None:
        self.symbols = Symbols(-1, -2, -3, unknown)
        self._pieces = pieces

    def pieces(self, ids):
        return [self._pieces[token] for token in ids]

    def add_special_tokens(self, ids):
        return [*ids, self.symbols.end]


def spans_of_pieces(text: str, *pieces: str, unknown: int = -4):
    return piece_spans(text, list(range(len(pieces))), PieceTokeniser(list(pieces), unknown))


def span_texts(text: str, spans):
    return [None if span is None else text[span[0] : span[1]] for span in spans]


def check_spans(text: str, spans) -> None:
    text_spans = [span for span in spans if span is not None]
    assert all(0 <= start <= end <= len(text) for start, end in text_spans)
    assert all(
        span[0] <= next_span[0] and span[1] <= next_span[1]
        for span, next_span in itertools.pairwise(text_spans)
    )
    for start, end in text_spans:
        if start < end:
            assert not text[start].isspace() and not text[end - 1].isspace()


def is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@given(TEXTS.filter(is_encodable))
@example("▁ ▁a")
@example("He LIKES ﬁne Straßencafés, ½ … 😀 e\u0301")
def test_piece_spans_contain_all_encoded_characters(text):
    for normalisation in ("identity", "nfkc"):
        tokeniser = tiny.tokeniser(normalisation=normalisation)
        ids = tokeniser.add_special_tokens(tokeniser.encode(text))
        spans = piece_spans(text, ids, tokeniser)
        check_spans(text, spans)
        assert len(spans) == len(ids) and spans[-1] is None
        covered = {index for span in spans if span for index in range(*span)}
        decoded = {unicodedata.normalize("NFKD", letter) for letter in tokeniser.decode(ids)}
        for index, letter in enumerate(text):
            decomposed = unicodedata.normalize("NFKD", letter)
            if not letter.isspace() and decomposed in decoded and len(decomposed) == 1:
                assert index in covered or normalisation == "nfkc"
        if normalisation == "identity":
            assert {index for index, letter in enumerate(text) if not letter.isspace()} <= covered


@given(TEXTS.filter(is_encodable))
def test_piece_spans_contain_all_decoded_characters(text):
    tokeniser = tiny.tokeniser()
    ids = tokeniser.encode(text)
    decoded = tokeniser.decode(ids)
    spans = piece_spans(decoded, ids, tokeniser)
    check_spans(decoded, spans)
    assert {index for index, letter in enumerate(decoded) if not letter.isspace()} <= {
        index for span in spans if span for index in range(*span)
    }


@cache
def family(name: str):
    tokenisers = newer_format(name).sides
    return tokenisers.source, tokenisers.target


@pytest.mark.parametrize("name", FAMILIES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS.filter(is_encodable))
@example(text="The naïve dog's HOUSE, İstanbul")
def test_piece_spans_are_valid_for_all_tokeniser_families(name, text):
    for tokeniser in family(name):
        ids = tokeniser.add_special_tokens(tokeniser.encode(text))
        check_spans(text, piece_spans(text, ids, tokeniser))
        known_tokens = [token for token in ids if token != tokeniser.symbols.unknown]
        decoded = tokeniser.decode(known_tokens)
        check_spans(decoded, piece_spans(decoded, known_tokens, tokeniser))


@pytest.mark.parametrize("name", FAMILIES)
def test_piece_spans_join_to_the_words_of_a_simple_text(name):
    for tokeniser in family(name):
        text = "the dog sees the cat"
        ids = tokeniser.add_special_tokens(tokeniser.encode(text))
        texts = [part for part in span_texts(text, piece_spans(text, ids, tokeniser)) if part]
        assert "".join(texts) == text.replace(" ", "")


def test_piece_spans_match_worked_examples():
    assert span_texts("Hello you", spans_of_pieces("Hello you", "▁Hel", "lo", "▁", "you")) == [
        "Hel", "lo", "", "you",
    ]  # fmt: skip
    assert spans_of_pieces("a b", "▁a", "▁", "b")[1] == (2, 2)  # a space belongs to the next word
    assert span_texts("naïve é", spans_of_pieces("naïve é", "na", "Ã¯", "ve", "ĠÃ", "©")) == [
        "na", "ï", "ve", "é", "é",
    ]  # fmt: skip
    assert span_texts("Hello", spans_of_pieces("Hello", "hel", "##lo")) == ["Hel", "lo"]
    assert span_texts("a €!", spans_of_pieces("a €!", "▁a", "▁", "<0xE2>", "<0x82>", "<0xAC>", "!")) == [
        "a", "", "€", "€", "€", "!",
    ]  # fmt: skip
    assert span_texts("ﬁne", spans_of_pieces("ﬁne", "▁f", "ine")) == ["ﬁ", "ﬁne"]
    assert span_texts("Cafe\u0301 x", spans_of_pieces("Cafe\u0301 x", "▁caf", "é", "▁x")) == [
        "Caf",
        "e\u0301",
        "x",
    ]
    assert span_texts("x 日本 y", spans_of_pieces("x 日本 y", "▁x", "<unk>", "▁y", unknown=1)) == [
        "x",
        "日本",
        "y",
    ]
    assert span_texts("Hund", spans_of_pieces("Hund", ">>deu<<", "▁Hund")) == [None, "Hund"]
    assert span_texts(">>deu<< Hund", spans_of_pieces(">>deu<< Hund", ">>deu<<", "▁Hund")) == [
        ">>deu<<",
        "Hund",
    ]
    assert spans_of_pieces("", "▁", "x") == [(0, 0), None]
    assert spans_of_pieces("", *[]) == []


def test_pieces_that_do_not_match_a_long_text_divide_it_evenly():
    text, pieces = "ab" * 4000, ["xy" * 2000]
    assert spans_of_pieces(text, *pieces) == [(0, len(text))]


@settings(deadline=None)
@given(TEXTS)
def test_words_contain_all_characters_except_white_space(text):
    for kind in ("words", "spaces"):
        spans = word_spans(text, kind)
        assert [text[start:end] for start, end in spans] == split_words(text, kind)
        assert all(span[1] <= next_span[0] for span, next_span in itertools.pairwise(spans))
        covered = {index for span in spans for index in range(*span)}
        assert {index for index, letter in enumerate(text) if not letter.isspace()} <= covered


def test_words_of_various_scripts_are_split():
    assert split_words("e\u0301te\u0301 naïve") == ["e\u0301te\u0301", "naïve"]
    assert split_words("मैं हिन्दी बोलता हूँ।") == ["मैं", "हिन्दी", "बोलता", "हूँ", "।"]
    assert split_words("我爱北京。OK") == ["我", "爱", "北", "京", "。", "OK"]
    assert split_words("don't go-there, 3.5") == ["don't", "go-there", ",", "3", ".", "5"]


def test_words_are_linked_by_their_largest_attention_weights():
    import numpy as np

    source, target = "a bc .", "x yz"
    pieces = PieceAlignment(
        ((0, 1), (2, 3), (3, 4), (5, 6), None),
        ((0, 1), (2, 3), (3, 4)),
        np.eye(5, dtype=np.float32)[[4, 0, 2]],
    )
    linked = align_words([pieces], word_spans(source), word_spans(target))
    assert linked.links == ((0, 1), (1, 1))  # the first piece attends to the end symbol, so to no word
    assert str(linked) == "0-1 1-1"
    empty = PieceAlignment((None,), (), np.zeros((0, 1), np.float32))
    assert align_words([empty], [], []).links == ()


def test_composed_alignments_link_the_source_to_the_final_target():
    first = WordAlignment(((0, 1), (2, 3)), ((0, 1), (2, 3), (4, 5)), ((0, 1), (1, 0), (1, 2)))
    second = WordAlignment(first.target, ((0, 4),), ((1, 0), (2, 0)))
    assert compose_alignments([first, second]) == WordAlignment(first.source, second.target, ((0, 0), (1, 0)))
    assert compose_alignments([first]) == first and compose_alignments([first, None]) is None


def test_unlinked_source_words_are_linked_by_their_largest_attention_weight():
    import numpy as np

    def links(weights, target="Children run ."):
        texts = "As crianças correm .", target
        spans = [word_spans(text) for text in texts]
        pieces = PieceAlignment(*(tuple(span_list) for span_list in spans), np.array(weights, np.float32))
        return set(align_words([pieces], *spans, texts).links)

    run, end = [0, 0, 1, 0], [0, 0, 0, 1]
    assert links([[0.7, 0.3, 0, 0], run, end]) == {(0, 0), (1, 0), (2, 1), (3, 2)}
    assert links([[0.9, 0.1, 0, 0], run, end]) == {(0, 0), (2, 1), (3, 2)}
    comma = [0.2, 0.5, 0.3, 0]  # punctuation that attends to words
    assert links([[0.1, 0.9, 0, 0], comma, run, end], "Children , run .") == {(1, 0), (2, 2), (3, 3)}
