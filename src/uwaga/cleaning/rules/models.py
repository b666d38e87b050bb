"""Rules that ask models: language identification, and translation models of both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from uwaga.cleaning.pairs import Mask, PairBlock
from uwaga.cleaning.rule import Rule, ScoredRule, register
from uwaga.errors import SettingsError, TextTooLongError
from uwaga.languages.detection import LanguageIdentifier
from uwaga.settings.parsing import StrictModel

if TYPE_CHECKING:
    from uwaga.translator import Translator


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
    expensive = True

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


class ScoreSettings(StrictModel):
    """The models, and how many pairs stay. It is the last rule: it is by far the dearest."""

    forward: str = Field("", description="model from source to target: a folder, `bundled`, or owner/model")
    backward: str = Field("", description="model from target to source")
    max: float | None = Field(None, ge=0.0, description="largest score of a pair, in nats per token")
    share: float | None = Field(None, gt=0.0, le=1.0, description="or keep this share of the best pairs")
    batch_tokens: PositiveInt = Field(4096, description="tokens scored together")
    threads: NonNegativeInt = Field(0, description="CPU threads of the models, 0 for all cores")

    @model_validator(mode="after")
    def _one_of_two(self) -> ScoreSettings:
        if self.max is not None and self.share is not None:
            raise ValueError("give `max` or `share`, not both")
        return self


@register("score", "models of both directions find it improbable", ScoreSettings)
class DualCrossEntropy(ScoredRule[ScoreSettings]):
    """``|H_A - H_B| + (H_A + H_B) / 2``: Junczys-Dowmunt 2018 (Dual conditional cross-entropy filtering),
    eq. 2.

    ``H_A = -log p(target | source) / |target|`` is the mean over a target's tokens, end symbol counted, by
    the forward model, and ``H_B`` that of the source by the backward model: pairs go that either model finds
    improbable, or that one finds much less probable than the other. A pair that is longer than a model can
    take has no score and goes.
    """

    default = False

    def prepare(self) -> None:
        """Load both models.

        Raises:
            SettingsError: a model or the threshold is not named.
            ModelError: a model cannot be loaded.
        """
        settings = self.settings
        if not settings.forward or not settings.backward:
            raise SettingsError(
                "the rule `score` needs a model of each direction: set score.forward and score.backward"
            )
        if settings.max is None and settings.share is None:
            raise SettingsError("the rule `score` needs score.max or score.share: what is to be kept")
        self.share, self.max = settings.share, settings.max
        source, target = (language or None for language in self.languages)
        self._forward = _load_model(settings.forward, settings.threads, source, target)
        self._backward = _load_model(settings.backward, settings.threads, target, source)

    def scores(self, pairs: PairBlock) -> NDArray[np.float32]:
        sources, targets = pairs.source.strings, pairs.target.strings
        forward = self._entropies(self._forward, sources, targets)
        backward = self._entropies(self._backward, targets, sources)
        return dual_cross_entropy(forward, backward)

    def _entropies(self, model: Translator, given: list[str], wanted: list[str]) -> NDArray[np.float64]:
        texts = list(zip(given, wanted, strict=True))
        try:
            found = model.score(texts, batch_tokens=self.settings.batch_tokens)
            return np.array([-one.mean for one in found], np.float64)
        except TextTooLongError:
            if len(texts) == 1:
                return np.array([np.nan])
            half = len(texts) // 2
            parts = ((given[:half], wanted[:half]), (given[half:], wanted[half:]))
            return np.concatenate([self._entropies(model, *part) for part in parts])


def _load_model(name: str, threads: int, source: str | None, target: str | None) -> Translator:
    from uwaga.translator import Translator

    return Translator.load(name, threads=threads, source=source, target=target)


def dual_cross_entropy(forward: NDArray[np.float64], backward: NDArray[np.float64]) -> NDArray[np.float32]:
    """Junczys-Dowmunt 2018, eq. 2.

    Args:
        forward: (pairs,) nats per token of the targets given the sources.
        backward: (pairs,) nats per token of the sources given the targets.
    """
    return (np.abs(forward - backward) + (forward + backward) / 2).astype(np.float32)
