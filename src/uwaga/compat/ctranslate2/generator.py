"""The generator of CTranslate2's Python interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from uwaga.compat.ctranslate2.decode import decode, steps
from uwaga.compat.ctranslate2.errors import ArgumentError, as_argument_errors
from uwaga.compat.ctranslate2.loading import LoadedModel
from uwaga.compat.ctranslate2.options import GenerationOptions, given, search_options, step_result
from uwaga.compat.ctranslate2.results import (
    AsyncGenerationResult,
    AsyncResult,
    AsyncScoringResult,
    GenerationResult,
    GenerationStepResult,
    ScoringResult,
)
from uwaga.compat.ctranslate2.workers import ModelWorkers, each_result, tokenised
from uwaga.results.translation import Hypothesis
from uwaga.search import SearchOptions
from uwaga.settings.options import check_whole
from uwaga.translator.score import in_batches

Tokens = list[str]


class Generator(ModelWorkers):
    """A decoder that continues lists of tokens; its arguments are those of :class:`ModelWorkers`."""

    task = "generate"

    @property
    def num_generators(self) -> int:
        """Number of batches that run at a time."""
        return self._workers

    def generate_batch(
        self,
        start_tokens: Iterable[Sequence[str]],
        *,
        max_batch_size: int = 0,
        batch_type: str = "examples",
        asynchronous: bool = False,
        **options: Any,
    ) -> list[Any]:
        """Continue prompts, each a list of tokens.

        Args:
            start_tokens: the prompts, of at least one token each, with the special tokens that the model
                expects.
            max_batch_size: most prompts, or tokens, of a batch; 0 for one batch of all.
            batch_type: what ``max_batch_size`` counts: ``examples`` or ``tokens``.
            asynchronous: return at once, with results that can be waited for.
            **options: the fields of :class:`uwaga.compat.ctranslate2.options.GenerationOptions` by name.

        Returns:
            a :class:`GenerationResult` for each prompt, or an :class:`AsyncGenerationResult`.

        Raises:
            ArgumentError: an argument is unknown, impossible, or one that uwaga does not have.
            RunError: the model has been unloaded.
            TextTooLongError: a prompt is longer than the model reads.
        """
        found = self._generate(start_tokens, max_batch_size, batch_type, options)
        return found if asynchronous else [one.result() for one in found]

    def generate_iterable(
        self,
        start_tokens: Iterable[Sequence[str]],
        max_batch_size: int = 32,
        batch_type: str = "examples",
        **options: Any,
    ) -> Iterator[GenerationResult]:
        """Yield the continuation of each prompt of an iterable; arguments are those of
        :meth:`generate_batch`.

        Raises:
            ArgumentError, RunError, TextTooLongError: as :meth:`generate_batch`.
        """

        def start(prompts: Any) -> list[AsyncResult[GenerationResult]]:
            return self._generate(prompts, max_batch_size, batch_type, options)

        yield from each_result(start, [start_tokens], max_batch_size, batch_type)

    def generate_tokens(
        self,
        prompt: Sequence[str] | Sequence[Sequence[str]],
        max_batch_size: int = 0,
        batch_type: str = "examples",
        *,
        return_log_prob: bool = False,
        **options: Any,
    ) -> Iterator[GenerationStepResult]:
        """Yield the tokens of continuations as they are decided, by greedy search or as samples.

        Args:
            prompt: the tokens of a prompt, or of each of several, whose tokens are yielded in turn.
            max_batch_size: accepted; it changes no result.
            batch_type: accepted; it changes no result.
            return_log_prob: include the log-probability of each token.
            **options: as of :meth:`generate_batch`; with a ``callback``, True stops a continuation.

        Raises:
            ArgumentError, RunError, TextTooLongError: as :meth:`generate_batch`, at the first token.
        """
        wanted = given(GenerationOptions, {"beam_size": 1, **options, "include_prompt_in_result": False})
        callback = wanted.callback
        replace(wanted, callback=None).check_streams()
        model = self._loaded()
        one = [prompt] if prompt and isinstance(prompt[0], str) else prompt
        sources, prefixes, search = _prompted(model, wanted, tokenised("prompt", one))
        run, stop = steps(model.decoder, sources, prefixes, search), None
        while True:
            try:
                token = run.send(stop)
            except StopIteration:
                return
            result = step_result(token, model, token.input, return_log_prob)
            stop = callback is not None and bool(callback(result))
            yield result

    async def async_generate_tokens(
        self, prompt: Sequence[str] | Sequence[Sequence[str]], *arguments: Any, **options: Any
    ) -> AsyncIterator[GenerationStepResult]:
        """Yield the tokens of :meth:`generate_tokens` without blocking the event loop."""
        results = self.generate_tokens(prompt, *arguments, **options)
        while (result := await asyncio.to_thread(next, results, None)) is not None:
            yield result

    def score_batch(
        self,
        tokens: Iterable[Sequence[str]],
        *,
        max_batch_size: int = 0,
        batch_type: str = "examples",
        max_input_length: int = 1024,
        asynchronous: bool = False,
    ) -> list[Any]:
        """Score texts, each a list of tokens.

        Args:
            tokens: the texts, with the special tokens that the model expects.
            max_batch_size: as of :meth:`generate_batch`.
            batch_type: as of :meth:`generate_batch`.
            max_input_length: cut texts after so many tokens; 0 is off.
            asynchronous: return at once, with results that can be waited for.

        Returns:
            for each text, a :class:`ScoringResult` of its tokens after the first, or an
            :class:`AsyncScoringResult`.

        Raises:
            ArgumentError, RunError, TextTooLongError: as :meth:`generate_batch`.
        """
        found = self._score(tokens, max_batch_size, batch_type, max_input_length)
        return found if asynchronous else [one.result() for one in found]

    def score_iterable(
        self,
        tokens: Iterable[Sequence[str]],
        max_batch_size: int = 64,
        batch_type: str = "examples",
        *,
        max_input_length: int = 1024,
    ) -> Iterator[ScoringResult]:
        """Yield the scores of the texts of an iterable; arguments are those of :meth:`score_batch`.

        Raises:
            ArgumentError, RunError, TextTooLongError: as :meth:`generate_batch`.
        """

        def start(texts: Any) -> list[AsyncResult[ScoringResult]]:
            return self._score(texts, max_batch_size, batch_type, max_input_length)

        yield from each_result(start, [tokens], max_batch_size, batch_type)

    def _generate(
        self,
        start_tokens: Iterable[Sequence[str]],
        max_batch_size: int,
        batch_type: str,
        options: dict[str, Any],
    ) -> list[AsyncResult[GenerationResult]]:
        wanted = given(GenerationOptions, options)
        prompts = tokenised("start_tokens", start_tokens)

        def work(model: LoadedModel, numbers: list[int]) -> list[GenerationResult]:
            return _continued(model, wanted, [prompts[at] for at in numbers], numbers)

        return self._run(AsyncGenerationResult, work, list(map(len, prompts)), max_batch_size, batch_type)

    def _score(
        self,
        tokens: Iterable[Sequence[str]],
        max_batch_size: int,
        batch_type: str,
        max_input_length: int,
    ) -> list[AsyncResult[ScoringResult]]:
        with as_argument_errors():
            check_whole("max_input_length", max_input_length, 0)
        texts = tokenised("tokens", tokens)

        def work(model: LoadedModel, numbers: list[int]) -> list[ScoringResult]:
            return _scored(model, [texts[at][: max_input_length or None] for at in numbers])

        return self._run(AsyncScoringResult, work, list(map(len, texts)), max_batch_size, batch_type)


def _prompted(
    model: LoadedModel, wanted: GenerationOptions, prompts: Sequence[Tokens]
) -> tuple[list[list[int]], list[list[int]], SearchOptions]:
    """Return the prompts and prefixes of a batch, and its search options.

    If the results include the prompts, these are prefixes behind their first token: they count in lengths.
    """
    static = model.target.ids(wanted.static_prompt or [])
    sources, prefixes = list[list[int]](), list[list[int]]()
    for number, prompt in enumerate(prompts, start=1):
        if not prompt:
            raise ArgumentError(f"prompt {number} has no start token: give one or more")
        ids = model.target.ids(prompt)
        cut = 1 if wanted.include_prompt_in_result else len(ids)
        sources.append(static + ids[:cut])
        prefixes.append(ids[cut:])
    return sources, prefixes, search_options(wanted, model, wanted.min_length, wanted.max_length)


def _continued(
    model: LoadedModel, wanted: GenerationOptions, prompts: Sequence[Tokens], numbers: Sequence[int]
) -> list[GenerationResult]:
    """Return the continuations of a batch; ``numbers`` are those of its prompts in the call."""
    sources, prefixes, search = _prompted(model, wanted, prompts)
    callback = wanted.callback
    made = decode(
        model.decoder,
        sources,
        prefixes,
        search,
        wanted.alternatives,
        None
        if callback is None
        else lambda one: callback(step_result(one, model, numbers[one.input], wanted.return_scores)),
    )
    return [
        _result(model, wanted, model.target.ids(prompt[:1]), found)
        for prompt, found in zip(prompts, made, strict=True)
    ]


def _result(
    model: LoadedModel, wanted: GenerationOptions, first: list[int], hypotheses: Sequence[Hypothesis]
) -> GenerationResult:
    begun = first if wanted.include_prompt_in_result else []
    ids = [begun + model.result_ids(one, wanted.return_end_token) for one in hypotheses]
    scores = [one.score for one in hypotheses] if wanted.return_scores else []
    return GenerationResult([model.target.tokens(row) for row in ids], ids, scores)


def _scored(model: LoadedModel, texts: Sequence[Tokens]) -> list[ScoringResult]:
    """Return the scores of the texts of a batch; a text of fewer than two tokens has none."""
    ids = [model.target.ids(text) for text in texts]
    read = [at for at, row in enumerate(ids) if len(row) > 1]
    made = in_batches(
        model.scorer,
        [ids[at][:1] for at in read],
        [ids[at][1:] for at in read],
        model.decoding.batch_tokens,
    )
    scores = dict(zip(read, made, strict=True))
    return [ScoringResult(model.target.tokens(row[1:]), scores.get(at, [])) for at, row in enumerate(ids)]
