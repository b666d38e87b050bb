"""All attention matrices of hypotheses."""

from __future__ import annotations

from collections.abc import Sequence

from uwaga.translator import attention
from uwaga.translator.plan import Stage
from uwaga.translator.text import Sentence


def add_attentions(stage: Stage, sentences: Sequence[Sentence]) -> None:
    """Set the ``attention`` and ``attentions`` of the hypotheses of sentences."""
    attention.add_attentions(stage.search_decoder, sentences, stage.options.start)
