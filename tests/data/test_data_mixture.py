"""Mixtures of corpora: draw counts, order, tags, filters and rebuilt stores."""

import errno
import os
from collections import Counter
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.data import plans, store_writer
from uwaga.data.batches import Batches
from uwaga.data.corpus import read_corpus
from uwaga.data.mixture import Mixture, make_key, permute, temperature_draws
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


class SizedStore(Store):
    """A store that has a number of pairs but no content."""

    def __init__(self, size: int) -> None:
        self._size = size


@pytest.fixture(scope="module")
def tokeniser(tmp_path_factory: pytest.TempPathFactory) -> Tokeniser:
    texts = [text for pair in lines(300, 1) for text in pair]
    return train_tokeniser(texts, TextSettings(size=310), tmp_path_factory.mktemp("t") / "joint", TAGS)


def write(folder: Path, name: str, pairs: list[tuple[str, str]]) -> Path:
    path = folder / name
    path.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    return path


def store(tokeniser: Tokeniser, path: Path, folder: Path, keep_text: bool = False, **corpus: object) -> Store:
    data = DataSettings(train=[CorpusSettings(files=(str(path),), **corpus)], dev=["x"])  # type: ignore
    reader = read_corpus(data.resolved("train")[0])
    return build_store(reader, (tokeniser, tokeniser), folder, data, keep_text)


@given(st.integers(1, 5000), st.integers(0, 2**64 - 1), st.integers(0, 9))
def test_permutation_contains_every_index_and_allows_random_access(size: int, seed: int, salt: int) -> None:
    permutation = permute(np.arange(size), size, make_key(seed, salt))
    assert sorted(permutation.tolist()) == list(range(size))
    positions = np.random.default_rng(salt).integers(0, size, 20)
    assert permute(positions, size, make_key(seed, salt)).tolist() == permutation[positions].tolist()


def test_permutations_are_uniform() -> None:
    """Chi-square of the 24 permutations of four, for 7,200 keys, is within six standard deviations."""
    draws = np.arange(7200)
    keys = make_key(7, draws)
    orders = np.stack([permute(np.full(len(draws), position), 4, keys) for position in range(4)], axis=1)
    counts = np.array(list(Counter(map(tuple, orders.tolist())).values()))
    assert len(counts) == 24
    assert ((counts - 300) ** 2 / 300).sum() < 23 + 6 * np.sqrt(46)


def test_permuted_neighbours_are_uncorrelated() -> None:
    size = 100_003
    order = permute(np.arange(size), size, make_key(1))
    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 5 / np.sqrt(size)
    assert abs(np.corrcoef(np.arange(size), order)[0, 1]) < 5 / np.sqrt(size)


@given(
    st.lists(st.tuples(st.integers(1, 60), st.floats(0.1, 4)), min_size=1, max_size=4),
    st.integers(1, 5),
    st.data(),
)
def test_draw_counts_within_a_corpus_differ_by_at_most_one(corpora, epochs: int, data) -> None:
    sizes = [size for size, _ in corpora]
    if data.draw(st.booleans()):
        mixture = Mixture([SizedStore(size) for size in sizes], [weight for _, weight in corpora])
        assert mixture.draws == [max(1, round(weight * size)) for size, weight in corpora]
    else:
        mixture = Mixture([SizedStore(size) for size in sizes], temperature=data.draw(st.floats(0.5, 50)))
    seed = data.draw(st.integers(0, 99))
    starts = np.cumsum([0, *sizes])
    counts = np.zeros(sum(sizes), dtype=np.int64)
    for epoch in range(epochs):
        order = mixture.order(seed, epoch, 0, mixture.epoch_pairs)
        cut = data.draw(st.integers(0, mixture.epoch_pairs))  # any part alone is the same
        assert np.array_equal(mixture.order(seed, epoch, cut, mixture.epoch_pairs), order[cut:])
        np.add.at(counts, order, 1)
        for number, (start, stop) in enumerate(pairwise(starts)):
            corpus_counts = counts[start:stop]
            assert corpus_counts.sum() == (epoch + 1) * mixture.draws[number]
            assert corpus_counts.max() - corpus_counts.min() <= 1


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=6), st.floats(0.3, 100))
def test_temperature_draws_approximate_the_exact_shares(sizes: list[int], temperature: float) -> None:
    draws = temperature_draws(sizes, temperature)
    assert min(draws) >= 1
    assert 0 <= sum(draws) - sum(sizes) < len(sizes)  # above only by what makes each at least 1
    for (size, draw_count), (other_size, other_count) in product(zip(sizes, draws, strict=True), repeat=2):
        assert size > other_size or draw_count <= other_count + 1
    assert temperature_draws(sizes, 1.0) == sizes
    exact = np.array(sizes) ** (1 / temperature)
    exact = exact / exact.sum() * sum(sizes)
    assert (np.abs(np.array(draws) - exact) <= len(sizes)).all()


