"""Decoder states of translation-memory pairs, which are the keys of k-nearest-neighbour search (M44).

The states of a pair are computed once, by forced decoding. They are cached in memory, up to
:data:`MAX_BYTES`, and by translation memories that can store them.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Datastore, Decoder, Ids
from uwaga.errors import DataError
from uwaga.results.attention import Floats
from uwaga.search import SearchOptions
from uwaga.translator.memories import StateStore

if TYPE_CHECKING:
    from uwaga.translator.text import TokenPair

MAX_BYTES = 100 << 20
"""Maximum size, in bytes, of the states that are cached in memory for a model."""
RADIUS_SHARE = 0.7
"""The radius of datastores, relative to the variance of the model's features.

The likelihood of each pair given the other pairs is highest with 0.3 to 0.7 for the bundled model, and with
0.7 to 1 for Firefox's English-Portuguese model (``benchmarks/memory_radius.py``).
"""
TEMPERATURE_SHARE = 0.1
"""The temperature of datastores, relative to the radius."""
SAMPLED_PAIRS = 100
"""Number of pairs from which the variance is estimated."""
PROBE_TOKENS = 12
"""Number of tokens of the fixed sentence whose features identify a model."""


class PairReader(Protocol):
    """A model that tokenises and reads sentence pairs, such as :class:`uwaga.translator.model.Model`."""

    @property
    def decoder(self) -> Decoder:
        """The decoder of the model."""

    @property
    def decoding(self) -> SearchOptions:
        """The model's default search options."""

    def pair_ids(self, pairs: Iterable[tuple[str, str]]) -> list[TokenPair]:
        """Return the tokens of both sides of each pair."""


class PairStates(NamedTuple):
    """The float16 features (target, width) that predict each target token of a pair, and these tokens."""

    keys: NDArray[np.float16]
    tokens: Ids

    def to_bytes(self) -> bytes:
        """Return the bytes of the tokens (int32), followed by the bytes of the keys."""
        return self.tokens.astype("<i4").tobytes() + self.keys.astype("<f2").tobytes()

    @classmethod
    def from_bytes(cls, content: bytes, token_count: int) -> PairStates:
        """Return the states from the bytes returned by :meth:`to_bytes`, given the number of tokens."""
        keys = np.frombuffer(content, dtype="<f2", offset=4 * token_count).reshape(token_count, -1)
        return cls(keys, np.frombuffer(content, dtype="<i4", count=token_count).astype(np.int64))


class StateCache:
    """A thread-safe cache of the states of the pairs read most recently, up to :data:`MAX_BYTES`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._states: OrderedDict[TokenPair, PairStates] = OrderedDict()
        self._bytes = 0
        self._fingerprint = ""
        self._radii: dict[StateStore, float] = {}

    def states(
        self, model: PairReader, pairs: Sequence[TokenPair], store: StateStore
    ) -> dict[TokenPair, PairStates]:
        """Return the states of pairs; states that are neither cached nor stored are computed and stored."""
        known_states = {pair: states for pair in pairs if (states := self._get(pair)) is not None}
        missing_pairs = [pair for pair in dict.fromkeys(pairs) if pair not in known_states]
        if missing_pairs:
            name = self.fingerprint(model.decoder)
            stored_values = store.load(name, map(_key, missing_pairs))
            known_states |= {
                pair: PairStates.from_bytes(content, len(pair.target))
                for pair in missing_pairs
                if (content := stored_values.get(_key(pair))) is not None
            }
            new_pairs = [pair for pair in missing_pairs if pair not in known_states]
            known_states |= compute_states(model, new_pairs)
            store.save(name, {_key(pair): known_states[pair].to_bytes() for pair in new_pairs})
            self._add({pair: known_states[pair] for pair in missing_pairs})
        return known_states

    def radius(self, model: PairReader, store: StateStore) -> float:
        """Return the radius of datastores, computed from the variance of features in a sample of pairs."""
        with self._lock:
            radius = self._radii.get(store)
        if radius is None:
            name = self.fingerprint(model.decoder)
            stored_radius = store.load(name, [b"radius"]).get(b"radius")
            if stored_radius is None:
                pairs = readable_pairs(model, store.sample(SAMPLED_PAIRS))
                features = np.concatenate([states.keys for states in compute_states(model, pairs).values()])
                radius = RADIUS_SHARE * float(features.astype(np.float64).var(axis=0).sum())
                store.save(name, {b"radius": np.float64(radius).tobytes()})
            else:
                radius = float(np.frombuffer(stored_radius, dtype=np.float64)[0])
            with self._lock:
                self._radii[store] = radius
        return radius

    def fingerprint(self, decoder: Decoder) -> str:
        """Return a hash of the features of a fixed sentence.

        The hash identifies the model, its precision and the processor.
        """
        if not self._fingerprint:
            size = decoder.vocabulary
            tokens = [size * (2 * index + 1) // (2 * PROBE_TOKENS) for index in range(PROBE_TOKENS)]
            source_size = getattr(decoder, "source_vocabulary", 0) or size
            source = [token * source_size // size for token in tokens]
            [features] = _forced_features(decoder, [source], [tokens], decoder.symbols.start)
            self._fingerprint = hashlib.sha256(features.tobytes()).hexdigest()
        return self._fingerprint

    def _get(self, pair: TokenPair) -> PairStates | None:
        with self._lock:
            states = self._states.get(pair)
            if states is not None:
                self._states.move_to_end(pair)
            return states

    def _add(self, states: Mapping[TokenPair, PairStates]) -> None:
        with self._lock:
            for pair, pair_states in states.items():
                if pair not in self._states:
                    self._states[pair] = pair_states
                    self._bytes += pair_states.keys.nbytes
            while self._bytes > MAX_BYTES:
                _, oldest_states = self._states.popitem(last=False)
                self._bytes -= oldest_states.keys.nbytes


def compute_states(model: PairReader, pairs: Sequence[TokenPair]) -> dict[TokenPair, PairStates]:
    """Return the states of pairs, computed by forced decoding."""
    if not pairs:
        return {}
    start = model.decoder.symbols.start if model.decoding.start is None else model.decoding.start
    sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
    features = iter(_forced_features(model.decoder, sources, targets, start))
    return {
        pair: PairStates(_as_float16(next(features)), np.array(pair.target, dtype=np.int64)) for pair in pairs
    }


def _forced_features(
    decoder: Decoder, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]], start: int
) -> list[Floats]:
    from uwaga.search.retrieval import forced_features  # not before it is needed

    return forced_features(decoder, sources, targets, start)


def build_datastore(states: Sequence[PairStates], radius: float) -> Datastore:
    """Return a datastore of the states of pairs that are similar to a text."""
    return Datastore(
        np.concatenate([pair_states.keys for pair_states in states]),
        np.concatenate([pair_states.tokens for pair_states in states]),
        radius,
        TEMPERATURE_SHARE * radius,
    )


def _as_float16(features: Floats) -> NDArray[np.float16]:
    with np.errstate(over="ignore"):  # infinite: no other state is near
        return features.astype(np.float16)


def readable_pairs(model: PairReader, pairs: Iterable[tuple[str, str]]) -> list[TokenPair]:
    """Return the tokens of the pairs that are not too long for a model."""
    readable: list[TokenPair] = []
    for pair in pairs:
        try:
            readable += model.pair_ids([pair])
        except DataError:
            continue
    return readable


def _key(pair: TokenPair) -> bytes:
    content = f"{list(pair.source)}{list(pair.target)}"
    return hashlib.blake2b(content.encode(), digest_size=16).digest()
