"""A translation memory in an SQLite file, with look-up of equal and similar sources.

Several processes may read a memory while another process adds pairs. Pairs are added in a single transaction:
after an interruption, the memory contains all of the pairs or none of them. Similar sources are found with an
index of all sources: see :mod:`uwaga_memory.index`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from uwaga.errors import DataError, SettingsError, quoted
from uwaga.library.fields import LANGUAGE
from uwaga.translator.memories import DEFAULT_THRESHOLD, TextContext
from uwaga.translator.memories import AddedCounts as AddedCounts
from uwaga.translator.memories import Pair as Pair
from uwaga_memory.index import SCHEMA as INDEX_SCHEMA
from uwaga_memory.index import TOLERANCE, Entry, Index, TermLists, merged_postings
from uwaga_memory.similarity import (
    TERM,
    ComparableText,
    Penalties,
    bounds,
    comparable_text,
    find_stemmer,
    similarity,
)
from uwaga_memory.states import StateFile

FORMAT_VERSION = 3
"""Version of the database schema."""
SCHEMA = f"""
CREATE TABLE memory (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE pairs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    origin TEXT NOT NULL,
    key TEXT NOT NULL,
    before TEXT NOT NULL,
    after TEXT NOT NULL,
    created TEXT NOT NULL,
    properties TEXT NOT NULL,
    identity INTEGER NOT NULL UNIQUE,
    words INTEGER NOT NULL,
    position INTEGER NOT NULL UNIQUE,
    terms BLOB NOT NULL
);
{INDEX_SCHEMA}
"""
MAX_TEXT_LENGTH = 100_000
"""Maximum number of characters of a source or target; pairs with longer texts are skipped and counted."""
CONTEXT_SCORE, EXACT_SCORE = 101.0, 100.0
"""The score of a pair with the same source and context, and the score of a pair with only the same source."""
MIN_THRESHOLD = 1.0
"""The lowest threshold that a look-up accepts."""
PAIRS_PER_INSERT = 5_000
"""Number of pairs that are inserted together."""
CANDIDATE_BATCH = 100
"""Number of candidates that are compared together."""
PAIR_HASH_BITS = 32
"""Number of low bits of a pair's identity, which distinguish pairs with the same source."""
MAX_LOG_BYTES = 1 << 24
"""Maximum size in bytes to which SQLite's log file is truncated after a large transaction."""
PAGE_CACHE_KIB = 256 << 10
"""Size of SQLite's page cache while pairs are added, in KiB."""
Context = TextContext


@dataclass(frozen=True)
class Match:
    """A pair of the memory that is similar to a text.

    ``score`` is 101 for the same source in the same context, 100 for the same source, and less than 100 for a
    similar source: see :mod:`uwaga_memory.similarity`.
    """

    id: int
    source: str
    target: str
    score: float
    origin: str
    created: str


class _BestMatches:
    """The best matches of a look-up, with at most one match for each source and translation.

    Among matches with equal scores, the newest are preferred.

    Args:
        limit: the maximum number of matches.
        threshold: the minimum score.
        exact_matches: matches with the same source as the text; :meth:`add` ignores these.
    """

    def __init__(self, limit: int, threshold: float, exact_matches: Sequence[Match]) -> None:
        self._limit, self._minimum_rank = limit, (threshold, "", 0)
        self._matches: dict[tuple[str, str], Match] = {}
        self._exact_ids: set[int] = set()
        for match in sorted(exact_matches, key=_rank, reverse=True):
            self.add(match)
        self._exact_ids = {match.id for match in exact_matches}

    @property
    def is_full(self) -> bool:
        """True if the number of matches has reached the limit."""
        return len(self._matches) == self._limit

    @property
    def threshold(self) -> float:
        """The minimum score of a further match."""
        return self._minimum_rank[0]

    def add(self, match: Match) -> None:
        """Add a match if it is one of the best."""
        pair = match.source, match.target
        known_match = self._matches.get(pair)
        lowest = self._minimum_rank if known_match is None else max(self._minimum_rank, _rank(known_match))
        if match.id in self._exact_ids or _rank(match) < lowest:
            return
        self._matches[pair] = match
        if len(self._matches) > self._limit:
            del self._matches[min(self._matches, key=lambda pair: _rank(self._matches[pair]))]
        if self.is_full:
            self._minimum_rank = min(map(_rank, self._matches.values()))

    def ranked_matches(self) -> list[Match]:
        """Return the matches, the best first."""
        return sorted(self._matches.values(), key=_rank, reverse=True)


