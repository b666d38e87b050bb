"""Rules that run models: language identification, and translation models in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from uwaga.errors import SettingsError, TextTooLongError
from uwaga.languages.detection import LanguageIdentifier
from uwaga.settings.parsing import StrictModel
from uwaga_corpora.cleaning.pairs import Mask, PairBlock
from uwaga_corpora.cleaning.rule import Rule, ScoredRule

if TYPE_CHECKING:
    from uwaga.translator import Translator


class LanguageSettings(StrictModel):
    """Criteria for texts in another language."""

    min_confidence: float = Field(
        0.5, ge=0.0, le=1.0, description="a side is rejected if another language is at least this probable"
    )
    min_letters: NonNegativeInt = Field(20, description="minimum number of letters in a text that is checked")


class Language(Rule[LanguageSettings]):
    """A rule that rejects sides that py3langid identifies as another language; uncertain sides pass."""

    summary = "a side is in another language"
    settings_type = LanguageSettings
    needs_languages = True
    expensive = True

    def prepare(self) -> None:
        """Load the identifier's model."""
        self._identifier = LanguageIdentifier()
        for language in self.languages:
            self._identifier.check(language)

    def rejects(self, pairs: PairBlock) -> Mask:
        is_rejected = np.zeros(len(pairs), np.bool_)
        for side, language in pairs.sides:
            is_checked = (side.letters >= self.settings.min_letters) & ~is_rejected
            texts = side.select(is_checked).strings
            min_confidence = self.settings.min_confidence
            is_rejected[is_checked] = [
                self._identifier.is_other_language(text, language, min_confidence) for text in texts
            ]
        return is_rejected


class ScoreSettings(StrictModel):
    """The models, and the limits on the pairs to keep.

    The rule must be the last, as it is by far the slowest.
    """

    forward: str = Field("", description="model from source to target: a folder, `bundled`, or owner/model")
    backward: str = Field("", description="model from target to source")
    max: float | None = Field(None, ge=0.0, description="maximum score of a pair, in nats per token")
    share: float | None = Field(
        None, gt=0.0, le=1.0, description="share of the pairs to keep, the best ones; instead of `max`"
    )
    batch_tokens: PositiveInt = Field(4096, description="number of tokens scored together")
    threads: NonNegativeInt = Field(0, description="CPU threads of the models, 0 for all cores")

    @model_validator(mode="after")
    def _check_limits(self) -> ScoreSettings:
        if self.max is not None and self.share is not None:
            raise ValueError("give `max` or `share`, not both")
        return self


class DualCrossEntropy(ScoredRule[ScoreSettings]):
    """Dual conditional cross-entropy, ``|H_A - H_B| + (H_A + H_B) / 2`` (Junczys-Dowmunt 2018, eq. 2).

    ``H_A = -log p(target | source) / |target|`` is the forward model's mean over the target's tokens,
    including the end symbol, and ``H_B`` the backward model's mean over the source's tokens. The score is
    high if either model finds a pair improbable, or if one finds it much less probable than the other does. A
    pair that is longer than a model's limit has no score and is rejected.
    """

    summary = "translation models find the pair improbable"
    settings_type = ScoreSettings
    default = False

    def prepare(self) -> None:
        """Load both models."""
        settings = self.settings
        if not settings.forward or not settings.backward:
            raise SettingsError(
                "the rule `score` needs a model for each direction: set score.forward and score.backward"
            )
        if settings.max is None and settings.share is None:
            raise SettingsError(
                "the rule `score` needs score.max or score.share, which determine how many pairs are kept"
            )
        self.share, self.max = settings.share, settings.max
        source, target = (language or None for language in self.languages)
        self._forward = _load_model(settings.forward, settings.threads, source, target)
        self._backward = _load_model(settings.backward, settings.threads, target, source)

    def scores(self, pairs: PairBlock) -> NDArray[np.float32]:
        sources, targets = pairs.source.strings, pairs.target.strings
        forward = self._entropies(self._forward, sources, targets)
        backward = self._entropies(self._backward, targets, sources)
        return dual_cross_entropy(forward, backward)

    def _entropies(self, model: Translator, sources: list[str], targets: list[str]) -> NDArray[np.float64]:
        texts = list(zip(sources, targets, strict=True))
        try:
            scores = model.score(texts, batch_tokens=self.settings.batch_tokens)
            return np.array([-score.mean for score in scores], np.float64)
        except TextTooLongError:
            if len(texts) == 1:
                return np.array([np.nan])
            half = len(texts) // 2
            parts = ((sources[:half], targets[:half]), (sources[half:], targets[half:]))
            return np.concatenate([self._entropies(model, *part) for part in parts])


def _load_model(name: str, threads: int, source: str | None, target: str | None) -> Translator:
    from uwaga.translator import Translator

    return Translator.load(name, threads=threads, source=source, target=target)


def dual_cross_entropy(forward: NDArray[np.float64], backward: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the dual conditional cross-entropy of pairs (Junczys-Dowmunt 2018, eq. 2).

    Args:
        forward: (pairs,) nats per token of the targets given the sources.
        backward: (pairs,) nats per token of the sources given the targets.
    """
    return (np.abs(forward - backward) + (forward + backward) / 2).astype(np.float32)
