"""Text in, translations out: the face of uwaga."""

from uwaga.translator.attended import AttendedText
from uwaga.translator.kinds import load
from uwaga.translator.mask_filler import Encoding, Filling, MaskFiller
from uwaga.translator.pivot import PivotTranslator
from uwaga.translator.scoring import Score
from uwaga.translator.text_generator import Continuation, TextGenerator
from uwaga.translator.translator import Translator

GapFiller = MaskFiller
"""The name that it had at first."""

__all__ = [
    "AttendedText",
    "Continuation",
    "Encoding",
    "Filling",
    "GapFiller",
    "MaskFiller",
    "PivotTranslator",
    "Score",
    "TextGenerator",
    "Translator",
    "load",
]