def test_pair_order_differs_by_seed_and_epoch() -> None:
    mixture = Mixture([SizedStore(50), SizedStore(50)])
    orders = {tuple(mixture.order(seed, epoch, 0, 100)) for seed in range(5) for epoch in range(5)}
    assert len(orders) == 25


@pytest.mark.parametrize("sampling", [0.0, 0.3])
def test_mixed_batches_contain_pairs_of_all_corpora_with_their_tags(
    tokeniser, tmp_path, monkeypatch, sampling: float
) -> None:
    monkeypatch.setattr(plans, "POOL_PAIRS", 60)
    monkeypatch.setattr(plans, "MIN_SAMPLED_POOL", 60)
    corpora = [lines(70, 1), lines(40, 2), lines(30, 3)]
    stores = [
        store(tokeniser, write(tmp_path, f"{number}.tsv", pairs), tmp_path / str(number), True, tag=tag)
        for number, (pairs, tag) in enumerate(zip(corpora, (">>deu<<", "", "<BT>"), strict=True))
    ]
    mixture = Mixture(stores, [1, 2, 0.5])
    assert mixture.draws == [70, 80, 15]
    data = DataSettings(train=["x"], dev=["x"], subword_sampling=sampling)  # type: ignore[arg-type]
    batches = Batches(mixture, (tokeniser, tokeniser), data, 1, 300)
    pair_counts: Counter[int] = Counter()
    for index in range(batches.count(0)):
        assert batches.has_batch(0, index)
        batch = batches.batch(0, index)
        assert max(batch.source.size, batch.target_out.size) <= 300
        for pair, row in zip(batch.pairs.tolist(), batch.source.tolist(), strict=True):
            pair_counts[pair] += 1
            tag = ">>deu<<" if pair < 70 else "" if pair < 110 else "<BT>"
            assert (row[0] == tokeniser.tags.get(tag)) == bool(tag)
            source = [*corpora[0], *corpora[1], *corpora[2]][pair][0]
            assert tokeniser.decode(row) == source
    assert not batches.has_batch(0, batches.count(0))
    assert [pair_counts[pair] for pair in range(110)] == [1] * 70 + [2] * 40
    assert sum(pair_counts[pair] for pair in range(110, 140)) == 15
    new_batches = Batches(mixture, (tokeniser, tokeniser), data, 1, 300)
    for index in reversed(range(batches.count(1))):  # found from any place, whole
        batch_, new_batch = batches.batch(1, index), new_batches.batch(1, index)
        assert all(np.array_equal(vars(batch_)[key], vars(new_batch)[key]) for key in vars(batch_))


def test_tags_are_single_pieces_only_at_the_start(tokeniser: Tokeniser) -> None:
    plain = tokeniser.encode("dog cat")
    tags = tokeniser.tags
    assert list(tags) == sorted(TAGS) and min(tags.values()) >= 4
    assert tokeniser.languages == sorted([">>deu<<", "<2fr>"])
    assert (
        tokeniser.encode(">>deu<< dog cat") == tokeniser.encode(">>deu<<dog cat") == [tags[">>deu<<"], *plain]
    )
    assert tokeniser.encode("<BT> <2fr> dog cat") == [tags["<BT>"], tags["<2fr>"], *plain]
    assert not set(tokeniser.encode("dog >>deu<< cat <2fr>")) & set(tags.values())
    assert tokeniser.decode(tokeniser.encode("dog >>deu<< cat")) == "dog >>deu<< cat"
    assert tokeniser.decode([tags["<2fr>"], *plain]) == "dog cat"
    assert tokeniser.encode("<s> dog") == tokeniser.encode_batch(["<s> dog"])[0]
    texts = [">>deu<< dog", "cat", "<BT> \u2581 x", ""]
    assert tokeniser.encode_batch(texts, 2) == [tokeniser.encode(text) for text in texts]
    assert [row[:1] for row in tokeniser.sample(texts, 0.5, 1)][::2] == [[tags[">>deu<<"]], [tags["<BT>"]]]
    with pytest.raises(
        DataError, match=r"<2pl>: the model has no such target language; it has <2fr> >>deu<<"
    ):
        tokeniser.encode("<2pl> dog")
    for language in (">>deu<<", "deu", "de", "de_DE"):
        german = tokeniser.with_target(language)
        assert german.encode("dog cat") == [tags[">>deu<<"], *plain]
        assert german.encode("<2fr> dog cat") == [tags["<2fr>"], *plain]
        assert german.language_prefix("dog") == ">>deu<< " and german.encode("") == []
        assert german.encode_batch(["dog cat", ""]) == [german.encode("dog cat"), []]
    assert (
        tokeniser.language_prefix("<BT> <2fr> dog") == "<BT> <2fr> "
        and tokeniser.language_prefix("dog") == ""
    )
    with pytest.raises(SettingsError, match="no target language 'pl'; the model has deu fr"):
        tokeniser.with_target("pl")


