"""Stored glossaries and their cache."""

import gc
import os
import random
import signal
import subprocess
import sys
import tracemalloc
import uuid
from dataclasses import replace
from pathlib import Path
from weakref import WeakSet

import pytest
import sqlalchemy as sql
from full_disk import limited_file_size
from hypothesis import given
from hypothesis import strategies as st
from waiting import in_threads

from uwaga.errors import BusyError, DataError, MissingExtraError, SettingsError
from uwaga_server.api_errors import ApiError, NotStoredError, QuotaError, StorageError, api_error
from uwaga_server.store.database import GLOSSARIES, open_database
from uwaga_server.store.glossaries import NO_LIMITS, GlossaryCache, GlossaryLimits, GlossaryStore
from uwaga_server.store.glossary import (
    Dictionary,
    GlossaryEntry,
    StoredGlossary,
    check_entries,
    combine_glossaries,
    format_entries,
    merge_entries,
    read_entries,
)


def open_store(state, limits=NO_LIMITS):
    return GlossaryStore(open_database(state, None), limits)


def glossary(name="Words", source="en", target="de", **entries):
    glossary_entries = tuple(
        GlossaryEntry(term, (translation,)) for term, translation in (entries or {"dog": "Hund"}).items()
    )
    return StoredGlossary.create(name, [Dictionary(source, target, glossary_entries)])


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state"


def test_stored_glossaries_are_visible_to_another_store(state):
    store, first, second = open_store(state), glossary("One"), glossary("Two", cat="Katze")
    store.add("ann", first)
    store.add("ann", second)
    other = open_store(state)
    assert other.get("ann", first.id) == first
    assert other.all("ann") == [first.summary, second.summary]
    other.remove("ann", first.id)
    assert store.all("ann") == [second.summary]
    with pytest.raises(NotStoredError):
        store.get("ann", first.id)


def test_glossaries_of_another_owner_are_not_found(state):
    store, saved = open_store(state), glossary()
    store.add("ann", saved)
    for attempt in (
        lambda: store.get("bob", saved.id),
        lambda: store.remove("bob", saved.id),
        lambda: store.change("bob", saved.id, lambda old: old.with_changes("mine")),
    ):
        with pytest.raises(NotStoredError):
            attempt()
    assert store.all("bob") == []
    assert store.get("ann", saved.id) == saved


@pytest.mark.parametrize(
    "name", ["", "../../etc/passwd", "a/b", "..", "%2e%2e", "\0", "x" * 5000, "CON", "*", "🐍", "\ud800"]
)
def test_hostile_ids_and_owner_names_create_no_files(state, name, tmp_path):
    store = open_store(state)
    with pytest.raises(NotStoredError):
        store.get("ann", name)
    with pytest.raises(NotStoredError):
        store.remove("ann", name)
    saved = glossary()
    store.add(name, saved)
    assert store.all(name) == [saved.summary]
    assert {path.name for path in tmp_path.iterdir()} == {"state"}


def test_glossary_ids_are_normalised(state):
    store, saved = open_store(state), glossary()
    store.add("ann", saved)
    assert store.get("ann", saved.id.upper()) == saved == store.get("ann", f"{{{saved.id}}}")


def test_size_and_number_of_glossaries_are_limited(state):
    store = open_store(state, GlossaryLimits(total=2, size=500))
    with pytest.raises(QuotaError, match="500 bytes"):
        store.add("ann", glossary(**{f"word{number}": "Wort" for number in range(60)}))
    store.add("ann", glossary())
    store.add("ann", glossary())
    with pytest.raises(QuotaError, match="delete one"):
        store.add("ann", glossary())
    store.add("bob", glossary())
    assert len(store.all("ann")) == 2


def test_total_glossary_size_per_owner_is_limited(state):
    store = open_store(state, GlossaryLimits(max_bytes=1000))
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


def test_number_of_entries_and_dictionaries_is_limited(monkeypatch):
    entries = [(str(number), GlossaryEntry(f"word{number}", ("Wort",))) for number in range(3)]
    forms = [("0", GlossaryEntry("word", ("Wort", "Worte", "Wörter")))]
    monkeypatch.setattr("uwaga_server.store.glossary.MAX_TRANSLATIONS", 2)
    for large in (entries, forms):
        with pytest.raises(DataError, match="split it"):
            check_entries(large)
    small = glossary(dog="Hund", cat="Katze")
    further = Dictionary("en", "fr", (GlossaryEntry("dog", ("chien",)),))
    with pytest.raises(DataError, match="split it"):
        small.with_dictionary(further)
    monkeypatch.setattr("uwaga_server.store.glossary.MAX_DICTIONARIES", 1)
    with pytest.raises(DataError, match="at most 1 dictionaries"):
        glossary().with_dictionary(further)


