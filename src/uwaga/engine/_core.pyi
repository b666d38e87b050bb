"""The compiled part of the engine; see native/."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from uwaga.decoder import Draft, PhraseTables

FinishedTuple = tuple[list[int], list[float], float, bool, tuple[int, int, int]]
DecidedTuple = tuple[int, int, float]

ISAS: tuple[str, ...]
COMMIT: str
COMPILER: str
BUILD_TYPE: str
FLAGS: str
COMPILED_ISAS: str
ABI: str

class TooLongError(ValueError): ...
class EditMismatchError(ValueError): ...
class NoSuchArrayError(ValueError): ...
class InsightTooLargeError(ValueError): ...
class NotNumbersError(ValueError): ...

def supported(isa: int) -> bool: ...
def best_isa() -> int: ...

class Rates:
    def __init__(self, isa: int, size: int, threads: int) -> None: ...
    def read(self, size: int, threads: int, seconds: float) -> float: ...
    def peak(self, numbers: int, seconds: float) -> float: ...
    def product(
        self, numbers: int, rows: int, inputs: int, outputs: int, seconds: float
    ) -> tuple[float, float]: ...
    def output(
        self, numbers: int, rows: int, inputs: int, outputs: int, seconds: float
    ) -> tuple[float, float]: ...
    def quantise(self, rows: int, width: int, seconds: float) -> tuple[float, float]: ...
    def norm(self, rows: int, width: int, seconds: float) -> tuple[float, float]: ...
    def attention(self, rows: int, width: int, length: int, seconds: float) -> tuple[float, float]: ...

class WeightArena:
    def __init__(self) -> None: ...

def pack_int8(
    weight: NDArray[np.float32], levels: int, arena: WeightArena | None = None
) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.int32]]: ...
def pack_int4(
    weight: NDArray[np.float32], arena: WeightArena | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.int32]]: ...
def pack_int8_numbers(
    numbers: NDArray[np.int8],
    scales: NDArray[np.float32],
    outputs: int,
    arena: WeightArena | None = None,
) -> tuple[NDArray[np.int8], NDArray[np.float32], NDArray[np.int32]]: ...
def trim_heap() -> None: ...
def lexical_checksum(words: NDArray[np.uint64]) -> int: ...
def sinusoids(order: int, width: int, first: int, count: int) -> NDArray[np.float32]: ...
def distances(weight: NDArray[np.float32], reach: int, both_ways: bool) -> NDArray[np.float32]: ...
def pack_bfloat16(weight: NDArray[np.float32], arena: WeightArena | None = None) -> NDArray[np.uint16]: ...
def pack_float(weight: NDArray[np.float32], arena: WeightArena | None = None) -> NDArray[np.float32]: ...

class Matrix:
    @staticmethod
    def int8(
        outputs: int,
        inputs: int,
        levels: int,
        panels: NDArray[np.int8],
        scales: NDArray[np.float32],
        sums: NDArray[np.int32],
    ) -> Matrix: ...
    @staticmethod
    def int4(
        outputs: int,
        inputs: int,
        panels: NDArray[np.uint8],
        scales: NDArray[np.float32],
        sums: NDArray[np.int32],
    ) -> Matrix: ...
    @staticmethod
    def bfloat16(outputs: int, inputs: int, panels: NDArray[np.uint16]) -> Matrix: ...
    @staticmethod
    def float32(outputs: int, inputs: int, panels: NDArray[np.float32]) -> Matrix: ...

class Memory:
    @property
    def sentences(self) -> int: ...
    @property
    def lengths(self) -> NDArray[np.int64]: ...
    @property
    def encoder(self) -> list[NDArray[np.float32] | None] | None: ...
    def used_by(self, model: Model) -> Memory: ...
    def start(self, beams: int) -> State: ...

class State:
    def reorder(self, rows: NDArray[np.int64]) -> State: ...
    def select(self, sentences: NDArray[np.int64]) -> State: ...
    @staticmethod
    def join(states: Sequence[State]) -> State: ...
    def step(
        self,
        tokens: NDArray[np.int64],
        count: int,
        whole: bool = False,
        attention: bool = False,
        renormalise: bool = False,
        banned: NDArray[np.int64] | None = None,
        forced: NDArray[np.int64] | None = None,
        uniform: NDArray[np.float64] | None = None,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        wanted: NDArray[np.int64] | None = None,
        fed: NDArray[np.int64] | None = None,
    ) -> tuple[NDArray[np.int64] | None, NDArray[np.float32], State, NDArray[np.float32] | None]: ...

class Shortlist: ...

class Model:
    def __init__(
        self,
        settings: Mapping[str, Any],
        matrices: Mapping[str, Matrix],
        vectors: Mapping[str, NDArray[np.float32]],
        isa: int,
    ) -> None: ...
    def edited(
        self,
        attention: Sequence[
            tuple[int, int, int, int, NDArray[np.float32] | None, NDArray[np.float32] | None, float | None]
        ],
        source_places: Sequence[int],
        target_places: Sequence[int],
    ) -> Model: ...
    @property
    def can_verify(self) -> bool: ...
    def shortlist(
        self,
        common: NDArray[np.int32],
        first: NDArray[np.int32],
        targets: NDArray[np.int32],
        own: bool = False,
        multiple: int = 1,
    ) -> Shortlist: ...
    def encode(self, sources: Sequence[Sequence[int]], shortlist: Shortlist | None = None) -> Memory: ...
    def encode_recorded(
        self, sources: Sequence[Sequence[int]], shortlist: Shortlist | None = None
    ) -> Memory: ...
    def insight(
        self, source: Sequence[int], target: Sequence[int], names: Sequence[str], bound: int
    ) -> dict[str, NDArray[np.float32]]: ...
    def attentions(
        self, memories: Sequence[Memory], sentences: Sequence[int], targets: Sequence[Sequence[int]]
    ) -> list[tuple[NDArray[np.float32] | None, NDArray[np.float32] | None]]: ...
    def cross_attention(
        self,
        memories: Sequence[Memory],
        sentences: Sequence[int],
        targets: Sequence[Sequence[int]],
        layer: int,
        head: int,
    ) -> list[NDArray[np.float32]]: ...

class Rules:
    def __init__(
        self,
        model: Model,
        beams: int,
        enough: int,
        nbest: int,
        start: int,
        ends: NDArray[np.int64],
        never: NDArray[np.int64],
        min_length: int,
        stopping: int,
        force_end: bool,
        score_forced: bool,
        renormalise: bool,
        divisors: NDArray[np.float64],
        inside: NDArray[np.uint8],
    ) -> None: ...

class BeamSearch:
    def __init__(self, rules: Rules) -> None: ...
    @property
    def running(self) -> NDArray[np.int64]: ...
    def enter(
        self,
        memory: Memory,
        limits: NDArray[np.int64],
        uncounted: NDArray[np.int64],
        forced: NDArray[np.int64],
        phrases: list[PhraseTables | None] = ...,
        streams: bool = False,
        drafts: list[Draft | None] = ...,
    ) -> None: ...
    def run(self, tokens: int) -> None: ...
    def found(self) -> list[list[FinishedTuple]]: ...
    def decided(self) -> list[DecidedTuple]: ...

class SentencePiece:
    def __init__(self, model: bytes) -> None: ...
    def __len__(self) -> int: ...
    @property
    def symbols(self) -> tuple[int, int, int, int]: ...
    def encode(self, text: str, prefix: bool = True) -> list[int]: ...
    def pieces(self, text: str) -> list[bytes]: ...
    def join(self, pieces: Sequence[str]) -> bytes: ...
    def decode(self, ids: Sequence[int]) -> bytes: ...

class Lane:
    def __init__(self, rules: Rules) -> None: ...

class Ticket: ...

class RunningBatch:
    def __init__(self, model: Model, shortlist: Shortlist | None = None) -> None: ...
    def ticket(self, lane: Lane, streams: bool = False) -> Ticket: ...
    def hand(
        self,
        ticket: Ticket,
        sources: Sequence[Sequence[int]],
        limits: NDArray[np.int64],
        uncounted: NDArray[np.int64],
        forced: NDArray[np.int64],
        phrases: list[PhraseTables | None] = ...,
        drafts: list[Draft | None] = ...,
    ) -> None: ...
    def take(
        self, ticket: Ticket, seconds: float
    ) -> tuple[list[tuple[int, list[FinishedTuple]]], list[DecidedTuple]]: ...
    def leave(self, ticket: Ticket) -> None: ...
    def serve(self) -> None: ...
    def close(self) -> None: ...
    @property
    def counters(self) -> tuple[int, int, int]: ...
