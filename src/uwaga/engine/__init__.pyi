__all__ = ["NativeModel", "Packed", "Precision", "Shortlist", "pack", "trim_heap"]

from .model import NativeModel, trim_heap
from .packing import Packed, Precision, pack
from .shortlist import Shortlist
