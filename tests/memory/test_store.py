"""The memory store: matches, contexts, penalties, atomic additions, and concurrent readers."""

import multiprocessing
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from waiting import in_threads

from uwaga.errors import DataError, SettingsError
from uwaga.translator.memories import similarity_class
from uwaga_memory import Context, Memory, Pair, Penalties
from uwaga_memory.analysis import analyse, count_words
from uwaga_memory.files.reading import with_neighbours
from uwaga_memory.similarity import Stemmer, comparable_text, number_value, similarity
from uwaga_memory.states import StateFile


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory.create(tmp_path / "a.uwm", "en", "de")


def score(text: str, other: str, penalties: Penalties | None = None) -> float:
    stemmer = Stemmer("en")
    return similarity(comparable_text(text, stemmer), comparable_text(other, stemmer), penalties)


def test_similarity_scores_match_hand_calculation() -> None:
    assert score("a b c d", "a b c d") == 100
    assert score("a b c d", "a b c e") == 75
    assert score("a b c d", "a b c") == 75
    assert score("a b", "c d") == 0
    assert score("He walks home.", "He walked home.") == 99.5  # the same stems
    assert score("wait 10 minutes now", "wait 20 minutes now") == 99  # the same words, another number
    assert score("wait 1,000 minutes now", "wait 1000 minutes now") == 99.5
    assert score("click <b>here</b> now", "click here now") == 99
    assert score("a  b", " a b ") == 100
    assert score("a, b", "a ,b") == 99.5
    assert score("a b c d", "a b c 7", Penalties(numbers=5)) == 70


@pytest.mark.parametrize(
    ("text", "value"), [("1,000", "1000"), ("1.000.000", "1000000"), ("1,5", "1.5"), ("3.12", "3.12")]
)
def test_formatted_number_is_read_as_its_value(text: str, value: str) -> None:
    assert number_value(text) == value


def test_lengths_in_unspaced_scripts_are_counted_in_characters() -> None:
    assert count_words("这是句子。", "zh") == 4
    assert count_words("It isn't 7 <b>words</b>.", "en") == 4


def test_context_selects_among_pairs_with_equal_sources(memory: Memory) -> None:
    memory.add(
        [
            Pair("Open", "Öffnen", key="menu", created="2026-01-02T00:00:00Z"),
            Pair("Open", "Offen", key="state", created="2026-01-01T00:00:00Z"),
            Pair("Open", "Eröffnen", before="A", after="B", created="2025-01-01T00:00:00Z"),
        ]
    )

    def matches(context: Context) -> list[tuple[str, float]]:
        return [(match.target, match.score) for match in memory.matches("Open", context)]

    assert matches(Context("state")) == [("Offen", 101), ("Eröffnen", 100), ("Öffnen", 99)]
    assert matches(Context("", "A", "B")) == [("Eröffnen", 101), ("Öffnen", 100), ("Offen", 100)]
    assert matches(Context("", "A", "C")) == [("Öffnen", 100), ("Offen", 100), ("Eröffnen", 100)]
    assert matches(Context()) == [("Öffnen", 100), ("Offen", 100), ("Eröffnen", 100)]


def test_confirmed_pairs_become_the_newest_in_the_memory(memory: Memory) -> None:
    first, second = Pair("A", "B"), Pair("A", "C")
    memory.add([first, second])
    added = memory.confirm([first, first, Pair("D", "E"), Pair("", "F")])
    assert (added.new, added.known, dict(added.skipped)) == (1, 2, {"no source": 1})
    assert [match.target for match in memory.matches("A")] == ["B", "C"]
    assert [pair.target for _, pair in memory.pairs()] == ["C", "B", "E"]


def test_duplicate_pairs_are_stored_once_and_invalid_ones_counted(memory: Memory) -> None:
    pairs = [
        Pair("A", "B"), Pair("A", "B"), Pair(" ", "B"), Pair("A", ""), Pair("A\0", "B"), Pair("\ud800", "B"),
    ]  # fmt: skip
    added = memory.add([*pairs, Pair("A" * 200_000, "B")])
    assert (added.new, added.known) == (1, 1)
    assert added.skipped == {
        "no source": 1, "no translation": 1, "a null character": 1, "not Unicode (a lone surrogate)": 1,
        "longer than 100,000 characters": 1,
    }  # fmt: skip
    assert memory.matches("\ud800 A \0", threshold=1) != [] and memory.matches(" ") == []


