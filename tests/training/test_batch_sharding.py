"""Sharding of the batches of an update: several processes together read the batches of a single one."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toy import toy_settings, write_reversal_corpus

from uwaga.errors import SettingsError
from uwaga.settings import TrainingSettings
from uwaga.training.batch_sharding import BatchSharding, BatchSize, check_process_count
from uwaga.training.corpus import Corpora, prepare_corpora


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Corpora:
    folder = tmp_path_factory.mktemp("dealt")
    write_reversal_corpus(folder, pairs=150)
    return prepare_corpora(toy_settings(folder, batch_tokens=100), lambda line: None)


@pytest.mark.parametrize("world", [1, 2, 3, 4, 7])
def test_processes_share_the_batches_of_a_single_process(corpora: Corpora, world: int) -> None:
    count = corpora.train.count(0)
    for start in [(0, 0), (0, count - 2), (3, 1)]:  # including the end of an epoch
        expected = list(islice(corpora.stream(*start), 5 * world))
        streams = [list(islice(corpora.stream(*start, rank, world), 5)) for rank in range(world)]
        for number, (_, batch) in enumerate(expected):
            _, actual = streams[number % world][number // world]
            assert np.array_equal(batch.pairs, actual.pairs)
            assert np.array_equal(batch.target_out, actual.target_out)
        for group in range(5):  # positions agree in all processes
            last = expected[(group + 1) * world - 1][0]
            assert {streams[rank][group][0] for rank in range(world)} == {last}


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 6))
def test_batch_part_numbers_do_not_depend_on_the_number_of_processes(sentences, parts) -> None:
    sizes = tuple(BatchSize(number, number, number) for number in sentences)
    expected = BatchSharding(sizes, range(len(sizes))).first_part_numbers(parts)
    assert expected == [
        sum(min(parts, number) for number in sentences[:index]) for index in range(len(sentences))
    ]
    for world in (count for count in range(1, len(sizes) + 1) if len(sizes) % count == 0):
        actual: dict[int, int] = {}
        for rank in range(world):
            local = range(rank, len(sizes), world)
            actual |= zip(local, BatchSharding(sizes, local).first_part_numbers(parts), strict=True)
        assert [actual[index] for index in range(len(sizes))] == expected


def test_number_of_processes_must_divide_the_number_of_batches() -> None:
    training = TrainingSettings(accumulate=6, batch_tokens=4000)
    for world in (1, 2, 3, 6):
        check_process_count(training, world)
    for world in (4, 5, 7, 12):
        with pytest.raises(SettingsError, match=rf"6 batches of 4,000 tokens.* evenly among {world} proc"):
            check_process_count(training, world)
    with pytest.raises(SettingsError, match=r"Start 1 or 2 or 3 or 6 processes") as error:
        check_process_count(training, 4)
    assert "accumulate=8 --set training.batch_tokens=3000, whose updates have the same size" in str(
        error.value
    )
