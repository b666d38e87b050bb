"""What the processes of a run tell each other, here threads with a store of their own."""

from __future__ import annotations

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
from uwaga.training.consistency import check_shared_folder, compare, facts
from uwaga.training.rank_messages import RankMessages, meet
from uwaga.training.ranks import ALONE, Ranks, join_ranks

WORLD = 3


def together(work: Callable[[Ranks], Any], world: int = WORLD) -> list[Any]:
    """What the work gives for each rank, or the error that it raises."""
    store = HashStore()

    def one(rank: int) -> Any:
        notices = RankMessages(store, rank, world)
        try:
            return work(Ranks(rank, world, rank, world, notices))
        except Exception as error:
            return error
        finally:
            notices.close()

    with ThreadPoolExecutor(world) as pool:
        return list(pool.map(one, range(world)))


def test_what_all_agree_on_each_has_made_itself() -> None:
    assert together(lambda ranks: ranks.agree(lambda: ranks.rank**2)) == [0, 1, 4]
    assert together(lambda ranks: ranks.gather({"rank": ranks.rank})) == [[{"rank": n} for n in range(3)]] * 3


def test_rank_0_does_for_all_what_one_does() -> None:
    calls: list[int] = []

    def work(ranks: Ranks) -> Any:
        return ranks.lead(lambda: calls.append(ranks.rank) or [1, "a", None])

    assert together(work) == [[1, "a", None]] * WORLD
    assert calls == [0]


def test_in_turn_rank_0_is_done_before_the_others_begin() -> None:
    done: list[int] = []

    def work(ranks: Ranks) -> Any:
        def make() -> bool:
            if ranks.first:
                time.sleep(0.2)
            done.append(ranks.rank)
            return True

        return ranks.in_turn(make)

    assert together(work) == [True] * WORLD
    assert done[0] == 0 and sorted(done) == [0, 1, 2]


@pytest.mark.parametrize("failing", [{1}, {2}, {1, 2}, {0, 1, 2}])
def test_an_error_is_told_once_and_ends_all(failing: set[int]) -> None:
    def work(ranks: Ranks) -> Any:
        def make() -> None:
            if ranks.rank in failing:
                raise DataError(f"bad in {ranks.rank}")

        ranks.agree(make)

    found = together(work)
    for rank, error in enumerate(found):
        if rank == min(failing):
            assert isinstance(error, DataError)
        else:
            assert isinstance(error, FailedElsewhereError) and f"rank {min(failing)}: bad" in str(error)


def test_an_error_of_rank_0_ends_those_who_wait_for_it() -> None:
    def work(ranks: Ranks) -> Any:
        def full() -> None:
            raise OSError(28, "No space left on device")

        ranks.lead(full)

    found = together(work)
    assert isinstance(found[0], OSError)
    assert all(isinstance(error, FailedElsewhereError) for error in found[1:])


