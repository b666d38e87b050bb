"""Batches contain each pair once, within a token budget, in an order set by seed and epoch."""

import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uwaga.data import plans
from uwaga.data.batches import Batch, Batches, prefetch
from uwaga.data.corpus import read_corpus
from uwaga.data.mixture import Mixture
from uwaga.data.plans import STRIP_COUNTS, arrange_batches, best_strips, split_batches
from uwaga.data.rows import Column, JoinedColumn, SurfaceForms
from uwaga.data.store import Store
from uwaga.data.store_writer import build_store
from uwaga.errors import DataError, SettingsError
from uwaga.settings import DataSettings, TextSettings
from uwaga.tokenizers.text import surface
from uwaga.tokenizers.tokeniser import Tokeniser
from uwaga.tokenizers.training import train_tokeniser

GENERATOR = np.random.default_rng(5)
NOUNS = ["dog", "cat", "house", "tree", "river", "stone", "bird", "boat", "street", "window"]
PAIRS = [
    (
        f"The {' '.join(GENERATOR.choice(NOUNS, size))} {i}.",
        f"Das {' '.join(GENERATOR.choice(NOUNS, size))} {i}!",
    )
    for i, size in enumerate(GENERATOR.integers(1, 14, 300))
]
AUGMENT = {"lower": 0.2, "upper": 0.1, "unpunctuated": 0.3}
BUDGET = 400
MODES = {"plain": {}, "forms": {"augment": AUGMENT}, "drawn": {"augment": AUGMENT, "subword_sampling": 0.3}}


class PreparedCorpus:
    """A corpus with its tokeniser, settings and store."""

    def __init__(self, folder: Path) -> None:
        self.tokeniser = train_tokeniser(
            [side for pair in PAIRS for side in pair], TextSettings(size=330), folder / "joint"
        )
        path = folder / "c.tsv"
        path.write_text("".join(f"{source}\t{target}\n" for source, target in PAIRS), encoding="utf-8")
        self.data = DataSettings(train=[path], dev=[path], augment=AUGMENT, max_tokens=150)  # type: ignore[arg-type]
        reader = read_corpus(self.data.resolved("train")[0])
        pair = self.tokeniser, self.tokeniser
        self.store: Store = build_store(reader, pair, folder / "s", self.data, True)

    def batches(self, mode: str, seed: int = 1, budget: int = BUDGET) -> Batches:
        data = self.data.model_copy(update={"augment": {}, **MODES[mode]})
        return Batches(Mixture([self.store]), (self.tokeniser, self.tokeniser), data, seed, budget)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> PreparedCorpus:
    return PreparedCorpus(tmp_path_factory.mktemp("batches"))


def equal_batches(left: Batch, right: Batch) -> bool:
    return all(
        np.array_equal(left_field, right_field)
        for left_field, right_field in zip(vars(left).values(), vars(right).values(), strict=True)
    )


def unpad(row: np.ndarray, symbols) -> list[int]:
    tokens = row[row != symbols.pad].tolist()
    assert tokens[-1] == symbols.end
    assert row[: len(tokens)].tolist() == tokens  # padding only after
    return tokens[:-1]


