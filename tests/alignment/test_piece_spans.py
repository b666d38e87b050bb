"""Where pieces stand in their text: laws over texts and tokenisers of every kind."""

from __future__ import annotations

import itertools
import unicodedata
from functools import cache

import pytest
import tiny_models as tiny
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pretrained_tokenisers import FAMILIES, newer

from uwaga.alignment.piece_alignment import PieceAlignment, align_words, chained
from uwaga.alignment.piece_spans import piece_spans
from uwaga.alignment.words import split_words, word_spans
from uwaga.decoder import Symbols
from uwaga.results.translation import WordAlignment

WORDS = [
    "the",
    "Dog",
    "HOUSE",
    "naïve",
    "Straße",
    "ﬁne",
    "½",
    "Ｗｉｄｅ",
    "…",
    "日本語",
    "हिन्दी",
    "ภาษา",
    "😀",
    "e\u0301",
    "▁",
    "##a",
    "<s>",
    "<0x41>",
    "İ",
    "\u00ad",
    "a\u200db",
    "'",
    "x.y",
    "\u2028",
    "Ġ",
]
TEXTS = st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=4)), max_size=9).map(" ".join)


class Spelt:
    """A tokeniser of which only the pieces are known: token n is piece n."""

    def __init__(self, pieces: list[str], unknown: int = -4) -> None:
        self.symbols = Symbols(-1, -2, -3, unknown)
        self._pieces = pieces

    def pieces(self, ids):
        return [self._pieces[token] for token in ids]

    def add_special_tokens(self, ids):
        return [*ids, self.symbols.end]


def spans_of(text: str, *pieces: str, unknown: int = -4):
    return piece_spans(text, list(range(len(pieces))), Spelt(list(pieces), unknown))


def shown(text: str, spans):
    return [None if span is None else text[span[0] : span[1]] for span in spans]


def check_laws(text: str, spans) -> None:
    known = [span for span in spans if span is not None]
    assert all(0 <= start <= end <= len(text) for start, end in known)
    assert all(one[0] <= other[0] and one[1] <= other[1] for one, other in itertools.pairwise(known))
    for start, end in known:
        if start < end:
            assert not text[start].isspace() and not text[end - 1].isspace()


def valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@settings(max_examples=60, deadline=None)
@given(TEXTS.filter(valid))
@example("▁ ▁a")
@example("He LIKES ﬁne Straßencafés, ½ … 😀 e\u0301")
def test_every_character_that_is_kept_is_in_a_span(text):
    for normalisation in ("identity", "nfkc"):
        joint = tiny.tokeniser(normalisation=normalisation)
        ids = joint.add_special_tokens(joint.encode(text))
        spans = piece_spans(text, ids, joint)
        check_laws(text, spans)
        assert len(spans) == len(ids) and spans[-1] is None
        covered = {at for span in spans if span for at in range(*span)}
        kept = {unicodedata.normalize("NFKD", letter) for letter in joint.decode(ids)}
        for at, letter in enumerate(text):
            whole = unicodedata.normalize("NFKD", letter)
            if not letter.isspace() and whole in kept and len(whole) == 1:
                assert at in covered or normalisation == "nfkc"
        if normalisation == "identity":
            assert {at for at, letter in enumerate(text) if not letter.isspace()} <= covered


@settings(max_examples=50, deadline=None)
@given(TEXTS.filter(valid))
def test_of_what_was_decoded_every_character_is_in_a_span(text):
    joint = tiny.tokeniser()
    ids = joint.encode(text)
    made = joint.decode(ids)
    spans = piece_spans(made, ids, joint)
    check_laws(made, spans)
    assert {at for at, letter in enumerate(made) if not letter.isspace()} <= {
        at for span in spans if span for at in range(*span)
    }


@cache
def family(name: str):
    sides = newer(name).sides
    return sides.source, sides.target


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS.filter(valid))
@example(text="The naïve dog's HOUSE, İstanbul")
def test_laws_hold_for_every_familys_tokeniser(name, text):
    for side in family(name):
        ids = side.add_special_tokens(side.encode(text))
        check_laws(text, piece_spans(text, ids, side))
        kept = [token for token in ids if token != side.symbols.unknown]
        made = side.decode(kept)
        check_laws(made, piece_spans(made, kept, side))


@pytest.mark.parametrize("name", FAMILIES)
def test_plain_words_have_their_own_letters(name):
    for side in family(name):
        text = "the dog sees the cat"
        ids = side.add_special_tokens(side.encode(text))
        found = [part for part in shown(text, piece_spans(text, ids, side)) if part]
        assert "".join(found) == text.replace(" ", "")


