"""Conversion to int8, and its agreement with the float32 model."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.checkpoints.formats.uwaga.int8 import write_quantised
from uwaga.checkpoints.registry import read
from uwaga.checkpoints.score_stats import UsualScore, usual_score
from uwaga.checkpoints.to_engine import pack_weights, to_engine
from uwaga.engine import NativeModel
from uwaga.errors import ModelError
from uwaga.languages.codes import base_language
from uwaga.search import SearchOptions, search
from uwaga.settings import DecoderOnlySettings
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.scoring import in_batches, step_scorer

DRAWN, SHORTEST, LONGEST = 32, 6, 20
"""Sources drawn from the vocabulary where no text is given, and their tokens."""
BATCH_TOKENS = 2048
CONTINUED = 32
"""Tokens made behind each prompt of a decoder-only model."""


@dataclass(frozen=True)
class Agreement:
    """How like each other float32 and int8 translate or continue a sample, greedily.

    ``same``: of the sentences, the share that come out alike; ``tokens``: of all tokens, the share that
    agrees from the start of its sentence on; ``difference``: by how much the log-probability of a token of
    the float32 result differs on average; ``largest``: the largest difference of a sentence's mean;
    ``continued``: whether the model is decoder-only and continues; ``measured_on``: what the sample is.
    """

    sentences: int
    same: float
    tokens: float
    difference: float
    largest: float
    continued: bool = False
    measured_on: str = "sentences"

    def to_dict(self) -> dict[str, object]:
        """The agreement for JSON."""
        return asdict(self)


def measure_agreement(
    exact: NativeModel, rounded: NativeModel, sources: Sequence[Sequence[int]]
) -> Agreement:
    """How alike two engines of one model translate ``sources``, token ids with their end symbols.

    A decoder-only model continues them as prompts.
    """
    options = SearchOptions(beam=1, max_length=None if exact.max_target else 256, batch_tokens=BATCH_TOKENS)
    continues = isinstance(exact.settings, DecoderOnlySettings)
    if continues and exact.max_source is not None:
        room = exact.max_source - max(map(len, sources)) + 1  # the last token made needs no position
        options = options.changed({"max_length": min(CONTINUED, room), "max_ratio": math.inf})
    found = [[one for [one] in search(model, sources, options)] for model in (exact, rounded)]
    pairs = [(one.tokens, other.tokens) for one, other in zip(*found, strict=True)]
    agreeing = sum(_prefix(one, other) for one, other in pairs)
    targets = [one.tokens if one.truncated else (*one.tokens, exact.symbols.end) for one in found[0]]
    scores = [in_batches(step_scorer(model), sources, targets, BATCH_TOKENS) for model in (exact, rounded)]
    differences = [
        np.asarray(one) - np.asarray(other) for one, other in zip(scores[0], scores[1], strict=True)
    ]
    every = np.concatenate(differences)
    return Agreement(
        sentences=len(pairs),
        same=sum(one == other for one, other in pairs) / len(pairs),
        tokens=agreeing / max(1, sum(max(len(one), len(other)) for one, other in pairs)),
        difference=float(np.abs(every).mean()),
        largest=max(math.fabs(float(one.mean())) for one in differences),
        continued=continues,
    )


def _prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Tokens that both begin with."""
    alike = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        alike += 1
    return alike


def comparison_sources(
    sample: Sequence[str] | None, tokeniser: Subwords, model: NativeModel
) -> list[tuple[int, ...]]:
    """Token ids to compare two engines on: of a sample's sentences, or drawn from the vocabulary.

    Raises:
        ModelError: the sample holds no sentence that the model can take.
    """
    limit = model.max_source or 512
    size = model.source_vocabulary
    if sample is not None:
        framed = [
            tuple(tokeniser.add_special_tokens(tokeniser.encode(line.strip())))
            for line in sample
            if line.strip()
        ]
        usable = [source for source in framed if 0 < len(source) <= limit]
        if not usable:
            raise ModelError("the sample holds no sentence that the model can take; give another")
        return usable
    symbols = tokeniser.symbols
    special = {symbols.start, symbols.end, symbols.pad, symbols.unknown}
    pieces = np.array([token for token in range(size) if token not in special])
    rng = np.random.default_rng(0)
    lengths = rng.integers(min(SHORTEST, limit - 1), min(LONGEST, limit - 1) + 1, DRAWN)
    return [tuple(tokeniser.add_special_tokens(rng.choice(pieces, length).tolist())) for length in lengths]


HEADING = re.compile(r"\[(\w+)\]")
FEWEST = 5
"""Sentences that the model can take below which they say too little."""
DRAWN_PIECES = "sources drawn from the vocabulary (no --sample)"
MOST_LANGUAGES = 3
"""Of a model of many languages."""
FEWEST_LETTERS = 2.0
"""Letters a piece from which on a tokeniser is thought to have been made for a language, or one near it."""


@cache
def shipped() -> dict[str, tuple[str, ...]]:
    """The sentences by the two-letter code of their language."""
    found: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / "sentences.txt").read_text(encoding="utf-8").splitlines():
        heading = HEADING.fullmatch(line)
        if heading:
            current = found.setdefault(heading[1], [])
        else:
            current.append(line)
    return {code: tuple(lines) for code, lines in found.items()}


def shipped_codes(codes: Iterable[str]) -> list[str]:
    """Of these codes (``en``, ``en_XX``, ``eng_Latn``) the two-letter ones of which there are sentences."""
    return [base for base in dict.fromkeys(map(base_language, codes)) if base in shipped()]


