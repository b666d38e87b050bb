"""uwaga: sequence-to-sequence translation with attention."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uwaga.errors import UwagaError
from uwaga.results.attention import Attentions
from uwaga.results.translation import Hypothesis, Translation, WordAlignment

if TYPE_CHECKING:
    from uwaga.compat.pipelines import pipeline
    from uwaga.translator import (
        AttendedText,
        Continuation,
        Encoding,
        Filling,
        MaskFiller,
        Model,
        Request,
        Score,
        TextGenerator,
        Translator,
        load,
    )
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


def __getattr__(name: str) -> object:
    """Import the translator on first use, so that ``import uwaga`` is fast."""
    if name == "AsyncTranslator":  # imported separately, since it needs asyncio
        from uwaga.translator.asynchronous import AsyncTranslator

        return AsyncTranslator
    if name == "pipeline":
        from uwaga.compat.pipelines import pipeline

        return pipeline
    if name in __all__:
        from uwaga import translator

        return getattr(translator, name)
    raise AttributeError(f"module 'uwaga' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
