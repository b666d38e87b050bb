"""Laws of the glossaries that a server stores."""

import gc
import os
import random
import resource
import signal
import subprocess
import sys
import threading
import tracemalloc
import uuid
from dataclasses import replace
from pathlib import Path
from weakref import WeakSet

import pytest
import sqlalchemy as sql
from hypothesis import given, settings
from hypothesis import strategies as st

from uwaga.errors import BusyError, DataError, MissingExtraError, SettingsError
from uwaga.server.api_errors import ApiError, NotStoredError, QuotaError, StorageError, api_error
from uwaga.server.store.database import GLOSSARIES, open_database
from uwaga.server.store.glossaries import NO_LIMITS, GlossaryCache, GlossaryLimits, GlossaryStore
from uwaga.server.store.glossary import (
    Dictionary,
    GlossaryEntry,
    StoredGlossary,
    check_entries,
    merged,
    read_entries,
    together,
    written_entries,
)

HERE = Path(__file__).parent


def open_store(state, limits=NO_LIMITS):
    return GlossaryStore(open_database(state, None), limits)


def glossary(name="Words", source="en", target="de", **entries):
    made = tuple(GlossaryEntry(one, (other,)) for one, other in (entries or {"dog": "Hund"}).items())
    return StoredGlossary.new(name, [Dictionary(source, target, made)])


@pytest.fixture
def where(tmp_path):
    return tmp_path / "state"


def test_what_is_kept_is_found_again_by_another_store(where):
    store, first, second = open_store(where), glossary("One"), glossary("Two", cat="Katze")
    store.add("ann", first)
    store.add("ann", second)
    other = open_store(where)
    assert other.get("ann", first.id) == first
    assert other.all("ann") == [first.summary, second.summary]
    other.remove("ann", first.id)
    assert store.all("ann") == [second.summary]
    with pytest.raises(NotStoredError):
        store.get("ann", first.id)


def test_nobody_reaches_what_is_anothers(where):
    store, kept = open_store(where), glossary()
    store.add("ann", kept)
    for attempt in (
        lambda: store.get("bob", kept.id),
        lambda: store.remove("bob", kept.id),
        lambda: store.change("bob", kept.id, lambda one: one.changed("mine")),
    ):
        with pytest.raises(NotStoredError):
            attempt()
    assert store.all("bob") == []
    assert store.get("ann", kept.id) == kept


@pytest.mark.parametrize(
    "name", ["", "../../etc/passwd", "a/b", "..", "%2e%2e", "\0", "x" * 5000, "CON", "*", "🐍", "\ud800"]
)
def test_hostile_ids_are_not_found_and_hostile_owners_are_names_like_others(where, name, tmp_path):
    store = open_store(where)
    with pytest.raises(NotStoredError):
        store.get("ann", name)
    with pytest.raises(NotStoredError):
        store.remove("ann", name)
    kept = glossary()
    store.add(name, kept)
    assert store.all(name) == [kept.summary]
    assert {one.name for one in tmp_path.iterdir()} == {"state"}


def test_an_id_means_the_same_however_it_is_written(where):
    store, kept = open_store(where), glossary()
    store.add("ann", kept)
    assert store.get("ann", kept.id.upper()) == kept == store.get("ann", f"{{{kept.id}}}")


def test_limits_are_told_and_nothing_is_kept_beyond_them(where):
    store = open_store(where, GlossaryLimits(total=2, size=500))
    with pytest.raises(QuotaError, match="500 bytes"):
        store.add("ann", glossary(**{f"word{number}": "Wort" for number in range(60)}))
    store.add("ann", glossary())
    store.add("ann", glossary())
    with pytest.raises(QuotaError, match="delete one"):
        store.add("ann", glossary())
    store.add("bob", glossary())
    assert len(store.all("ann")) == 2


def test_the_bytes_of_an_owner_are_bounded_together(where):
    store = open_store(where, GlossaryLimits(per_owner=1000))
    words = {f"word{number}": "Wort" for number in range(20)}
    store.add("ann", glossary(**words))
    second = glossary()
    store.add("ann", second)
    larger = Dictionary("en", "de", tuple(GlossaryEntry(source, ("Wort",)) for source in words))
    for attempt in (
        lambda: store.add("ann", glossary(**words)),
        lambda: store.change("ann", second.id, lambda old: old.with_dictionary(larger)),
    ):
        with pytest.raises(QuotaError, match="more than 1000 bytes together; delete one"):
            attempt()
    assert len(store.all("ann")) == 2
    assert store.get("ann", second.id) == second
    store.add("bob", glossary(**words))