@pytest.mark.parametrize("mode", MODES)
def test_each_pair_occurs_exactly_once_per_epoch(corpus: PreparedCorpus, mode: str, monkeypatch) -> None:
    monkeypatch.setattr(plans, "MIN_SAMPLED_POOL", 80)
    monkeypatch.setattr(plans, "POOL_PAIRS", 120)
    batches = corpus.batches(mode)
    symbols = corpus.tokeniser.symbols
    for epoch in (0, 1):
        plan = batches.epoch(epoch)
        assert batches.count(epoch) == len(plan) == len(list(plan))
        batch_pairs: list[int] = []
        resampled = 0
        for index in range(len(plan)):
            batch = batches.batch(epoch, index)
            assert batch.pairs.tolist() == plan[index].tolist()
            assert batch.sentences == len(batch.pairs) > 0
            assert batch.source.size <= BUDGET
            assert batch.target_out.size <= BUDGET
            assert batch.target_in.shape == batch.target_out.shape
            assert (
                batch.tokens
                == int((batch.target_out != symbols.pad).sum())
                == int(batch.target_lengths.sum())
            )
            assert batch.source_lengths.tolist() == (batch.source != symbols.pad).sum(axis=1).tolist()
            assert batch.source.shape[1] == batch.source_lengths.max()
            assert (batch.target_in[:, 0] == symbols.start).all()
            shifted = np.where(batch.target_out[:, :-1] == symbols.end, symbols.pad, batch.target_out[:, :-1])
            assert np.array_equal(batch.target_in[:, 1:], shifted)
            assert all(array.dtype == np.int64 for array in vars(batch).values() if array is not None)
            for row, pair in enumerate(batch.pairs.tolist()):
                source, target = PAIRS[pair]
                ids = unpad(batch.source[row], symbols), unpad(batch.target_out[row], symbols)
                source_text = corpus.tokeniser.decode(ids[0])
                allowed = [source, *(surface(source, form) for form in AUGMENT if mode != "plain")]
                assert source_text in allowed
                assert corpus.tokeniser.decode(ids[1]) == target
                resampled += ids[1] != corpus.tokeniser.encode(target)
                if mode != "drawn":
                    assert ids[0] == corpus.tokeniser.encode(source_text)
            batch_pairs.extend(batch.pairs.tolist())
        assert sorted(batch_pairs) == list(range(len(PAIRS)))
        assert (resampled > len(PAIRS) // 3) == (mode == "drawn")


@pytest.mark.parametrize("mode", MODES)
def test_batch_depends_only_on_the_seed_the_epoch_and_the_index(corpus, mode, monkeypatch) -> None:
    monkeypatch.setattr(plans, "MIN_SAMPLED_POOL", 80)
    first = corpus.batches(mode)
    epochs = [[first.batch(epoch, index) for index in range(first.count(epoch))] for epoch in (0, 1)]
    resumed = corpus.batches(mode)  # a new process: any place, in any order
    for epoch, index in ((1, 5), (0, 3), (1, first.count(1) - 1), (0, 0), (1, 0)):
        assert equal_batches(resumed.batch(epoch, index), epochs[epoch][index])
    assert not equal_batches(epochs[0][0], epochs[1][0])
    orders = [
        [pair for pairs in corpus.batches(mode, seed).epoch(epoch) for pair in pairs.tolist()]
        for seed, epoch in ((1, 0), (1, 1), (2, 0), (-1, 0))
    ]
    assert len({tuple(order) for order in orders}) == 4
    with pytest.raises(IndexError):
        first.epoch(0)[first.count(0)]


def test_surface_forms_occur_in_the_configured_proportions(corpus: PreparedCorpus) -> None:
    batches = corpus.batches("forms")
    epoch_texts = []
    for epoch in range(6):
        rows: dict[int, str] = {}
        for index in range(batches.count(epoch)):
            batch = batches.batch(epoch, index)
            rows |= {
                pair: corpus.tokeniser.decode(row.tolist())
                for pair, row in zip(batch.pairs.tolist(), batch.source, strict=True)
            }
        epoch_texts.append([rows[pair] for pair in range(len(PAIRS))])
    assert len({tuple(epoch) for epoch in epoch_texts}) == 6
    upper = sum(
        text == source.upper()
        for epoch in epoch_texts
        for text, (source, _) in zip(epoch, PAIRS, strict=True)
    )
    share = upper / (6 * len(PAIRS))
    assert abs(share - AUGMENT["upper"]) < 5 * np.sqrt(0.1 * 0.9 / (6 * len(PAIRS)))  # five deviations


@given(st.data())
def test_batches_stay_within_the_token_budget(data: st.DataObject) -> None:
    budget = data.draw(st.integers(5, 200))
    count = data.draw(st.integers(1, 120))
    generator = np.random.default_rng(data.draw(st.integers(0, 999)))
    source, target = (
        generator.integers(1, budget + 1, (2, count))
        if data.draw(st.booleans())
        else (generator.integers(1, min(budget, 9) + 1, (2, count)))
    )
    padded = {}
    for strips in STRIP_COUNTS:
        batches = arrange_batches(source, target, budget, strips)
        assert sorted(np.concatenate(batches).tolist()) == list(range(count))
        for batch in batches:
            assert len(batch) * max(source[batch].max(), target[batch].max()) <= budget
        for batch, next_batch in pairwise(batches):  # no batch could take one more
            extended = np.append(batch, next_batch[0])
            assert len(extended) * max(source[extended].max(), target[extended].max()) > budget
        padded[strips] = sum(len(b) * int(source[b].max() + target[b].max()) for b in batches)
    assert padded[best_strips(source, target, budget)] == min(padded.values())
    target_count = data.draw(st.integers(len(batches), count))
    parts = split_batches(batches, target_count)
    assert len(parts) == target_count
    assert min(map(len, parts)) > 0
    assert sorted(np.concatenate(parts).tolist()) == list(range(count))


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=9), st.data())
def test_joined_columns_return_the_requested_rows(rows: list[list[int]], data: st.DataObject) -> None:
    plain, formed = Column.from_rows(rows), Column.from_rows([[*row, 7] for row in rows])
    cut = data.draw(st.integers(0, len(rows)))
    joined = JoinedColumn([Column.from_rows(rows[:cut]), Column.from_rows(rows[cut:])])
    forms = SurfaceForms(joined, [formed])
    positions = np.array(data.draw(st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=9)))
    form_ids = np.array(
        data.draw(st.lists(st.sampled_from([-1, 0]), min_size=len(positions), max_size=len(positions)))
    )
    expected = [
        rows[position] if form < 0 else [*rows[position], 7]
        for position, form in zip(positions, form_ids, strict=True)
    ]
    expected_plain = [rows[position] for position in positions]
    for block, lengths, expected_rows in (
        (plain.block(positions), plain.row_lengths(positions), expected_plain),
        (joined.block(positions), joined.row_lengths(positions), expected_plain),
        (forms.block(positions, form_ids), forms.row_lengths(positions, form_ids), expected),
    ):
        assert block.lengths.tolist() == lengths.tolist() == [len(row) for row in expected_rows]
        width = max(map(len, expected_rows))
        assert block.tokens.tolist() == [row + [0] * (width - len(row)) for row in expected_rows]
    assert [
        forms.row(position, form).tolist()
        for position, form in zip(positions.tolist(), form_ids, strict=True)
    ] == expected
    assert [joined.row(position).tolist() for position in positions.tolist()] == expected_plain