def test_a_bug_keeps_its_traceback_where_it_is() -> None:
    def work(ranks: Ranks) -> Any:
        ranks.agree(lambda: 1 // (ranks.rank - 2))

    found = together(work)
    assert isinstance(found[2], ZeroDivisionError)
    assert all(isinstance(error, FailedElsewhereError) for error in found[:2])


def test_who_is_here_now_meets_whatever_earlier_ones_have_left_in_the_store() -> None:
    store = HashStore()
    names: set[str] = set()
    for late in (0, 1, 2, 0):

        def come(rank: int, late: int = late) -> str:
            time.sleep(0.3 * (rank == late))
            return meet(store, rank, WORLD)

        with ThreadPoolExecutor(WORLD) as pool:
            met = list(pool.map(come, range(WORLD)))
        assert len(set(met)) == 1 and met[0] not in names
        names.add(met[0])
    with pytest.raises(RankLostError, match=r"rank 1: rank 0 has not joined within 0 s"):
        meet(store, 1, WORLD, seconds=0.2)  # the call there is of one who is gone
    with pytest.raises(RankLostError, match=r"rank 0: rank 1 has not joined"):
        meet(store, 0, WORLD, seconds=0.2)


def test_who_is_silent_for_too_long_is_named() -> None:
    store = HashStore()
    here, gone = RankMessages(store, 0, 2, timeout=1.0), RankMessages(store, 1, 2)
    gone.close()  # it lives no more
    try:
        with pytest.raises(RankLostError, match=r"rank 1 \(process \d+ on host .*\) has not been heard of"):
            here.gather("")
    finally:
        here.close()


def test_who_never_comes_is_named() -> None:
    here = RankMessages(HashStore(), 0, 2, timeout=0.6)
    try:
        with pytest.raises(RankLostError, match="rank 1, which never joined, has not been heard of"):
            here.gather("")
    finally:
        here.close()


def test_who_is_asked_to_end_waits_no_longer_for_the_dead() -> None:
    store = HashStore()
    here, gone = RankMessages(store, 1, 2), RankMessages(store, 0, 2)
    gone.close()
    here.hurried = lambda: True
    begun = time.monotonic()
    try:
        with pytest.raises(RankLostError):
            here.receive()
        assert time.monotonic() - begun < 30
    finally:
        here.close()


def test_a_connection_that_breaks_is_told_by_one_as_who_has_ended() -> None:
    store = HashStore()
    notices = [RankMessages(store, rank, 3) for rank in range(3)]
    notices[1].close()
    with ThreadPoolExecutor(2) as pool:
        errors = list(pool.map(lambda rank: notices[rank].lost(False), (0, 2)))
    told = [error for error in errors if isinstance(error, RankLostError)]
    assert len(told) == 1 and "rank 1 (process" in str(told[0]) and "was lost" in str(told[0])
    notices[2].fail()
    assert isinstance(notices[0].lost(False), FailedElsewhereError)  # which has said why
    for one in (notices[0], notices[2]):
        one.close()


def test_who_waits_learns_that_another_has_failed() -> None:
    store = HashStore()
    here, other = RankMessages(store, 0, 2), RankMessages(store, 1, 2)
    threading.Timer(0.2, other.fail).start()
    with pytest.raises(FailedElsewhereError, match="rank 1 has failed"):
        here.gather("")
    here.close()
    other.close()


def test_a_process_by_itself_talks_to_nobody(tmp_path: Path) -> None:
    with join_ranks({}) as ranks:
        assert ranks is ALONE
    with join_ranks({"WORLD_SIZE": "1", "RANK": "0"}) as ranks:
        assert ranks is ALONE
    tensor = torch.ones(3)
    ALONE.add([tensor])
    ALONE.broadcast([tensor])
    assert tensor.tolist() == [1, 1, 1] and ALONE.exchange([1, 2]) == [[1, 2]] and ALONE.gather("a") == ["a"]
    assert ALONE.lead(lambda: 1) == ALONE.agree(lambda: 1) == ALONE.in_turn(lambda: 1) == 1
    check_shared_folder(ALONE, tmp_path)


def test_no_store_is_an_error_that_names_torchrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with (
        pytest.raises(RankLostError, match="start all processes with torchrun"),
        join_ranks({"WORLD_SIZE": "2", "RANK": "0"}),
    ):
        pass


def test_processes_that_are_not_alike_are_named_with_what_differs(tmp_path: Path) -> None:
    for name in ("train.tsv", "dev.tsv"):
        (tmp_path / name).write_text("a\tb\n")
    data = {"train": [str(tmp_path / "train.tsv")], "dev": [str(tmp_path / "dev.tsv")]}
    settings = parse(Settings, {"run": str(tmp_path / "run"), "data": data}, "test")
    first = facts(settings, None)
    compare([first, facts(settings, None), first], ALONE)
    (tmp_path / "train.tsv").write_text("a\tc\nd\te\n")
    with pytest.raises(
        SettingsError, match=r"rank 2 differs from rank 0: corpus .*train\.tsv: .*size"
    ) as found:
        compare([first, first, facts(settings, None)], ALONE)
    assert "the same files" in str(found.value)
    with pytest.raises(SettingsError, match=r"rank 1 differs from rank 0: uwaga: 9\.9 there, uwaga"):
        compare([first, {**first, "uwaga": "9.9"}], ALONE)
    other = parse(Settings, {"run": "elsewhere", "data": data, "training": {"seed": 2}}, "test")
    with pytest.raises(
        SettingsError, match=r"setting run: elsewhere there, .*; setting training\.seed: 2 there, 1 here"
    ):
        compare([first, {**first, **{k: v for k, v in facts(other, None).items() if "setting" in k}}], ALONE)


def test_a_process_that_does_not_see_the_run_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("uwaga.training.consistency._SETTLED", 0.3)
    folders = [tmp_path / "a", tmp_path / "a", tmp_path / "b"]
    (tmp_path / "a").mkdir()
    with RunLock(tmp_path / "a"):
        found = together(lambda ranks: check_shared_folder(ranks, folders[ranks.rank]))
    assert isinstance(found[2], SettingsError) and "a file system that all machines share" in str(found[2])
    assert "rank 2 (process" in str(found[2])
    assert all(isinstance(error, FailedElsewhereError) for error in found[:2])
