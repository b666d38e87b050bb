"""The alignment of hypotheses with their sources."""

from __future__ import annotations

from collections.abc import Sequence

from uwaga.translator import align
from uwaga.translator.plan import Stage
from uwaga.translator.text import Sentence


def add_alignments(stage: Stage, sentences: Sequence[Sentence]) -> None:
    """Set the ``alignment`` and ``link_maps`` of the hypotheses of sentences."""
    align.add_alignments(stage.search_decoder, stage.model.alignment_head, sentences, stage.options.start)
