"""The index finds every source above a threshold, as a comparison with all sources does."""

import sqlite3
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga_memory import Memory, Pair, Penalties
from uwaga_memory.index import SCHEMA, Index, merged_postings, number_buckets
from uwaga_memory.similarity import ComparableText, Stemmer, comparable_text, similarity

WORDS = [
    *("the", "dog", "dogs", "runs", "running", "ran", "house", "Houses", "a", "of", "12", "1,200", "1.200"),
    *(",", ".", ".", "!", "<b>", "</b>", "{name}", "%s", "猫", "_"),
]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=14).map(" ".join)


@settings(max_examples=4 * settings.default.max_examples)
@given(
    st.lists(TEXTS, min_size=1, max_size=25, unique=True),
    TEXTS,
    st.sampled_from([1, 20, 49, 50, 60, 75, 85, 95]),
)
def test_all_sources_above_the_threshold_are_matched(sources: list[str], text: str, threshold: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        memory = Memory.create(Path(folder) / "a.uwm", "en", "de")
        memory.add(Pair(source, source.upper()) for source in sources)
        matches = memory.matches(text, threshold=threshold, limit=100)
        with (
            mock.patch("uwaga_memory.store.CANDIDATE_BATCH", 3),
            mock.patch("uwaga_memory.index.MAX_CACHED_BYTES", 1_000),
        ):
            assert Memory(memory.path).matches(text, threshold=threshold, limit=2) == matches[:2]
        memory.close()
    stemmer = Stemmer("en")
    query = comparable_text(text, stemmer)
    scores = {source: similarity(query, comparable_text(source, stemmer)) for source in sources}
    assert {match.source: match.score for match in matches} == {
        source: score for source, score in scores.items() if score >= threshold
    }
    assert [match.score for match in matches] == sorted((match.score for match in matches), reverse=True)


@given(TEXTS, TEXTS)
def test_similarity_is_symmetric_and_100_for_equal_texts_only(text: str, other: str) -> None:
    stemmer = Stemmer("en")
    first, second = comparable_text(text, stemmer), comparable_text(other, stemmer)
    assert similarity(first, second) == similarity(second, first)
    assert (similarity(first, second, Penalties()) == 100) == (text.split() == other.split())


def test_index_finds_and_removes_texts_in_all_of_its_blocks() -> None:
    database = sqlite3.connect(":memory:")
    database.executescript(SCHEMA)
    database.create_function("merged_postings", 2, merged_postings)
    index = Index(database)
    mark = [[2] * (number % 100 == 0 or number > 30_000) for number in range(70_000)]
    texts = [[1, 2 * number + 3, *mark[number]] for number in range(70_000)]
    entries = []
    for start in range(0, len(texts), 3_500):  # the numbers of the mark become a bitmap, and bitmaps grow
        entries += index.add(texts[start : start + 3_500])
        index.flush()
    positions = [entry.position for entry in entries]
    assert len(set(positions)) == len(texts) and {entry.words for entry in entries} == {2}
    assert database.execute("SELECT count(*) FROM blocks").fetchone() == (2,)
    [(numbers,), (bitmap,)] = database.execute("SELECT slots FROM postings WHERE key >> 31 = 2").fetchall()
    assert (len(numbers) % 2, len(bitmap) % 2) == (1, 1)
    for number in (0, 4_095, 65_535, 65_536, 69_999):
        text = ComparableText("", texts[number])
        assert index.find_candidates(text, 100).positions.tolist() == [positions[number]]
        index.remove(positions[number], texts[number])
        assert index.find_candidates(text, 100).positions.size == 0
    new = index.add([texts[0], texts[0]])
    index.flush()
    assert not {entry.position for entry in new} & set(positions)
    assert index.find_candidates(ComparableText("", texts[0]), 100).positions.size == 2


def test_lengths_in_an_index_bucket_differ_by_at_most_half() -> None:
    words = np.arange(3_000)
    buckets = number_buckets(words)
    assert (np.diff(buckets) >= 0).all()
    for bucket in np.unique(buckets):
        lengths = words[buckets == bucket]
        assert 2 * (lengths.max() - lengths.min()) <= lengths.min()
