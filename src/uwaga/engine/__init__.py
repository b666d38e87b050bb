"""The native CPU engine: Transformers and recurrent models in C++, without torch."""

from uwaga.engine.model import NativeModel, trim_heap
from uwaga.engine.packing import Packed, Precision, pack
from uwaga.engine.shortlist import Shortlist

__all__ = ["NativeModel", "Packed", "Precision", "Shortlist", "pack", "trim_heap"]