def test_the_entries_and_dictionaries_of_a_glossary_are_bounded(monkeypatch):
    entries = [(str(number), GlossaryEntry(f"word{number}", ("Wort",))) for number in range(3)]
    forms = [("0", GlossaryEntry("word", ("Wort", "Worte", "Wörter")))]
    monkeypatch.setattr("uwaga.server.store.glossary.MOST_TRANSLATIONS", 2)
    for large in (entries, forms):
        with pytest.raises(DataError, match="split it"):
            check_entries(large)
    small = glossary(dog="Hund", cat="Katze")
    further = Dictionary("en", "fr", (GlossaryEntry("dog", ("chien",)),))
    with pytest.raises(DataError, match="split it"):
        small.with_dictionary(further)
    monkeypatch.setattr("uwaga.server.store.glossary.MOST_DICTIONARIES", 1)
    with pytest.raises(DataError, match="at most 1 dictionaries"):
        glossary().with_dictionary(further)


def test_a_listing_does_not_read_entries(tmp_path):
    engine = open_database(tmp_path, None)
    store, first, second = GlossaryStore(engine), glossary("One"), glossary("Two", cat="Katze", cow="Kuh")
    for stored in (first, second):
        store.add("ann", stored)
    store.change("ann", first.id, lambda old: old.changed("Renamed"))
    with engine.begin() as connection:
        connection.execute(GLOSSARIES.update().values(content="damaged"))
    assert [(listed.name, listed.dictionaries[0].count) for listed in store.all("ann")] == [
        ("Renamed", 1),
        ("Two", 2),
    ]
    assert store.summary("ann", second.id) == second.summary
    with pytest.raises(NotStoredError):
        store.summary("bob", second.id)


