"""Every attention matrix of hypotheses."""

from __future__ import annotations

from collections.abc import Sequence

from uwaga.translator.attention import with_attentions
from uwaga.translator.plan import Stage
from uwaga.translator.text import Sentence, set_hypotheses


def add_attentions(stage: Stage, sentences: Sequence[Sentence]) -> None:
    """Set the ``attention`` and ``attentions`` of the hypotheses of sentences."""
    sources = [sentence.ids for sentence in sentences]
    lists = [sentence.hypotheses for sentence in sentences]
    set_hypotheses(sentences, with_attentions(stage.search_decoder, sources, lists, stage.options.start))
