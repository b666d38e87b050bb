"""Communication between the processes of a run, simulated by threads with a store."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import HashStore

from uwaga.errors import DataError, FailedElsewhereError, RankLostError, SettingsError
from uwaga.files.lock import RunLock
from uwaga.settings import Settings, parse
from uwaga.training.consistency import check_shared_folder, collect_inputs, compare_inputs
from uwaga.training.rank_messages import RankMessages, agree_on_name
from uwaga.training.ranks import SINGLE_PROCESS, Ranks, join_ranks

WORLD = 3


def run_ranks(work: Callable[[Ranks], Any], world: int = WORLD) -> list[Any]:
    """Return for each rank the result of ``work`` or the error that it raises."""
    store = HashStore()

    def run_rank(rank: int) -> Any:
        messages = RankMessages(store, rank, world)
        try:
            return work(Ranks(rank, world, rank, world, messages))
        except Exception as error:
            return error
        finally:
            messages.close()

    with ThreadPoolExecutor(world) as pool:
        return list(pool.map(run_rank, range(world)))


def test_run_on_all_returns_the_local_result_and_gather_all_results() -> None:
    assert run_ranks(lambda ranks: ranks.run_on_all(lambda: ranks.rank**2)) == [0, 1, 4]
    assert (
        run_ranks(lambda ranks: ranks.gather({"rank": ranks.rank})) == [[{"rank": n} for n in range(3)]] * 3
    )


def test_run_on_rank_0_returns_its_result_to_all_ranks() -> None:
    calls: list[int] = []

    def work(ranks: Ranks) -> Any:
        return ranks.run_on_rank_0(lambda: calls.append(ranks.rank) or [1, "a", None])

    assert run_ranks(work) == [[1, "a", None]] * WORLD
    assert calls == [0]


def test_run_rank_0_first_runs_all_other_ranks_afterwards() -> None:
    order: list[int] = []

    def work(ranks: Ranks) -> Any:
        def make() -> bool:
            if ranks.is_first:
                time.sleep(0.2)
            order.append(ranks.rank)
            return True

        return ranks.run_rank_0_first(make)

    assert run_ranks(work) == [True] * WORLD
    assert order[0] == 0 and sorted(order) == [0, 1, 2]


@pytest.mark.parametrize("failing", [{1}, {2}, {1, 2}, {0, 1, 2}])
def test_error_is_reported_by_one_rank_and_raised_in_all_ranks(failing: set[int]) -> None:
    def work(ranks: Ranks) -> Any:
        def make() -> None:
            if ranks.rank in failing:
                raise DataError(f"bad in {ranks.rank}")

        ranks.run_on_all(make)

    results = run_ranks(work)
    for rank, error in enumerate(results):
        if rank == min(failing):
            assert isinstance(error, DataError)
        else:
            assert isinstance(error, FailedElsewhereError) and f"rank {min(failing)}: bad" in str(error)


def test_error_of_rank_0_is_raised_in_all_ranks() -> None:
    def work(ranks: Ranks) -> Any:
        def fail() -> None:
            raise OSError(28, "No space left on device")

        ranks.run_on_rank_0(fail)

    results = run_ranks(work)
    assert isinstance(results[0], OSError)
    assert all(isinstance(error, FailedElsewhereError) for error in results[1:])


def test_unexpected_error_is_raised_only_in_the_rank_where_it_occurs() -> None:
    def work(ranks: Ranks) -> Any:
        ranks.run_on_all(lambda: 1 // (ranks.rank - 2))

    results = run_ranks(work)
    assert isinstance(results[2], ZeroDivisionError)
    assert all(isinstance(error, FailedElsewhereError) for error in results[:2])


def test_ranks_agree_on_a_name_despite_messages_of_earlier_processes() -> None:
    store = HashStore()
    names: set[str] = set()
    for delayed_rank in (0, 1, 2, 0):

        def join(rank: int, delayed: int = delayed_rank) -> str:
            time.sleep(0.3 * (rank == delayed))
            return agree_on_name(store, rank, WORLD)

        with ThreadPoolExecutor(WORLD) as pool:
            results = list(pool.map(join, range(WORLD)))
        assert len(set(results)) == 1 and results[0] not in names
        names.add(results[0])
    with pytest.raises(RankLostError, match=r"rank 1: rank 0 has not joined within 0 s"):
        agree_on_name(store, 1, WORLD, seconds=0.2)  # the call in the store is of a process that has ended
    with pytest.raises(RankLostError, match=r"rank 0: rank 1 has not joined"):
        agree_on_name(store, 0, WORLD, seconds=0.2)


def test_unresponsive_rank_is_reported_by_a_waiting_rank() -> None:
    store = HashStore()
    local, silent = RankMessages(store, 0, 2, timeout=1.0), RankMessages(store, 1, 2)
    silent.close()  # stops its heartbeats
    try:
        with pytest.raises(RankLostError, match=r"rank 1 \(process \d+ on host .*\) has not responded"):
            local.gather("")
    finally:
        local.close()


def test_process_that_never_joins_the_group_is_reported() -> None:
    local = RankMessages(HashStore(), 0, 2, timeout=0.6)
    try:
        with pytest.raises(RankLostError, match="rank 1, which never joined, has not responded"):
            local.gather("")
    finally:
        local.close()


def test_stopping_process_does_not_wait_for_unresponsive_processes() -> None:
    store = HashStore()
    local, silent = RankMessages(store, 1, 2), RankMessages(store, 0, 2)
    silent.close()
    local.is_stopping = lambda: True
    start = time.monotonic()
    try:
        with pytest.raises(RankLostError):
            local.receive()
        assert time.monotonic() - start < 30
    finally:
        local.close()


def test_error_for_a_broken_connection_names_the_ended_process_once() -> None:
    store = HashStore()
    messages = [RankMessages(store, rank, 3) for rank in range(3)]
    messages[1].close()
    with ThreadPoolExecutor(2) as pool:
        errors = list(pool.map(lambda rank: messages[rank].connection_error(False), (0, 2)))
    reported = [error for error in errors if isinstance(error, RankLostError)]
    assert len(reported) == 1 and "rank 1 (process" in str(reported[0]) and "was lost" in str(reported[0])
    messages[2].fail()
    assert isinstance(
        messages[0].connection_error(False), FailedElsewhereError
    )  # rank 2 has reported its error
    for rank_messages in (messages[0], messages[2]):
        rank_messages.close()


def test_waiting_process_detects_the_failure_of_another_process() -> None:
    store = HashStore()
    local, other = RankMessages(store, 0, 2), RankMessages(store, 1, 2)
    threading.Timer(0.2, other.fail).start()
    with pytest.raises(FailedElsewhereError, match="rank 1 has failed"):
        local.gather("")
    local.close()
    other.close()


def test_single_process_does_not_communicate(tmp_path: Path) -> None:
    with join_ranks({}) as ranks:
        assert ranks is SINGLE_PROCESS
    with join_ranks({"WORLD_SIZE": "1", "RANK": "0"}) as ranks:
        assert ranks is SINGLE_PROCESS
    tensor = torch.ones(3)
    SINGLE_PROCESS.sum_tensors([tensor])
    SINGLE_PROCESS.broadcast([tensor])
    assert (
        tensor.tolist() == [1, 1, 1]
        and SINGLE_PROCESS.exchange([1, 2]) == [[1, 2]]
        and SINGLE_PROCESS.gather("a") == ["a"]
    )
    assert (
        SINGLE_PROCESS.run_on_rank_0(lambda: 1)
        == SINGLE_PROCESS.run_on_all(lambda: 1)
        == SINGLE_PROCESS.run_rank_0_first(lambda: 1)
        == 1
    )
    check_shared_folder(SINGLE_PROCESS, tmp_path)


def test_error_for_a_missing_store_mentions_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with (
        pytest.raises(RankLostError, match="start all processes with torchrun"),
        join_ranks({"WORLD_SIZE": "2", "RANK": "0"}),
    ):
        pass


def test_differences_between_processes_are_reported(tmp_path: Path) -> None:
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text("a\tb\n")
    data = {"train": [str(tmp_path / "train.tsv")], "dev": [str(tmp_path / "dev.tsv")]}
    settings = parse(Settings, {"run": str(tmp_path / "run"), "data": data}, "test")
    first = collect_inputs(settings, None)
    compare_inputs([first, collect_inputs(settings, None), first], SINGLE_PROCESS)
    (tmp_path / "train.tsv").write_text("a\tc\nd\te\n")
    with pytest.raises(
        SettingsError, match=r"rank 2 differs from rank 0: corpus .*train\.tsv: .*size"
    ) as error:
        compare_inputs([first, first, collect_inputs(settings, None)], SINGLE_PROCESS)
    assert "the same files" in str(error.value)
    with pytest.raises(SettingsError, match=r"rank 1 differs from rank 0: uwaga: 9\.9 instead of uwaga"):
        compare_inputs([first, {**first, "uwaga": "9.9"}], SINGLE_PROCESS)
    other = parse(Settings, {"run": "elsewhere", "data": data, "training": {"seed": 2}}, "test")
    with pytest.raises(
        SettingsError, match=r"setting run: elsewhere instead of .*; setting training\.seed: 2 instead of 1"
    ):
        compare_inputs(
            [first, {**first, **{k: v for k, v in collect_inputs(other, None).items() if "setting" in k}}],
            SINGLE_PROCESS,
        )


def test_process_without_access_to_the_run_folder_is_rejected(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("uwaga.training.consistency._VISIBILITY_SECONDS", 0.3)
    folders = [tmp_path / "a", tmp_path / "a", tmp_path / "b"]
    (tmp_path / "a").mkdir()
    with RunLock(tmp_path / "a"):
        results = run_ranks(lambda ranks: check_shared_folder(ranks, folders[ranks.rank]))
    assert isinstance(results[2], SettingsError) and "a file system that all machines share" in str(
        results[2]
    )
    assert "rank 2 (process" in str(results[2])
    assert all(isinstance(error, FailedElsewhereError) for error in results[:2])
