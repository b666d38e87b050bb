"""Looking inside: where a model looks, layer by layer, and how its quality depends on the source's length."""

from uwaga.inspection.alignment import Alignment, align
from uwaga.inspection.alignment_figure import draw_alignments
from uwaga.inspection.contributions import METHODS, contributions
from uwaga.inspection.importance import HeadImportance, draw_importance, measure_heads
from uwaga.inspection.length_figure import draw_lengths
from uwaga.inspection.lengths import Bucket, Cell, LengthTable, by_length, read_length_table
from uwaga.inspection.matrices import KINDS, Selection, matrices
from uwaga.inspection.multiples import draw_matrices
from uwaga.inspection.pictures import check_drawing, save_figure
from uwaga.inspection.systems import align_systems, translate_systems
from uwaga.inspection.terminal import heat_map, heat_maps

__all__ = [
    "KINDS",
    "METHODS",
    "Alignment",
    "Bucket",
    "Cell",
    "HeadImportance",
    "LengthTable",
    "Selection",
    "align",
    "align_systems",
    "by_length",
    "check_drawing",
    "contributions",
    "draw_alignments",
    "draw_importance",
    "draw_lengths",
    "draw_matrices",
    "heat_map",
    "heat_maps",
    "matrices",
    "measure_heads",
    "read_length_table",
    "save_figure",
    "translate_systems",
]
