"""A translation memory in a file of SQLite: pairs, exact look-up, and similar sources.

Several processes may read a memory while one adds to it. An addition is one transaction: after an interruption
the memory holds all of its pairs or none.
"""

from __future__ import annotations

import hashlib
import math
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from uwaga.errors import DataError, SettingsError, quoted
from uwaga_memory.similarity import Penalties, Readings, readings, similarity

FORMAT = 1
"""Version of the tables."""
SCHEMA = """
CREATE TABLE memory (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE pairs (
    id INTEGER PRIMARY KEY,
    source TEXT NOT NULL,
    target TEXT NOT NULL,
    origin TEXT NOT NULL,
    key TEXT NOT NULL,
    before INTEGER NOT NULL,
    after INTEGER NOT NULL,
    created TEXT NOT NULL,
    digest INTEGER NOT NULL,
    words INTEGER NOT NULL,
    UNIQUE (digest, target, key, before, after)
);
CREATE VIRTUAL TABLE texts USING fts5(
    source, content='pairs', content_rowid='id', detail='none', columnsize=0, tokenize='unicode61'
);
CREATE VIRTUAL TABLE vocabulary USING fts5vocab('texts', 'row');
CREATE TRIGGER pair_added AFTER INSERT ON pairs BEGIN
    INSERT INTO texts (rowid, source) VALUES (new.id, new.source);
END;
CREATE TRIGGER pair_removed AFTER DELETE ON pairs BEGIN
    INSERT INTO texts (texts, rowid, source) VALUES ('delete', old.id, old.source);
END;
"""
MAX_TEXT_LENGTH = 100_000
"""Characters of a source or target; longer ones are skipped and counted."""
MAX_CANDIDATES = 400
"""Pairs of a look-up that are compared word by word; those with the rarest common words come first."""
IN_CONTEXT, EXACT = 101.0, 100.0
"""The score of a pair with the same source and context, and of one with the same source."""


@dataclass(frozen=True)
class Pair:
    """A source with its translation.

    Attributes:
        source: the source text.
        target: its translation.
        origin: where the pair comes from, such as a file's name.
        key: the name of the text in its document, such as a message id.
        before: the source text before it in the document.
        after: the source text after it.
        created: time of the translation in ISO 8601; empty for now.
    """

    source: str
    target: str
    origin: str = ""
    key: str = ""
    before: str = ""
    after: str = ""
    created: str = ""


class Context(NamedTuple):
    """Where a text stands: its key, and its neighbours."""

    key: str = ""
    before: str = ""
    after: str = ""


@dataclass(frozen=True)
class Match:
    """A pair of the memory that is similar to a text.

    ``score`` is 101 for the same source in the same context, 100 for the same source, and less for others:
    see :mod:`uwaga_memory.similarity`.
    """

    id: int
    source: str
    target: str
    score: float
    origin: str
    created: str


@dataclass
class Added:
    """What an addition did: new pairs, pairs that the memory had, and skipped pairs by reason."""

    new: int = 0
    known: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


def normalised(text: str) -> str:
    """Return a text with single spaces, as it is compared."""
    return " ".join(text.split())


def _digest(text: str) -> int:
    """Return 63 bits that identify a normalised text; 0 for none."""
    text = normalised(text)
    if not text:
        return 0
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


