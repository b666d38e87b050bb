"""Token budget of a batch: each sentence enters once, and no search waits forever."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from uwaga.scheduling.fair_queue import FairQueue
from uwaga.scheduling.token_budget import SearchLease, TokenBudget


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Batch:
    """A batch that records admitted sentences as pairs of search name and sentence index."""

    def __init__(self, max_tokens: int, reserved: int, share: float = 0.25) -> None:
        self.clock = Clock()
        self.budget = TokenBudget(max_tokens, reserved, share, self.clock)
        self.entered: list[tuple[str, int]] = []
        self.running: list[tuple[str, int]] = []
        self.leases: dict[str, SearchLease] = {}
        self.sizes: dict[str, list[int]] = {}
        self.count: dict[str, int] = {}

    def enqueue(self, name: str, sizes: list[int], client: str = "") -> None:
        def admit(count: int) -> None:
            first = self.count[name]
            self.count[name] += count
            admitted = [(name, first + i) for i in range(count)]
            self.entered += admitted
            self.running += admitted

        self.leases.setdefault(name, SearchLease(client, admit))
        self.sizes.setdefault(name, []).extend(sizes)
        self.count.setdefault(name, 0)
        self.budget.enqueue(self.leases[name], sizes)

    def finish(self, index: int = 0) -> None:
        name, number = self.running.pop(index % len(self.running))
        self.budget.release(self.leases[name], [self.sizes[name][number]])

    def leave(self, name: str) -> None:
        self.running = [entry for entry in self.running if entry[0] != name]
        self.budget.leave(self.leases[name])


@given(st.data())
def test_all_sentences_enter_the_batch_exactly_once_in_order(data: st.DataObject) -> None:
    batch = Batch(max_tokens=60, reserved=20, share=0.25)
    left: set[str] = set()
    for step in range(data.draw(st.integers(1, 40))):
        action = data.draw(st.sampled_from(["claim", "claim", "finish", "leave", "again"]))
        active = [name for name in batch.leases if name not in left]
        if action == "claim":
            sizes = data.draw(st.lists(st.integers(1, 100), min_size=1, max_size=8))
            batch.enqueue(f"search {step}", sizes, data.draw(st.sampled_from(["", "a", "b"])))
        elif action == "finish" and batch.running:
            batch.finish(data.draw(st.integers(0, 99)))
        elif action == "leave" and active:
            name = data.draw(st.sampled_from(active))
            left.add(name)
            batch.leave(name)
        elif active:
            batch.enqueue(data.draw(st.sampled_from(active)), [data.draw(st.integers(1, 30))])
        assert batch.budget.running == len(batch.running)
        used = [batch.sizes[name][number] for name, number in batch.running]
        assert batch.budget.used == sum(used)
        assert sum(used) <= 80 or len(used) == 1
    while batch.running:
        batch.finish(data.draw(st.integers(0, 99)))
    assert (batch.budget.waiting, batch.budget.running, batch.budget.used) == (0, 0, 0)
    assert len(set(batch.entered)) == len(batch.entered)
    for name, sizes in batch.sizes.items():
        numbers = [number for search, number in batch.entered if search == name]
        assert numbers == list(range(len(numbers)))
        assert name in left or len(numbers) == len(sizes)


def test_short_search_enters_the_running_batch_immediately() -> None:
    batch = Batch(max_tokens=100, reserved=20)
    batch.enqueue("long", [10] * 500, "a")
    assert batch.running == [("long", i) for i in range(10)]
    batch.enqueue("short", [10], "b")
    assert batch.running[-1] == ("short", 0)


def test_clients_enter_a_full_batch_in_round_robin_order() -> None:
    batch = Batch(max_tokens=100, reserved=0)
    batch.enqueue("long", [10] * 500, "a")
    for i in range(3):
        batch.enqueue(f"short {i}", [10], f"client {i}")
    assert len(batch.running) == 10
    for _ in range(5):
        batch.finish()
    entered = [name for name, _ in batch.entered[10:]]
    assert entered[:4] == ["long", "short 0", "short 1", "short 2"]


def running(batch: Batch, name: str) -> int:
    return sum(entry_name == name for entry_name, _ in batch.running)


def test_long_searches_get_a_share_of_the_token_budget() -> None:
    batch = Batch(max_tokens=200, reserved=20)
    for i in range(8):
        batch.enqueue(f"short {i}", [10], f"client {i}")
    batch.enqueue("long", [10] * 500, "a")
    batch.enqueue("another", [10] * 500, "b")
    assert running(batch, "long") + running(batch, "another") == 2
    while batch.running[0][0].startswith("short"):
        batch.finish()
    batch.clock.now = 0.4
    batch.finish()
    assert len(batch.running) == 2  # so that the next short search can enter immediately
    batch.clock.now = 0.8
    batch.finish()
    assert len(batch.running) == 2
    batch.clock.now = 1.4
    batch.finish()
    assert len(batch.running) == 22  # without short searches, long ones use the complete budget
    assert running(batch, "long") in (10, 11, 12)


def test_long_searches_eventually_enter_the_batch() -> None:
    batch = Batch(max_tokens=200, reserved=20)
    batch.enqueue("short 0", [10])
    batch.enqueue("long", [10] * 50)
    assert running(batch, "long") == 1  # it starts immediately
    batch.finish(1)
    assert running(batch, "long") == 0  # the steps are those of the short search only
    batch.finish(0)
    assert running(batch, "long") == 1  # no short search is running
    for step in range(1, 40):  # short searches without a pause
        batch.enqueue(f"short {step}", [10])
        batch.clock.now += 0.03
        previous_count = batch.count["long"]
        batch.finish(batch.running.index(next(entry for entry in batch.running if entry[0] == "long")))
        assert batch.count["long"] == previous_count + 1
        assert running(batch, "long") == 1
        if step > 1:
            batch.finish(batch.running.index((f"short {step - 1}", 0)))


def test_searches_of_a_client_enter_in_round_robin_order() -> None:
    batch = Batch(max_tokens=10, reserved=0)
    batch.enqueue("one", [10] * 3)
    batch.enqueue("other", [10] * 3)
    for _ in range(6):
        batch.finish()
    assert [name for name, _ in batch.entered] == ["one", "one", "other", "one", "other", "other"]


def test_later_sentences_do_not_overtake_a_large_sentence() -> None:
    batch = Batch(max_tokens=100, reserved=20)
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


def test_concurrent_searches_all_enter_and_release_their_tokens() -> None:
    budget, lock = TokenBudget(max_tokens=50, reserved_tokens=10), threading.Lock()
    entered = [0] * 16

    def work(number: int) -> None:
        admitted = threading.Semaphore(0)

        def admit(count: int) -> None:
            with lock:
                entered[number] += count
            for _ in range(count):
                admitted.release()

        for _ in range(20):
            lease = SearchLease(str(number % 3), admit)
            budget.enqueue(lease, [5] * 4)
            for _ in range(4):
                admitted.acquire()
                budget.release(lease, [5])
            budget.leave(lease)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert entered == [80] * 16
    assert (budget.waiting, budget.running, budget.used) == (0, 0, 0)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers()), max_size=30))
def test_fair_queue_serves_clients_in_round_robin_order(items: list[tuple[str, int]]) -> None:
    queue: FairQueue[tuple[str, int]] = FairQueue()
    for client, item in items:
        queue.put(client, (client, item))
    order = [queue.get() for _ in range(len(items))]
    assert not queue
    for client in "abc":
        client_items = [entry for entry in order if entry[0] == client]
        assert client_items == [entry for entry in items if entry[0] == client]
        # No client is served twice before all waiting clients are served once.
        for index, entry in enumerate(client_items):
            preceding = order[: order.index(entry)] if client_items.count(entry) == 1 else []
            for other_client in "abc":
                assert sum(preceding_entry[0] == other_client for preceding_entry in preceding) <= index + 1


def test_fair_queue_removes_items_and_adds_items_at_the_front() -> None:
    queue: FairQueue[int] = FairQueue()
    for item in (1, 2, 3):
        queue.put("a", item)
    queue.put("b", 4)
    assert queue.remove("a", 2)
    assert not queue.remove("a", 2)
    assert not queue.remove("c", 2)
    queue.put_first("b", 5)
    assert [queue.get() for _ in range(4)] == [5, 1, 4, 3]