def test_removed_pairs_are_not_matched_or_counted(memory: Memory) -> None:
    memory.add([Pair("A small dog sleeps here", "x"), Pair("A small cat sleeps here", "y")])
    [first, second] = memory.matches("A small cow sleeps here")
    assert memory.remove([first.id, first.id, 99]) == 1
    assert [match.id for match in memory.matches("A small cow sleeps here")] == [second.id]
    assert len(memory) == memory.stats().pairs == 1 and memory.stats().words == 5
    memory.remove([second.id])
    assert sqlite3.connect(memory.path).execute("SELECT count(*) FROM postings").fetchone() == (0,)
    memory.add([Pair("A", "B")])
    assert memory.matches("A")[0].id == 3  # numbers are not given twice


def test_failed_call_to_add_adds_no_pairs(memory: Memory) -> None:
    def pairs():
        yield Pair("A", "B")
        raise DataError("damaged")

    with pytest.raises(DataError, match="damaged"):
        memory.add(pairs())
    assert len(memory) == 0
    assert memory.add([Pair("A", "B")]).new == 1


def test_memory_file_errors_explain_the_problem(tmp_path: Path, memory: Memory) -> None:
    with pytest.raises(DataError, match="no such memory; create it"):
        Memory(tmp_path / "none.uwm")
    with pytest.raises(SettingsError, match="already exists"):
        Memory.create(memory.path, "en", "de")
    with pytest.raises(SettingsError, match="'de de' is not a language code"):
        Memory.create(tmp_path / "new.uwm", "en", "de de")
    (tmp_path / "text.uwm").write_text("text " * 1000)
    with pytest.raises(DataError, match="is not a translation memory"):
        Memory(tmp_path / "text.uwm")
    sqlite3.connect(tmp_path / "other.uwm").execute("CREATE TABLE a (b)")
    with pytest.raises(DataError, match="is not a translation memory"):
        Memory(tmp_path / "other.uwm")
    with pytest.raises(SettingsError, match="threshold: must be from 1 to 100, not 101"):
        memory.matches("A", threshold=101)
    with sqlite3.connect(memory.path) as database:
        database.execute("UPDATE memory SET value = '99' WHERE key = 'format'")
    with pytest.raises(DataError, match="format version '99'"):
        Memory(memory.path)


KILLED_IMPORT_PROGRAM = """
import sys
from uwaga_memory import Memory, Pair
def pairs():
    for number in range(1_000_000):
        if number == 12_000:
            print("ready", flush=True)
        yield Pair(f"sentence {number} of many", "x" * 200)
Memory(sys.argv[1]).add(pairs())
"""


def test_killed_import_does_not_change_the_memory(memory: Memory) -> None:
    memory.add([Pair("A", "B")])
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED_IMPORT_PROGRAM, str(memory.path)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    reopened = Memory(memory.path)
    assert [pair for _, pair in reopened.pairs()] == [pair for _, pair in memory.pairs()] and len(
        reopened
    ) == 1
    assert reopened.add([Pair("sentence 1 of many", "y")]).new == 1
    assert reopened.matches("sentence 2 of many")[0].target == "y"
    assert reopened._database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def read_until(path: Path, stop: object, results: object) -> None:
    memory, counts = Memory(path), set()
    while not stop.is_set():
        counts.add(len(memory))
        assert memory.matches("a sentence of many words", threshold=60)
    results.put((os.getpid(), sorted(counts)))


@pytest.mark.slow
def test_processes_read_the_memory_while_another_writes(memory: Memory) -> None:
    memory.add([Pair("a sentence of few words", "x")])
    context = multiprocessing.get_context("spawn")
    stop, results = context.Event(), context.Queue()
    readers = [context.Process(target=read_until, args=(memory.path, stop, results)) for _ in range(2)]
    for reader in readers:
        reader.start()
    for block in range(5):
        memory.add(Pair(f"number {block} {number}", "y") for number in range(400))
        time.sleep(0.1)
    time.sleep(1)
    stop.set()
    counts = [results.get(timeout=60)[1] for _ in readers]
    for reader in readers:
        reader.join()
        assert reader.exitcode == 0
    assert all(set(seen_counts) <= {1 + 400 * blocks for blocks in range(6)} for seen_counts in counts)


