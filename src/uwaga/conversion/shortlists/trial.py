"""What a shortlist costs and gains on a text."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from uwaga.conversion.shortlists.build import usable_pairs
from uwaga.engine.shortlist import Shortlist
from uwaga.errors import DataError
from uwaga.evaluation import MetricScore, evaluate
from uwaga.results.translation import Translation
from uwaga.search import SearchOptions
from uwaga.translator.request import Request
from uwaga.translator.shortlisting import native_of
from uwaga.translator.translator import Translator


@dataclass(frozen=True)
class TimedTranslations:
    """Translations of a text, and the seconds that they took."""

    translations: list[Translation]
    seconds: float

    @property
    def speed(self) -> float:
        """Target tokens a second."""
        return sum(len(one.token_scores) for one in self.translations) / max(self.seconds, 1e-9)


@dataclass(frozen=True)
class Trial:
    """The same text with the ``whole`` vocabulary and with the ``short`` lists.

    ``size`` is the mean of the sentences' lists, of ``vocabulary`` tokens in all, and ``coverage`` the share
    of the tokens of the ``references`` that stand in them.
    """

    whole: TimedTranslations
    short: TimedTranslations
    references: tuple[str, ...]
    vocabulary: int
    size: float
    coverage: float

    @property
    def alike(self) -> int:
        """How many translations are the same."""
        pairs = zip(self.whole.translations, self.short.translations, strict=True)
        return sum(one.text == other.text for one, other in pairs)

    @property
    def speed_up(self) -> float:
        """Target tokens a second with the lists over those without."""
        return self.short.speed / self.whole.speed

    def bleu(self) -> tuple[MetricScore, MetricScore]:
        """Corpus BLEU with the whole vocabulary and with the lists.

        Raises:
            MissingExtraError: sacrebleu is not installed.
        """
        references = [(reference,) for reference in self.references]
        whole, short = (
            evaluate([one.text for one in way.translations], references, ["bleu"])["bleu"]
            for way in (self.whole, self.short)
        )
        return whole, short


def try_shortlist(
    translator: Translator, shortlist: Shortlist, pairs: Sequence[tuple[str, str]], options: SearchOptions
) -> Trial:
    """Translate a text with and without a shortlist.

    Raises:
        DataError: no pair can be used.
    """
    short = with_shortlist(translator, shortlist)
    sources, targets = usable_pairs(translator, pairs)
    if not sources:
        raise DataError("nothing to try the shortlist on: every line is empty or too long")
    lists = [shortlist.of(source) for source in sources]
    inside = [np.isin(target, one) for target, one in zip(targets, lists, strict=True)]
    lines = [source for source, _ in pairs]
    for either in (translator, short):  # what is made at the first call is made
        list(either.run(_requests(lines[:8], options)))
    return Trial(
        _timed(translator, lines, options),
        _timed(short, lines, options),
        tuple(target for _, target in pairs),
        shortlist.vocabulary,
        float(np.mean([len(one) for one in lists])),
        float(np.concatenate(inside).mean()),
    )


def with_shortlist(translator: Translator, shortlist: Shortlist) -> Translator:
    """The same translator with a shortlist.

    Raises:
        SettingsError: the model does not run on the native engine.
    """
    return translator.with_decoder(native_of(translator.decoder).with_shortlist(shortlist))


def _requests(lines: Sequence[str], options: SearchOptions) -> Iterator[Request]:
    for number, line in enumerate(lines, start=1):
        yield Request(line, search=options, name=f"line {number}")


def _timed(translator: Translator, lines: Sequence[str], options: SearchOptions) -> TimedTranslations:
    start = time.perf_counter()
    found = list(translator.run(_requests(lines, options)))
    return TimedTranslations(found, time.perf_counter() - start)
