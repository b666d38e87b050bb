__all__ = ["NativeModel", "PackedWeights", "Precision", "Shortlist", "pack", "trim_heap"]

from uwaga.engine.layout import Precision
from uwaga.engine.model import NativeModel, trim_heap
from uwaga.engine.packing import PackedWeights, pack
from uwaga.engine.shortlist import Shortlist
