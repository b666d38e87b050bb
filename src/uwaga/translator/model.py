"""A model with its tokenisers; a translator has one such model or a chain of several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from uwaga.checkpoints.formats.uwaga.names import BUNDLED
from uwaga.checkpoints.languages import UNSTATED_LANGUAGES, LanguagePair, Languages
from uwaga.checkpoints.score_stats import ScoreStats
from uwaga.decoder import Decoder, shared_positions, target_limit
from uwaga.search import SearchOptions
from uwaga.settings import AlignmentHead
from uwaga.settings.text_options import TextOptions
from uwaga.tokenizers.subwords import Subwords, byte_tokens
from uwaga.translator.split import KnownCharacters, Segmenter, check_length
from uwaga.translator.states import StateCache
from uwaga.translator.text import Sentence, TokenPair

if TYPE_CHECKING:
    from uwaga.translator.score import Scorer


@dataclass(frozen=True, eq=False)
class Model:
    """A model, its tokenisers and its settings.

    Attributes:
        decoder: the decoder that searches use.
        source: tokeniser of the source side.
        target: tokeniser of the target side.
        decoding: default search options.
        languages: codes of source and target.
        scorer: function that scores given targets; None to score them step by step with ``decoder``.
        text: the form in which the model expects its texts.
        known: the languages that a request may choose from; None for a model of a single language pair.
        score_stats: statistics of the model's own scores, if they have been measured.
        alignment_head: the attention head that aligns words; None for the mean of the penultimate layer.
        path: the folder or file of the model; None if the decoder was replaced or an adapter was added.
        drafter: object that drafts the targets of greedy searches; None for no drafts.
        states: cache of the decoder states of pairs from translation memories.
    """

    decoder: Decoder
    source: Subwords
    target: Subwords
    decoding: SearchOptions = field(default_factory=SearchOptions)
    languages: tuple[str, str] = UNSTATED_LANGUAGES
    scorer: Scorer | None = None
    text: TextOptions = field(default_factory=TextOptions)
    known: Languages | None = None
    score_stats: ScoreStats | None = None
    alignment_head: AlignmentHead | None = None
    path: Path | None = None
    drafter: Drafter | None = None
    states: StateCache = field(default_factory=StateCache)

    def __repr__(self) -> str:
        origin = self.all_languages.location
        return f"{model_origin(origin, self.language_pair)}, {summary(self.decoder)}"

    @property
    def all_languages(self) -> Languages:
        """The languages that a request may choose from."""
        return self.known or Languages(self.source, self.target, self.languages)

    @property
    def language_pair(self) -> LanguagePair:
        """The source and target codes, with all languages that the model supports on either side."""
        return LanguagePair(*self.languages, *self.all_languages.pairs)

    @property
    def aligns(self) -> bool:
        """True if the model has cross-attention, which can align words."""
        return self.decoder.cross_attention is not None

    @cached_property
    def characters(self) -> KnownCharacters:
        """The characters that the model can read; a model without cross-attention can also read bytes."""
        return KnownCharacters(self.source, not self.aligns, self.languages[0])

    @cached_property
    def byte_tokens(self) -> range:
        """The range of the target tokens that stand for single bytes; empty if there are none."""
        return byte_tokens(self.target)

    def between(self, source: str | None = None, target: str | None = None) -> Model:
        """Return a model for one of this model's language pairs, which shares its weights.

        Args:
            source: code of the language to translate from; None for the language chosen at loading or stated
                by the model.
            target: code of the language to translate to; None as for ``source``.

        Raises:
            SettingsError: the model does not support a language, or needs one that has not been chosen; the
                message lists the supported languages.
        """
        languages = self.all_languages
        if source is None and target is None and not languages.requires_language():
            return self
        direction = languages.direction(source, target)
        start = self.decoding.start if direction.start is None else direction.start
        return replace(
            self,
            source=direction.source,
            target=direction.target,
            decoding=replace(self.decoding, first=direction.first, start=start),
            languages=direction.languages,
            known=languages.with_default(source, target),
        )

    def with_decoder(self, decoder: Decoder, scorer: Scorer | None = None) -> Model:
        """Return a copy with another decoder of the same vocabularies, and with ``scorer``.

        If ``scorer`` is None, the decoder scores targets as well.
        """
        return replace(self, decoder=decoder, score_stats=None, scorer=scorer, path=None, states=StateCache())

    def wrap_decoders(self, wrap: Callable[[Decoder], Decoder]) -> Model:
        """Return a copy whose decoder and drafter are wrapped by ``wrap``; the scorer is unchanged.

        The copy shares the cached properties of the tokenisers, because every call to a shared model makes
        such a copy.
        """
        drafter = None if self.drafter is None else self.drafter.wrap_decoders(wrap)
        model = replace(self, decoder=wrap(self.decoder), scorer=self.scores, drafter=drafter)
        shared_attributes = "characters", "byte_tokens", "_segmenter"
        vars(model).update({name: getattr(self, name) for name in shared_attributes})
        return model

    def with_drafter(self, drafter: Drafter) -> Model:
        """Return a copy of the model with a drafter and with greedy search as the default."""
        return replace(self, drafter=drafter, decoding=replace(self.decoding, beam=1, nbest=1, sample=False))

    @property
    def scores(self) -> Scorer:
        """The function that scores given targets."""
        from uwaga.translator.score import step_scorer

        return self.scorer or step_scorer(self.decoder)

    def segmenter(self, terms: Callable[[str], Sequence[tuple[int, int]]] | None = None) -> Segmenter:
        """Return the model's segmenter; ``terms`` returns the spans of a text that must not be split."""
        return self._segmenter if terms is None else replace(self._segmenter, unsplittable=terms)

    @cached_property
    def _segmenter(self) -> Segmenter:
        max_source, position_limit = self.decoder.max_source, shared_positions(self.decoder)
        # The target needs about as many positions as the source.
        limit = max_source if position_limit is None else position_limit - position_limit // 2
        return Segmenter(self.source, limit, self.languages, self.text, max_unsplit=max_source)

    def pair_ids(self, pairs: Iterable[tuple[str, str]], first: int = 1) -> list[TokenPair]:
        """Return the tokens of both sides of each pair of texts, end symbols included.

        Args:
            pairs: source and target texts; neither is split into sentences.
            first: the number of the first pair, for error messages.

        Raises:
            TextTooLongError: a side is longer than the model accepts; the message names the pair.
            DataError: a text is not valid Unicode.
        """
        segmenter = self.segmenter()
        ids = list[TokenPair]()
        for number, (source, target) in enumerate(pairs, start=first):
            source_ids = segmenter.ids(source) or tuple(self.source.add_special_tokens([]))
            target_ids = tuple(self.target.add_special_tokens(self.target.encode(target.strip())))
            limit = target_limit(self.decoder, len(source_ids))
            pair = TokenPair(
                check_length(source_ids, self.decoder.max_source, f"pair {number}", "source"),
                check_length(target_ids, limit, f"pair {number}", "target"),
            )
            ids.append(pair)
        return ids