def test_listing_glossaries_does_not_read_their_entries(tmp_path):
    engine = open_database(tmp_path, None)
    store, first, second = GlossaryStore(engine), glossary("One"), glossary("Two", cat="Katze", cow="Kuh")
    for stored in (first, second):
        store.add("ann", stored)
    store.change("ann", first.id, lambda old: old.with_changes("Renamed"))
    with engine.begin() as connection:
        connection.execute(GLOSSARIES.update().values(content="damaged"))
    assert [(summary.name, summary.dictionaries[0].count) for summary in store.all("ann")] == [
        ("Renamed", 1),
        ("Two", 2),
    ]
    assert store.summary("ann", second.id) == second.summary
    with pytest.raises(NotStoredError):
        store.summary("bob", second.id)


def test_stored_glossaries_are_not_kept_in_memory(state):
    store, saved = open_store(state), glossary()
    entries = tuple(GlossaryEntry(f"word {number}", ("Wort" * 200,)) for number in range(2000))
    tracemalloc.start()
    try:
        large = glossary().with_dictionary(Dictionary("en", "fr", entries))
        store.add("ann", large)
        store.add("ann", saved)
        store.change("ann", saved.id, lambda old: old.with_dictionary(Dictionary("en", "fr", entries)))
        assert len(store.get("ann", saved.id).dictionaries) == 2
        del large
        gc.collect()
        texts = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/json/*")])
    finally:
        tracemalloc.stop()
    assert sum(trace.size for trace in texts.traces) < 100_000


def test_concurrent_changes_to_a_glossary_are_all_applied(state):
    store, saved = open_store(state), glossary()
    store.add("ann", saved)

    def work(number):
        other = open_store(state)
        for index in range(5):
            new = Dictionary(
                "en", "de", (GlossaryEntry(f"word {number} {index}", (f"Wort {number} {index}",)),)
            )
            other.change(
                "ann", saved.id, lambda old, new=new: old.with_changes(dictionaries=[new], merge=True)
            )

    in_threads(work, range(4))
    assert len(store.get("ann", saved.id).dictionaries[0].entries) == 21


def test_failed_change_to_a_glossary_has_no_effect(state):
    store, saved = open_store(state), glossary()
    store.add("ann", saved)
    with pytest.raises(DataError):
        store.change("ann", saved.id, lambda old: old.with_changes(" "))
    with pytest.raises(NotStoredError):
        store.change("ann", saved.id, lambda old: old.without_dictionary("fr", "de"))
    assert store.get("ann", saved.id) == saved


def test_glossary_cache_rebuilds_only_changed_glossaries(state):
    store, saved = open_store(state), glossary()
    store.add("ann", saved)
    cache = GlossaryCache(store)
    terms = cache.terms("ann", (saved.id,), "en", "de")
    assert cache.terms("ann", (saved.id,), "en", "de") is terms
    assert [term.targets for term in terms.terms] == [("Hund",)]
    new = Dictionary("en", "de", (GlossaryEntry("dog", ("Dackel",)),))
    open_store(state).change("ann", saved.id, lambda old: old.with_dictionary(new))
    assert [term.targets for term in cache.terms("ann", (saved.id,), "en-GB", "de").terms] == [("Dackel",)]
    with pytest.raises(NotStoredError, match="No dictionary found"):
        cache.terms("ann", (saved.id,), "de", "en")


def large_glossary(number):
    return glossary(**{f"word{number} {index}": "Wort" for index in range(100)})


@pytest.fixture
def small_cache(state, monkeypatch):
    """Return a cache with room for two of ten stored glossaries, and the ids of the glossaries."""
    store, stored = open_store(state), [large_glossary(number) for number in range(10)]
    for saved in stored:
        store.add("ann", saved)
    monkeypatch.setattr("uwaga_server.store.glossaries.MAX_READY_BYTES", int(2.5 * stored[0].memory))
    return GlossaryCache(store), [saved.id for saved in stored]


def test_memory_use_of_the_glossary_cache_is_limited(small_cache):
    cache, ids = small_cache
    alive = WeakSet()
    for glossary_id in ids * 2:
        alive.add(cache.terms("ann", (glossary_id,), "en", "de"))
        assert len(alive) <= 2
    assert cache.terms("ann", (ids[-1],), "en", "de") in alive


def test_memory_use_of_glossaries_in_use_is_limited(small_cache):
    cache, ids = small_cache
    used = [cache.terms("ann", (glossary_id,), "en", "de") for glossary_id in ids[:2]]
    with pytest.raises(BusyError) as refused:
        cache.terms("ann", (ids[2],), "en", "de")
    assert api_error(refused.value).headers == {"retry-after": "1"}
    assert cache.terms("ann", (ids[0],), "en", "de") is used[0]
    del used
    assert len(cache.terms("ann", (ids[2],), "en", "de")) == 100


def test_memory_use_of_glossaries_in_a_request_is_limited(small_cache):
    cache, ids = small_cache
    assert len(cache.terms("ann", tuple(ids[:2]), "en", "de")) == 200
    with pytest.raises(ApiError, match="use at most") as refused:
        cache.terms("ann", tuple(ids[:3]), "en", "de")
    assert (refused.value.status, refused.value.code) == (413, "glossaries_too_large")


def test_oversized_glossary_is_not_stored(state, monkeypatch):
    large = large_glossary(0)
    monkeypatch.setattr("uwaga_server.store.glossaries.MAX_READY_BYTES", large.memory - 1)
    with pytest.raises(QuotaError, match="split it"):
        open_store(state).add("ann", large)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("letters", ["ab", "äö", "日本", "a b", "a😀", "a.", "ȧ 😀"])
@pytest.mark.parametrize(("length", "forms"), [(2, 1), (20, 1), (300, 1), (8, 40)])
def test_estimated_glossary_memory_use_is_an_upper_bound(letters, length, forms):
    rng = random.Random(length)

    def text(number):
        return f"{number}" + "".join(rng.choices(letters, k=length)).rstrip()

    entries = [
        GlossaryEntry(text(number), tuple(text(form) for form in range(forms))) for number in range(400)
    ]
    stored = StoredGlossary.create("Words", [Dictionary("en", "de", tuple(entries))]).to_json()
    tracemalloc.start()
    try:
        loaded = StoredGlossary.from_json(stored)
        terms, counted = combine_glossaries([loaded], "en", "de"), loaded.memory
        del loaded
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(terms) == 400
    assert used <= counted < 3 * used + 50_000


def test_first_of_conflicting_glossaries_takes_precedence(state):
    store, first, second = open_store(state), glossary("One"), glossary("Two", dog="Dackel", cat="Katze")
    other = glossary("Three", "de", "en", Hund="dog")
    for saved in (first, second, other):
        store.add("ann", saved)

    def targets(*glossaries):
        terms = GlossaryCache(store).terms("ann", tuple(saved.id for saved in glossaries), "en", "de").terms
        return {term.source: term.targets for term in terms}

    assert targets(first, second) == {"dog": ("Hund",), "cat": ("Katze",)}
    assert targets(second, first) == {"dog": ("Dackel",), "cat": ("Katze",)}
    assert targets(other, second, first) == targets(second)
    with pytest.raises(NotStoredError, match="No dictionary found for language pair en-de"):
        targets(other)


def test_full_disk_leaves_the_glossary_unchanged(tmp_path):
    store, saved = open_store(tmp_path / "state"), glossary()
    store.add("ann", saved)
    large = Dictionary(
        "en", "de", tuple(GlossaryEntry(f"word {index}", (f"Wort {index}",)) for index in range(2000))
    )
    with limited_file_size(4096), pytest.raises(StorageError) as error:
        store.change("ann", saved.id, lambda old: old.with_dictionary(large))
    assert str(tmp_path) not in str(error.value)
    assert store.get("ann", saved.id) == saved


KILLED_WRITER_PROGRAM = """
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


@pytest.mark.slow
def test_killed_writer_leaves_a_complete_glossary_and_no_lock(state):
    store, saved = open_store(state), glossary()
    store.add("ann", saved)
    for wait in (3, 9):
        worker = subprocess.Popen(
            [sys.executable, "-c", KILLED_WRITER_PROGRAM, str(state), saved.id],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for _ in range(wait):
            worker.stdout.readline()
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        worker.stdout.close()
        loaded = open_store(state).get("ann", saved.id)
        [dictionary] = loaded.dictionaries
        assert len({entry.targets for entry in dictionary.entries}) == 1
        assert len(dictionary.entries) == 300
        store.change("ann", saved.id, lambda old: old.with_changes("again"))


def test_damaged_glossary_is_reported(tmp_path):
    engine = open_database(tmp_path, None)
    store, saved = GlossaryStore(engine), glossary()
    store.add("ann", saved)
    with engine.begin() as connection:
        connection.execute(GLOSSARIES.update().values(content='{"format": 1, "id"'))
    with pytest.raises(StorageError, match="damaged"):
        store.get("ann", saved.id)


@pytest.mark.parametrize(
    ("state", "database", "message"),
    [
        ("/proc/nowhere", None, r"state: .*/proc/nowhere"),
        (None, "sqlite:////nowhere/at/all.db", "database: .*/nowhere/at/all.db"),
        (None, "postgresql+pg8000://ann:secret@host/name", "driver"),
        (None, "nothing://host", "driver"),
        (None, "://", "database: "),
    ],
)
def test_errors_for_unusable_databases_name_the_cause_but_no_password(state, database, message):
    with pytest.raises((SettingsError, MissingExtraError), match=message) as error:
        open_database(None if state is None else Path(state), database)
    assert "secret" not in str(error.value)


