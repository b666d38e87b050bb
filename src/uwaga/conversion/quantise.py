"""Conversion to int8 or int4, and its agreement with the float32 model.

The two models are compared on sentences of the user, or on those in ``sentences.txt``, written for uwaga in
languages of ten scripts. Random pieces are a last resort: no model is confident about nonsense.
"""

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
from uwaga.checkpoints.score_stats import ScoreStats, measured_stats
from uwaga.checkpoints.to_engine import pack_weights, to_engine
from uwaga.engine import NativeModel
from uwaga.engine.packing import Precision
from uwaga.errors import ModelError
from uwaga.languages.codes import base_language
from uwaga.search import SearchOptions, search
from uwaga.settings import DecoderOnlySettings
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.score import in_batches, step_scorer

DRAWN, SHORTEST, LONGEST = 32, 6, 20
"""Number of sources drawn from the vocabulary where there are no sentences, and their tokens."""
BATCH_TOKENS = 2048
CONTINUED = 32
"""Tokens generated after each prompt of a decoder-only model."""


@dataclass(frozen=True)
class Agreement:
    """The agreement of float32 and int8 or int4 on a sample, with greedy search.

    ``same`` is the share of sentences with equal results; ``tokens`` the share of tokens that agree from the
    start of their sentence; ``difference`` the mean absolute difference of the log-probabilities of the
    tokens of the float32 result; ``largest`` the largest such mean of a sentence; ``continued`` whether the
    model is decoder-only and continues the sample; ``measured_on`` describes the sample.
    """

    sentences: int
    same: float
    tokens: float
    difference: float
    largest: float
    continued: bool = False
    measured_on: str = "sentences"

    def to_dict(self) -> dict[str, object]:
        """Return the agreement as JSON values."""
        return asdict(self)


def measure_agreement(
    exact: NativeModel, rounded: NativeModel, sources: Sequence[Sequence[int]]
) -> Agreement:
    """Measure the agreement of two engines of one model on ``sources``, token ids with end symbols.

    A decoder-only model continues them as prompts.
    """
    options = SearchOptions(beam=1, max_length=None if exact.max_target else 256, batch_tokens=BATCH_TOKENS)
    continues = isinstance(exact.settings, DecoderOnlySettings)
    if continues and exact.max_source is not None:
        room = exact.max_source - max(map(len, sources)) + 1  # the last generated token needs no position
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
        largest=max(float(np.abs(one).mean()) for one in differences),
        continued=continues,
    )


def _prefix(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the common prefix."""
    alike = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        alike += 1
    return alike


def comparison_sources(
    sample: Sequence[str] | None, tokeniser: Subwords, model: NativeModel
) -> list[tuple[int, ...]]:
    """Return token ids to compare two engines on: a sample's sentences, or random pieces.

    Raises:
        ModelError: all sentences of the sample are empty or too long.
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
            raise ModelError(
                "all sentences of the sample are empty or too long for the model; give another sample"
            )
        return usable
    symbols = tokeniser.symbols
    special = {symbols.start, symbols.end, symbols.pad, symbols.unknown}
    pieces = np.array([token for token in range(size) if token not in special])
    rng = np.random.default_rng(0)
    lengths = rng.integers(min(SHORTEST, limit - 1), min(LONGEST, limit - 1) + 1, DRAWN)
    return [tuple(tokeniser.add_special_tokens(rng.choice(pieces, length).tolist())) for length in lengths]


HEADING = re.compile(r"\[(\w+)\]")
FEWEST = 5
"""Fewest usable sentences for a comparison."""
DRAWN_PIECES = "sources drawn from the vocabulary (no --sample)"
MOST_LANGUAGES = 3
"""Most languages to compare a multilingual model on."""
FEWEST_LETTERS = 2.0
"""Mean letters per piece from which on a tokeniser counts as made for a language or a related one."""


@cache
def shipped() -> dict[str, tuple[str, ...]]:
    """Return the sentences of ``sentences.txt`` by two-letter language code."""
    found: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / "sentences.txt").read_text(encoding="utf-8").splitlines():
        heading = HEADING.fullmatch(line)
        if heading:
            current = found.setdefault(heading[1], [])
        else:
            current.append(line)
    return {code: tuple(lines) for code, lines in found.items()}


def shipped_codes(codes: Iterable[str]) -> list[str]:
    """Return the two-letter forms of codes such as ``eng_Latn`` for which there are sentences."""
    return [base for base in dict.fromkeys(map(base_language, codes)) if base in shipped()]