def own_sources(checkpoint: Checkpoint, model: NativeModel) -> tuple[list[tuple[int, ...]], str]:
    """Token ids to compare two engines on, and what they are, in words.

    Sentences of the model's source language; where there are none of it, of the language that its tokeniser
    cuts into the longest pieces; where it was made for none of those, samples of the model itself.

    Args:
        checkpoint: of the model.
        model: in float32.
    """
    source, _ = checkpoint.languages.pairs
    codes = shipped_codes(source)[:MOST_LANGUAGES]
    tokeniser = checkpoint.source
    if codes and checkpoint.languages.needs():
        ours = {base: code for code in reversed(source) for base in shipped_codes([code])}
        way = ours[codes[0]]
        tokeniser, codes = checkpoint.languages.direction(way, way).source, codes[:1]
    if not codes:
        nearest = nearest_language(tokeniser)
        codes = [nearest] if nearest else []
    usable = _usable(tokeniser, model, [line for code in codes for line in shipped()[code]])
    if len(usable) >= FEWEST:
        return usable, f"sentences of uwaga's own in {', '.join(codes)} (no --sample)"
    return _sampled(checkpoint, model)


def nearest_language(tokeniser: Subwords) -> str | None:
    """The language whose sentences a tokeniser cuts into the longest pieces, None where all are short."""
    letters = {code: _letters_a_piece(tokeniser, lines) for code, lines in shipped().items()}
    best = max(letters, key=letters.__getitem__)
    return best if letters[best] >= FEWEST_LETTERS else None


def _letters_a_piece(tokeniser: Subwords, lines: Sequence[str]) -> float:
    ids = [token for line in lines for token in tokeniser.encode(line)]
    if not ids or tokeniser.symbols.unknown in ids:
        return 0.0
    return sum(map(len, lines)) / len(ids)


def _usable(tokeniser: Subwords, model: NativeModel, lines: Sequence[str]) -> list[tuple[int, ...]]:
    """The sentences that the model can take and has a piece for every letter of."""
    limit = model.max_source or 512
    rows = [tokeniser.encode(line) for line in lines]
    framed = [
        tuple(tokeniser.add_special_tokens(row)) for row in rows if tokeniser.symbols.unknown not in row
    ]
    return [one for one in framed if 0 < len(one) <= limit]


def _sampled(checkpoint: Checkpoint, model: NativeModel) -> tuple[list[tuple[int, ...]], str]:
    """What the model writes: a decoder-only one from nothing, another as it translates drawn pieces."""
    tokeniser, symbols = checkpoint.source, checkpoint.symbols
    drawn = comparison_sources(None, tokeniser, model)
    longest = min(LONGEST, (model.max_source or 512) - 1)
    options = SearchOptions(
        beam=1, sample=True, min_length=min(SHORTEST, longest), max_length=longest, max_ratio=math.inf
    )
    if isinstance(model.settings, DecoderOnlySettings):
        many = options.changed({"nbest": DRAWN, "seed": 0})
        written = [one.tokens for one in search(model, [[symbols.start]], many)[0]]
    elif checkpoint.source.model_bytes == checkpoint.target.model_bytes:
        written = [one.tokens for [one] in search(model, drawn, options)]
    else:
        return drawn, DRAWN_PIECES
    found = [tuple(tokeniser.add_special_tokens(list(row[:longest]))) for row in written if row]
    found = [one for one in found if len(one) <= (model.max_source or 512)]
    return (found, "texts that the model drew itself (no --sample)") if found else (drawn, DRAWN_PIECES)


def quantise(
    folder: Path, out: Path, keep: Sequence[str] = (), sample: Sequence[str] | None = None
) -> Agreement:
    """Write the model of ``folder`` as the int8 folder ``out`` and compare the two.

    Args:
        folder: a Transformer or a decoder-only model, of any format but int8.
        out: the folder to make.
        keep: patterns of the names of matrices that stay bfloat16, as ``output`` or ``decoder.5.*``.
        sample: sentences to compare on, and to measure the usual score on where there are a hundred; None for
            those of :mod:`uwaga.conversion.quantise`, and the model's own figures are kept.

    Raises:
        ModelError: the model cannot be read, is of another family or in int8 already, or ``out`` cannot be
            written.
        SettingsError: a pattern in ``keep`` fits no matrix.
    """
    checkpoint = read(folder)
    packed = pack_weights(checkpoint, "int8", tuple(keep))
    exact = to_engine(checkpoint, "float32", threads=1)
    rounded = to_engine(checkpoint, "int8", threads=1, packed=packed)
    if sample is None:
        sources, what = own_sources(checkpoint, exact)
    else:
        sources, what = comparison_sources(sample, checkpoint.source, exact), "sentences"
    card = checkpoint.card.text or f"# {folder.name}\n"
    card += "\nWeights quantised to int8 by `uwaga convert --int8`.\n"
    usual = checkpoint.usual if sample is None else measure_usual(checkpoint, rounded, sources)
    write_quantised(out, replace(checkpoint, usual=usual), packed, card)
    return replace(measure_agreement(exact, rounded, sources), measured_on=what)


def measure_usual(
    checkpoint: Checkpoint, model: NativeModel, sources: Sequence[Sequence[int]]
) -> UsualScore | None:
    """What the scores of a model's own translations of a sample usually are.

    Args:
        checkpoint: the model as it is stored: says how to search, and the figures kept of a small sample.
        model: the engine to measure.
        sources: token ids with their end symbols.
    """
    if checkpoint.task != "translate":
        return None
    options = checkpoint.decoding.changed({"sample": False, "nbest": 1})
    found = [best for [best, *_] in search(model, sources, options)]
    return usual_score(found) or checkpoint.usual
