"""Properties of the alignment error rate, and files of manual alignments."""

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
BUNDLED_ALIGNMENTS = Path(__file__).parents[2] / "benchmarks" / "alignments" / "multi30k-test2016.en-de.txt"


def gold_alignment(sure, possible=frozenset()) -> HandAlignment:
    return HandAlignment(1, "", frozenset(sure), frozenset(sure) | frozenset(possible))


@given(LINKS, LINKS, LINKS)
def test_error_rate_is_at_most_one_and_zero_for_gold_links(sure, possible, links) -> None:
    gold = gold_alignment(sure, possible)
    assert 0.0 <= alignment_error_rate([links], [gold]) <= 1.0
    for subset in (gold.sure, gold.possible):  # as Och & Ney define it: possible links may be present or not
        assert alignment_error_rate([subset], [gold]) == 0.0


@given(LINKS, LINKS)
def test_error_rate_without_possible_links_is_one_minus_f1(sure, links) -> None:
    hits, sizes = len(sure & links), len(sure) + len(links)
    assert alignment_error_rate([links], [gold_alignment(sure)]) == pytest.approx(
        1 - 2 * hits / sizes if sizes else 0.0
    )


def test_M33_alignment_error_rate_matches_hand_calculation() -> None:
    gold = gold_alignment({(0, 0), (1, 1)}, {(2, 1)})
    # A has 3 links: one sure, one possible only, one wrong; (1 + 2) / (3 + 2).
    assert alignment_error_rate([{(0, 0), (2, 1), (3, 3)}], [gold]) == pytest.approx(1 - 3 / 5)
    with pytest.raises(DataError, match=r"alignments of 2 pairs .* manual alignments of 1"):
        alignment_error_rate([set(), set()], [gold])


def test_manual_alignments_are_read_and_validated(tmp_path: Path) -> None:
    path = tmp_path / "links.txt"
    path.write_text(f"2 {pair_checksum('a b', 'c')} 0-0 1?0\n", encoding="utf-8")
    (alignment,) = read_hand_alignments(path)
    assert (alignment.line, alignment.sure, alignment.possible) == (2, {(0, 0)}, {(0, 0), (1, 0)})
    check_pairs([alignment], ["x", "a b"], ["y", "c"])
    with pytest.raises(DataError, match="line 2 of the corpus is not the pair"):
        check_pairs([alignment], ["x", "a c"], ["y", "c"])
    with pytest.raises(DataError, match="has no line 2"):
        check_pairs([alignment], ["x"], ["y"])
    path.write_text("1 abc 0-0\n2 abc 0+0\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"links.txt, line 2: expected NUMBER CHECKSUM"):
        read_hand_alignments(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_hand_alignments(tmp_path / "none")


def test_bundled_manual_alignments_are_valid() -> None:
    alignments = read_hand_alignments(BUNDLED_ALIGNMENTS)
    assert [alignment.line for alignment in alignments] == list(range(10, 1001, 10))
    assert all(len(alignment.checksum) == 16 and alignment.sure for alignment in alignments)
    assert all(alignment.sure <= alignment.possible for alignment in alignments)
