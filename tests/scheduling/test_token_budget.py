"""Laws of the token budget: nothing is lost or doubled, no search starves, many do not delay a few."""

from __future__ import annotations

import threading

from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga.scheduling.fair_queue import FairQueue
from uwaga.scheduling.token_budget import SearchLease, TokenBudget

QUIET = settings(max_examples=80, deadline=None)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Batch:
    """What was let in, in order; each sentence is a pair of its search's name and number."""

    def __init__(self, most: int, reserved: int, share: float = 0.25) -> None:
        self.clock = Clock()
        self.budget = TokenBudget(most, reserved, share, self.clock)
        self.entered: list[tuple[str, int]] = []
        self.running: list[tuple[str, int]] = []
        self.leases: dict[str, SearchLease] = {}
        self.sizes: dict[str, list[int]] = {}
        self.count: dict[str, int] = {}

    def enqueue(self, name: str, sizes: list[int], client: str = "") -> None:
        def admit(count: int) -> None:
            first = self.count[name]
            self.count[name] += count
            those = [(name, first + at) for at in range(count)]
            self.entered += those
            self.running += those

        self.leases.setdefault(name, SearchLease(client, admit))
        self.sizes.setdefault(name, []).extend(sizes)
        self.count.setdefault(name, 0)
        self.budget.enqueue(self.leases[name], sizes)

    def finish(self, at: int = 0) -> None:
        name, number = self.running.pop(at % len(self.running))
        self.budget.release(self.leases[name], [self.sizes[name][number]])

    def leave(self, name: str) -> None:
        self.running = [one for one in self.running if one[0] != name]
        self.budget.leave(self.leases[name])


@QUIET
@given(st.data())
def test_all_enter_once_in_their_order_and_no_place_is_lost(data: st.DataObject) -> None:
    batch = Batch(most=60, reserved=20, share=0.25)
    gone: set[str] = set()
    for turn in range(data.draw(st.integers(1, 40))):
        what = data.draw(st.sampled_from(["claim", "claim", "finish", "leave", "again"]))
        living = [name for name in batch.leases if name not in gone]
        if what == "claim":
            sizes = data.draw(st.lists(st.integers(1, 100), min_size=1, max_size=8))
            batch.enqueue(f"search {turn}", sizes, data.draw(st.sampled_from(["", "a", "b"])))
        elif what == "finish" and batch.running:
            batch.finish(data.draw(st.integers(0, 99)))
        elif what == "leave" and living:
            name = data.draw(st.sampled_from(living))
            gone.add(name)
            batch.leave(name)
        elif living:
            batch.enqueue(data.draw(st.sampled_from(living)), [data.draw(st.integers(1, 30))])
        assert batch.budget.running == len(batch.running)
        used = [batch.sizes[name][number] for name, number in batch.running]
        assert batch.budget.used == sum(used)
        assert sum(used) <= 80 or len(used) == 1
    while batch.running:
        batch.finish(data.draw(st.integers(0, 99)))
    assert (batch.budget.waiting, batch.budget.running, batch.budget.used) == (0, 0, 0)
    assert len(set(batch.entered)) == len(batch.entered)
    for name, sizes in batch.sizes.items():
        own = [number for of, number in batch.entered if of == name]
        assert own == list(range(len(own)))
        assert name in gone or len(own) == len(sizes)


def test_a_client_with_one_sentence_enters_at_once_beside_one_with_500() -> None:
    batch = Batch(most=100, reserved=20)
    batch.enqueue("long", [10] * 500, "a")
    assert batch.running == [("long", at) for at in range(10)]
    batch.enqueue("short", [10], "b")
    assert batch.running[-1] == ("short", 0)


def test_where_all_is_full_it_enters_in_its_turn() -> None:
    batch = Batch(most=100, reserved=0)
    batch.enqueue("long", [10] * 500, "a")
    for at in range(3):
        batch.enqueue(f"short {at}", [10], f"client {at}")
    assert len(batch.running) == 10
    for _ in range(5):
        batch.finish()
    entered = [name for name, _ in batch.entered[10:]]
    assert entered[:4] == ["long", "short 0", "short 1", "short 2"]


def running(batch: Batch, name: str) -> int:
    return sum(each == name for each, _ in batch.running)


