"""Cleaning rules: the pairs that each rejects, and properties of all registered rules."""

import re
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga_corpora.cleaning.pairs import PairBlock, Side, mix
from uwaga_corpora.cleaning.rule import RULES, OrderedRule
from uwaga_corpora.cleaning.rules.duplicates import KeySet
from uwaga_corpora.cleaning.rules.models import dual_cross_entropy
from uwaga_corpora.cleaning.settings import CleaningSettings
from uwaga_corpora.cleaning.spool import smallest_threshold

LANGUAGES = ("en", "de")
FAST_RULES = sorted(name for name in RULES if name not in ("score", "language"))
TEXT = st.text(st.characters(blacklist_characters="\n\r", blacklist_categories=["Cs"]), max_size=30)
WORDS = st.lists(
    st.sampled_from(["the", "Haus", "12", "x.", "www.a.de", "é", "ß", "Ã©", "300", "?", "<b>", "ﬁ"]),
    max_size=8,
).map(" ".join)


def make_rule(name: str, languages: tuple[str, str] = LANGUAGES, **values: object):
    cleaning = CleaningSettings.from_rules({name: values}, languages)
    [rule] = cleaning.create_rules()
    rule.prepare()
    return rule


def rejected(name: str, *pairs: tuple[str, str], **values: object) -> list[bool]:
    return make_rule(name, **values).rejects(PairBlock.from_pairs(list(pairs), LANGUAGES)).tolist()


def rejects(name: str, source: str, target: str, **values: object) -> bool:
    return rejected(name, (source, target), **values)[0]


@pytest.mark.parametrize("name", FAST_RULES)
@given(st.lists(st.tuples(TEXT | WORDS, TEXT | WORDS), max_size=6))
def test_rules_judge_each_pair_independently_of_other_pairs(name, pairs):
    rule = make_rule(name)
    separately = [bool(make_rule(name).rejects(PairBlock.from_pairs([pair], LANGUAGES))[0]) for pair in pairs]
    in_block = rule.rejects(PairBlock.from_pairs(pairs, LANGUAGES)).tolist()
    if isinstance(rule, OrderedRule):
        separately = [pair in pairs[:index] for index, pair in enumerate(pairs)]
    assert in_block == separately


@pytest.mark.parametrize("name", sorted(RULES))
def test_rules_and_settings_are_described(name):
    rule_type = RULES[name]
    assert rule_type.summary
    assert rule_type.__doc__
    for key, field in rule_type.settings_type.model_fields.items():
        assert field.description, key
        assert not field.is_required(), key
    rule_type.settings_type()


def test_guide_lists_all_rules():
    guide = (Path(__file__).parents[2] / "docs/guides/clean.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", guide, re.M)) == set(RULES)


@given(st.lists(TEXT | WORDS, max_size=6))
def test_text_column_statistics_match_plain_python(texts):
    side = Side.from_texts(texts)
    assert side.strings == texts
    assert [side.text(index) for index in range(len(texts))] == texts
    assert side.lengths.tolist() == [len(text) for text in texts]
    assert side.words.tolist() == [len(text.split()) for text in texts]
    assert side.longest_words.tolist() == [max(map(len, text.split()), default=0) for text in texts]
    mask = np.array([len(text) % 2 == 0 for text in texts], bool)
    assert side.select(mask).strings == [text for text in texts if len(text) % 2 == 0]


@given(st.lists(TEXT | WORDS, min_size=2, max_size=6))
def test_equals_folded_matches_comparison_of_folded_texts(texts):
    left, right = Side.from_texts(texts[:-1]), Side.from_texts(texts[1:])
    assert left.equals_folded(right).tolist() == left.folded.equals(right.folded).tolist()


@given(st.lists(TEXT, max_size=20))
@settings(deadline=None)
def test_hash_keys_are_equal_only_for_equal_texts(texts):
    keys = Side.from_texts(texts).keys.tolist()
    assert len(set(keys)) == len(set(texts))


def test_length_rule_limits_words_and_characters():
    assert rejected("length", ("a", "b"), ("a " * 151, "b"), ("a", ""), max_words=150) == [False, True, True]
    assert rejected("length", ("abc", "abcd"), ("ab", "abc"), min_characters=3) == [False, True]
    assert rejected("length", ("abcd", "a"), max_characters=3) == [True]


def test_ratio_rule_rejects_unequal_lengths():
    assert rejected("ratio", ("a b c", "d"), ("a b", "d"), max_characters=0) == [True, False]
    assert rejected("ratio", ("aaaaaa", "bb"), ("aaaaa", "bb")) == [True, False]
    assert not rejects("ratio", "aaaaaa", "b", free_words=1)


def test_long_words_rule_ignores_languages_without_spaces():
    long = "x" * 40
    assert rejects("long_words", long, "y") and not rejects("long_words", long[1:], "y")
    chinese = make_rule("long_words", languages=("en", "zh"))
    assert not chinese.rejects(PairBlock.from_pairs([("short", "字" * 50)], ("en", "zh")))[0]


def test_characters_rule_rejects_control_and_private_use_characters():
    assert rejected("characters", ("a\x01", "b"), ("a\tb", "c"), ("a", "\ufffd"), ("a", "\ue000")) == [
        True, False, True, True,
    ]  # fmt: skip
    assert not rejects("characters", "a\x01", "b", max_bad=1)


