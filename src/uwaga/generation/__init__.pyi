__all__ = ["Continuation", "Encoding", "Filling", "MaskFiller", "TextGenerator"]

from uwaga.generation.filler import Encoding, Filling, MaskFiller
from uwaga.generation.generator import Continuation, TextGenerator