def test_long_ones_get_a_share_of_what_short_ones_have_had_lately() -> None:
    batch = Batch(most=200, reserved=20)
    for at in range(8):
        batch.enqueue(f"short {at}", [10], f"client {at}")
    batch.enqueue("long", [10] * 500, "a")
    batch.enqueue("another", [10] * 500, "b")
    assert running(batch, "long") + running(batch, "another") == 2
    while batch.running[0][0].startswith("short"):
        batch.finish()
    batch.clock.now = 0.4
    batch.finish()
    assert len(batch.running) == 2  # the next short one may come at once
    batch.clock.now = 0.8
    batch.finish()
    assert len(batch.running) == 2
    batch.clock.now = 1.4
    batch.finish()
    assert len(batch.running) == 22  # nobody has come: they have all
    assert running(batch, "long") in (10, 11, 12)


def test_long_ones_wait_for_a_moment_without_short_ones_but_never_for_ever() -> None:
    batch = Batch(most=200, reserved=20)
    batch.enqueue("short 0", [10])
    batch.enqueue("long", [10] * 50)
    assert running(batch, "long") == 1  # it begins at once
    batch.finish(1)
    assert running(batch, "long") == 0  # the steps are those of the short one alone
    batch.finish(0)
    assert running(batch, "long") == 1  # a moment without
    for turn in range(1, 40):  # short ones without a pause
        batch.enqueue(f"short {turn}", [10])
        batch.clock.now += 0.03
        before = batch.count["long"]
        batch.finish(batch.running.index(next(one for one in batch.running if one[0] == "long")))
        assert batch.count["long"] == before + 1
        assert running(batch, "long") == 1
        if turn > 1:
            batch.finish(batch.running.index((f"short {turn - 1}", 0)))


def test_of_one_client_searches_take_turns_too() -> None:
    batch = Batch(most=10, reserved=0)
    batch.enqueue("one", [10] * 3)
    batch.enqueue("other", [10] * 3)
    for _ in range(6):
        batch.finish()
    assert [name for name, _ in batch.entered] == ["one", "one", "other", "one", "other", "other"]


def test_a_large_one_is_not_overtaken_for_ever() -> None:
    batch = Batch(most=100, reserved=20)
    batch.enqueue("a", [60])
    batch.enqueue("b", [50])
    batch.enqueue("large", [1000])
    batch.enqueue("c", [5])
    assert [name for name, _ in batch.running] == ["a", "b"]
    batch.finish()
    batch.finish()
    assert batch.running == [("large", 0)]
    batch.finish()
    assert batch.running == [("c", 0)]


def test_threads_lose_nothing() -> None:
    budget, lock = TokenBudget(most=50, reserved=10), threading.Lock()
    entered = [0] * 16

    def work(number: int) -> None:
        free = threading.Semaphore(0)

        def admit(count: int) -> None:
            with lock:
                entered[number] += count
            for _ in range(count):
                free.release()

        for _ in range(20):
            lease = SearchLease(str(number % 3), admit)
            budget.enqueue(lease, [5] * 4)
            for _ in range(4):
                free.acquire()
                budget.release(lease, [5])
            budget.leave(lease)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert entered == [80] * 16
    assert (budget.waiting, budget.running, budget.used) == (0, 0, 0)


@QUIET
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers()), max_size=30))
def test_a_fair_queue_serves_clients_in_turn(items: list[tuple[str, int]]) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for client, item in items:
        queue.put(client, (client, item))
    served = [queue.take() for _ in range(len(items))]
    assert not queue
    for client in "abc":
        own = [one for one in served if one[0] == client]
        assert own == [one for one in items if one[0] == client]
        for at, one in enumerate(own):  # nobody is served twice before all who waited were served once
            before = served[: served.index(one)] if own.count(one) == 1 else []
            for other in "abc":
                assert sum(each[0] == other for each in before) <= at + 1


def test_items_of_a_fair_queue_can_be_taken_back_or_put_first() -> None:
    queue: FairQueue[int] = FairQueue()
    for item in (1, 2, 3):
        queue.put("a", item)
    queue.put("b", 4)
    assert queue.remove("a", 2)
    assert not queue.remove("a", 2)
    assert not queue.remove("c", 2)
    queue.put_first("b", 5)
    assert [queue.take() for _ in range(4)] == [5, 1, 4, 3]