def test_letters_and_script_rules_reject_unexpected_characters():
    assert rejects("letters", "12345 67890 a", "a word") and not rejects("letters", "I'm 19.", "Ich bin 19.")
    assert rejects("script", "Привет мир", "Hallo Welt") and not rejects("script", "10 %", "10 %")
    assert not rejects("script", "Hello", "Schön, über alles: ¡é\u0301!")
    assert rejects("script", "Hello", "Hallo мир")


def test_identical_rule_rejects_equal_sides():
    assert rejects("identical", "The “Same”", "the same!") and not rejects(
        "identical", "the same", "das Gleiche"
    )
    assert not rejects("identical", "The same", "the same", normalise=False)
    assert rejects("identical", "ﬁve STRASSE", "five straße")
    assert not rejects("identical", "Berlin", "Berlin", free_words=1)


def test_punctuation_rule_matches_its_equation():
    assert not rejects("punctuation", "a. b. c.", "a.")  # -log(1 + 2 + 2) = -1.61
    assert rejects("punctuation", "a. b. c. d. e.", "a.")  # -log(1 + 4 + 4) = -2.20
    assert rejects("punctuation", "a. b.", "a.", min_score=-1.0)  # -log(1 + 1 + 1) = -1.10


@given(WORDS, WORDS, st.floats(0, 1))
@settings(deadline=None)
def test_numbers_rule_matches_difflib(source, target, min_similarity):
    digits = [
        "".join(character for character in text if character in "123456789") for text in (source, target)
    ]
    assert rejects("numbers", source, target, min_similarity=min_similarity) == (
        SequenceMatcher(None, *digits).ratio() < min_similarity
    )


def test_numbers_rule_rejects_differing_numbers():
    assert rejects("numbers", "in 1987", "in 2456") and not rejects("numbers", "10,000", "10 thousand")
    assert not rejects("numbers", "3 cats", "٣ قطط")


def test_addresses_rule_rejects_differing_addresses():
    assert rejects("addresses", "See www.example.com.", "Siehe www.beispiel.de.")
    assert not rejects("addresses", "See http://a.org/b, a@b.co", "a@b.co, siehe http://a.org/b.")
    assert rejects("addresses", "Mail A@b.co", "Schreib mir")
    assert rejects("addresses", "WWW.a.de", "www.a.de", allow=False)


@pytest.mark.parametrize(
    "text", ["Grüße aus Köln – „bald“!", "Привет, как дела?", "今日は😀", "Η γλώσσα", "€ 5"]
)
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_mojibake_rule_rejects_garbled_text(text, encoding):
    assert not rejects("mojibake", text, "x")
    try:
        garbled = text.encode("utf-8").decode(encoding)
    except UnicodeDecodeError:
        return
    assert rejects("mojibake", "x", garbled)


@pytest.mark.parametrize(
    "text", ["»CAFÉ«", "São Paulo às 8", "Ärger „Ä“ über", "25 °C", "L’été à Nîmes…", "ÎLE"]
)
def test_mojibake_rule_accepts_text_that_resembles_mojibake(text):
    assert not rejects("mojibake", text, text)


def test_markup_rule_rejects_tags_and_entities():
    assert rejects("markup", "a <b>bold</b> word", "ein Wort") and rejects("markup", "a &amp; b", "a")
    assert not rejects("markup", "1 < 2 & 3 > 2", "R&D")
    assert not rejects("markup", "<b>a</b>", "<i>b</i>", allow_equal=True)
    assert "markup" not in CleaningSettings.from_rules(None, LANGUAGES).rules


def test_duplicates_rule_rejects_repeated_pairs():
    pairs = [("a", "b"), ("a", "c"), ("A!", "b"), ("a", "b"), ("d", "b")]
    assert rejected("duplicates", *pairs) == [False, False, False, True, False]
    assert rejected("duplicates", *pairs, by="source") == [False, True, False, True, False]
    assert rejected("duplicates", *pairs, by="target") == [False, False, True, True, True]
    assert rejected("duplicates", *pairs, normalise=True) == [False, False, True, True, False]
    assert rejected("duplicates", ("ab", "c"), ("a", "bc"), ("", "abc")) == [False] * 3


@given(st.lists(st.lists(st.integers(0, 60)), max_size=12), st.integers(1, 20))
@settings(deadline=None)
def test_key_set_on_disk_recognises_known_keys(blocks, memory):
    keys, known_numbers = KeySet(memory), set()
    for block in blocks:
        is_new = keys.add(mix(np.array(block, np.uint64)))
        for number, new in zip(block, is_new.tolist(), strict=True):
            assert new == (number not in known_numbers)
            known_numbers.add(number)
    assert len(keys) == len(known_numbers)


def test_key_set_grows_beyond_its_initial_size():
    keys = KeySet()
    numbers = mix(np.arange(50_000, dtype=np.uint64))
    assert keys.add(numbers).all() and not keys.add(numbers[::-1].copy()).any()
    assert len(keys) == 50_000


def test_dual_cross_entropy_adds_difference_and_mean_of_both_directions():
    scores = dual_cross_entropy(np.array([1.0, 2.0, 1.0]), np.array([1.0, 2.0, 5.0]))
    assert scores.tolist() == [1.0, 2.0, 7.0]


@given(st.lists(st.floats(0, 100, width=32), min_size=1, max_size=50), st.data())
def test_smallest_threshold_keeps_the_requested_number_of_pairs(values, data):
    scores = np.array(values, np.float32)
    count = data.draw(st.integers(1, len(values)))
    limit, equals = smallest_threshold(scores, count)
    ordered = np.sort(scores)
    assert limit == ordered[count - 1]
    assert equals == count - int((ordered < limit).sum())
