"""Looking inside: where a model looks, and how its quality depends on the length of the source."""

from uwaga.inspection.alignment import Alignment, align
from uwaga.inspection.alignment_figure import draw_alignments
from uwaga.inspection.length_figure import draw_lengths
from uwaga.inspection.lengths import Bucket, Cell, LengthTable, by_length
from uwaga.inspection.pictures import check_drawing, save_figure
from uwaga.inspection.systems import align_systems, translate_systems
from uwaga.inspection.terminal import heat_map, heat_maps

__all__ = [
    "Alignment",
    "Bucket",
    "Cell",
    "LengthTable",
    "align",
    "align_systems",
    "by_length",
    "check_drawing",
    "draw_alignments",
    "draw_lengths",
    "heat_map",
    "heat_maps",
    "save_figure",
    "translate_systems",
]