def test_what_is_stored_does_not_stay_in_memory(where):
    store, kept = open_store(where), glossary()
    entries = tuple(GlossaryEntry(f"word {number}", ("Wort" * 200,)) for number in range(2000))
    tracemalloc.start()
    try:
        large = glossary().with_dictionary(Dictionary("en", "fr", entries))
        store.add("ann", large)
        store.add("ann", kept)
        store.change("ann", kept.id, lambda old: old.with_dictionary(Dictionary("en", "fr", entries)))
        assert len(store.get("ann", kept.id).dictionaries) == 2
        del large
        gc.collect()
        texts = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/json/*")])
    finally:
        tracemalloc.stop()
    assert sum(trace.size for trace in texts.traces) < 100_000


def test_changes_of_many_at_once_are_all_kept(where):
    store, kept = open_store(where), glossary()
    store.add("ann", kept)

    def work(number):
        own = open_store(where)
        for at in range(5):
            new = Dictionary("en", "de", (GlossaryEntry(f"word {number} {at}", (f"Wort {number} {at}",)),))
            own.change("ann", kept.id, lambda one, new=new: one.changed(dictionaries=[new], merge=True))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.get("ann", kept.id).dictionaries[0].entries) == 21


def test_a_change_that_fails_changes_nothing(where):
    store, kept = open_store(where), glossary()
    store.add("ann", kept)
    with pytest.raises(DataError):
        store.change("ann", kept.id, lambda one: one.changed(" "))
    with pytest.raises(NotStoredError):
        store.change("ann", kept.id, lambda one: one.without_dictionary("fr", "de"))
    assert store.get("ann", kept.id) == kept


def test_the_cache_builds_again_only_what_has_changed(where):
    store, kept = open_store(where), glossary()
    store.add("ann", kept)
    cache = GlossaryCache(store)
    terms = cache.terms("ann", (kept.id,), "en", "de")
    assert cache.terms("ann", (kept.id,), "en", "de") is terms
    assert [term.targets for term in terms.terms] == [("Hund",)]
    new = Dictionary("en", "de", (GlossaryEntry("dog", ("Dackel",)),))
    open_store(where).change("ann", kept.id, lambda one: one.with_dictionary(new))
    assert [term.targets for term in cache.terms("ann", (kept.id,), "en-GB", "de").terms] == [("Dackel",)]
    with pytest.raises(NotStoredError, match="no dictionary"):
        cache.terms("ann", (kept.id,), "de", "en")


def large_glossary(number):
    return glossary(**{f"word{number} {index}": "Wort" for index in range(100)})


@pytest.fixture
def small_cache(where, monkeypatch):
    """A cache with room for two of ten stored glossaries, and their ids."""
    store, stored = open_store(where), [large_glossary(number) for number in range(10)]
    for kept in stored:
        store.add("ann", kept)
    monkeypatch.setattr("uwaga.server.store.glossaries.READY_MEMORY", int(2.5 * stored[0].memory))
    return GlossaryCache(store), [kept.id for kept in stored]


def test_the_glossaries_that_the_cache_keeps_are_bounded_by_memory(small_cache):
    cache, ids = small_cache
    alive = WeakSet()
    for glossary_id in ids * 2:
        alive.add(cache.terms("ann", (glossary_id,), "en", "de"))
        assert len(alive) <= 2
    assert cache.terms("ann", (ids[-1],), "en", "de") in alive


def test_the_glossaries_in_use_are_bounded_by_memory(small_cache):
    cache, ids = small_cache
    used = [cache.terms("ann", (glossary_id,), "en", "de") for glossary_id in ids[:2]]
    with pytest.raises(BusyError) as refused:
        cache.terms("ann", (ids[2],), "en", "de")
    assert api_error(refused.value).headers == {"retry-after": "1"}
    assert cache.terms("ann", (ids[0],), "en", "de") is used[0]
    del used
    assert len(cache.terms("ann", (ids[2],), "en", "de")) == 100


def test_the_glossaries_of_a_request_are_bounded_by_memory(small_cache):
    cache, ids = small_cache
    assert len(cache.terms("ann", tuple(ids[:2]), "en", "de")) == 200
    with pytest.raises(ApiError, match="use at most") as refused:
        cache.terms("ann", tuple(ids[:3]), "en", "de")
    assert (refused.value.status, refused.value.code) == (413, "glossaries_too_large")


def test_a_glossary_too_large_to_be_used_is_not_stored(where, monkeypatch):
    large = large_glossary(0)
    monkeypatch.setattr("uwaga.server.store.glossaries.READY_MEMORY", large.memory - 1)
    with pytest.raises(QuotaError, match="split it"):
        open_store(where).add("ann", large)


@pytest.mark.parametrize("letters", ["ab", "äö", "日本", "a b", "a😀", "a.", "ȧ 😀"])
@pytest.mark.parametrize(("length", "forms"), [(2, 1), (20, 1), (300, 1), (8, 40)])
def test_a_glossary_takes_at_most_the_memory_that_is_counted(letters, length, forms):
    rng = random.Random(length)

    def text(number):
        return f"{number}" + "".join(rng.choices(letters, k=length)).rstrip()

    entries = [
        GlossaryEntry(text(number), tuple(text(form) for form in range(forms))) for number in range(400)
    ]
    stored = StoredGlossary.new("Words", [Dictionary("en", "de", tuple(entries))]).as_json()
    tracemalloc.start()
    try:
        loaded = StoredGlossary.from_json(stored)
        terms, counted = together([loaded], "en", "de"), loaded.memory
        del loaded
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(terms) == 400
    assert used <= counted < 3 * used + 50_000


def test_glossaries_that_contradict_each_other_are_named(where):
    store, one, two = open_store(where), glossary("One"), glossary("Two", dog="Dackel")
    store.add("ann", one)
    store.add("ann", two)
    with pytest.raises(DataError, match=r"(?s)'One'.*'Two'"):
        GlossaryCache(store).terms("ann", (one.id, two.id), "en", "de")


def test_a_full_disk_is_told_and_leaves_what_was_there(tmp_path):
    store, kept = open_store(tmp_path / "state"), glossary()
    store.add("ann", kept)
    large = Dictionary("en", "de", tuple(GlossaryEntry(f"word {at}", (f"Wort {at}",)) for at in range(2000)))
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, old[1]))
    try:
        with pytest.raises(StorageError) as told:
            store.change("ann", kept.id, lambda one: one.with_dictionary(large))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, ignored)
    assert str(tmp_path) not in str(told.value)
    assert store.get("ann", kept.id) == kept


KILLED = """
import sys
from pathlib import Path
from test_glossary_store import Dictionary, GlossaryEntry, open_store
store = open_store(Path(sys.argv[1]))
print("ready", flush=True)
for at in range(100000):
    entries = tuple(GlossaryEntry(f"word {number}", (f"Wort {at}",)) for number in range(300))
    store.change("ann", sys.argv[2], lambda one: one.with_dictionary(Dictionary("en", "de", entries)))
    print(at, flush=True)
"""


def test_a_killed_worker_leaves_a_whole_glossary_and_no_lock(where):
    store, kept = open_store(where), glossary()
    store.add("ann", kept)
    for wait in (3, 9):
        worker = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(where), kept.id],
            stdout=subprocess.PIPE,
            text=True,
            cwd=HERE,
        )
        for _ in range(wait):
            worker.stdout.readline()
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        worker.stdout.close()
        found = open_store(where).get("ann", kept.id)
        [dictionary] = found.dictionaries
        assert len({entry.targets for entry in dictionary.entries}) == 1
        assert len(dictionary.entries) == 300
        store.change("ann", kept.id, lambda one: one.changed("again"))


def test_a_damaged_glossary_is_an_error(tmp_path):
    engine = open_database(tmp_path, None)
    store, kept = GlossaryStore(engine), glossary()
    store.add("ann", kept)
    with engine.begin() as connection:
        connection.execute(GLOSSARIES.update().values(content='{"format": 1, "id"'))
    with pytest.raises(StorageError, match="damaged"):
        store.get("ann", kept.id)


@pytest.mark.parametrize(
    ("state", "database", "named"),
    [
        ("/proc/nowhere", None, r"state: .*/proc/nowhere"),
        (None, "sqlite:////nowhere/at/all.db", "database: .*/nowhere/at/all.db"),
        (None, "postgresql+pg8000://ann:secret@host/name", "driver"),
        (None, "nothing://host", "driver"),
        (None, "://", "database: "),
    ],
)
def test_a_place_that_cannot_be_written_is_named_with_its_setting(state, database, named):
    with pytest.raises((SettingsError, MissingExtraError), match=named) as error:
        open_database(None if state is None else Path(state), database)
    assert "secret" not in str(error.value)


