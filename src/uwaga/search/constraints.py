"""Length limits, banned and forced tokens, passed to the decoder as a :class:`Choice` (M22, M24)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from uwaga.decoder import FREE, Choice, Decoder, Ids, Sampling, Symbols, forced_matrix
from uwaga.errors import SettingsError, TextTooLongError
from uwaga.search.choose import uniforms
from uwaga.search.options import SearchOptions

if TYPE_CHECKING:
    from uwaga.search.inputs import SearchSentence


def step_limit(
    options: SearchOptions,
    max_target: int | None,
    source_tokens: int,
    prefix_tokens: int,
    label: str = "sentence",
    phrase_tokens: int = 0,
) -> int:
    """Return the maximum number of decoder steps for a sentence, end symbol included (M22).

    Args:
        options: length limits.
        max_target: the maximum number of target tokens of the decoder, or None.
        source_tokens: number of source tokens.
        prefix_tokens: number of tokens of the forced prefix.
        label: name of the sentence in messages.
        phrase_tokens: number of phrase tokens that the target must contain.

    Raises:
        SettingsError: nothing limits the length.
        TextTooLongError: the prefix leaves no room for another token.
    """
    total = None if options.max_total is None else options.max_total - source_tokens
    if total is not None and total < 1:
        raise TextTooLongError(
            f"{label}: the source has {source_tokens} tokens, but the model's settings allow "
            f"{options.max_total} tokens for the source and the target together: set max_length"
        )
    hard_limit = min(options.max_length or math.inf, max_target or math.inf, total or math.inf)
    if prefix_tokens >= hard_limit:
        raise TextTooLongError(
            f"{label}: the forced prefix has {prefix_tokens} tokens, but the target may have only "
            f"{hard_limit}: shorten the prefix" + (" or raise max_length" if hard_limit != max_target else "")
        )
    limit = hard_limit
    if math.isfinite(options.max_ratio * source_tokens):
        needed_length = max(options.min_length, prefix_tokens + phrase_tokens) + 1
        limit = min(
            limit, max(needed_length, math.floor(options.max_ratio * source_tokens) + options.max_extra)
        )
    if limit == math.inf:
        raise SettingsError("the model has no length limit: set max_length or max_ratio")
    return int(limit)


def with_first_token(prefix: Sequence[int], options: SearchOptions) -> Sequence[int]:
    """Return a forced prefix with ``options.first`` prepended, unless the prefix begins with it.

    ``transformers`` ignores ``forced_bos_token_id`` if a prefix is given; a multilingual model would then not
    know the target language.
    """
    if not len(prefix) or options.first is None or prefix[0] == options.first:
        return prefix
    return [options.first, *prefix]


def check_tokens(options: SearchOptions, symbols: Symbols, vocabulary: int) -> None:
    """Check the token ids of the options.

    Raises:
        SettingsError: a banned, forced or start token is outside the vocabulary, or the end symbol is banned.
    """
    token_options = (("banned", options.banned), ("first", (options.first,)), ("start", (options.start,)))
    for name, tokens in token_options:
        for token in tokens:
            if token is not None and token >= vocabulary:
                raise SettingsError(f"{name}: token {token} is outside the vocabulary of {vocabulary} tokens")
    if not set(options.banned).isdisjoint(symbols.ends):
        raise SettingsError("banned: the end symbol cannot be banned; use min_length to delay it")


def start_token(options: SearchOptions, symbols: Symbols) -> int:
    """Return the token that decoding starts from."""
    return symbols.start if options.start is None else options.start


def banned_tokens(options: SearchOptions, symbols: Symbols) -> Ids:
    """Return the tokens banned at every step.

    End symbols are excluded, since some models use them as start or padding symbols too.
    """
    tokens = {start_token(options, symbols), symbols.pad, *options.banned}
    if not options.unknown:
        tokens.add(symbols.unknown)
    return np.array(sorted(tokens - set(symbols.ends)), dtype=np.int64)


class Constraints:
    """Limits, banned and forced tokens, and random draws of a batch.

    Attributes:
        limits: (sentences,) maximum number of steps.
        uncounted: (sentences,) number of initial tokens excluded from the score and its length normalisation.
    """

    def __init__(self, decoder: Decoder, options: SearchOptions, sentences: Sequence[SearchSentence]) -> None:
        self._options = options
        self._symbols = decoder.symbols
        self._count = 1 if options.sample or options.beam == 1 else min(2 * options.beam, decoder.vocabulary)
        self.limits: Ids = np.array([sentence.limit for sentence in sentences], dtype=np.int64)
        self._minimums: Ids = np.array([sentence.minimum for sentence in sentences], dtype=np.int64)
        self._may_be_short = bool((self._minimums > 0).any())
        self.uncounted: Ids = np.array([sentence.uncounted for sentence in sentences], dtype=np.int64)
        self._forced = forced_matrix([sentence.forced for sentence in sentences])
        self._may_force = options.force_end or bool((self._forced != FREE).any())
        self._always_banned = banned_tokens(options, decoder.symbols)
        self._banned: Ids = np.zeros((0, 2), dtype=np.int64)
        self._banned_with_ends = self._banned
        self._banned_rows = 0
        self._draws = None
        if options.sample:
            longest, seed = int(self.limits.max()), options.seed or 0
            self._draws = np.array(
                [
                    [uniforms(seed, sentence.ids, sample, longest) for sample in range(options.nbest)]
                    for sentence in sentences
                ]
            )  # (sentences, samples, steps)

    def choice(
        self, steps: Ids, indices: Ids, history: Ids | None, extra_tokens: Ids | None = None
    ) -> Choice:
        """Return the :class:`Choice` that applies the constraints to a step.

        Args:
            steps: (sentences,) step of each sentence, from 1.
            indices: (sentences,) the sentences being decoded.
            history: (rows, target) tokens so far; see :func:`repeated_ngrams`.
            extra_tokens: see :class:`uwaga.decoder.Choice`.
        """
        options = self._options
        rows = len(indices) * options.rows
        banned = self._banned_pairs(rows, steps, indices)
        if options.no_repeat_ngram and history is not None:
            banned = np.concatenate([banned, repeated_ngrams(history, options.no_repeat_ngram)])
        sampling = None
        if self._draws is not None:
            draw = self._draws[indices, :, steps - 1].reshape(rows)
            sampling = Sampling(draw, options.temperature, options.top_k, options.top_p)
        return Choice(
            count=self._count,
            banned=banned if len(banned) else None,
            forced=self._forced_tokens(steps, indices),
            sampling=sampling,
            attention=options.attention is True,
            renormalise=options.renormalise,
            extra_tokens=extra_tokens,
        )

    def _banned_pairs(self, rows: int, steps: Ids, indices: Ids) -> Ids:
        """Return the banned (row, token) pairs as an array (pairs, 2)."""
        if self._banned_rows != rows:  # cached until the number of rows changes
            tokens = self._always_banned
            self._banned = np.stack([np.repeat(np.arange(rows), len(tokens)), np.tile(tokens, rows)], axis=1)
            self._banned_with_ends = self._with_ends(np.arange(rows))
            self._banned_rows = rows
        if not self._may_be_short:
            return self._banned
        too_short = steps <= self._minimums[indices]  # (sentences,)
        if not too_short.any():
            return self._banned
        if too_short.all():
            return self._banned_with_ends
        return self._with_ends(np.nonzero(np.repeat(too_short, self._options.rows))[0])

    def _with_ends(self, rows: Ids) -> Ids:
        """Return the banned pairs of all rows, with the end symbols banned in the given rows."""
        end_pairs = [np.stack([rows, np.full_like(rows, end)], axis=1) for end in self._symbols.ends]
        return np.concatenate([self._banned, *end_pairs])

    def _forced_tokens(self, steps: Ids, indices: Ids) -> Ids | None:
        if not self._may_force:
            return None
        width = self._forced.shape[1]
        if not self._options.force_end and steps.min() > width:
            return None
        forced_tokens = self._forced[indices, np.minimum(steps, width) - 1]  # (sentences,)
        forced_tokens = np.where(steps <= width, forced_tokens, FREE)
        if self._options.force_end:
            forced_tokens = np.where(self.limits[indices] == steps, self._symbols.end, forced_tokens)
        if (forced_tokens == FREE).all():
            return None
        return np.repeat(forced_tokens, self._options.rows)  # (rows,)


def repeated_ngrams(history: Ids, size: int) -> Ids:
    """Return the (row, token) pairs that would repeat an n-gram of the row, as an array (pairs, 2).

    Args:
        history: (rows, target) tokens so far, padded with -1 on the left.
        size: number of tokens of an n-gram.
    """
    if history.shape[1] < size:
        return np.zeros((0, 2), dtype=np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(history, size, axis=1)  # (rows, windows, size)
    suffix = history[:, None, history.shape[1] - size + 1 :]  # (rows, 1, size - 1)
    repeats = (windows[:, :, :-1] == suffix).all(axis=2) & (windows[:, :, 0] >= 0)  # (rows, windows)
    row, window = np.nonzero(repeats)
    return np.stack([row, windows[row, window, -1]], axis=1)
