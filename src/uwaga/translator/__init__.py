"""Text in, translations out: the face of uwaga."""

from uwaga.translator.scoring import Score
from uwaga.translator.translator import Translator

__all__ = ["Score", "Translator"]