def _rank(match: Match) -> tuple[float, str, int]:
    return match.score, match.created, match.id


class NewPair(NamedTuple):
    """A pair to add, with its identity and the terms of its source."""

    pair: Pair
    identity: int
    terms: Sequence[int]

    def row(self, id_: int, entry: Entry, now: str) -> tuple[object, ...]:
        """Return the pair as a row of the table ``pairs``."""
        pair = self.pair
        properties = json.dumps(pair.properties, ensure_ascii=False) if pair.properties else ""
        return (
            id_,
            *pair_texts(pair),
            pair.created or now,
            properties,
            self.identity,
            entry.words,
            entry.position,
            np.array(self.terms, TERM).tobytes(),
        )


@dataclass(frozen=True)
class MemoryStats:
    """Statistics of a memory.

    Attributes:
        pairs: number of pairs.
        sources: number of distinct sources.
        words: number of words of the sources.
        origins: number of pairs by origin, in descending order.
        first: time of the oldest pair in ISO 8601; empty if the memory has no pairs.
        last: time of the newest pair in ISO 8601; empty if the memory has no pairs.
        bytes: size of the file in bytes.
    """

    pairs: int
    sources: int
    words: int
    origins: dict[str, int]
    first: str
    last: str
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the statistics as a dictionary that can be serialised to JSON."""
        return dict(vars(self))


def normalise_spaces(text: str) -> str:
    """Return a text without surrounding white space, with each run of white space replaced by a space."""
    return " ".join(text.split())


def _digest(*texts: str) -> int:
    """Return a 63-bit hash of texts."""
    content = "\0".join(texts).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "big") >> 1


class Memory:
    """A translation memory of one language pair; it is thread-safe.

    Args:
        path: the file of the memory.

    Attributes:
        path: the file of the memory.
        name: the name of the memory.
        languages: the source and target language.
        origin: the path of the memory to show to users; for a temporary memory, the path of the file that was
            read.
        note: a message about the pairs that a temporary memory was read from; otherwise empty.

    Raises:
        DataError: the file does not exist, is not a memory, or has another format version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.origin, self.note = str(path), ""
        if not self.path.is_file():
            raise DataError(f"{path}: no such memory; create it with `uwaga memory create`")
        self._threads = threading.local()
        try:
            values = dict(self._database.execute("SELECT key, value FROM memory"))
            version = values["format"]
            self.name: str = values["name"]
            self.languages: tuple[str, str] = values["source"], values["target"]
        except (sqlite3.DatabaseError, KeyError) as error:
            raise DataError(f"{path}: is not a translation memory: {error}") from None
        if version != str(FORMAT_VERSION):
            raise DataError(
                f"{path}: has format version {quoted(version)}, but the installed uwaga reads version "
                f"{FORMAT_VERSION}"
            )
        self._stemmer = find_stemmer(self.languages[0])
        self._lists: tuple[int, TermLists] | None = None
        self._states = StateFile(self.path.with_name(f"{self.path.name}-states"), self.sample)

    @classmethod
    def create(cls, path: str | Path, source: str, target: str, name: str = "") -> Memory:
        """Create an empty memory.

        Raises:
            SettingsError: the file exists, or a language is not a code such as ``en``.
        """
        path = Path(path)
        for language in (source, target):
            if not LANGUAGE.fullmatch(language):
                raise SettingsError(f"{quoted(language)} is not a language code such as `en`")
        if path.exists():
            raise SettingsError(f"{path}: already exists; add pairs to it, or choose another name")
        partial_path = path.with_name(f".{path.name}.{os.getpid()}.partial")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            partial_path.unlink(missing_ok=True)
            database = sqlite3.connect(partial_path, isolation_level=None)
            database.executescript(f"BEGIN; {SCHEMA} COMMIT;")
            values = {
                "format": str(FORMAT_VERSION),
                "name": name or path.stem,
                "source": source,
                "target": target,
            }
            database.executemany("INSERT INTO memory VALUES (?, ?)", values.items())
            database.execute("PRAGMA journal_mode = WAL")
            database.close()
            partial_path.rename(path)
        except (OSError, sqlite3.Error) as error:
            raise DataError(f"{path}: cannot be written: {error}") from None
        finally:
            partial_path.unlink(missing_ok=True)
        return cls(path)

    @classmethod
    def temporary(cls, source: str, target: str) -> Memory:
        """Create an empty memory whose file is removed when the object is garbage-collected."""
        folder = tempfile.mkdtemp(prefix="uwaga-memory-")
        try:
            memory = cls.create(Path(folder, "temporary.uwm"), source, target)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        weakref.finalize(memory, shutil.rmtree, folder, ignore_errors=True)
        return memory

    @property
    def states(self) -> StateFile:
        """The store of the pairs' decoder states, in a file next to the memory."""
        return self._states

    def sample(self, count: int) -> list[tuple[str, str]]:
        """Return the source and target of at most ``count`` pairs, evenly spaced by id."""
        with self._convert_read_errors() as database:
            [(pairs,)] = database.execute("SELECT count(*) FROM pairs")
            step = max(1, pairs // count)
            rows = database.execute(
                "SELECT source, target FROM "
                "(SELECT source, target, row_number() OVER (ORDER BY id) AS number FROM pairs) "
                "WHERE number % ? = 0 LIMIT ?",
                (step, count),
            )
            return list(rows)

    @property
    def _database(self) -> sqlite3.Connection:
        """The database connection of the current thread, opened at first use."""
        database: sqlite3.Connection | None = getattr(self._threads, "database", None)
        if database is None:
            database = sqlite3.connect(self.path, timeout=30, isolation_level=None)
            database.execute(f"PRAGMA journal_size_limit = {MAX_LOG_BYTES}")
            database.create_function("merged_postings", 2, merged_postings, deterministic=True)
            self._threads.database = database
        return database

    def __len__(self) -> int:
        with self._convert_read_errors() as database:
            [(count,)] = database.execute("SELECT count(*) FROM pairs")
        return int(count)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run the block in a transaction; a nested block belongs to the outer transaction."""
        database = self._database
        if database.in_transaction:
            yield database
            return
        try:
            database.execute("BEGIN IMMEDIATE")
            database.execute(f"PRAGMA user_version = {self._version() + 1}")
            yield database
            database.execute("COMMIT")
        except (sqlite3.Error, IndexError) as error:
            _roll_back(database)
            raise DataError(f"{self.path}: cannot be changed: {error}") from None
        except BaseException:
            _roll_back(database)
            raise

    @contextmanager
    def _convert_read_errors(self) -> Iterator[sqlite3.Connection]:
        """Convert errors while reading a damaged file to DataError."""
        try:
            yield self._database
        except (sqlite3.Error, ValueError, IndexError, KeyError) as error:
            raise DataError(
                f"{self.path}: is damaged: {error}; restore a backup, or import the pairs again"
            ) from None

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """Read the memory as it is at the start of the block; the block may be within a transaction."""
        with self._convert_read_errors() as database:
            database.execute("SAVEPOINT snapshot")
            try:
                yield database
            finally:
                with suppress(sqlite3.Error):
                    database.execute("RELEASE snapshot")

    def add(self, pairs: Iterable[Pair]) -> AddedCounts:
        """Add pairs in one transaction; pairs already in the memory with the same context are skipped."""
        counts = AddedCounts()
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        iterator = iter(pairs)
        with self._transaction() as database:
            [(pages,)] = database.execute("PRAGMA cache_size")
            database.execute(f"PRAGMA cache_size = -{PAGE_CACHE_KIB}")
            try:
                index = Index(database)
                while block := list(islice(iterator, PAIRS_PER_INSERT)):
                    self._add_block(index, block, now, counts)
                index.flush()
            finally:
                database.execute(f"PRAGMA cache_size = {int(pages)}")
        return counts

    def confirm(self, pairs: Sequence[Pair]) -> AddedCounts:
        """Add pairs in one transaction and make them the newest, so that they win among equal scores.

        Pairs that are already in the memory count as known, but also become the newest.
        """
        identities = json.dumps([*map(_identity, pairs)])
        query = "SELECT id FROM pairs WHERE identity IN (SELECT value FROM json_each(?))"
        with self._transaction() as database:
            known_count = self.remove(id_ for (id_,) in database.execute(query, (identities,)).fetchall())
            counts = self.add(pairs)
        return AddedCounts(counts.new - known_count, counts.known + known_count, counts.skipped)

    def _add_block(self, index: Index, pairs: Sequence[Pair], now: str, counts: AddedCounts) -> None:
        database = self._database
        [(last_id,)] = database.execute("SELECT coalesce(max(seq), 0) FROM sqlite_sequence")
        identities = list(map(_identity, pairs))
        known_ids = self._known_identities(identities)
        new_pairs = []
        for pair, identity in zip(pairs, identities, strict=True):
            if reason := _skip_reason(pair):
                counts.skipped[reason] += 1
            elif identity in known_ids:
                counts.known += 1
            else:
                known_ids.add(identity)
                new_pairs.append(NewPair(pair, identity, comparable_text(pair.source, self._stemmer).terms))
        entries = index.add([pair.terms for pair in new_pairs])
        database.executemany(
            "INSERT INTO pairs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (pair.row(id_, entry, now) for id_, pair, entry in zip(count(last_id + 1), new_pairs, entries)),
        )
        counts.new += len(new_pairs)

    def _known_identities(self, identities: Sequence[int]) -> set[int]:
        """Return the given identities that are already in the memory."""
        values = json.dumps(identities)
        query = "SELECT identity FROM pairs WHERE identity IN (SELECT value FROM json_each(?))"
        return {identity for (identity,) in self._database.execute(query, (values,))}

    def remove(self, ids: Iterable[int]) -> int:
        """Remove the pairs with these ids, and return the number of removed pairs."""
        removed_count = 0
        with self._transaction() as database:
            index = Index(database)
            for id_ in ids:
                row = database.execute("SELECT position, terms FROM pairs WHERE id = ?", (id_,)).fetchone()
                if row is not None:
                    index.remove(row[0], np.frombuffer(row[1], TERM).tolist())
                    database.execute("DELETE FROM pairs WHERE id = ?", (id_,))
                    removed_count += 1
        return removed_count

    def pairs(self, text: str = "") -> Iterator[tuple[int, Pair]]:
        """Yield all pairs with their ids, or only the pairs whose source or target contains ``text``.

        Case is ignored.
        """
        columns = "id, source, target, origin, key, before, after, created, properties"
        folded_text = text.casefold()
        with self._convert_read_errors() as database:
            rows = database.execute(f"SELECT {columns} FROM pairs ORDER BY id")  # noqa: S608
            for id_, source, target, origin, key, before, after, creation_time, properties in rows:
                if not text or folded_text in source.casefold() or folded_text in target.casefold():
                    parsed_properties = (
                        tuple((name, value) for name, value in json.loads(properties)) if properties else ()
                    )
                    yield (
                        id_,
                        Pair(source, target, origin, key, before, after, creation_time, parsed_properties),
                    )

    def matches(
        self,
        text: str,
        context: Context | None = None,
        *,
        threshold: float = DEFAULT_THRESHOLD,
        limit: int = 5,
        penalties: Penalties | None = None,
    ) -> list[Match]:
        """Return the pairs most similar to a text, best first; among equal scores, the newest first.

        Of several pairs with the same source and translation, only the best is returned. All pairs whose
        score reaches the threshold are considered, unless more than
        :data:`uwaga_memory.index.MAX_CANDIDATES` sources may reach it; then only the most promising sources
        are considered.

        Args:
            text: the source text.
            context: the context of the text in its document; a pair from the same context has a score of 101.
            threshold: the minimum score, from 1 to 100.
            limit: the maximum number of pairs.
            penalties: the penalties to subtract from scores; the default penalties if None.
        """
        if not MIN_THRESHOLD <= threshold <= EXACT_SCORE:
            raise SettingsError(f"threshold: must be from 1 to 100, not {threshold}")
        if not text.strip() or limit < 1:
            return []
        context, penalties = context or Context(), penalties or Penalties()
        in_transaction = self._database.in_transaction
        with self._snapshot():
            exact_matches = self._exact_matches(text, context, penalties)
            best_matches = _BestMatches(limit, threshold, exact_matches)
            if (
                not best_matches.is_full and threshold <= EXACT_SCORE - penalties.text
            ):  # the maximum for similar texts
                query = comparable_text(text, self._stemmer)
                index = Index(self._database, None if in_transaction else self._term_lists())
                candidates = index.find_candidates(query, threshold)
                for start in range(0, len(candidates.positions), CANDIDATE_BATCH):
                    if candidates.bounds[start] < best_matches.threshold - TOLERANCE:
                        break
                    positions = candidates.positions[start : start + CANDIDATE_BATCH].tolist()
                    self._compare(query, context, positions, penalties, best_matches)
        return best_matches.ranked_matches()

    def _term_lists(self) -> TermLists:
        """Return the posting lists of the index in the state of the current snapshot."""
        version, state = self._version(), self._lists
        if state is None or state[0] != version:
            self._lists = state = version, TermLists(self._database)
        return state[1]

    def _version(self) -> int:
        """Return the number of transactions that have changed the memory."""
        [(version,)] = self._database.execute("PRAGMA user_version")
        return int(version)

    def _exact_matches(self, text: str, context: Context, penalties: Penalties) -> list[Match]:
        neighbours = normalise_spaces(context.before), normalise_spaces(context.after)
        rows = self._database.execute(
            "SELECT id, source, target, origin, created, key, before, after FROM pairs "
            "WHERE identity BETWEEN ? AND ?",
            _identity_range(text),
        )
        matches = []
        for id_, source, target, origin, creation_time, key, before, after in rows:
            if normalise_spaces(source) != normalise_spaces(text):
                continue
            same_key = bool(key) and key == context.key
            same_neighbours = (
                any(neighbours) and (normalise_spaces(before), normalise_spaces(after)) == neighbours
            )
            score = CONTEXT_SCORE if same_key or same_neighbours else EXACT_SCORE
            if score < CONTEXT_SCORE and key and context.key:
                score -= penalties.context
            matches.append(Match(id_, source, target, score, origin, creation_time))
        return matches

    def _compare(
        self,
        text: ComparableText,
        context: Context,
        positions: Sequence[int],
        penalties: Penalties,
        best_matches: _BestMatches,
    ) -> None:
        """Compare the pairs at these positions of the index with a text; add matches to ``best_matches``."""
        sources = self._database.execute(
            "SELECT position, terms FROM pairs WHERE position IN (SELECT value FROM json_each(?))",
            (json.dumps(positions),),
        ).fetchall()
        highest = bounds(text, [terms for _, terms in sources])
        for index in np.argsort(-highest).tolist():
            if highest[index] < best_matches.threshold - TOLERANCE:
                break
            position, terms = sources[index]
            [(id_, source, target, origin, creation_time, key)] = self._database.execute(
                "SELECT id, source, target, origin, created, key FROM pairs WHERE position = ?", (position,)
            )
            other = ComparableText(source, np.frombuffer(terms, TERM).tolist())
            score = similarity(text, other, penalties, best_matches.threshold)
            if key and context.key and key != context.key:
                score -= penalties.context
            best_matches.add(Match(id_, source, target, score, origin, creation_time))

    def digest(self) -> str:
        """Return the SHA-256 digest of the pairs in hexadecimal; look-up results depend only on the pairs."""
        digest = hashlib.sha256()
        with self._convert_read_errors() as database:
            for row in database.execute("SELECT identity, created FROM pairs ORDER BY id"):
                digest.update(repr(row).encode())
        return digest.hexdigest()

    def stats(self) -> MemoryStats:
        """Return statistics of the memory: its size, and the origins and times of its pairs."""
        with self._convert_read_errors() as database:
            [(pairs, sources, first_time, last_time, words)] = database.execute(
                "SELECT count(*), count(DISTINCT source), min(created), max(created), sum(words) FROM pairs"
            )
            rows = database.execute("SELECT origin, count(*) FROM pairs GROUP BY origin ORDER BY 2 DESC, 1")
            origins = dict(rows)
        size = self.path.stat().st_size
        return MemoryStats(pairs, sources, words or 0, origins, first_time or "", last_time or "", size)

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection of the current thread; those of other threads close when the threads end."""
        database = getattr(self._threads, "database", None)
        if database is not None:
            database.close()
            self._threads.database = None


def _roll_back(database: sqlite3.Connection) -> None:
    if database.in_transaction:
        database.execute("ROLLBACK")


def _identity(pair: Pair) -> int:
    """Return the 63-bit identity of a pair, a hash whose high bits depend only on the source."""
    lowest, _ = _identity_range(pair.source)
    return lowest | _digest(
        pair.source, pair.target, pair.key, normalise_spaces(pair.before), normalise_spaces(pair.after)
    ) % (1 << PAIR_HASH_BITS)


def _identity_range(text: str) -> tuple[int, int]:
    """Return the minimum and maximum identity of the pairs whose source is ``text``."""
    lowest = _digest(normalise_spaces(text)) >> PAIR_HASH_BITS << PAIR_HASH_BITS
    return lowest, lowest + (1 << PAIR_HASH_BITS) - 1


def _skip_reason(pair: Pair) -> str:
    if not pair.source.strip():
        return "no source"
    if not pair.target.strip():
        return "no translation"
    if max(len(pair.source), len(pair.target)) > MAX_TEXT_LENGTH:
        return f"longer than {MAX_TEXT_LENGTH:,} characters"
    try:
        content = "".join(pair_texts(pair)).encode()
    except UnicodeEncodeError:
        return "not Unicode (a lone surrogate)"
    return "a null character" if b"\0" in content else ""


def pair_texts(pair: Pair) -> tuple[str, ...]:
    """Return the texts of a pair: source, target, origin, key, and the texts before and after."""
    return pair.source, pair.target, pair.origin, pair.key, pair.before, pair.after
