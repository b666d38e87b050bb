"""The rules of cleaning: what each takes, and the laws that hold for all of the registry."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga.cleaning.pairs import PairBlock, Side, mixed
from uwaga.cleaning.rule import RULES, OrderedRule
from uwaga.cleaning.rules.duplicates import KeySet
from uwaga.cleaning.rules.models import dual_cross_entropy
from uwaga.cleaning.settings import CleaningSettings
from uwaga.cleaning.spool import smallest

LANGUAGES = ("en", "de")
ALONE = sorted(name for name in RULES if name not in ("score", "language"))
TEXT = st.text(st.characters(blacklist_characters="\n\r", blacklist_categories=["Cs"]), max_size=30)
WORDS = st.lists(
    st.sampled_from(["the", "Haus", "12", "x.", "www.a.de", "é", "ß", "Ã©", "300", "?", "<b>", "ﬁ"]),
    max_size=8,
).map(" ".join)


def make(name: str, languages: tuple[str, str] = LANGUAGES, **values: object):
    chosen = CleaningSettings.of({name: values}, languages)
    [rule] = chosen.make()
    rule.prepare()
    return rule


def rejected(name: str, *pairs: tuple[str, str], **values: object) -> list[bool]:
    return make(name, **values).rejects(PairBlock.of(list(pairs), LANGUAGES)).tolist()


def gone(name: str, source: str, target: str, **values: object) -> bool:
    return rejected(name, (source, target), **values)[0]


@pytest.mark.parametrize("name", ALONE)
@given(st.lists(st.tuples(TEXT | WORDS, TEXT | WORDS), max_size=6))
@settings(deadline=None, max_examples=40)
def test_a_rule_judges_each_pair_as_if_it_were_alone(name, pairs):
    rule = make(name)
    alone = [bool(make(name).rejects(PairBlock.of([pair], LANGUAGES))[0]) for pair in pairs]
    together = rule.rejects(PairBlock.of(pairs, LANGUAGES)).tolist()
    if isinstance(rule, OrderedRule):
        alone = [pair in pairs[:index] for index, pair in enumerate(pairs)]
    assert together == alone


@pytest.mark.parametrize("name", sorted(RULES))
def test_every_rule_says_what_it_takes_and_what_its_settings_mean(name):
    kind = RULES[name]
    assert kind.summary
    assert kind.__doc__
    for key, field in kind.settings_type.model_fields.items():
        assert field.description, key
        assert not field.is_required(), key
    kind.settings_type()


def test_the_guide_has_every_rule():
    guide = (Path(__file__).parents[2] / "docs/guides/clean.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", guide, re.M)) == set(RULES)


@given(st.lists(TEXT | WORDS, max_size=6))
@settings(deadline=None, max_examples=50)
def test_counts_are_those_of_python(texts):
    side = Side.of(texts)
    assert side.strings == texts
    assert [side.text(index) for index in range(len(texts))] == texts
    assert side.lengths.tolist() == [len(text) for text in texts]
    assert side.words.tolist() == [len(text.split()) for text in texts]
    assert side.longest_words.tolist() == [max(map(len, text.split()), default=0) for text in texts]
    mask = np.array([len(text) % 2 == 0 for text in texts], bool)
    assert side.take(mask).strings == [text for text in texts if len(text) % 2 == 0]


@given(st.lists(TEXT | WORDS, min_size=2, max_size=6))
@settings(deadline=None, max_examples=60)
def test_folding_is_the_same_with_and_without_the_short_way(texts):
    one, other = Side.of(texts[:-1]), Side.of(texts[1:])
    assert one.folds_as(other).tolist() == one.folded.equals(other.folded).tolist()


@given(st.lists(TEXT, max_size=20))
@settings(deadline=None)
def test_equal_texts_have_equal_keys_and_others_do_not(texts):
    keys = Side.of(texts).keys.tolist()
    assert len(set(keys)) == len(set(texts))


def test_lengths():
    assert rejected("length", ("a", "b"), ("a " * 151, "b"), ("a", ""), max_words=150) == [False, True, True]
    assert rejected("length", ("abc", "abcd"), ("ab", "abc"), min_characters=3) == [False, True]
    assert rejected("length", ("abcd", "a"), max_characters=3) == [True]


def test_ratios():
    assert rejected("ratio", ("a b c", "d"), ("a b", "d"), max_characters=0) == [True, False]
    assert rejected("ratio", ("aaaaaa", "bb"), ("aaaaa", "bb")) == [True, False]
    assert not gone("ratio", "aaaaaa", "b", free_words=1)


def test_long_words_but_not_where_words_are_not_set_apart():
    long = "x" * 40
    assert gone("long_words", long, "y") and not gone("long_words", long[1:], "y")
    chinese = make("long_words", languages=("en", "zh"))
    assert not chinese.rejects(PairBlock.of([("short", "字" * 50)], ("en", "zh")))[0]


def test_characters():
    assert rejected("characters", ("a\x01", "b"), ("a\tb", "c"), ("a", "\ufffd"), ("a", "\ue000")) == [
        True,
        False,
        True,
        True,
    ]
    assert not gone("characters", "a\x01", "b", max_bad=1)


def test_letters_and_scripts():
    assert gone("letters", "12345 67890 a", "a word") and not gone("letters", "I'm 19.", "Ich bin 19.")
    assert gone("script", "Привет мир", "Hallo Welt") and not gone("script", "10 %", "10 %")
    assert not gone("script", "Hello", "Schön, über alles: ¡é\u0301!")
    assert gone("script", "Hello", "Hallo мир")


def test_identical():
    assert gone("identical", "The “Same”", "the same!") and not gone("identical", "the same", "das Gleiche")
    assert not gone("identical", "The same", "the same", normalise=False)
    assert gone("identical", "ﬁve STRASSE", "five straße")
    assert not gone("identical", "Berlin", "Berlin", free_words=1)


def test_punctuation_is_the_equation_of_its_paper():
    assert not gone("punctuation", "a. b. c.", "a.")  # -log(1 + 2 + 2) = -1.61
    assert gone("punctuation", "a. b. c. d. e.", "a.")  # -log(1 + 4 + 4) = -2.20
    assert gone("punctuation", "a. b.", "a.", min_score=-1.0)  # -log(1 + 1 + 1) = -1.10


@given(WORDS, WORDS, st.floats(0, 1))
@settings(deadline=None)
def test_numbers_are_compared_as_difflib_does(source, target, least):
    digits = ["".join(one for one in text if one in "123456789") for text in (source, target)]
    assert gone("numbers", source, target, min_similarity=least) == (
        SequenceMatcher(None, *digits).ratio() < least
    )


def test_numbers():
    assert gone("numbers", "in 1987", "in 2456") and not gone("numbers", "10,000", "10 thousand")
    assert not gone("numbers", "3 cats", "٣ قطط")


def test_addresses():
    assert gone("addresses", "See www.example.com.", "Siehe www.beispiel.de.")
    assert not gone("addresses", "See http://a.org/b, a@b.co", "a@b.co, siehe http://a.org/b.")
    assert gone("addresses", "Mail A@b.co", "Schreib mir")
    assert gone("addresses", "WWW.a.de", "www.a.de", allow=False)


@pytest.mark.parametrize(
    "text", ["Grüße aus Köln – „bald“!", "Привет, как дела?", "今日は😀", "Η γλώσσα", "€ 5"]
)
@pytest.mark.parametrize("wrong", ["latin-1", "cp1252"])
def test_mojibake_is_found_and_what_it_comes_from_is_not(text, wrong):
    assert not gone("mojibake", text, "x")
    try:
        garbled = text.encode("utf-8").decode(wrong)
    except UnicodeDecodeError:
        return
    assert gone("mojibake", "x", garbled)


@pytest.mark.parametrize(
    "text", ["»CAFÉ«", "São Paulo às 8", "Ärger „Ä“ über", "25 °C", "L’été à Nîmes…", "ÎLE"]
)
def test_what_looks_like_mojibake_but_is_none(text):
    assert not gone("mojibake", text, text)


def test_markup_is_off_unless_asked_for():
    assert gone("markup", "a <b>bold</b> word", "ein Wort") and gone("markup", "a &amp; b", "a")
    assert not gone("markup", "1 < 2 & 3 > 2", "R&D")
    assert not gone("markup", "<b>a</b>", "<i>b</i>", allow_equal=True)
    assert "markup" not in CleaningSettings.of(None, LANGUAGES).rules


def test_duplicates_by_pair_by_side_and_normalised():
    pairs = [("a", "b"), ("a", "c"), ("A!", "b"), ("a", "b"), ("d", "b")]
    assert rejected("duplicates", *pairs) == [False, False, False, True, False]
    assert rejected("duplicates", *pairs, by="source") == [False, True, False, True, False]
    assert rejected("duplicates", *pairs, by="target") == [False, False, True, True, True]
    assert rejected("duplicates", *pairs, normalise=True) == [False, False, True, True, False]
    assert rejected("duplicates", ("ab", "c"), ("a", "bc"), ("", "abc")) == [False] * 3


@given(st.lists(st.lists(st.integers(0, 60)), max_size=12), st.integers(1, 20))
@settings(deadline=None)
def test_a_set_of_keys_is_a_set_even_where_it_goes_to_disk(blocks, memory):
    keys, seen = KeySet(memory), set()
    for block in blocks:
        fresh = keys.add(mixed(np.array(block, np.uint64)))
        for number, new in zip(block, fresh.tolist(), strict=True):
            assert new == (number not in seen)
            seen.add(number)
    assert len(keys) == len(seen)


def test_a_set_of_many_keys_grows():
    keys = KeySet()
    numbers = mixed(np.arange(50_000, dtype=np.uint64))
    assert keys.add(numbers).all() and not keys.add(numbers[::-1].copy()).any()
    assert len(keys) == 50_000


def test_dual_cross_entropy_is_its_equation():
    found = dual_cross_entropy(np.array([1.0, 2.0, 1.0]), np.array([1.0, 2.0, 5.0]))
    assert found.tolist() == [1.0, 2.0, 7.0]


@given(st.lists(st.floats(0, 100, width=32), min_size=1, max_size=50), st.data())
def test_the_smallest_are_found_without_sorting(values, data):
    scores = np.array(values, np.float32)
    count = data.draw(st.integers(1, len(values)))
    limit, equals = smallest(scores, count)
    ordered = np.sort(scores)
    assert limit == ordered[count - 1]
    assert equals == count - int((ordered < limit).sum())
