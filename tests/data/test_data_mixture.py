"""Laws of several corpora together: how often each pair is shown, in what order, and what changes that."""

from __future__ import annotations

import errno
import os
from collections import Counter
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga.data import plans, store_writer
from uwaga.data.batches import Batches
from uwaga.data.corpus import read_corpus
from uwaga.data.mixture import Mixture, make_key, permuted, tempered
from uwaga.data.store import Store
from uwaga.data.store_writer import build_store, tag_ids
from uwaga.errors import DataError, SettingsError
from uwaga.settings import CorpusSettings, DataSettings, FilterSettings, TextSettings
from uwaga.tokenizers.tokeniser import Tokeniser
from uwaga.tokenizers.training import train_tokeniser

TAGS = (">>deu<<", "<2fr>", "<BT>")
WORDS = ["dog", "cat", "house", "tree", "river", "stone", "bird", "boat"]


def lines(count: int, salt: int) -> list[tuple[str, str]]:
    draw = np.random.default_rng(salt)
    return [
        (f"{' '.join(draw.choice(WORDS, size))} {salt}.{i}", f"{' '.join(draw.choice(WORDS, size))}! {i}")
        for i, size in enumerate(draw.integers(1, 9, count))
    ]


class Sized(Store):
    """A store of which only the number of pairs matters."""

    def __init__(self, size: int) -> None:
        self._size = size


@pytest.fixture(scope="module")
def tokeniser(tmp_path_factory: pytest.TempPathFactory) -> Tokeniser:
    texts = [text for pair in lines(300, 1) for text in pair]
    return train_tokeniser(texts, TextSettings(size=310), tmp_path_factory.mktemp("t") / "joint", TAGS)


def write(folder: Path, name: str, pairs: list[tuple[str, str]]) -> Path:
    path = folder / name
    path.write_text("".join(f"{one}\t{two}\n" for one, two in pairs), encoding="utf-8")
    return path


def store(tokeniser: Tokeniser, path: Path, folder: Path, keep_text: bool = False, **corpus: object) -> Store:
    data = DataSettings(train=[CorpusSettings(files=(str(path),), **corpus)], dev=["x"])  # type: ignore
    reader = read_corpus(data.resolved("train")[0])
    return build_store(reader, tokeniser, tokeniser, folder, data, keep_text)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 5000), st.integers(0, 2**64 - 1), st.integers(0, 9))
def test_a_permutation_holds_each_place_once_and_any_part_alone(size: int, seed: int, salt: int) -> None:
    whole = permuted(np.arange(size), size, make_key(seed, salt))
    assert sorted(whole.tolist()) == list(range(size))
    some = np.random.default_rng(salt).integers(0, size, 20)
    assert permuted(some, size, make_key(seed, salt)).tolist() == whole[some].tolist()


def test_permutations_are_uniform() -> None:
    """Chi-square of all 24 orders of four; of 7,200 keys, six standard deviations."""
    draws = np.arange(7200)
    keys = make_key(7, draws)
    orders = np.stack([permuted(np.full(len(draws), place), 4, keys) for place in range(4)], axis=1)
    counts = np.array(list(Counter(map(tuple, orders.tolist())).values()))
    assert len(counts) == 24
    assert ((counts - 300) ** 2 / 300).sum() < 23 + 6 * np.sqrt(46)


def test_neighbours_do_not_stay_together() -> None:
    size = 100_003
    order = permuted(np.arange(size), size, make_key(1))
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 5 / np.sqrt(size)
    assert abs(np.corrcoef(np.arange(size), order)[0, 1]) < 5 / np.sqrt(size)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(st.integers(1, 60), st.floats(0.1, 4)), min_size=1, max_size=4),
    st.integers(1, 5),
    st.data(),
)
def test_every_pair_is_shown_as_often_as_any_other_or_once_more(corpora, epochs: int, data) -> None:
    sizes = [size for size, _ in corpora]
    if data.draw(st.booleans()):
        mixture = Mixture([Sized(size) for size in sizes], [weight for _, weight in corpora])
        assert mixture.draws == [max(1, round(weight * size)) for size, weight in corpora]
    else:
        mixture = Mixture([Sized(size) for size in sizes], temperature=data.draw(st.floats(0.5, 50)))
    seed = data.draw(st.integers(0, 99))
    starts = np.cumsum([0, *sizes])
    counts = np.zeros(sum(sizes), dtype=np.int64)
    for epoch in range(epochs):
        order = mixture.order(seed, epoch, 0, mixture.epoch_pairs)
        cut = data.draw(st.integers(0, mixture.epoch_pairs))  # any part alone is the same
        assert np.array_equal(mixture.order(seed, epoch, cut, mixture.epoch_pairs), order[cut:])
        np.add.at(counts, order, 1)
        for number, (start, stop) in enumerate(pairwise(starts)):
            shown = counts[start:stop]
            assert shown.sum() == (epoch + 1) * mixture.draws[number]
            assert shown.max() - shown.min() <= 1


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=6), st.floats(0.3, 100))
def test_temperatures(sizes: list[int], temperature: float) -> None:
    draws = tempered(sizes, temperature)
    assert min(draws) >= 1
    assert 0 <= sum(draws) - sum(sizes) < len(sizes)  # above only by what makes each at least 1
    for (one, few), (other, many) in product(zip(sizes, draws, strict=True), repeat=2):
        assert one > other or few <= many + 1
    assert tempered(sizes, 1.0) == sizes
    exact = np.array(sizes) ** (1 / temperature)
    exact = exact / exact.sum() * sum(sizes)
    assert (np.abs(np.array(draws) - exact) <= len(sizes)).all()


