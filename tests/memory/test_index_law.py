"""No source that reaches a threshold is left out: the index against the comparison with every source."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga_memory import Memory, Pair, Penalties
from uwaga_memory.similarity import Stemmer, readings, similarity

WORDS = [
    *("the", "dog", "dogs", "runs", "running", "ran", "house", "Houses", "a", "of", "12", "1,200", "1.200"),
    *(",", ".", ".", "!", "<b>", "</b>", "{name}", "%s", "猫", "_"),
]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=14).map(" ".join)


@settings(max_examples=150, deadline=None)
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
        memory.close()
    stemmer = Stemmer("en")
    query = readings(text, stemmer)
    scores = {source: similarity(query, readings(source, stemmer)) for source in sources}
    assert {match.source: match.score for match in matches} == {
        source: score for source, score in scores.items() if score >= threshold
    }
    assert [match.score for match in matches] == sorted((match.score for match in matches), reverse=True)


@settings(max_examples=100, deadline=None)
@given(TEXTS, TEXTS)
def test_similarity_is_symmetric_and_100_for_equal_texts_only(text: str, other: str) -> None:
    stemmer = Stemmer("en")
    first, second = readings(text, stemmer), readings(other, stemmer)
    assert similarity(first, second) == similarity(second, first)
    assert (similarity(first, second, Penalties()) == 100) == (text.split() == other.split())
