"""Choice of the batches that decode the sentences of a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from uwaga.decoder import Decoder
from uwaga.search.batch import Batch
from uwaga.search.inputs import SearchSentence
from uwaga.search.options import SearchOptions


class BatchMaker(NamedTuple):
    """A factory for the batches of a search.

    Attributes:
        decoder: the model.
        options: how to search.
        streaming: whether the batches report each token as it is decoded.
        drafter: a smaller model that drafts for all sentences, if there is one.
    """

    decoder: Decoder
    options: SearchOptions
    streaming: bool = False
    drafter: Decoder | None = None

    @property
    def can_join(self) -> bool:
        """True if sentences can enter a batch in progress."""
        return self.decoder.join is not None and (self.drafter is None or self.drafter.join is not None)

    def make(self, sentences: Sequence[SearchSentence]) -> Batch:
        """Return a batch of the given sentences, which must have the same beam size."""
        options, pool_size = self.options, self.options.rows
        if sentences[0].beam != pool_size:
            options = replace(options, beam=sentences[0].beam)
        drafter = self.drafter
        has_drafts = any(sentence.draft is not None for sentence in sentences)
        if any(
            sentence.phrases is not None for sentence in sentences
        ):  # phrases cannot be combined with drafts
            drafter = None
            if has_drafts:
                sentences = [replace(sentence, draft=None) for sentence in sentences]
                has_drafts = False
        if drafter is None and decoder_can_search(self.decoder, options, sentences):
            from uwaga.search.decoder_batch import DecoderBatch

            return DecoderBatch(self.decoder, options, sentences, pool_size, self.streaming)
        if drafter is not None or has_drafts:
            from uwaga.search.drafts import DraftBatch

            return DraftBatch(self.decoder, options, sentences, drafter=drafter)
        from uwaga.search.beam_batch import BeamBatch

        return BeamBatch(self.decoder, options, sentences, pool_size)


def batch_maker(
    decoder: Decoder,
    options: SearchOptions,
    sentences: Sequence[SearchSentence],
    streaming: bool,
    drafter: Decoder | None,
) -> BatchMaker:
    """Return the batch maker of a search; the drafter is ignored if a sentence has a draft."""
    if drafter is None or any(sentence.draft is not None for sentence in sentences):
        return BatchMaker(decoder, options, streaming)
    from uwaga.search.drafts import checked_drafter

    return BatchMaker(decoder, options, streaming, checked_drafter(decoder, options, drafter))


MAX_STEPS = 1 << 16
"""Maximum number of steps of a decoder's beam search, which computes the divisors of all lengths in
advance."""


def decoder_can_search(decoder: Decoder, options: SearchOptions, sentences: Sequence[SearchSentence]) -> bool:
    """Return True if the decoder has a beam search that supports these options."""
    needs_steps = options.sample or options.no_repeat_ngram or options.attention is True
    needs_steps = needs_steps or any(sentence.minimum != options.min_length for sentence in sentences)
    longest = max(sentence.limit for sentence in sentences)
    return decoder.beam_search is not None and not needs_steps and longest <= MAX_STEPS