class Memory:
    """A translation memory of one pair of languages.

    Args:
        path: its file.

    Raises:
        DataError: the file is no memory, or of a newer version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise DataError(f"{path}: there is no such memory; create it with `uwaga memory create`")
        self._database = sqlite3.connect(self.path, timeout=30, isolation_level=None, check_same_thread=False)
        try:
            values = dict(self._database.execute("SELECT key, value FROM memory"))
        except sqlite3.DatabaseError as error:
            raise DataError(f"{path}: is no translation memory: {error}") from None
        if values["format"] != str(FORMAT):
            raise DataError(f"{path}: version {values['format']} of the format; this uwaga reads {FORMAT}")
        self.name: str = values["name"]
        self.languages: tuple[str, str] = values["source"], values["target"]

    @classmethod
    def create(cls, path: str | Path, source: str, target: str, name: str = "") -> Memory:
        """Create an empty memory.

        Raises:
            SettingsError: the file exists.
        """
        path = Path(path)
        if path.exists():
            raise SettingsError(f"{path}: exists already; add to it, or choose another name")
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        partial.unlink(missing_ok=True)
        database = sqlite3.connect(partial, isolation_level=None)
        database.executescript(f"BEGIN; {SCHEMA} COMMIT;")
        values = {"format": str(FORMAT), "name": name or path.stem, "source": source, "target": target}
        database.executemany("INSERT INTO memory VALUES (?, ?)", values.items())
        database.execute("PRAGMA journal_mode = WAL")
        database.close()
        partial.rename(path)
        return cls(path)

    def __len__(self) -> int:
        [(count,)] = self._database.execute("SELECT count(*) FROM pairs")
        return int(count)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield self._database
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def add(self, pairs: Iterable[Pair]) -> Added:
        """Add pairs in one transaction; of equal pairs in equal context, the memory keeps the first."""
        added = Added()
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with self._transaction() as database:
            for pair in pairs:
                if reason := _reason_to_skip(pair):
                    added.skipped[reason] += 1
                    continue
                row = (
                    pair.source,
                    pair.target,
                    pair.origin,
                    pair.key,
                    _digest(pair.before),
                    _digest(pair.after),
                    pair.created or now,
                    _digest(pair.source),
                    len(readings(pair.source, self.languages[0]).everything),
                )
                cursor = database.execute(
                    "INSERT OR IGNORE INTO pairs (source, target, origin, key, before, after, created, digest, "
                    "words) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    row,
                )
                added.new += cursor.rowcount
                added.known += 1 - cursor.rowcount
        return added

    def remove(self, ids: Iterable[int]) -> int:
        """Remove pairs; return how many there were."""
        with self._transaction() as database:
            return sum(database.execute("DELETE FROM pairs WHERE id = ?", (id_,)).rowcount for id_ in ids)

    def pairs(self, text: str = "") -> Iterator[tuple[int, Pair]]:
        """Yield all pairs, or those whose source or target contains a text, with their ids."""
        query = "SELECT id, source, target, origin, key, created FROM pairs"
        arguments: tuple[Any, ...] = ()
        if text:
            query += " WHERE instr(lower(source), lower(?)) OR instr(lower(target), lower(?))"
            arguments = (text, text)
        for id_, source, target, origin, key, created in self._database.execute(
            f"{query} ORDER BY id", arguments
        ):
            yield id_, Pair(source, target, origin, key, created=created)

    def matches(
        self,
        text: str,
        context: Context | None = None,
        *,
        threshold: float = 75.0,
        limit: int = 5,
        penalties: Penalties | None = None,
    ) -> list[Match]:
        """Return the pairs most similar to a text, best first, of equal scores the newest first.

        Args:
            text: the source text.
            context: where it stands, for a score of 101.
            threshold: the lowest score, from 1 to 100.
            limit: the maximum number of pairs.
            penalties: subtracted from scores below 100.
        """
        exact = self._exact(text, context or Context())
        if len(exact) >= limit or not text.strip():
            return exact[:limit]
        known, query = {match.id for match in exact}, readings(text, self.languages[0])
        similar = []
        for row in self._candidates(query, threshold):
            if row[0] not in known:
                score = similarity(query, readings(row[1], self.languages[0]), penalties)
                if score >= threshold:
                    id_, source, target, origin, created = row
                    similar.append(Match(id_, source, target, score, origin, created))
        similar.sort(key=lambda match: (match.score, match.created, match.id), reverse=True)
        return [*exact, *similar][:limit]

    def _exact(self, text: str, context: Context) -> list[Match]:
        neighbours = (_digest(context.before), _digest(context.after))
        rows = self._database.execute(
            "SELECT id, source, target, origin, created, key, before, after FROM pairs WHERE digest = ?",
            (_digest(text),),
        )
        matches = []
        for id_, source, target, origin, created, key, before, after in rows:
            same_key = bool(key) and key == context.key
            same_neighbours = any(neighbours) and (before, after) == neighbours
            score = IN_CONTEXT if same_key or same_neighbours else EXACT
            matches.append(Match(id_, source, target, score, origin, created))
        return sorted(matches, key=lambda match: (match.score, match.created, match.id), reverse=True)

    def _candidates(self, query: Readings, threshold: float) -> list[tuple[int, str, str, str, str]]:
        """Return the pairs that can reach a threshold: they share one of the rarest words of the text.

        A text of n words that shares ``s`` of them with another is at most ``s / n`` similar. So one that is
        similar enough shares a word of any ``n - ceil(threshold * n) + 1``; the rarest make the shortest list.
        """
        share = threshold / 100
        words = dict.fromkeys(query.words)
        counts = {word: self._frequency(word) for word in words}
        present = sorted((count, word) for word, count in counts.items() if count)
        needed = len(query.words) - math.ceil(share * len(query.words)) + 1
        chosen, left = [], needed - (len(query.words) - sum(query.words.count(word) for _, word in present))
        for count, word in present:
            if left <= 0:
                break
            chosen.append(word)
            left -= query.words.count(word)
        if not chosen:
            return []
        size = max(len(query.everything), 1)
        longest = size / share if share else size * 10
        rows = self._database.execute(
            "SELECT pairs.id, pairs.source, target, origin, created FROM texts JOIN pairs ON pairs.id = texts.rowid "
            "WHERE texts MATCH ? AND words BETWEEN ? AND ? LIMIT ?",
            (
                " OR ".join('"' + word.replace('"', '""') + '"' for word in chosen),
                math.floor(size * share * 0.7),
                math.ceil(longest * 1.4),
                MAX_CANDIDATES * 5,
            ),
        ).fetchall()
        if len(rows) > MAX_CANDIDATES:
            wanted = set(words)
            rows.sort(key=lambda row: -len(wanted & set(row[1].casefold().split())))
        return rows[:MAX_CANDIDATES]

    def _frequency(self, word: str) -> int:
        row = self._database.execute("SELECT doc FROM vocabulary WHERE term = ?", (word,)).fetchone()
        return 0 if row is None else int(row[0])

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _reason_to_skip(pair: Pair) -> str:
    if not pair.source.strip():
        return "no source"
    if not pair.target.strip():
        return "no target"
    if max(len(pair.source), len(pair.target)) > MAX_TEXT_LENGTH:
        return f"longer than {MAX_TEXT_LENGTH:,} characters"
    if "\0" in pair.source or "\0" in pair.target:
        return "a null character"
    return ""
