"""How an update's batches are dealt: several processes together see what one sees, in the same order."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy import toy_settings, write_reversal_corpus

from uwaga.errors import SettingsError
from uwaga.settings import TrainingSettings
from uwaga.training.batch_sharding import BatchSharding, Size, check_world
from uwaga.training.corpus import Corpora, prepare_corpora


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Corpora:
    folder = tmp_path_factory.mktemp("dealt")
    write_reversal_corpus(folder, pairs=150)
    return prepare_corpora(toy_settings(folder, batch_tokens=100), lambda line: None)


@pytest.mark.parametrize("world", [1, 2, 3, 4, 7])
def test_what_all_read_together_is_what_one_reads(corpora: Corpora, world: int) -> None:
    count = corpora.train.count(0)
    for begin in [(0, 0), (0, count - 2), (3, 1)]:  # also across the end of an epoch
        alone = list(islice(corpora.stream(*begin), 5 * world))
        dealt = [list(islice(corpora.stream(*begin, rank, world), 5)) for rank in range(world)]
        for number, (_, batch) in enumerate(alone):
            _, mine = dealt[number % world][number // world]
            assert np.array_equal(batch.pairs, mine.pairs)
            assert np.array_equal(batch.target_out, mine.target_out)
        for turn in range(5):  # and all know how far they have come together
            last = alone[(turn + 1) * world - 1][0]
            assert {dealt[rank][turn][0] for rank in range(world)} == {last}


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 6))
def test_parts_have_the_numbers_that_one_process_gives_them(sentences: list[int], cut: int) -> None:
    sizes = tuple(Size(number, number, number) for number in sentences)
    alone = BatchSharding(sizes, range(len(sizes))).first_parts(cut)
    assert alone == [sum(min(cut, number) for number in sentences[:at]) for at in range(len(sentences))]
    for world in (one for one in range(1, len(sizes) + 1) if len(sizes) % one == 0):
        found: dict[int, int] = {}
        for rank in range(world):
            own = range(rank, len(sizes), world)
            found |= zip(own, BatchSharding(sizes, own).first_parts(cut), strict=True)
        assert [found[at] for at in range(len(sizes))] == alone


def test_a_number_of_processes_that_would_change_the_update_is_refused() -> None:
    training = TrainingSettings(accumulate=6, batch_tokens=4000)
    for world in (1, 2, 3, 6):
        check_world(training, world)
    for world in (4, 5, 7, 12):
        with pytest.raises(SettingsError, match=rf"6 batches of 4,000 tokens.* evenly among {world} proc"):
            check_world(training, world)
    with pytest.raises(SettingsError, match=r"Start 1 or 2 or 3 or 6 of them") as found:
        check_world(training, 4)
    assert "accumulate=8 --set training.batch_tokens=3000, whose updates have the same size" in str(
        found.value
    )