def test_database_of_another_version_is_reported(tmp_path):
    with open_database(tmp_path, None).begin() as connection:
        connection.execute(sql.text("ALTER TABLE uwaga_glossaries DROP COLUMN size"))
    with pytest.raises(SettingsError, match=r"state: .*state\.sqlite .*uwaga_glossaries\.size; move it away"):
        open_database(tmp_path, None)


def test_dictionaries_of_a_glossary_have_distinct_valid_language_pairs():
    dictionary = Dictionary("en", "de", (GlossaryEntry("dog", ("Hund",)),))
    created = StoredGlossary.create(
        " Words ", [dictionary, replace(dictionary, target="fr", entries=(GlossaryEntry("dog", ("chien",)),))]
    )
    assert created.name == "Words"
    assert created.dictionary("EN-us", "FR").entries == (GlossaryEntry("dog", ("chien",)),)
    with pytest.raises(DataError, match="two dictionaries"):
        StoredGlossary.create("Words", [dictionary, replace(dictionary, source="en-GB")])
    for code in ("", "e", "../x", "deutsch!", "\0\0"):
        with pytest.raises(DataError):
            StoredGlossary.create("Words", [replace(dictionary, target=code)])
    with pytest.raises(DataError, match="languages of a dictionary must differ"):
        StoredGlossary.create("Words", [replace(dictionary, target="en")])
    assert StoredGlossary.create("Words", []).dictionaries == ()
    assert StoredGlossary.from_json(created.to_json()) == created
    assert uuid.UUID(created.id).version == 4


