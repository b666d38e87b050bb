"""Sides in another language."""

from __future__ import annotations

import numpy as np
from pydantic import Field, NonNegativeInt

from uwaga.cleaning.pairs import Mask, PairBlock
from uwaga.cleaning.rule import Rule, register
from uwaga.languages.detection import LanguageIdentifier
from uwaga.settings.parsing import StrictModel


class LanguageSettings(StrictModel):
    """When a text is surely of another language."""

    min_confidence: float = Field(
        0.5, ge=0.0, le=1.0, description="a side goes that is so probably of another language"
    )
    min_letters: NonNegativeInt = Field(20, description="letters that a text needs to be judged")


@register("language", "a side is in another language", LanguageSettings)
class Language(Rule[LanguageSettings]):
    """The likeliest language of each side, as py3langid finds it; a doubtful one passes."""

    needs_languages = True
    dear = True

    def prepare(self) -> None:
        """Load the identifier's model."""
        self._identifier = LanguageIdentifier()
        for language in self.languages:
            self._identifier.check(language)

    def rejects(self, pairs: PairBlock) -> Mask:
        gone = np.zeros(len(pairs), np.bool_)
        for side, language in pairs.sides:
            judged = (side.letters >= self.settings.min_letters) & ~gone
            texts = side.take(judged).strings
            least = self.settings.min_confidence
            gone[judged] = [self._identifier.is_other(text, language, least) for text in texts]
        return gone
