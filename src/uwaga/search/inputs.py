"""The sentences of a search: as its input, and while they are decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from uwaga.decoder import Datastore, Draft

if TYPE_CHECKING:
    from uwaga.search.phrases import Phrases


@dataclass(eq=False)
class SearchInput:
    """A sentence to translate.

    Attributes:
        ids: tokens of the sentence, end symbol included.
        history: tokens of a prompt that the target continues; with ``no_repeat_ngram``, the target must not
            repeat n-grams of the prompt either.
        prefix: the tokens that the target must begin with, after ``SearchOptions.first``.
        phrases: the phrases that the target must contain (M27). The beam size is ``SearchOptions.beam``, or
            larger if the banks need it (:func:`uwaga.search.banks.beam_size`). The search stops when the
            number of finished hypotheses exceeds the slots of the last bank by one (at least ``nbest``, at
            most ``beam``). A result lacks a phrase only if the length limits leave no room for it.
        datastore: decoder states of similar sentences, which change the model's distributions (M44).
        draft: a probable target, for greedy search only (M42). Without a bias the result is the same as
            without a draft, but takes fewer passes of the model. The draft is ignored if there are phrases. A
            decoder that cannot verify drafts applies only the bias.
    """

    ids: Sequence[int]
    prefix: Sequence[int] = ()
    phrases: Phrases | None = None
    draft: Draft | None = None
    history: Sequence[int] = ()
    datastore: Datastore | None = None


@dataclass(eq=False)
class SearchSentence:
    """A sentence that is being decoded.

    Attributes:
        ids: tokens of the sentence, end symbol included.
        forced: tokens with which the target must begin.
        uncounted: number of initial tokens excluded from the score and its length normalisation.
        limit: maximum number of steps.
        beam: beam size, or the number of samples if the search samples.
        phrases: the phrases that the target must contain.
        draft: a probable target, without its end symbol.
        minimum: minimum number of steps before the end symbol.
        history: the tokens of a prompt that the target continues, for ``no_repeat_ngram``.
        datastore: decoder states of similar sentences.
    """

    ids: Sequence[int]
    forced: Sequence[int]
    uncounted: int
    limit: int
    beam: int
    phrases: Phrases | None = None
    draft: Draft | None = None
    minimum: int = 0
    history: Sequence[int] = ()
    datastore: Datastore | None = None