def test_merging_replaces_entries_with_the_same_source():
    created = glossary(dog="Hund", cat="Katze")
    new = Dictionary("en", "de", (GlossaryEntry("cat", ("Kater",)), GlossaryEntry("cow", ("Kuh",))))
    entries = created.with_changes(dictionaries=[new], merge=True).dictionaries[0].entries
    assert dict(entries) == {"dog": ("Hund",), "cat": ("Kater",), "cow": ("Kuh",)}
    assert created.with_changes(dictionaries=[new], merge=True).version != created.version


TERMS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1).filter(
    lambda text: (
        text.strip() == text
        and len(text.encode()) <= 1024
        and not any(separator in text for separator in "\t|\x85")
    )
)


@given(st.dictionaries(TERMS, TERMS, min_size=1))
def test_glossary_entries_survive_a_round_trip_through_text(entries):
    glossary_entries = tuple(GlossaryEntry(source, (target,)) for source, target in entries.items())
    assert read_entries(format_entries(glossary_entries), "tsv", ("en", "de")) == glossary_entries
    assert merge_entries(glossary_entries, glossary_entries) == glossary_entries
    quoted = "".join(
        '"{}","{}"\r\n'.format(source.replace('"', '""'), target.replace('"', '""'))
        for source, target in entries.items()
    )
    assert read_entries(quoted, "csv", ("en", "de")) == glossary_entries


@pytest.mark.parametrize(
    ("text", "format", "message"),
    [
        ("", "tsv", "no entries"),
        ("\n \n", "csv", "no entries"),
        ("dog", "tsv", "index 0 .*misses tab"),
        ("dog\tHund\ndog\tDackel", "tsv",
         r"index 1 \(starting at position 9\) duplicates key with the index 0"),
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
)  # fmt: skip
def test_invalid_glossary_entries_are_refused(text, format, message):
    with pytest.raises(DataError, match=message):
        read_entries(text, format, ("en", "de"))


def test_glossary_lines_of_other_languages_are_skipped():
    text = "dog,Hund,EN,DE\r\nchien,Hund,fr,de\r\ncat,Katze\r\n"
    assert [entry.source for entry in read_entries(text, "csv", ("en", "de"))] == ["dog", "cat"]
