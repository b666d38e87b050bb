"""The rule against repeated pairs, and its set of 64-bit keys."""

from __future__ import annotations

import tempfile
from typing import IO, Literal

import numpy as np
from pydantic import Field, PositiveInt

from uwaga.settings.parsing import StrictModel
from uwaga_corpora.cleaning.pairs import Keys, Mask, PairBlock, mix
from uwaga_corpora.cleaning.rule import OrderedRule

_MIN_SLOTS = 1 << 12
_MAX_LOAD = 2 / 3
"""Maximum load of the table; lookups are slow above it."""
_EMPTY = np.uint64(0)


class KeySet:
    """A set of 64-bit keys: a hash table of at most ``memory`` keys, and sorted runs in a temporary file.

    The table uses open addressing. A slot has 8 bytes, and at most two thirds of the slots are used, so a key
    takes 12 to 24 bytes while the table grows. A run takes 8 bytes of disk per key, and the keys of each new
    block are searched for in all runs.
    """

    def __init__(self, memory: int = 11_000_000) -> None:
        self._max_keys = memory
        self._runs: list[Keys] = []
        self._file: IO[bytes] | None = None
        self._clear(_MIN_SLOTS)

    def add(self, keys: Keys) -> Mask:
        """Add keys in order.

        Args:
            keys: (pairs,) keys whose low bits are random, because these select the slot.

        Returns:
            The mask (pairs,) of new keys.
        """
        keys = np.maximum(keys, np.uint64(1))  # 0 marks an empty slot
        is_new = np.zeros(len(keys), np.bool_)
        _, firsts = np.unique(keys, return_index=True)  # the first of equal keys
        if self._count and self._count + len(firsts) > self._max_keys:
            self._spill()
        firsts = firsts[~self._is_on_disk(keys[firsts])]
        while self._count + len(firsts) > _MAX_LOAD * len(self._table):
            self._grow()
        is_inserted = self._insert(keys[firsts])
        is_new[firsts[is_inserted]] = True
        self._count += int(is_inserted.sum())
        return is_new

    def __len__(self) -> int:
        return self._count + sum(map(len, self._runs))

    def _clear(self, slots: int) -> None:
        self._table = np.zeros(slots, np.uint64)
        self._count = 0

    def _insert(self, keys: Keys) -> Mask:
        """Insert distinct keys into the table, and return the mask (keys,) of new keys."""
        mask = np.uint64(len(self._table) - 1)
        is_new = np.zeros(len(keys), np.bool_)
        remaining_indices = np.arange(len(keys))
        slots = (keys & mask).astype(np.int64)
        while len(remaining_indices):
            is_free = self._table[slots] == _EMPTY
            # Of several keys for a free slot, the last one written remains; the others continue probing.
            self._table[slots[is_free]] = keys[remaining_indices[is_free]]
            is_present = self._table[slots] == keys[remaining_indices]
            is_new[remaining_indices[is_free & is_present]] = True
            remaining_indices, slots = remaining_indices[~is_present], (slots[~is_present] + 1) & int(mask)
        return is_new

    def _grow(self) -> None:
        keys = self._table[self._table != _EMPTY]
        self._clear(2 * len(self._table))
        self._insert(keys)
        self._count = len(keys)

    def _spill(self) -> None:
        keys = np.sort(self._table[self._table != _EMPTY])
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="uwaga-keys-")  # noqa: SIM115 (closed with the set)
        start = self._file.seek(0, 2)
        self._file.write(keys.tobytes())
        self._file.flush()
        self._runs.append(np.memmap(self._file, np.uint64, "r", start, (len(keys),)))
        self._clear(len(self._table))

    def _is_on_disk(self, keys: Keys) -> Mask:
        """Return the mask (keys,) of the sorted keys that are in a run."""
        is_stored = np.zeros(len(keys), np.bool_)
        for run in self._runs:
            positions = np.minimum(np.searchsorted(run, keys), len(run) - 1)
            is_stored |= run[positions] == keys
        return is_stored


class DuplicateSettings(StrictModel):
    """Criteria for equal pairs, of which the first is kept."""

    by: Literal["pair", "source", "target"] = Field("pair", description="compare both sides, or one")
    normalise: bool = Field(False, description="ignore case, punctuation and compatibility forms")
    memory: PositiveInt = Field(
        11_000_000,
        description="maximum number of keys of pairs in memory, 12 to 24 bytes each; further keys go to disk",
    )


class Duplicates(OrderedRule[DuplicateSettings]):
    """A rule that rejects repeated pairs, which are recognised by 64-bit keys.

    Two of ``n`` distinct pairs have the same key with a probability of about ``n²/2⁶⁵``, 3 in a million for
    10 million pairs; in that case one of them is lost.
    """

    summary = "the pair occurred before"
    settings_type = DuplicateSettings

    def prepare(self) -> None:
        """Create an empty set of keys."""
        self._key_set = KeySet(self.settings.memory)

    def keys(self, pairs: PairBlock) -> Keys:
        source, target = pairs.source, pairs.target
        if self.settings.normalise:
            source, target = source.folded, target.folded
        if self.settings.by == "source":
            return mix(source.keys)
        if self.settings.by == "target":
            return mix(target.keys)
        return mix(mix(source.keys) + target.keys)

    def rejects_keys(self, keys: Keys) -> Mask:
        return ~self._key_set.add(keys)
