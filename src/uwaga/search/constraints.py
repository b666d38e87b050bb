"""What a hypothesis may and must contain, said to the decoder as a :class:`Choice` (M22, M24)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from uwaga.decoder import Choice, Decoder, Ids, Sampling, Symbols
from uwaga.errors import DataError, SettingsError, TextTooLongError
from uwaga.search.choose import uniforms
from uwaga.search.options import SearchOptions

FREE = -1


def step_limit(
    options: SearchOptions,
    max_target: int | None,
    source: int,
    prefix: int,
    where: str = "sentence",
    phrases: int = 0,
) -> int:
    """Most decoder steps for one sentence, its end symbol counted (M22).

    Args:
        options: the limits asked for.
        max_target: the decoder's own limit.
        source: source tokens.
        prefix: tokens of the forced prefix.
        where: how messages name the sentence.
        phrases: tokens of what the target must contain.

    Raises:
        SettingsError: nothing limits the length.
        TextTooLongError: the prefix leaves no room for a further token.
    """
    hard = [limit for limit in (options.max_length, max_target) if limit is not None]
    limits = list(hard)
    if math.isfinite(options.max_ratio * source):
        needed = max(options.min_length, prefix + phrases) + 1
        limits.append(max(needed, math.floor(options.max_ratio * source) + options.max_extra))
    if not limits:
        raise SettingsError("the decoder has no length limit of its own: set max_length or max_ratio")
    if hard and prefix >= min(hard):
        raise TextTooLongError(
            f"{where}: the forced prefix has {prefix} tokens, and a target may have {min(hard)}: "
            "shorten the prefix" + (" or raise max_length" if min(hard) != max_target else "")
        )
    return min(limits)


def check_sources(decoder: Decoder, sources: Sequence[Sequence[int]]) -> None:
    """Refuse sources that the decoder cannot take, before anything is encoded.

    Raises:
        DataError: a source has no tokens, not even the end symbol.
        TextTooLongError: a source is longer than the decoder's limit.
    """
    for number, source in enumerate(sources, start=1):
        if not len(source):
            raise DataError(f"sentence {number}: no tokens; a source holds at least its end symbol")
        if decoder.max_source is not None and len(source) > decoder.max_source:
            raise TextTooLongError(
                f"sentence {number}: {len(source)} tokens, end symbol included, and the model takes at most "
                f"{decoder.max_source}: split it into shorter sentences"
            )


def check_prefixes(decoder: Decoder, prefixes: Sequence[Sequence[int]], sentences: int) -> None:
    """Refuse prefixes that no target can begin with.

    Raises:
        SettingsError: their number is not that of the sentences, or one holds a token that does not
            exist, the end symbol or padding.
    """
    if len(prefixes) != sentences:
        raise SettingsError(f"{len(prefixes)} forced prefixes for {sentences} sentences: give one for each")
    symbols = decoder.symbols
    for number, prefix in enumerate(prefixes, start=1):
        for token in prefix:
            if not 0 <= token < decoder.vocabulary:
                raise SettingsError(
                    f"sentence {number}: token {token} of the forced prefix is outside the vocabulary of "
                    f"{decoder.vocabulary}"
                )
            if token in (symbols.end, symbols.pad):
                raise SettingsError(
                    f"sentence {number}: the forced prefix holds the special token {token}: leave the end "
                    "and padding symbols out"
                )


def starts_with_first(prefix: Sequence[int], options: SearchOptions) -> Sequence[int]:
    """A forced prefix with the token that every target begins with before it, unless it stands there.

    ``transformers`` leaves ``forced_bos_token_id`` out where a target's beginning is given: a multilingual
    model would then not be told the target language.
    """
    if not len(prefix) or options.first is None or prefix[0] == options.first:
        return prefix
    return [options.first, *prefix]


def check_tokens(options: SearchOptions, symbols: Symbols, vocabulary: int) -> None:
    """Refuse options that name tokens this decoder cannot make or cannot do without.

    Raises:
        SettingsError: a banned, forced or start token is outside the vocabulary, or the end symbol is banned.
    """
    named = (("banned", options.banned), ("first", (options.first,)), ("start", (options.start,)))
    for name, tokens in named:
        for token in tokens:
            if token is not None and token >= vocabulary:
                raise SettingsError(f"{name}: token {token} is outside the vocabulary of {vocabulary}")
    if symbols.end in options.banned:
        raise SettingsError("banned: the end symbol cannot be banned; use min_length to hold it back")


def start_token(options: SearchOptions, symbols: Symbols) -> int:
    """The token that decoding starts from."""
    return symbols.start if options.start is None else options.start


def forced_tokens(options: SearchOptions, prefixes: Sequence[Sequence[int]]) -> Ids:
    """(sentences, width) what each sentence's first tokens must be, FREE where they need not be anything."""
    lengths = np.array([len(prefix) for prefix in prefixes], dtype=np.int64)  # (sentences,)
    forced = np.full((len(prefixes), max(int(lengths.max()), 1)), FREE, dtype=np.int64)
    for number, prefix in enumerate(prefixes):
        forced[number, : len(prefix)] = prefix
    if options.first is not None:
        forced[lengths == 0, 0] = options.first
    return forced


