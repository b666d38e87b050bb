"""N-best lists as other programs read them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uwaga.results.translation import Translation


class NbestChoice(StrEnum):
    """How the translations of a line are written."""

    tabs = "tabs"
    moses = "moses"


def moses_lines(translation: Translation, index: int) -> str:
    """A line for each translation, best first, as Moses and its rerankers have it.

    ``index ||| text ||| features ||| score``: the index counts input lines from 0; the features are
    ``log_prob``, the natural log-probability, and ``tokens``, how many; the score is that of the search. Bars
    in a text, which would end its field, become a single one.

    Args:
        translation: with its alternatives.
        index: of its line, from 0.
    """
    lines = []
    for way in (translation, *translation.alternatives):
        text = " ".join(way.text.split()).replace("|||", "|")
        features = f"log_prob= {way.log_prob:.6f} tokens= {len(way.tokens)}"
        lines.append(f"{index} ||| {text} ||| {features} ||| {way.score:.6f}\n")
    return "".join(lines)
