"""The entropy of the model's distribution at each token of hypotheses (M22)."""

from __future__ import annotations

from collections.abc import Sequence

from uwaga.search.entropy import with_entropies
from uwaga.translator.layers.search import set_hypotheses
from uwaga.translator.plan import Stage
from uwaga.translator.text import Sentence


def add_entropies(stage: Stage, sentences: Sequence[Sentence]) -> None:
    """Set the ``entropies`` of the hypotheses of sentences."""
    lists = [sentence.hypotheses for sentence in sentences]
    set_hypotheses(sentences, with_entropies(stage.search_decoder, sentences, lists, stage.options))
