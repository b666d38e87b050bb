__all__ = ["AttendedText", "Model", "Request", "Score", "Translator"]

from uwaga.translator.attention import AttendedText
from uwaga.translator.model import Model
from uwaga.translator.request import Request
from uwaga.translator.score import Score
from uwaga.translator.translator import Translator