@pytest.mark.parametrize("growth", [1.0, 1.02, 5.0])
def test_batches_of_sampled_segmentations_fit_the_token_budget(corpus, growth, monkeypatch) -> None:
    """If sampled rows are much longer than expected, stored rows replace the longest of them."""
    monkeypatch.setattr(plans, "MIN_SAMPLED_POOL", 100)
    batches = corpus.batches("drawn")
    assert batches._sampler is not None
    batches._sampler._growth = [growth, growth]
    batch_pairs = []
    for index in range(batches.count(0)):
        batch = batches.batch(0, index)
        assert max(batch.source.size, batch.target_out.size) <= BUDGET
        batch_pairs.extend(batch.pairs.tolist())
    assert sorted(batch_pairs) == list(range(len(PAIRS)))


def test_padding_and_planning_time_are_limited() -> None:
    generator = np.random.default_rng(3)
    target = np.clip(generator.gamma(4, 3, 160_000), 1, 200).astype(np.int64)
    source = np.clip(target * generator.normal(1, 0.15, len(target)) + 1, 1, 250).astype(np.int64)

    def column(lengths: np.ndarray) -> Column:
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return Column(np.zeros(0, dtype=np.uint16), offsets)

    class Lengths(Store):
        def __init__(self) -> None:
            self._size = len(target)
            self._columns = {"source": column(source), "target": column(target)}

    started = time.process_time()
    plan = plans.StoredPlan(plans.MixedSides(Mixture([Lengths()]), {}), (1, 0), 4096)
    plan.find(0)
    assert time.process_time() - started < 1.0
    batches = [
        plan._arrangement(number)[0].pairs[b]
        for number in range(plan.pools)
        for b in plan._arrangement(number)[1]
    ]
    assert len(batches) == len(plan)
    real = int((source + 1).sum() + (target + 1).sum())
    padded = sum(len(b) * int(source[b].max() + target[b].max() + 2) for b in batches)
    assert real / padded > 0.93
    assert real / 2 / (4096 * len(plan)) > 0.85


def test_invalid_settings_are_rejected(corpus: PreparedCorpus, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="batch_tokens: 20 is too small"):
        corpus.batches("plain", budget=20)
    reader = read_corpus(corpus.data.resolved("train")[0])
    plain = corpus.data.model_copy(update={"augment": {}})
    bare = build_store(reader, (corpus.tokeniser, corpus.tokeniser), tmp_path / "bare", plain, False)
    sides: tuple[Tokeniser, Tokeniser] = (corpus.tokeniser, corpus.tokeniser)
    with pytest.raises(DataError, match="no surface form lower, unpunctuated, upper"):
        Batches(Mixture([bare]), sides, corpus.data, 1, BUDGET)
    with pytest.raises(DataError, match="no texts"):
        Batches(Mixture([bare]), sides, plain.model_copy(update={"subword_sampling": 0.1}), 1, BUDGET)


def test_prefetching_does_not_change_batches(corpus: PreparedCorpus) -> None:
    batches = corpus.batches("drawn")
    prefetched = list(prefetch(batches.batch(0, index) for index in range(batches.count(0))))
    assert len(prefetched) == batches.count(0)
    assert all(equal_batches(batch, batches.batch(0, index)) for index, batch in enumerate(prefetched))