def own_sources(checkpoint: Checkpoint, model: NativeModel) -> tuple[list[tuple[int, ...]], str]:
    """Return token ids to compare two engines on, and a description of them.

    They are sentences of the model's source language; if there are none, of the language that its tokeniser
    splits into the longest pieces; if its pieces are short in all of them, samples of the model itself.

    Args:
        checkpoint: the model's.
        model: its engine in float32.
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
        return usable, f"sentences that come with uwaga in {', '.join(codes)} (no --sample)"
    return _sampled(checkpoint, model)


def nearest_language(tokeniser: Subwords) -> str | None:
    """Return the language that a tokeniser splits into the longest pieces, None if all are short."""
    letters = {code: _letters_per_piece(tokeniser, lines) for code, lines in shipped().items()}
    best = max(letters, key=letters.__getitem__)
    return best if letters[best] >= FEWEST_LETTERS else None


def _letters_per_piece(tokeniser: Subwords, lines: Sequence[str]) -> float:
    ids = [token for line in lines for token in tokeniser.encode(line)]
    if not ids or tokeniser.symbols.unknown in ids:
        return 0.0
    return sum(map(len, lines)) / len(ids)


def _usable(tokeniser: Subwords, model: NativeModel, lines: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the sentences that are not too long for the model and need no unknown token."""
    limit = model.max_source or 512
    rows = [tokeniser.encode(line) for line in lines]
    framed = [
        tuple(tokeniser.add_special_tokens(row)) for row in rows if tokeniser.symbols.unknown not in row
    ]
    return [one for one in framed if 0 < len(one) <= limit]


def _sampled(checkpoint: Checkpoint, model: NativeModel) -> tuple[list[tuple[int, ...]], str]:
    """Sample texts from the model: a decoder-only one from the start symbol, others from random pieces."""
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
    return (found, "texts sampled from the model (no --sample)") if found else (drawn, DRAWN_PIECES)


def quantise(
    folder: Path,
    out: Path,
    keep: Sequence[str] = (),
    sample: Sequence[str] | None = None,
    precision: Precision = "int8",
) -> Agreement:
    """Write the model of ``folder`` as the int8 or int4 folder ``out`` and compare the two.

    Args:
        folder: a Transformer, a decoder-only or a recurrent model, of any format but int8 and int4.
        out: the folder to make.
        keep: patterns of the names of matrices that stay in bfloat16, or in int8 in an int4 model, such as
            ``output`` or ``decoder.5.*``.
        sample: sentences to compare on, and, from a hundred on, to measure the score statistics on; None for
            the sentences that come with uwaga, which leaves the model's statistics as they are.
        precision: int8 or int4.

    Raises:
        ModelError: the model cannot be read, is of another family or quantised already, or ``out`` cannot be
            written.
        SettingsError: a pattern in ``keep`` matches no matrix.
    """
    checkpoint = read(folder)
    packed = pack_weights(checkpoint, precision, tuple(keep))
    exact = to_engine(checkpoint, "float32", threads=1)
    rounded = to_engine(checkpoint, precision, threads=1, packed=packed)
    if sample is None:
        sources, what = own_sources(checkpoint, exact)
    else:
        sources, what = comparison_sources(sample, checkpoint.source, exact), "sentences"
    card = checkpoint.card.text or f"# {folder.name}\n"
    card += f"\nWeights quantised to {precision} by `uwaga convert --{precision}`.\n"
    score_stats = (
        checkpoint.score_stats if sample is None else measure_score_stats(checkpoint, rounded, sources)
    )
    write_quantised(out, replace(checkpoint, score_stats=score_stats), packed, card)
    return replace(measure_agreement(exact, rounded, sources), measured_on=what)


def measure_score_stats(
    checkpoint: Checkpoint, model: NativeModel, sources: Sequence[Sequence[int]]
) -> ScoreStats | None:
    """Measure the score statistics of a model's own translations of a sample.

    Args:
        checkpoint: the model; holds the search options, and the statistics that are kept if the sample is
            small.
        model: the engine to measure.
        sources: token ids with end symbols.
    """
    if checkpoint.task != "translate":
        return None
    options = checkpoint.decoding.changed({"sample": False, "nbest": 1})
    found = [best for [best, *_] in search(model, sources, options)]
    return measured_stats(found) or checkpoint.score_stats
