"""uwaga: sequence-to-sequence translation with attention."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from uwaga.errors import UwagaError
from uwaga.results.attention import Attentions
from uwaga.results.translation import Hypothesis, Translation, WordAlignment

if TYPE_CHECKING:
    from uwaga.compat.pipelines import pipeline
    from uwaga.generation import Continuation, Encoding, Filling, MaskFiller, TextGenerator
    from uwaga.loading import load
    from uwaga.translator import AttendedText, Model, Request, Score, Translator
    from uwaga.translator.asynchronous import AsyncTranslator

__version__ = "0.1.0"
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
LAZY_NAMES = {
    "uwaga.translator": ("AttendedText", "Model", "Request", "Score", "Translator"),
    "uwaga.translator.asynchronous": ("AsyncTranslator",),
    "uwaga.generation": ("Continuation", "Encoding", "Filling", "MaskFiller", "TextGenerator"),
    "uwaga.loading": ("load",),
    "uwaga.compat.pipelines": ("pipeline",),
}
"""Names that are imported when they are used, so that ``import uwaga`` costs nothing."""


def __getattr__(name: str) -> object:
    module = next((module for module, names in LAZY_NAMES.items() if name in names), None)
    if module is None:
        raise AttributeError(f"module 'uwaga' has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return __all__
