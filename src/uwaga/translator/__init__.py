"""Text in, translations out: the face of uwaga."""

from uwaga.translator.filler import Encoding, Filling, GapFiller
from uwaga.translator.generator import Continuation, TextGenerator
from uwaga.translator.kinds import load
from uwaga.translator.scoring import Score
from uwaga.translator.translator import Translator

__all__ = [
    "Continuation",
    "Encoding",
    "Filling",
    "GapFiller",
    "Score",
    "TextGenerator",
    "Translator",
    "load",
]
