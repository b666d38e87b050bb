__all__ = ["NativeModel", "Packed", "Precision", "Shortlist", "pack", "trim_heap"]

from uwaga.engine.model import NativeModel, trim_heap
from uwaga.engine.packing import Packed, Precision, pack
from uwaga.engine.shortlist import Shortlist
