"""Sentences to compare a model with its rounded copy on where a user gives none.

``sentences.txt`` holds plain ones, written for this, in languages of ten scripts. Random pieces would tell
little: of nonsense a model is never sure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.conversion.compare import DRAWN, LONGEST, SHORTEST, comparison_sources
from uwaga.engine import NativeModel
from uwaga.languages.codes import base_language
from uwaga.search import SearchOptions, search
from uwaga.settings import DecoderOnlySettings
from uwaga.tokenizers.subwords import Subwords

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
