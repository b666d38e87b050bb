"""Inspection of models: attention matrices, head importance, attribution, and quality by source length."""

from uwaga.inspection.attribution import METHODS, contributions
from uwaga.inspection.figures import (
    check_drawing,
    draw_alignments,
    draw_lengths,
    draw_matrices,
    heat_map,
    heat_maps,
    save_figure,
)
from uwaga.inspection.insight import Insight, look_inside
from uwaga.inspection.interventions import HeadImportance, draw_importance, measure_heads
from uwaga.inspection.lengths import Bucket, Cell, LengthTable, by_length, read_length_table
from uwaga.inspection.lookups import Lookup, Lookups, RememberedPair, look_up
from uwaga.inspection.matrices import ATTENTION_KINDS, Alignment, Selection, align, matrices
from uwaga.inspection.systems import align_systems, translate_systems
from uwaga.inspection.trace import Trace, TracedTranslation, TraceParts, trace

__all__ = [
    "ATTENTION_KINDS", "METHODS", "Alignment", "Bucket", "Cell", "HeadImportance", "Insight", "LengthTable",
    "Lookup", "Lookups", "RememberedPair", "Selection", "Trace", "TraceParts", "TracedTranslation", "align",
    "align_systems", "by_length", "check_drawing", "contributions", "draw_alignments", "draw_importance",
    "draw_lengths", "draw_matrices", "heat_map", "heat_maps", "look_inside", "look_up", "matrices",
    "measure_heads", "read_length_table", "save_figure", "trace", "translate_systems",
]  # fmt: skip
