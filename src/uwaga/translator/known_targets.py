"""What a translator tells of targets that are known: their probability, and their words linked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from uwaga.decoder import Decoder
from uwaga.results.translation import WordAlignment
from uwaga.search import SearchOptions
from uwaga.settings import AlignmentHead
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.scoring import Score, Scorer, as_score, in_batches
from uwaga.translator.segmentation import Segmenter, pair_ids

if TYPE_CHECKING:
    from uwaga.alignment.words import WordKind


class KnownTargets:
    """The part of :class:`uwaga.translator.Translator` that leads the model along targets."""

    decoder: Decoder
    source: Subwords
    target: Subwords
    decoding: SearchOptions
    alignment_head: AlignmentHead | None
    _scorer: Scorer
    _segmenter: Segmenter

    def between(self, source: str | None = None, target: str | None = None) -> KnownTargets:
        """The translator from one language to another."""
        raise NotImplementedError

    def score(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        source: str | None = None,
        target: str | None = None,
        batch_tokens: int = 4096,
        first: int = 1,
    ) -> list[Score]:
        """The log-probability of each target given its source, by teacher forcing.

        Args:
            pairs: source and target texts. Neither is split; white space at their ends does not count.
            source: code of the language to translate from, of a model that knows several.
            target: code of the language to translate to; see :meth:`between`.
            batch_tokens: tokens of the longer side scored together.
            first: the number of the first pair, for error messages.

        Raises:
            TextTooLongError: a side is longer than the model can take; names the pair.
            DataError: a text is not valid Unicode.
        """
        here, pairs = self.between(source, target), list(pairs)
        sources, targets = here.pair_ids(pairs, first)
        scored = in_batches(here._scorer, sources, targets, batch_tokens, here.decoding.start)
        rows = zip(pairs, sources, targets, scored, strict=True)
        return [as_score(*row, here.source, here.target) for row in rows]

    def align(
        self,
        pairs: Iterable[tuple[str, str]],
        *,
        source: str | None = None,
        target: str | None = None,
        words: WordKind = "words",
        first: int = 1,
    ) -> list[WordAlignment]:
        """Which words of given translations stand for which of their sources, by leading the model along
        them.

        Args:
            pairs: source and target texts. Neither is split.
            source: code of the language to translate from, as for :meth:`translate`.
            target: code of the language to translate to.
            words: what links count: ``words`` and punctuation marks, or stretches between ``spaces``.
            first: the number of the first pair, for error messages.

        Raises:
            TextTooLongError: a side is longer than the model can take; names the pair.
            DataError: a text is not valid Unicode.
            SettingsError: the model has no attention to a source, or there is no such kind of words.
        """
        from uwaga.translator.aligning import align_pairs

        here, pairs = self.between(source, target), list(pairs)
        ids, sides = here.pair_ids(pairs, first), (here.source, here.target)
        return align_pairs(here.decoder, self.alignment_head, pairs, ids, sides, here.decoding.start, words)

    def pair_ids(
        self, pairs: Iterable[tuple[str, str]], first: int = 1
    ) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """The token ids of both sides of every pair of texts, end symbols included, the first called
        ``first``.

        Raises:
            TextTooLongError: a side is longer than the model can take; names the pair.
            DataError: a text is not valid Unicode.
        """
        limits = self.decoder.max_source, self.decoder.max_target
        return pair_ids(pairs, self._segmenter, self.target, limits, first)
