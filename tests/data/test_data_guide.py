"""Laws of word links on their way to the subwords of a batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import tokeniser

from uwaga.alignment.words import split_words
from uwaga.data.batches import Batches
from uwaga.data.corpus import read_corpus
from uwaga.data.guide import LinkFile, piece_widths, word_places
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
def test_a_piece_belongs_to_the_words_whose_letters_it_has(words, data) -> None:
    total = sum(words)
    cuts = sorted(data.draw(st.sets(st.integers(1, total - 1), max_size=total - 1))) if total > 1 else []
    edges = [0, *cuts, total]
    owner = np.repeat(np.arange(len(words)), words)  # of each letter
    expected = [
        [piece for piece in range(len(edges) - 1) if word in owner[edges[piece] : edges[piece + 1]]]
        for word in range(len(words))
    ]
    found = word_places(words, np.diff(edges))
    assert [list(places) for places in found] == expected
    framed = np.array([-1, *np.diff(edges), -1])  # special tokens have no letters, and are of no word
    assert [[place - 1 for place in places] for places in word_places(words, framed)] == expected


@pytest.mark.parametrize("text", [text for pair in TEXTS for text in pair])
@pytest.mark.parametrize("kind", ["words", "spaces"])
def test_pieces_of_a_text_have_as_many_bytes_as_its_words(text: str, kind) -> None:
    made = tokeniser()
    widths = piece_widths(made)[made.encode(text)]
    assert widths.sum() == sum(len(word.encode()) for word in split_words(text, kind))
    for word, places in zip(split_words(text, kind), word_places_of(made, text, kind), strict=True):
        piece = made.decode([made.encode(text)[place] for place in places])
        assert word in piece.replace(" ", "")


def word_places_of(made, text: str, kind) -> list[range]:
    sizes = [len(word.encode()) for word in split_words(text, kind)]
    return word_places(sizes, piece_widths(made)[made.encode(text)])


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
def test_links_join_the_pieces_of_linked_words(tmp_path: Path, mode: str, tag: str) -> None:
    made = tokeniser()
    if tag and tag not in made.tags:
        pytest.skip("a tokeniser without tags")
    chosen, links = corpus(tmp_path, tag=tag)
    data = DataSettings(train=["c.tsv"], dev=["c.tsv"], max_tokens=200, **MODES[mode])
    store = build_store(
        read_corpus(chosen, links=links), made, made, tmp_path / "store", data, keep_text=True
    )
    batches = Batches(Mixture([store]), (made, made), data, 1, 400, guided=True)
    seen = 0
    for epoch in range(6):
        for index in range(batches.count(epoch)):
            batch = batches.batch(epoch, index)
            assert batch.links is not None
            again = batches.batch(epoch, index).links
            np.testing.assert_array_equal(batch.links, again)
            for row, pair in enumerate(batch.pairs.tolist()):
                mine = batch.links[batch.links[:, 0] == row]
                source, target = TEXTS[pair]
                wanted = [tuple(map(int, link.split("-"))) for link in LINKS[pair].split()]
                for _, there, here in mine.tolist():
                    left = made.decode([int(batch.source[row, here])]).strip().lower()
                    right = made.decode([int(batch.target_out[row, there])]).strip().lower()
                    if "\ufffd" in left + right or not left or not right:
                        continue  # a byte of a letter, or a space
                    words = [
                        (split_words(source)[s].lower(), split_words(target)[t].lower()) for s, t in wanted
                    ]
                    assert any(
                        (left.upper() in s.upper() or s in left) and (right in t or t in right)
                        for s, t in words
                    )
                    seen += 1
    assert seen > 50


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (LINKS[:3], r"c.links: ends after line 3, but .*c.tsv is longer"),
        ([*LINKS, ""], r"c.links: has more than 4 lines, where .*c.tsv ends"),
        ([LINKS[0], "0-0 1:1", *LINKS[2:]], r"c.links, line 2: '1:1' is not a link"),
        ([LINKS[0], "0-0 12-1", *LINKS[2:]], r"c.links, line 2: source word 12, but the source has 10"),
        (["0-5", *LINKS[1:]], r"c.links, line 1: target word 5, but the target has 5"),
    ],
)
def test_links_that_do_not_fit_are_told(tmp_path: Path, links: list[str], message: str) -> None:
    chosen, file = corpus(tmp_path, links)
    with pytest.raises(DataError, match=message):
        list(read_corpus(chosen, links=file))


def test_lines_of_unsound_pairs_have_links_too(tmp_path: Path) -> None:
    chosen, file = corpus(tmp_path)
    path = tmp_path / "c.tsv"
    path.write_text("\tempty\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    links = tmp_path / "c.links"
    links.write_text("7-7\n" + links.read_text(), encoding="utf-8")
    assert [pair.links for pair in read_corpus(chosen, links=file)] == [
        tuple(sorted(tuple(map(int, link.split("-"))) for link in line.split())) for line in LINKS
    ]


def test_a_store_is_made_anew_for_other_links(tmp_path: Path) -> None:
    made = tokeniser()
    data = DataSettings(train=["c.tsv"], dev=["c.tsv"])

    def build(links: LinkFile | None):
        told: list[str] = []
        reader = read_corpus(chosen, links=links)
        store = build_store(reader, made, made, tmp_path / "store", data, True, say=told.append)
        return store, told

    chosen, file = corpus(tmp_path)
    store, _ = build(file)
    assert store.link_words == "words"
    np.testing.assert_array_equal(store.links(3), [[0, 0], [1, 1], [1, 2]])
    assert build(file)[1] == []
    Path(file.path).write_text("\n" * len(TEXTS))
    store, told = build(file)
    assert "the word alignments differ" in told[0]
    assert store.links(3).shape == (0, 2)
    plain = build_store(read_corpus(chosen), made, made, tmp_path / "other", data, True)
    with pytest.raises(DataError, match="no word alignments"):
        plain.links(0)
