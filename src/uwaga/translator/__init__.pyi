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

from .attention import AttendedText
from .fill import Encoding, Filling, MaskFiller
from .generate import Continuation, TextGenerator
from .load_translator import load
from .model import Model
from .request import Request
from .score import Score
from .translator import Translator
