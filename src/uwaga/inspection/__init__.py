"""Looking inside: where a model looks, and how its quality depends on the length of the source."""

from uwaga.inspection.alignment import Alignment, align
from uwaga.inspection.alignment_figure import draw_alignments
from uwaga.inspection.length_figure import draw_lengths
from uwaga.inspection.lengths import Bucket, Cell, LengthTable, by_length
from uwaga.inspection.pictures import save_figure
from uwaga.inspection.terminal import heat_map

__all__ = [
    "Alignment",
    "Bucket",
    "Cell",
    "LengthTable",
    "align",
    "by_length",
    "draw_alignments",
    "draw_lengths",
    "heat_map",
    "save_figure",
]