def uncounted_tokens(options: SearchOptions, prefixes: Sequence[Sequence[int]]) -> Ids:
    """(sentences,) first tokens that count neither in the score nor in its length."""
    return np.array([0 if options.score_forced else len(prefix) for prefix in prefixes], dtype=np.int64)


def never_produced(options: SearchOptions, symbols: Symbols) -> Ids:
    """Tokens banned at every step: in some models the end symbol also starts or pads, and stays free."""
    never = {start_token(options, symbols), symbols.pad, *options.banned}
    if not options.unknown:
        never.add(symbols.unknown)
    return np.array(sorted(never - {symbols.end}), dtype=np.int64)


class Constraints:
    """The limits, bans, forced tokens and draws of one batch.

    Attributes:
        limits: (sentences,) most steps.
        uncounted: (sentences,) first tokens that count neither in the score nor in its length.
    """

    def __init__(
        self,
        decoder: Decoder,
        options: SearchOptions,
        sources: Sequence[Sequence[int]],
        prefixes: Sequence[Sequence[int]],
        limits: Sequence[int],
    ) -> None:
        self._options = options
        self._symbols = decoder.symbols
        self._count = 1 if options.sample or options.beam == 1 else min(2 * options.beam, decoder.vocabulary)
        self.limits: Ids = np.array(limits, dtype=np.int64)
        self.uncounted: Ids = uncounted_tokens(options, prefixes)
        self._forced = forced_tokens(options, prefixes)
        self._may_force = options.force_end or bool((self._forced != FREE).any())
        self._never = never_produced(options, decoder.symbols)
        self._banned: Ids = np.zeros((0, 2), dtype=np.int64)
        self._banned_early = self._banned
        self._banned_rows = 0
        self._draws = None
        if options.sample:
            longest, seed = int(self.limits.max()), options.seed or 0
            self._draws = np.array(
                [
                    [uniforms(seed, source, sample, longest) for sample in range(options.nbest)]
                    for source in sources
                ]
            )  # (sentences, samples, steps)

    def choice(self, steps: Ids, indices: Ids, history: Ids | None, wanted: Ids | None = None) -> Choice:
        """What a step may choose.

        Args:
            steps: (sentences,) its number in each sentence, from 1.
            indices: (sentences,) which of the batch's sentences are still decoded.
            history: (rows, target) tokens so far, as :func:`repeated_ngrams` has them.
            wanted: (rows, wanted) tokens to look at whatever their probability, as of a :class:`Choice`.
        """
        options = self._options
        rows = len(indices) * options.rows
        banned = self._bans(rows, steps)
        if options.no_repeat_ngram and history is not None:
            banned = np.concatenate([banned, repeated_ngrams(history, options.no_repeat_ngram)])
        sampling = None
        if self._draws is not None:
            draw = self._draws[indices, :, steps - 1].reshape(rows)
            sampling = Sampling(draw, options.temperature, options.top_k, options.top_p)
        return Choice(
            count=self._count,
            banned=banned if len(banned) else None,
            forced=self._forced_now(steps, indices),
            sampling=sampling,
            attention=options.attention is True,
            renormalise=options.renormalise,
            wanted=wanted,
        )

    def _bans(self, rows: int, steps: Ids) -> Ids:
        """(pairs, 2) of every row with each token that it may not produce."""
        if self._banned_rows != rows:  # what no row may ever produce is kept until the rows change
            never = self._never
            self._banned = np.stack([np.repeat(np.arange(rows), len(never)), np.tile(never, rows)], axis=1)
            self._banned_early = self._with_ends(np.arange(rows))
            self._banned_rows = rows
        if not self._options.min_length:
            return self._banned
        early = steps <= self._options.min_length  # (sentences,)
        if not early.any():
            return self._banned
        if early.all():
            return self._banned_early
        return self._with_ends(np.nonzero(np.repeat(early, self._options.rows))[0])

    def _with_ends(self, rows: Ids) -> Ids:
        """The bans of all rows, and of these also the end symbol."""
        ends = np.stack([rows, np.full_like(rows, self._symbols.end)], axis=1)
        return np.concatenate([self._banned, ends])

    def _forced_now(self, steps: Ids, indices: Ids) -> Ids | None:
        if not self._may_force:
            return None
        width = self._forced.shape[1]
        if not self._options.force_end and steps.min() > width:
            return None
        forced = self._forced[indices, np.minimum(steps, width) - 1]  # (sentences,)
        forced = np.where(steps <= width, forced, FREE)
        if self._options.force_end:
            forced = np.where(self.limits[indices] == steps, self._symbols.end, forced)
        if (forced == FREE).all():
            return None
        return np.repeat(forced, self._options.rows)  # (rows,)


def repeated_ngrams(history: Ids, size: int) -> Ids:
    """(pairs, 2) of (row, token) that would end an n-gram its row already holds.

    Args:
        history: (rows, target) tokens so far; before a row's first one stands -1.
        size: tokens of an n-gram.
    """
    if history.shape[1] < size:
        return np.zeros((0, 2), dtype=np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(history, size, axis=1)  # (rows, windows, size)
    suffix = history[:, None, history.shape[1] - size + 1 :]  # (rows, 1, size - 1)
    alike = (windows[:, :, :-1] == suffix).all(axis=2) & (windows[:, :, 0] >= 0)  # (rows, windows)
    row, window = np.nonzero(alike)
    return np.stack([row, windows[row, window, -1]], axis=1)
