"""Segmentations drawn at random: of a unigram model (Kudo 2018, section 3) and of BPE (Provilkov 2020).

SentencePiece draws them too, but from a generator that newer releases salt anew in every process: a run that
is resumed would see other data. Here the draw depends on the text, the strength and the seed alone.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Callable
from itertools import pairwise
from random import Random

from uwaga.tokenizers.sentencepiece_file import BPE, PieceTable, PieceType

UNKNOWN_PENALTY = 10.0
"""How much less probable an unknown character is than any piece (``kUnkPenalty``), in nats."""
USER_PENALTY = 0.1
"""Of a user-defined piece, from as many times the best score as it has characters."""
MOST_WORDS = 1 << 16
"""Words whose lattices are kept."""
LONGEST_KEPT = 64
"""Characters of such a word."""
NONE = -math.inf

Lattice = list[tuple[list[float], list[int], list[tuple[int, ...]]]]
"""By the place where a piece ends, from 1: cumulative probabilities, where it starts, and its ids."""


class PieceSampler:
    """Draws the segmentations of normalised texts, in which U+2581 stands for a space.

    Args:
        table: the pieces.
        alpha: of a unigram model, the power of the probabilities (0 is uniform); of BPE, the probability that
            a merge is dropped.
    """

    def __init__(self, table: PieceTable, alpha: float) -> None:
        mark = "\u2581"
        self._alpha = alpha
        usual = {PieceType.normal, PieceType.user_defined}
        found = [
            (piece, number, score, kind)
            for number, (piece, score, kind) in enumerate(
                zip(table.pieces, table.scores, table.types, strict=True)
            )
            if kind in usual and piece
        ]
        self._scores = {piece: score for piece, _, score, _ in found}
        self._ids = {piece: number for piece, number, _, _ in found}
        self._unknown = table.types.index(PieceType.unknown)
        self._bytes = [
            number for number, kind in enumerate(table.types) if kind == PieceType.byte
        ]  # in the order of their values
        self._longest = max(map(len, self._ids), default=0)
        normal = [score for _, _, score, kind in found if kind == PieceType.normal] or [0.0]
        self._unknown_score = min(normal) - UNKNOWN_PENALTY
        own = sorted((piece for piece, *_, kind in found if kind == PieceType.user_defined), key=len)
        for piece in own:
            self._scores[piece] = len(piece) * max(normal) - USER_PENALTY
        self._frozen = frozenset(own)
        self._symbol = re.compile("|".join([*map(re.escape, reversed(own)), "."]), re.DOTALL)
        # No piece goes beyond a word, so words are drawn one by one.
        apart = all(mark not in piece[1:] for piece in self._ids)
        self._word = re.compile(f"{mark}?[^{mark}]+|{mark}" if apart else ".+", re.DOTALL)
        self._lattices: dict[str, Lattice] = {}
        self._draw: Callable[[str, Random], list[tuple[int, ...]]]
        self._draw = self._merged if table.kind == BPE else self._walked

    def draw(self, text: str, random: Random) -> list[int]:
        """The ids of one segmentation of a text.

        Where pieces are spelt in bytes, unknown characters are; else those side by side are one unknown.
        """
        ids: list[int] = []
        for word in self._word.findall(text):
            for piece in self._draw(word, random):
                if piece != (self._unknown,) or ids[-1:] != [self._unknown]:
                    ids.extend(piece)
        return ids

    def _spelt(self, character: str) -> tuple[int, ...]:
        """The ids of a character that is no piece."""
        if len(self._bytes) != 256:
            return (self._unknown,)
        return tuple(self._bytes[byte] for byte in character.encode("utf-8"))

    def _walked(self, word: str, random: Random) -> list[tuple[int, ...]]:
        """Back from the end of a word, each piece by its share of all segmentations up to there."""
        lattice = self._lattices.get(word)
        if lattice is None:
            lattice = self._lattice(word)
            if len(word) <= LONGEST_KEPT:
                if len(self._lattices) >= MOST_WORDS:
                    self._lattices.clear()
                self._lattices[word] = lattice
        pieces: list[tuple[int, ...]] = []
        end = len(word)
        while end:
            cumulative, starts, ids = lattice[end]
            which = min(bisect_right(cumulative, random.random()), len(starts) - 1) if len(starts) > 1 else 0
            pieces.append(ids[which])
            end = starts[which]
        return pieces[::-1]

    def _lattice(self, word: str) -> Lattice:
        """The forward sums of a word (Kudo 2018, section 3.3: forward filtering, backward sampling)."""
        sums = [0.0]
        made: Lattice = [([], [], [])]
        for end in range(1, len(word) + 1):
            gains, starts, ids = list[float](), list[int](), list[tuple[int, ...]]()
            for start in range(max(0, end - self._longest), end):
                piece = word[start:end]
                if piece in self._ids:
                    gains.append(sums[start] + self._alpha * self._scores[piece])
                    ids.append((self._ids[piece],))
                elif end - start == 1:
                    gains.append(sums[start] + self._alpha * self._unknown_score)
                    ids.append(self._spelt(piece))
                else:
                    continue
                starts.append(start)
            best = max(gains)
            shares = [math.exp(gain - best) for gain in gains]
            total = math.fsum(shares)
            sums.append(best + math.log(total))
            cumulative, reached = list[float](), 0.0
            for share in shares:
                reached += share / total
                cumulative.append(reached)
            made.append((cumulative, starts, ids))
        return made

    def _merged(self, word: str, random: Random) -> list[tuple[int, ...]]:
        """The best merge first, the leftmost of equals; each is dropped with the probability ``alpha``."""
        symbols: list[str] = self._symbol.findall(word)
        scores = [self._merge(one, other) for one, other in pairwise(symbols)]
        while scores and (best := max(scores)) > NONE:
            at = scores.index(best)
            if self._alpha and random.random() < self._alpha:
                scores[at] = NONE
                continue
            symbols[at : at + 2] = [symbols[at] + symbols[at + 1]]
            del scores[at]
            if at:
                scores[at - 1] = self._merge(symbols[at - 1], symbols[at])
            if at < len(scores):
                scores[at] = self._merge(symbols[at], symbols[at + 1])
        return [(self._ids[one],) if one in self._ids else self._spelt(one) for one in symbols]

    def _merge(self, one: str, other: str) -> float:
        """The score of two symbols' merge."""
        if self._frozen and (one in self._frozen or other in self._frozen):
            return NONE
        return self._scores.get(one + other, NONE)
