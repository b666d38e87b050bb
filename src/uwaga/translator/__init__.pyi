__all__ = [
    "AttendedText",
    "Continuation",
    "Encoding",
    "Filling",
    "MaskFiller",
    "Model",
    "Request",
    "Score",
    "TextGenerator",
    "Translator",
    "load",
]

from uwaga.translator.attention import AttendedText
from uwaga.translator.fill import Encoding, Filling, MaskFiller
from uwaga.translator.generate import Continuation, TextGenerator
from uwaga.translator.load_translator import load
from uwaga.translator.model import Model
from uwaga.translator.request import Request
from uwaga.translator.score import Score
from uwaga.translator.translator import Translator