class Drafter(Protocol):
    """An object that drafts the targets of a model."""

    def draft(self, model: Model, sentences: Sequence[Sentence], options: SearchOptions) -> Decoder | None:
        """Set the draft of each sentence, or return a model that drafts during the search.

        Args:
            model: the model that verifies the drafts.
            sentences: the inputs of the model, one or more.
            options: the search options of the model.

        Returns: a smaller model with the same vocabulary that drafts during the search; None if the drafts
            have been set.

        Raises:
            SettingsError: the drafting model translates between other languages.
        """
        ...

    def wrap_decoders(self, wrap: Callable[[Decoder], Decoder]) -> Drafter:
        """Return a copy of this drafter whose decoder is wrapped by ``wrap``."""
        ...


@runtime_checkable
class SupportsDescription(Protocol):
    """A decoder that has a description."""

    @property
    def description(self) -> str:
        """The model family, engine, precision and number of threads, separated by commas."""
        ...


def summary(decoder: object) -> str:
    """Return a one-line description of a decoder: its ``description``, or else the name of its class."""
    return decoder.description if isinstance(decoder, SupportsDescription) else type(decoder).__name__


def model_origin(location: str, pair: LanguagePair) -> str:
    """Return a model's folder (``bundled`` for the model that comes with uwaga) and languages as text.

    If no language pair has been chosen, the numbers of source and target languages are given instead.
    """
    name = repr("bundled" if location and Path(location) == BUNDLED else location)
    if tuple(pair) != UNSTATED_LANGUAGES:
        return f"{name}, {pair[0]} → {pair[1]}"
    if pair.sources or pair.targets:
        return f"{name}, {len(pair.sources)} → {len(pair.targets)} languages"
    return f"{name}, languages not stated"
