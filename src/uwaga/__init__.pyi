__version__: str
__all__ = [
    "AsyncTranslator",
    "AttendedText",
    "Attentions",
    "Continuation",
    "Encoding",
    "Filling",
    "Hypothesis",
    "MaskFiller",
    "Model",
    "Request",
    "Score",
    "TextGenerator",
    "Translation",
    "Translator",
    "UwagaError",
    "WordAlignment",
    "__version__",
    "load",
    "pipeline",
]

from uwaga.errors import UwagaError
from uwaga.generation import Continuation, Encoding, Filling, MaskFiller, TextGenerator
from uwaga.loading import load
from uwaga.results.attention import Attentions
from uwaga.results.translation import Hypothesis, Translation, WordAlignment
from uwaga.translator import AttendedText, Model, Request, Score, Translator
from uwaga.translator.asynchronous import AsyncTranslator
from uwaga_compat.pipelines import pipeline
