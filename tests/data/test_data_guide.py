"""Conversion of the word alignments of a corpus to alignments of the subwords in a batch."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import tokeniser

from uwaga.alignment.words import split_words
from uwaga.data.batches import Batches
from uwaga.data.corpus import read_corpus
from uwaga.data.guide import LinkFile, count_piece_bytes, word_piece_ranges
from uwaga.data.mixture import Mixture
from uwaga.data.store_writer import build_store
from uwaga.errors import DataError
from uwaga.settings import CorpusSettings, DataSettings

TEXTS = [
    ("Der kleine Hund läuft.", "The small dog runs."),
    ("Straße, groß und 1,5 km lang!", "Road: big and 1.5 km long!"),
    ("日本 ist schön 🙂 .", "Japan is nice 🙂 ."),
    ("Zwei Bauarbeiter", "Two construction workers"),
]
LINKS = ["0-0 1-1 2-2 3-3", "0-0 2-2 6-6", "0-0 1-1 2-2 3-3", "0-0 1-1 1-2"]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.data())
def test_piece_range_of_a_word_contains_all_overlapping_pieces(words, data) -> None:
    total = sum(words)
    cuts = sorted(data.draw(st.sets(st.integers(1, total - 1), max_size=total - 1))) if total > 1 else []
    edges = [0, *cuts, total]
    word_of_letter = np.repeat(np.arange(len(words)), words)  # of each letter
    expected = [
        [piece for piece in range(len(edges) - 1) if word in word_of_letter[edges[piece] : edges[piece + 1]]]
        for word in range(len(words))
    ]
    ranges = word_piece_ranges(words, np.diff(edges))
    assert [list(places) for places in ranges] == expected
    with_symbols = np.array([-1, *np.diff(edges), -1])  # special tokens have no letters and belong to no word
    assert [
        [position - 1 for position in pieces] for pieces in word_piece_ranges(words, with_symbols)
    ] == expected


@pytest.mark.parametrize("text", [text for pair in TEXTS for text in pair])
@pytest.mark.parametrize("kind", ["words", "spaces"])
def test_piece_bytes_sum_to_word_bytes(text: str, kind) -> None:
    tokeniser_ = tokeniser()
    widths = count_piece_bytes(tokeniser_)[tokeniser_.encode(text)]
    assert widths.sum() == sum(len(word.encode()) for word in split_words(text, kind))
    for word, pieces in zip(split_words(text, kind), piece_ranges(tokeniser_, text, kind), strict=True):
        piece = tokeniser_.decode([tokeniser_.encode(text)[position] for position in pieces])
        assert word in piece.replace(" ", "")


def piece_ranges(tokeniser_, text: str, kind) -> list[range]:
    sizes = [len(word.encode()) for word in split_words(text, kind)]
    return word_piece_ranges(sizes, count_piece_bytes(tokeniser_)[tokeniser_.encode(text)])


def corpus(folder: Path, links: list[str] | None = LINKS, **data) -> tuple[CorpusSettings, LinkFile]:
    (folder / "c.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in TEXTS), encoding="utf-8")
    (folder / "c.links").write_text("".join(f"{line}\n" for line in links or []), encoding="utf-8")
    return CorpusSettings(files=(str(folder / "c.tsv"),), **data), LinkFile(str(folder / "c.links"), "words")


MODES = {
    "plain": {},
    "forms": {"augment": {"upper": 0.4, "unpunctuated": 0.3, "lower": 0.3}},
    "drawn": {"augment": {"upper": 0.3, "unpunctuated": 0.3}, "subword_sampling": 0.5},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("tag", ["", "<2de>"])
def test_links_connect_pieces_of_linked_words(tmp_path: Path, mode: str, tag: str) -> None:
    tokeniser_ = tokeniser()
    if tag and tag not in tokeniser_.tags:
        pytest.skip("a tokeniser without tags")
    corpus_settings, links = corpus(tmp_path, tag=tag)
    data = DataSettings(train=["c.tsv"], dev=["c.tsv"], max_tokens=200, **MODES[mode])
    store = build_store(
        read_corpus(corpus_settings, links=links), (tokeniser_, tokeniser_), tmp_path / "store", data,
        keep_text=True,
    )  # fmt: skip
    batches = Batches(Mixture([store]), (tokeniser_, tokeniser_), data, 1, 400, with_links=True)
    compared = 0
    for epoch in range(6):
        for index in range(batches.count(epoch)):
            batch = batches.batch(epoch, index)
            assert batch.links is not None
            recomputed = batches.batch(epoch, index).links
            np.testing.assert_array_equal(batch.links, recomputed)
            for row, pair in enumerate(batch.pairs.tolist()):
                links_of_row = batch.links[batch.links[:, 0] == row]
                source, target = TEXTS[pair]
                word_links = [tuple(map(int, link.split("-"))) for link in LINKS[pair].split()]
                for _, target_position, source_position in links_of_row.tolist():
                    source_piece = (
                        tokeniser_.decode([int(batch.source[row, source_position])]).strip().lower()
                    )
                    target_piece = (
                        tokeniser_.decode([int(batch.target_out[row, target_position])]).strip().lower()
                    )
                    if "\ufffd" in source_piece + target_piece or not source_piece or not target_piece:
                        continue  # a byte of a letter, or a space
                    words = [
                        (split_words(source)[s].lower(), split_words(target)[t].lower())
                        for s, t in word_links
                    ]
                    assert any(
                        (source_piece.upper() in s.upper() or s in source_piece)
                        and (target_piece in t or t in target_piece)
                        for s, t in words
                    )
                    compared += 1
    assert compared > 50


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (LINKS[:3], r"c.links: ends after line 3, but .*c.tsv is longer"),
        ([*LINKS, ""], r"c.links: has more lines than .*c.tsv, which ends after line 4"),
        ([LINKS[0], "0-0 1:1", *LINKS[2:]], r"c.links, line 2: '1:1' is not a link"),
        ([LINKS[0], "0-0 12-1", *LINKS[2:]],
         r"c.links, line 2: a link refers to source word 12, but the source has only 10"),
        (["0-5", *LINKS[1:]], r"c.links, line 1: a link refers to target word 5, but the target has only 5"),
    ],
)  # fmt: skip
def test_links_that_do_not_fit_the_corpus_are_reported(tmp_path, links, message) -> None:
    corpus_settings, file = corpus(tmp_path, links)
    with pytest.raises(DataError, match=message):
        list(read_corpus(corpus_settings, links=file))


def test_link_lines_of_skipped_pairs_are_skipped_too(tmp_path: Path) -> None:
    corpus_settings, file = corpus(tmp_path)
    path = tmp_path / "c.tsv"
    path.write_text("\tempty\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    links = tmp_path / "c.links"
    links.write_text("7-7\n" + links.read_text(), encoding="utf-8")
    assert [pair.links for pair in read_corpus(corpus_settings, links=file)] == [
        tuple(sorted(tuple(map(int, link.split("-"))) for link in line.split())) for line in LINKS
    ]


def test_store_is_rebuilt_when_links_change(tmp_path: Path) -> None:
    tokeniser_ = tokeniser()
    data = DataSettings(train=["c.tsv"], dev=["c.tsv"])

    def build(links: LinkFile | None):
        messages: list[str] = []
        reader = read_corpus(corpus_settings, links=links)
        store = build_store(
            reader, (tokeniser_, tokeniser_), tmp_path / "store", data, True, log=messages.append
        )
        return store, messages

    corpus_settings, file = corpus(tmp_path)
    store, _ = build(file)
    assert store.link_words == "words"
    np.testing.assert_array_equal(store.links(3), [[0, 0], [1, 1], [1, 2]])
    assert build(file)[1] == []
    Path(file.path).write_text("\n" * len(TEXTS))
    store, messages = build(file)
    assert "the word alignments differ" in messages[0]
    assert store.links(3).shape == (0, 2)
    reader, pair = read_corpus(corpus_settings), (tokeniser_, tokeniser_)
    plain = build_store(reader, pair, tmp_path / "other", data, True)
    with pytest.raises(DataError, match="no word alignments"):
        plain.links(0)