def test_tag_missing_from_the_vocabulary_is_rejected(tokeniser: Tokeniser, tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", lines(5, 1))
    with pytest.raises(
        SettingsError, match=r"the tag >>pol<< is not a piece of the vocabulary .*joint\.spm \(310 pieces"
    ):
        store(tokeniser, path, tmp_path / "s", tag=">>pol<<")
    assert not (tmp_path / "s").exists()
    assert tag_ids(tokeniser, "") == ()


def test_filters_of_a_corpus_determine_which_pairs_are_kept(tokeniser: Tokeniser, tmp_path: Path) -> None:
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
    min_length = min(len(tokeniser.encode(side)) for side in ("dog", "cat"))
    with pytest.raises(DataError, match="too few tokens: 4"):
        store(
            tokeniser,
            path,
            tmp_path / "none",
            filters=FilterSettings(min_tokens=99 + min_length, max_ratio=99),
        )


def test_rebuilding_a_store_logs_the_reason(tokeniser: Tokeniser, tmp_path: Path) -> None:
    path = write(tmp_path, "a.tsv", lines(20, 1))
    messages: list[str] = []

    def build(**corpus: object) -> Store:
        data = DataSettings(train=[CorpusSettings(files=(str(path),), **corpus)], dev=["x"])  # type: ignore
        reader = read_corpus(data.resolved("train")[0])
        return build_store(reader, (tokeniser, tokeniser), tmp_path / "s", data, False, log=messages.append)

    build()
    build()
    build(weight=3, name="other")
    assert messages == []
    build(filters=FilterSettings(max_ratio=3))
    assert "rebuilt: filters was" in messages[-1]
    build(tag="<BT>")
    assert "rebuilt: tag was  and is now <BT>" in messages[-1]
    write(tmp_path, "a.tsv", lines(30, 1))
    assert len(build(tag="<BT>")) == 30
    assert "a.tsv has changed" in messages[-1] and "bytes before" in messages[-1]


def test_file_changed_while_reading_is_rejected(tokeniser: Tokeniser, tmp_path: Path, monkeypatch) -> None:
    path = write(tmp_path, "a.tsv", lines(20, 1))
    write_chunk = store_writer._StoreWriter.write

    def change(self, chunk) -> None:
        write_chunk(self, chunk)
        os.utime(path, ns=(1, 1))

    monkeypatch.setattr(store_writer._StoreWriter, "write", change)
    with pytest.raises(DataError, match=r"a\.tsv has changed while the corpus was being read"):
        store(tokeniser, path, tmp_path / "s")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.tsv"]


def test_full_disk_leaves_no_partial_files(tokeniser: Tokeniser, tmp_path: Path, monkeypatch) -> None:
    path = write(tmp_path, "a.tsv", lines(20, 1))

    def raise_disk_full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store_writer._StoreWriter, "finish", raise_disk_full)
    with pytest.raises(DataError, match=r"cannot be written: .*No space left on device"):
        store(tokeniser, path, tmp_path / "s")
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.tsv"]


def test_split_digits_setting_separates_digits(tmp_path: Path) -> None:
    texts = [f"in {year} and {word}" for year in range(1900, 2000) for word in ("peace", "war", "later on")]
    for split in (False, True):
        text = TextSettings(kind="bpe", size=60, byte_fallback=False, split_digits=split)
        tokeniser_ = train_tokeniser(texts, text, tmp_path / str(split))
        pieces = tokeniser_.pieces(tokeniser_.encode("in 1987"))
        assert (sum(piece.strip("\u2581").isdigit() for piece in pieces) == 4) == split