def test_the_orders_of_seeds_and_epochs_differ() -> None:
    mixture = Mixture([Sized(50), Sized(50)])
    orders = {tuple(mixture.order(seed, epoch, 0, 100)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


@pytest.mark.parametrize("sampling", [0.0, 0.3])
def test_mixed_batches_hold_each_corpus_with_its_tag(
    tokeniser, tmp_path, monkeypatch, sampling: float
) -> None:
    monkeypatch.setattr(plans, "POOL", 60)
    monkeypatch.setattr(plans, "DRAWN_POOL", 60)
    corpora = [lines(70, 1), lines(40, 2), lines(30, 3)]
    stores = [
        store(tokeniser, write(tmp_path, f"{number}.tsv", pairs), tmp_path / str(number), True, tag=tag)
        for number, (pairs, tag) in enumerate(zip(corpora, (">>deu<<", "", "<BT>"), strict=True))
    ]
    mixture = Mixture(stores, [1, 2, 0.5])
    assert mixture.draws == [70, 80, 15]
    data = DataSettings(train=["x"], dev=["x"], subword_sampling=sampling)  # type: ignore[arg-type]
    batches = Batches(mixture, (tokeniser, tokeniser), data, 1, 300)
    seen: Counter[int] = Counter()
    for index in range(batches.count(0)):
        assert batches.has(0, index)
        batch = batches.batch(0, index)
        assert max(batch.source.size, batch.target_out.size) <= 300
        for pair, row in zip(batch.pairs.tolist(), batch.source.tolist(), strict=True):
            seen[pair] += 1
            tag = ">>deu<<" if pair < 70 else "" if pair < 110 else "<BT>"
            assert (row[0] == tokeniser.tags.get(tag)) == bool(tag)
            source = [*corpora[0], *corpora[1], *corpora[2]][pair][0]
            assert tokeniser.decode(row) == source
    assert not batches.has(0, batches.count(0))
    assert [seen[pair] for pair in range(110)] == [1] * 70 + [2] * 40
    assert sum(seen[pair] for pair in range(110, 140)) == 15
    later = Batches(mixture, (tokeniser, tokeniser), data, 1, 300)
    for index in reversed(range(batches.count(1))):  # found from any place, whole
        one, other = batches.batch(1, index), later.batch(1, index)
        assert all(np.array_equal(vars(one)[key], vars(other)[key]) for key in vars(one))


def test_tags_are_one_piece_only_at_the_beginning(tokeniser: Tokeniser) -> None:
    plain = tokeniser.encode("dog cat")
    number = tokeniser.tags
    assert list(number) == sorted(TAGS) and min(number.values()) >= 4
    assert tokeniser.languages == sorted([">>deu<<", "<2fr>"])
    assert (
        tokeniser.encode(">>deu<< dog cat")
        == tokeniser.encode(">>deu<<dog cat")
        == [number[">>deu<<"], *plain]
    )
    assert tokeniser.encode("<BT> <2fr> dog cat") == [number["<BT>"], number["<2fr>"], *plain]
    assert not set(tokeniser.encode("dog >>deu<< cat <2fr>")) & set(number.values())
    assert tokeniser.decode(tokeniser.encode("dog >>deu<< cat")) == "dog >>deu<< cat"
    assert tokeniser.decode([number["<2fr>"], *plain]) == "dog cat"
    assert tokeniser.encode("<s> dog") == tokeniser.encode_batch(["<s> dog"])[0]
    texts = [">>deu<< dog", "cat", "<BT> \u2581 x", ""]
    assert tokeniser.encode_batch(texts, 2) == [tokeniser.encode(text) for text in texts]
    assert [row[:1] for row in tokeniser.sample(texts, 0.5, 1)][::2] == [
        [number[">>deu<<"]],
        [number["<BT>"]],
    ]
    with pytest.raises(
        DataError, match=r"<2pl>: the model has no such target language; it has <2fr> >>deu<<"
    ):
        tokeniser.encode("<2pl> dog")
    for language in (">>deu<<", "deu", "de", "de_DE"):
        german = tokeniser.with_target(language)
        assert german.encode("dog cat") == [number[">>deu<<"], *plain]
        assert german.encode("<2fr> dog cat") == [number["<2fr>"], *plain]
        assert german.language_prefix("dog") == ">>deu<< " and german.encode("") == []
        assert german.encode_batch(["dog cat", ""]) == [german.encode("dog cat"), []]
    assert (
        tokeniser.language_prefix("<BT> <2fr> dog") == "<BT> <2fr> "
        and tokeniser.language_prefix("dog") == ""
    )
    with pytest.raises(SettingsError, match="no target language 'pl'; the model has deu fr"):
        tokeniser.with_target("pl")


def test_a_tag_that_the_vocabulary_lacks(tokeniser: Tokeniser, tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", lines(5, 1))
    with pytest.raises(
        SettingsError, match=r"the tag >>pol<< is not a piece of the vocabulary .*joint\.spm \(310 pieces"
    ):
        store(tokeniser, path, tmp_path / "s", tag=">>pol<<")
    assert not (tmp_path / "s").exists()
    assert tag_ids(tokeniser, "") == ()


def test_filters_are_each_corpus_own(tokeniser: Tokeniser, tmp_path: Path) -> None:
    rows = [("dog", "cat"), ("dog", "dog"), ("dog cat tree", "house"), ("dog " * 30, "cat " * 30)]
    path = write(tmp_path, "a.tsv", rows)
    loose = store(tokeniser, path, tmp_path / "loose", filters=FilterSettings(max_ratio=99))
    assert len(loose) == 4
    strict = store(
        tokeniser,
        path,
        tmp_path / "strict",
        filters=FilterSettings(max_ratio=2, max_tokens=20, equal_sides="drop", min_tokens=1),
    )
    assert len(strict) == 1
    assert strict.report.faults == {"equal sides": 1, "too unequal lengths": 1, "too many tokens": 1}
    least = min(len(tokeniser.encode(side)) for side in ("dog", "cat"))
    with pytest.raises(DataError, match="too few tokens: 4"):
        store(tokeniser, path, tmp_path / "none", filters=FilterSettings(min_tokens=99 + least, max_ratio=99))


def test_a_store_that_disagrees_says_why_it_is_made_anew(tokeniser: Tokeniser, tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", lines(20, 1))
    told: list[str] = []

    def made(**corpus: object) -> Store:
        data = DataSettings(train=[CorpusSettings(files=(str(path),), **corpus)], dev=["x"])  # type: ignore
        reader = read_corpus(data.resolved("train")[0])
        return build_store(reader, tokeniser, tokeniser, tmp_path / "s", data, False, say=told.append)

    made()
    made()
    made(weight=3, name="other")
    assert told == []
    made(filters=FilterSettings(max_ratio=3))
    assert "rebuilt: filters was" in told[-1]
    made(tag="<BT>")
    assert "rebuilt: tag was  and is now <BT>" in told[-1]
    write(tmp_path, "a.tsv", lines(30, 1))
    assert len(made(tag="<BT>")) == 30
    assert "a.tsv has changed" in told[-1] and "bytes before" in told[-1]


def test_a_file_that_changes_while_it_is_read(tokeniser: Tokeniser, tmp_path: Path, monkeypatch) -> None:
    path = write(tmp_path, "a.tsv", lines(20, 1))
    write_chunk = store_writer._Writer.write

    def change(self, chunk) -> None:
        write_chunk(self, chunk)
        os.utime(path, ns=(1, 1))

    monkeypatch.setattr(store_writer._Writer, "write", change)
    with pytest.raises(DataError, match=r"a\.tsv has changed while it was read"):
        store(tokeniser, path, tmp_path / "s")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.tsv"]


def test_a_full_disk_leaves_nothing(tokeniser: Tokeniser, tmp_path: Path, monkeypatch) -> None:
    path = write(tmp_path, "a.tsv", lines(20, 1))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store_writer._Writer, "finish", full)
    with pytest.raises(DataError, match=r"cannot be written: .*No space left on device"):
        store(tokeniser, path, tmp_path / "s")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.tsv"]


def test_digits_are_pieces_of_their_own(tmp_path: Path) -> None:
    texts = [f"in {year} and {word}" for year in range(1900, 2000) for word in ("peace", "war", "later on")]
    for split in (False, True):
        text = TextSettings(kind="bpe", size=60, byte_fallback=False, split_digits=split)
        made = train_tokeniser(texts, text, tmp_path / str(split))
        pieces = made.pieces(made.encode("in 1987"))
        assert (sum(piece.strip("\u2581").isdigit() for piece in pieces) == 4) == split