def test_pieces_of_every_notation():
    assert shown("Hello you", spans_of("Hello you", "▁Hel", "lo", "▁", "you")) == ["Hel", "lo", "", "you"]
    assert spans_of("a b", "▁a", "▁", "b")[1] == (2, 2)  # a space is of the word behind it
    assert shown("naïve é", spans_of("naïve é", "na", "Ã¯", "ve", "ĠÃ", "©")) == ["na", "ï", "ve", "é", "é"]
    assert shown("Hello", spans_of("Hello", "hel", "##lo")) == ["Hel", "lo"]
    assert shown("a €!", spans_of("a €!", "▁a", "▁", "<0xE2>", "<0x82>", "<0xAC>", "!")) == [
        "a",
        "",
        "€",
        "€",
        "€",
        "!",
    ]
    assert shown("ﬁne", spans_of("ﬁne", "▁f", "ine")) == ["ﬁ", "ﬁne"]
    assert shown("Cafe\u0301 x", spans_of("Cafe\u0301 x", "▁caf", "é", "▁x")) == ["Caf", "e\u0301", "x"]
    assert shown("x 日本 y", spans_of("x 日本 y", "▁x", "<unk>", "▁y", unknown=1)) == ["x", "日本", "y"]
    assert shown("Hund", spans_of("Hund", ">>deu<<", "▁Hund")) == [None, "Hund"]
    assert shown(">>deu<< Hund", spans_of(">>deu<< Hund", ">>deu<<", "▁Hund")) == [">>deu<<", "Hund"]
    assert spans_of("", "▁", "x") == [(0, 0), None]
    assert spans_of("", *[]) == []


def test_long_texts_that_differ_everywhere_take_no_time():
    text, other = "ab" * 4000, ["xy" * 2000]
    assert spans_of(text, *other) == [(0, len(text))]


@settings(deadline=None)
@given(TEXTS)
def test_words_hold_every_character_but_white_space(text):
    for kind in ("words", "spaces"):
        spans = word_spans(text, kind)
        assert [text[start:end] for start, end in spans] == split_words(text, kind)
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))
        covered = {at for span in spans for at in range(*span)}
        assert {at for at, letter in enumerate(text) if not letter.isspace()} <= covered


def test_marks_stay_with_their_letters_and_unspaced_scripts_are_cut():
    assert split_words("e\u0301te\u0301 naïve") == ["e\u0301te\u0301", "naïve"]
    assert split_words("मैं हिन्दी बोलता हूँ।") == ["मैं", "हिन्दी", "बोलता", "हूँ", "।"]
    assert split_words("我爱北京。OK") == ["我", "爱", "北", "京", "。", "OK"]
    assert split_words("don't go-there, 3.5") == ["don't", "go-there", ",", "3", ".", "5"]


def test_a_word_links_to_what_its_pieces_look_at_most():
    import numpy as np

    source, target = "a bc .", "x yz"
    pieces = PieceAlignment(
        ((0, 1), (2, 3), (3, 4), (5, 6), None),
        ((0, 1), (2, 3), (3, 4)),
        np.eye(5, dtype=np.float32)[[4, 0, 2]],
    )
    linked = align_words([pieces], word_spans(source), word_spans(target))
    assert linked.links == ((0, 1), (1, 1))  # the first looks at the end, and so at no word
    assert str(linked) == "0-1 1-1"
    empty = PieceAlignment((None,), (), np.zeros((0, 1), np.float32))
    assert align_words([empty], [], []).links == ()


def test_links_through_a_text_between():
    one = WordAlignment(((0, 1), (2, 3)), ((0, 1), (2, 3), (4, 5)), ((0, 1), (1, 0), (1, 2)))
    two = WordAlignment(one.target, ((0, 4),), ((1, 0), (2, 0)))
    assert chained([one, two]) == WordAlignment(one.source, two.target, ((0, 0), (1, 0)))
    assert chained([one]) == one and chained([one, None]) is None


def test_a_word_that_no_piece_looks_at_most_links_to_the_one_that_looks_at_it_most():
    import numpy as np

    def links(weights, target="Children run ."):
        texts = "As crianças correm .", target
        sides = [word_spans(text) for text in texts]
        pieces = PieceAlignment(*(tuple(side) for side in sides), np.array(weights, np.float32))
        return set(align_words([pieces], *sides, texts).links)

    run, end = [0, 0, 1, 0], [0, 0, 0, 1]
    assert links([[0.7, 0.3, 0, 0], run, end]) == {(0, 0), (1, 0), (2, 1), (3, 2)}
    assert links([[0.9, 0.1, 0, 0], run, end]) == {(0, 0), (2, 1), (3, 2)}
    comma = [0.2, 0.5, 0.3, 0]  # punctuation that looks at words
    assert links([[0.1, 0.9, 0, 0], comma, run, end], "Children , run .") == {(1, 0), (2, 2), (3, 3)}