def test_threads_can_add_and_look_up_pairs_concurrently(memory: Memory) -> None:
    def work(thread: int) -> None:
        for number in range(20):
            memory.add([Pair(f"words {thread} and {number}", "x")])
            assert memory.matches(f"words {thread} and {number}")[0].score == 100

    in_threads(work, range(4))
    assert len(memory) == 80


def test_memory_lookups_see_only_committed_changes(memory: Memory) -> None:
    other, text = Memory(memory.path), "a red house"

    def sources(store: Memory) -> list[str]:
        return [match.source for match in store.matches(text)]

    def interrupted() -> Iterator[Pair]:
        yield Pair("a new house", "x")
        sources(memory)
        raise KeyboardInterrupt

    memory.add([Pair("a green house", "x")])
    assert sources(memory) == sources(other) == ["a green house"]
    for block_pairs in (1, 5_000):  # the first pair is in the index before the interruption, or not yet
        with mock.patch("uwaga_memory.store.PAIRS_PER_INSERT", block_pairs), pytest.raises(KeyboardInterrupt):
            memory.add(interrupted())
    other.add([Pair("a blue house", "x")])
    assert sources(memory) == sources(other) == ["a blue house", "a green house"]
    [removed] = [match.id for match in memory.matches(text) if match.source == "a blue house"]
    other.remove([removed])
    assert sources(memory) == sources(other) == ["a green house"]


def test_memory_analysis_counts_each_text_once(memory: Memory) -> None:
    memory.add(
        [Pair("one two three four", "x"), Pair("five six", "y", before="one two three four", after="new")]
    )
    texts = ["one two three four", "five six", "new", "new", "one two three zero"]
    analysis = analyse(memory, list(with_neighbours(Pair(text, "") for text in texts)))
    counts = {bucket.name: (bucket.texts, bucket.words) for bucket in analysis.buckets if bucket.texts}
    assert counts == {
        "context match": (1, 2), "100 %": (1, 4), "repetition": (1, 1), "75–84 %": (1, 4), "no match": (1, 1),
    }  # fmt: skip
    assert (analysis.total.texts, analysis.total.words) == (5, 12)
    assert analysis.to_dict()["total"]["characters"] == sum(map(len, texts))


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (101, "context match"), (100, "100 %"), (99.5, "95–99 %"), (95, "95–99 %"), (94.9, "85–94 %"),
        (75, "75–84 %"), (50, "50–74 %"), (49, "no match"),
    ],
)  # fmt: skip
def test_scores_are_grouped_into_standard_match_classes(value: float, name: str) -> None:
    assert similarity_class(value) == name


def test_error_names_the_damaged_memory_file(memory: Memory) -> None:
    memory.add(Pair(f"the dog {number} runs", f"der Hund {number} rennt") for number in range(300))
    memory.close()
    sqlite3.connect(memory.path).execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content, numbers = memory.path.read_bytes(), random.Random(0)
    errors = list[str]()
    for _ in range(40):
        changed = bytearray(content)
        for _ in range(20):
            changed[numbers.randrange(100, len(content))] = numbers.randrange(256)
        memory.path.write_bytes(changed)
        for read in (
            lambda store: store.matches("the dog 400 runs", threshold=50),
            lambda store: list(store.pairs()),
            lambda store: store.stats(),
            lambda store: store.add([Pair("a new dog", "ein neuer Hund")]),
        ):
            try:
                read(Memory(memory.path))
            except DataError as error:
                errors.append(str(error))
    assert len(errors) > 20
    assert all(str(memory.path) in error for error in errors)


def test_damaged_decoder_states_are_not_loaded(tmp_path: Path) -> None:
    states = StateFile(tmp_path / "states", lambda count: [])
    states.save("model", {b"a": b"first", b"b": b"second"})
    with sqlite3.connect(tmp_path / "states") as database:
        database.execute("UPDATE states SET value = substr(value, 1, 10) WHERE key = ?", (b"a",))
    assert states.load("model", [b"a", b"b"]) == {b"b": b"second"}
    states.save("model", {b"a": b"first"})
    assert states.load("model", [b"a"]) == {b"a": b"first"}