def test_a_database_of_another_version_is_named(tmp_path):
    with open_database(tmp_path, None).begin() as connection:
        connection.execute(sql.text("ALTER TABLE uwaga_glossaries DROP COLUMN size"))
    with pytest.raises(SettingsError, match=r"state: .*state\.sqlite .*uwaga_glossaries\.size; move it away"):
        open_database(tmp_path, None)


def test_a_glossary_is_of_pairs_of_languages():
    one = Dictionary("en", "de", (GlossaryEntry("dog", ("Hund",)),))
    made = StoredGlossary.new(
        " Words ", [one, replace(one, target="fr", entries=(GlossaryEntry("dog", ("chien",)),))]
    )
    assert made.name == "Words"
    assert made.dictionary("EN-us", "FR").entries == (GlossaryEntry("dog", ("chien",)),)
    with pytest.raises(DataError, match="two dictionaries"):
        StoredGlossary.new("Words", [one, replace(one, source="en-GB")])
    for wrong in ("", "e", "../x", "deutsch!", "\0\0"):
        with pytest.raises(DataError):
            StoredGlossary.new("Words", [replace(one, target=wrong)])
    with pytest.raises(DataError, match="has one language only"):
        StoredGlossary.new("Words", [replace(one, target="en")])
    with pytest.raises(DataError, match="at least"):
        StoredGlossary.new("Words", [])
    assert StoredGlossary.from_json(made.as_json()) == made
    assert uuid.UUID(made.id).version == 4


def test_further_entries_take_the_place_of_those_of_the_same_source():
    made = glossary(dog="Hund", cat="Katze")
    new = Dictionary("en", "de", (GlossaryEntry("cat", ("Kater",)), GlossaryEntry("cow", ("Kuh",))))
    entries = made.changed(dictionaries=[new], merge=True).dictionaries[0].entries
    assert dict(entries) == {"dog": ("Hund",), "cat": ("Kater",), "cow": ("Kuh",)}
    assert made.changed(dictionaries=[new], merge=True).version != made.version


SIDES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1).filter(
    lambda text: (
        text.strip() == text and len(text.encode()) <= 1024 and not any(one in text for one in "\t|\x85")
    )
)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(SIDES, SIDES, min_size=1))
def test_what_is_written_is_read_again(entries):
    made = tuple(GlossaryEntry(source, (target,)) for source, target in entries.items())
    assert read_entries(written_entries(made), "tsv", ("en", "de")) == made
    assert merged(made, made) == made
    quoted = "".join(
        '"{}","{}"\r\n'.format(source.replace('"', '""'), target.replace('"', '""'))
        for source, target in entries.items()
    )
    assert read_entries(quoted, "csv", ("en", "de")) == made


@pytest.mark.parametrize(
    ("text", "format", "told"),
    [
        ("", "tsv", "no entries"),
        ("\n \n", "csv", "no entries"),
        ("dog", "tsv", "index 0 .*misses tab"),
        (
            "dog\tHund\ndog\tDackel",
            "tsv",
            r"index 1 \(starting at position 9\) duplicates key with the index 0",
        ),
        ("dog\tHund\tde", "tsv", "more than one"),
        ("dog\t", "tsv", "target is empty"),
        ("\tHund", "tsv", "source is empty"),
        ("d\x07og\tHund", "tsv", "control"),
        ("d\ud800og\tHund", "tsv", "Unicode"),
        ("x" * 1025 + "\tHund", "tsv", "1024 bytes"),
        ('dog,"Hund', "csv", "line 1"),
        ("dog,Hund,en", "csv", "3 columns"),
        ("dog,Hund,fr,de", "csv", "no entries"),
    ],
)
def test_what_is_no_entry_is_refused(text, format, told):
    with pytest.raises(DataError, match=told):
        read_entries(text, format, ("en", "de"))


def test_lines_of_other_languages_are_another_dictionarys():
    text = "dog,Hund,EN,DE\r\nchien,Hund,fr,de\r\ncat,Katze\r\n"
    assert [one.source for one in read_entries(text, "csv", ("en", "de"))] == ["dog", "cat"]
