"""The alignment of hypotheses with their sources."""

from __future__ import annotations

from collections.abc import Sequence

from uwaga.translator.align import with_alignments
from uwaga.translator.plan import Stage
from uwaga.translator.text import Sentence, set_hypotheses


def add_alignments(stage: Stage, sentences: Sequence[Sentence]) -> None:
    """Set the ``alignment`` and ``link_maps`` of the hypotheses of sentences."""
    decoder, head = stage.search_decoder, stage.model.alignment_head
    sources = [sentence.ids for sentence in sentences]
    lists = [sentence.hypotheses for sentence in sentences]
    set_hypotheses(sentences, with_alignments(decoder, head, sources, lists, stage.options.start))
