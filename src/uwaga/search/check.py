"""Checks of the sentences of a search, before anything is encoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from uwaga.decoder import Decoder, target_limit
from uwaga.errors import DataError, SettingsError, TextTooLongError
from uwaga.search.constraints import banned_tokens, check_tokens, step_limit, with_first_token
from uwaga.search.inputs import SearchInput, SearchSentence
from uwaga.search.options import SearchOptions

if TYPE_CHECKING:
    from uwaga.search.phrases import Phrases


def check_inputs(
    decoder: Decoder, sentences: Sequence[SearchInput], options: SearchOptions, streaming: bool = False
) -> list[SearchSentence]:
    """Check the sentences and options of a search, and return the sentences with their limits and
    constraints.
    """
    check_tokens(options, decoder.symbols, decoder.vocabulary)
    return [
        _check(decoder, sentence, options, streaming, f"sentence {number}")
        for number, sentence in enumerate(sentences, start=1)
    ]


def _check(
    decoder: Decoder, sentence: SearchInput, options: SearchOptions, streaming: bool, label: str
) -> SearchSentence:
    _check_source(decoder, sentence.ids, label)
    prefix = sentence.prefix
    if len(prefix):
        _check_prefix(decoder, prefix, label)
        prefix = with_first_token(prefix, options)
    phrases, draft, beam, required = None, sentence.draft, options.rows, 0
    if sentence.phrases is not None and sentence.phrases.total:
        phrases = _checked_phrases(decoder, sentence.phrases, options, streaming, label)
    if phrases is not None:
        from uwaga.search.banks import beam_size

        beam, required = beam_size(options, phrases), phrases.total if phrases.bonus is None else 0
    limit = step_limit(
        options, target_limit(decoder, len(sentence.ids)), len(sentence.ids), len(prefix), label, required
    )
    if draft is not None:
        from uwaga.search.drafts import checked_draft

        draft = checked_draft(decoder, options, draft, limit, label)
    return SearchSentence(
        sentence.ids,
        forced_tokens(prefix, options),
        uncounted_tokens(prefix, options),
        limit,
        beam,
        phrases,
        draft,
        max(options.min_length, options.min_total - len(sentence.ids)),
        sentence.history,
        sentence.datastore,
    )


def _check_source(decoder: Decoder, source: Sequence[int], label: str) -> None:
    """Check the length of a source before anything is encoded."""
    if not len(source):
        raise DataError(f"{label}: the source has no tokens; it must have at least the end symbol")
    if decoder.max_source is not None and len(source) > decoder.max_source:
        raise TextTooLongError(
            f"{label}: the source has {len(source)} tokens, end symbol included, but the model accepts "
            f"at most {decoder.max_source}: split it into shorter sentences"
        )


def _check_prefix(decoder: Decoder, prefix: Sequence[int], label: str) -> None:
    """Check a forced prefix."""
    symbols = decoder.symbols
    for token in prefix:
        if not 0 <= token < decoder.vocabulary:
            raise SettingsError(
                f"{label}: token {token} of the forced prefix is outside the vocabulary of "
                f"{decoder.vocabulary} tokens"
            )
        if token in (*symbols.ends, symbols.pad):
            raise SettingsError(
                f"{label}: the forced prefix contains the special token {token}: leave out the end "
                "and padding symbols"
            )


def _checked_phrases(
    decoder: Decoder, phrases: Phrases, options: SearchOptions, streaming: bool, label: str
) -> Phrases | None:
    """Return the phrases without the alternatives that contain banned tokens, or None if no phrase
    remains.
    """
    if options.sample or streaming:
        raise SettingsError("phrases need beam search: leave out sample, mbr and streaming, or the phrases")
    phrases.check(decoder.symbols, decoder.vocabulary, label)
    return phrases.without_banned(banned_tokens(options, decoder.symbols))


def forced_tokens(prefix: Sequence[int], options: SearchOptions) -> Sequence[int]:
    """Return the tokens forced at the start of a target: its prefix or, if that is empty,
    ``options.first``.
    """
    return (options.first,) if not len(prefix) and options.first is not None else prefix


def uncounted_tokens(prefix: Sequence[int], options: SearchOptions) -> int:
    """Return the number of initial tokens excluded from the score and its length normalisation."""
    return 0 if options.score_forced is not False else len(prefix)
