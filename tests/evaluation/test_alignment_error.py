"""Laws of the alignment error rate, and of files of hand-made links."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.errors import DataError
from uwaga.evaluation.alignment_error import (
    HandAlignment,
    alignment_error_rate,
    check_pairs,
    pair_checksum,
    read_hand_alignments,
)

LINKS = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)))
HERE = Path(__file__).parents[2] / "benchmarks" / "alignments" / "multi30k-test2016.en-de.txt"


def gold(sure, possible=frozenset()) -> HandAlignment:
    return HandAlignment(1, "", frozenset(sure), frozenset(sure) | frozenset(possible))


@given(LINKS, LINKS, LINKS)
def test_bounds_and_what_costs_nothing(sure, possible, found) -> None:
    one = gold(sure, possible)
    assert 0.0 <= alignment_error_rate([found], [one]) <= 1.0
    for between in (one.sure, one.possible):  # as Och & Ney have it: possible links may be there or not
        assert alignment_error_rate([between], [one]) == 0.0


@given(LINKS, LINKS)
def test_without_possible_links_it_is_one_minus_f1(sure, found) -> None:
    hits, sizes = len(sure & found), len(sure) + len(found)
    assert alignment_error_rate([found], [gold(sure)]) == pytest.approx(
        1 - 2 * hits / sizes if sizes else 0.0
    )


def test_M33_alignment_error_rate_by_hand() -> None:
    one = gold({(0, 0), (1, 1)}, {(2, 1)})
    # A has 3 links: one sure, one possible only, one wrong; (1 + 2) / (3 + 2).
    assert alignment_error_rate([{(0, 0), (2, 1), (3, 3)}], [one]) == pytest.approx(1 - 3 / 5)
    with pytest.raises(DataError, match=r"alignments of 2 pairs .* manual ones of 1"):
        alignment_error_rate([set(), set()], [one])


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "links.txt"
    path.write_text(f"2 {pair_checksum('a b', 'c')} 0-0 1?0\n", encoding="utf-8")
    (one,) = read_hand_alignments(path)
    assert (one.line, one.sure, one.possible) == (2, {(0, 0)}, {(0, 0), (1, 0)})
    check_pairs([one], ["x", "a b"], ["y", "c"])
    with pytest.raises(DataError, match="line 2 of the corpus is not the pair"):
        check_pairs([one], ["x", "a c"], ["y", "c"])
    with pytest.raises(DataError, match="has no line 2"):
        check_pairs([one], ["x"], ["y"])
    path.write_text("1 abc 0-0\n2 abc 0+0\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"links.txt, line 2: expected NUMBER CHECKSUM"):
        read_hand_alignments(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_hand_alignments(tmp_path / "none")


def test_the_hand_made_links_are_a_hundred_sound_ones() -> None:
    found = read_hand_alignments(HERE)
    assert [one.line for one in found] == list(range(10, 1001, 10))
    assert all(len(one.checksum) == 16 and one.sure for one in found)
    assert all(one.sure <= one.possible for one in found)
