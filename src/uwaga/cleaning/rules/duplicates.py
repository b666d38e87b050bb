"""Drop pairs that occurred before, by 64-bit keys."""

from __future__ import annotations

import tempfile
from typing import IO, Literal

import numpy as np
from pydantic import Field, PositiveInt

from uwaga.cleaning.pairs import Keys, Mask, PairBlock, mixed
from uwaga.cleaning.rule import OrderedRule, register
from uwaga.settings.parsing import StrictModel

_SMALLEST = 1 << 12
_FULLEST = 2 / 3
"""Share of the places of the table that may be taken: fuller, and a key is looked for long."""
_EMPTY = np.uint64(0)


class KeySet:
    """An open-addressing table of at most ``memory`` keys; beyond that, sorted runs in a temporary file.

    A place is 8 bytes and at most two thirds are taken, so a key costs 12 to 24 bytes while the table
    grows. A run costs 8 bytes of disk a key, and each new block is looked for in every run.
    """

    def __init__(self, memory: int = 11_000_000) -> None:
        self._most = memory
        self._runs: list[Keys] = []
        self._file: IO[bytes] | None = None
        self._clear(_SMALLEST)

    def add(self, keys: Keys) -> Mask:
        """Add keys in their order.

        Args:
            keys: (pairs,) already well mixed: their low bits choose the place.

        Returns:
            (pairs,) which of them were new.
        """
        keys = np.maximum(keys, np.uint64(1))  # 0 marks an empty place
        fresh = np.zeros(len(keys), np.bool_)
        _, firsts = np.unique(keys, return_index=True)  # of equal ones the first
        if self._count and self._count + len(firsts) > self._most:
            self._spill()
        firsts = firsts[~self._on_disk(keys[firsts])]
        while self._count + len(firsts) > _FULLEST * len(self._table):
            self._grow()
        inserted = self._insert(keys[firsts])
        fresh[firsts[inserted]] = True
        self._count += int(inserted.sum())
        return fresh

    def __len__(self) -> int:
        return self._count + sum(map(len, self._runs))

    def _clear(self, places: int) -> None:
        self._table = np.zeros(places, np.uint64)
        self._count = 0

    def _insert(self, keys: Keys) -> Mask:
        """Put different keys into the table; (keys,) which were not there."""
        mask = np.uint64(len(self._table) - 1)
        new = np.zeros(len(keys), np.bool_)
        left = np.arange(len(keys))
        places = (keys & mask).astype(np.int64)
        while len(left):
            free = self._table[places] == _EMPTY
            # Of several keys that want one free place the last written has it; the others go on looking.
            self._table[places[free]] = keys[left[free]]
            there = self._table[places] == keys[left]
            new[left[free & there]] = True
            left, places = left[~there], (places[~there] + 1) & int(mask)
        return new

    def _grow(self) -> None:
        keys = self._table[self._table != _EMPTY]
        self._clear(2 * len(self._table))
        self._insert(keys)
        self._count = len(keys)

    def _spill(self) -> None:
        keys = np.sort(self._table[self._table != _EMPTY])
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="uwaga-keys-")  # noqa: SIM115 (gone with the set)
        start = self._file.seek(0, 2)
        self._file.write(keys.tobytes())
        self._file.flush()
        self._runs.append(np.memmap(self._file, np.uint64, "r", start, (len(keys),)))
        self._clear(len(self._table))

    def _on_disk(self, keys: Keys) -> Mask:
        """(keys,) which of some sorted keys lie in a run."""
        found = np.zeros(len(keys), np.bool_)
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, keys), len(run) - 1)
            found |= run[places] == keys
        return found


class DuplicateSettings(StrictModel):
    """What makes two pairs the same; the first of them stays."""

    by: Literal["pair", "source", "target"] = Field("pair", description="the side, or both, that is compared")
    normalise: bool = Field(False, description="without regard to case, punctuation and compatibility forms")
    memory: PositiveInt = Field(
        11_000_000,
        description="different pairs whose keys lie in memory, 12 to 24 bytes each; more go to disk",
    )


@register("duplicates", "an equal pair came before", DuplicateSettings)
class Duplicates(OrderedRule[DuplicateSettings]):
    """Keeps 64-bit keys, not texts.

    Of ``n`` different pairs any two share a key with a probability of about ``n²/2⁶⁵``: 3 in a million for 10
    million pairs; one pair would then be lost.
    """

    def prepare(self) -> None:
        """Begin anew."""
        self._seen = KeySet(self.settings.memory)

    def keys(self, pairs: PairBlock) -> Keys:
        source, target = pairs.source, pairs.target
        if self.settings.normalise:
            source, target = source.folded, target.folded
        if self.settings.by == "source":
            return mixed(source.keys)
        if self.settings.by == "target":
            return mixed(target.keys)
        return mixed(mixed(source.keys) + target.keys)

    def rejects_keys(self, keys: Keys) -> Mask:
        return ~self._seen.add(keys)
