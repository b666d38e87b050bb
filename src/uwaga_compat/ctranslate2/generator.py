"""The class ``Generator`` of CTranslate2's Python interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from uwaga.results.translation import Hypothesis
from uwaga.search import SearchOptions
from uwaga.settings.options import check_integer
from uwaga.translator.score import score_in_batches
from uwaga.translator.text import TokenPair
from uwaga_compat.ctranslate2.decode import decode, decode_steps
from uwaga_compat.ctranslate2.errors import ArgumentError, as_argument_errors
from uwaga_compat.ctranslate2.loading import LoadedModel
from uwaga_compat.ctranslate2.options import (
    GenerationOptions,
    adjusted_decoder,
    parse_options,
    search_options,
    step_result,
)
from uwaga_compat.ctranslate2.results import (
    AsyncGenerationResult,
    AsyncResult,
    AsyncScoringResult,
    GenerationResult,
    GenerationStepResult,
    ScoringResult,
)
from uwaga_compat.ctranslate2.workers import ModelWorkers, check_tokens, iterate_results

Tokens = list[str]


class Generator(ModelWorkers):
    """A decoder-only model that continues lists of tokens; arguments are those of :class:`ModelWorkers`."""

    task = "generate"

    @property
    def num_generators(self) -> int:
        """Number of batches that run in parallel."""
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
        """Return continuations of prompts, each a list of tokens.

        Args:
            start_tokens: the prompts, each of at least one token, with the special tokens that the model
                expects.
            max_batch_size: maximum number of prompts or tokens per batch; 0 for a single batch.
            batch_type: unit of ``max_batch_size``, ``examples`` or ``tokens``.
            asynchronous: True to return at once, with results that can be waited for.
            **options: the fields of :class:`uwaga_compat.ctranslate2.options.GenerationOptions` by name.

        Returns:
            a :class:`GenerationResult` for each prompt, or an :class:`AsyncGenerationResult`.

        Raises:
            ArgumentError: if an argument is unknown, invalid or not supported by uwaga.
            RunError: if the model has been unloaded.
            TextTooLongError: if a prompt exceeds the model's maximum length.
        """
        results = self._generate(start_tokens, max_batch_size, batch_type, options)
        return results if asynchronous else [result.result() for result in results]

    def generate_iterable(
        self,
        start_tokens: Iterable[Sequence[str]],
        max_batch_size: int = 32,
        batch_type: str = "examples",
        **options: Any,
    ) -> Iterator[GenerationResult]:
        """Yield the continuations of each prompt in an iterable.

        The arguments are those of :meth:`generate_batch`.

        Raises:
            ArgumentError, RunError, TextTooLongError: as for :meth:`generate_batch`.
        """

        def start(prompts: Any) -> list[AsyncResult[GenerationResult]]:
            return self._generate(prompts, max_batch_size, batch_type, options)

        yield from iterate_results(start, [start_tokens], max_batch_size, batch_type)

    def generate_tokens(
        self,
        prompt: Sequence[str] | Sequence[Sequence[str]],
        max_batch_size: int = 0,
        batch_type: str = "examples",
        *,
        return_log_prob: bool = False,
        **options: Any,
    ) -> Iterator[GenerationStepResult]:
        """Yield the tokens of continuations as soon as they are decoded, by greedy search or sampling.

        Args:
            prompt: the tokens of a prompt, or a list of such prompts, which are then continued in turn.
            max_batch_size: accepted, but does not affect the result.
            batch_type: accepted, but does not affect the result.
            return_log_prob: True to include the log-probability of each token.
            **options: as for :meth:`generate_batch`; a ``callback`` may return True to stop a continuation.

        Raises:
            ArgumentError, RunError, TextTooLongError: as for :meth:`generate_batch`, at the first token.
        """
        decoding = parse_options(
            GenerationOptions, {"beam_size": 1, **options, "include_prompt_in_result": False}
        )
        callback = decoding.callback
        replace(decoding, callback=None).check_streaming()
        model = self._loaded_model()
        prompts = [prompt] if prompt and isinstance(prompt[0], str) else prompt
        sources, prefixes, search = _prompt_ids(model, decoding, check_tokens("prompt", prompts))
        decoder = adjusted_decoder(model.decoder, decoding, model)
        run, stop = decode_steps(decoder, sources, prefixes, search), None
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
        """Yield the results of :meth:`generate_tokens` without blocking the event loop."""
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
        """Return the scores of texts, each a list of tokens.

        Args:
            tokens: the texts, with the special tokens that the model expects.
            max_batch_size: as for :meth:`generate_batch`.
            batch_type: as for :meth:`generate_batch`.
            max_input_length: number of tokens to which texts are truncated; 0 to disable.
            asynchronous: True to return at once, with results that can be waited for.

        Returns:
            a :class:`ScoringResult` for each text, which covers all tokens except the first, or an
            :class:`AsyncScoringResult`.

        Raises:
            ArgumentError, RunError, TextTooLongError: as for :meth:`generate_batch`.
        """
        results = self._score(tokens, max_batch_size, batch_type, max_input_length)
        return results if asynchronous else [result.result() for result in results]

    def score_iterable(
        self,
        tokens: Iterable[Sequence[str]],
        max_batch_size: int = 64,
        batch_type: str = "examples",
        *,
        max_input_length: int = 1024,
    ) -> Iterator[ScoringResult]:
        """Yield the scores of each text in an iterable; the arguments are those of :meth:`score_batch`.

        Raises:
            ArgumentError, RunError, TextTooLongError: as for :meth:`generate_batch`.
        """

        def start(texts: Any) -> list[AsyncResult[ScoringResult]]:
            return self._score(texts, max_batch_size, batch_type, max_input_length)

        yield from iterate_results(start, [tokens], max_batch_size, batch_type)

    def _generate(
        self,
        start_tokens: Iterable[Sequence[str]],
        max_batch_size: int,
        batch_type: str,
        options: dict[str, Any],
    ) -> list[AsyncResult[GenerationResult]]:
        decoding = parse_options(GenerationOptions, options)
        prompts = check_tokens("start_tokens", start_tokens)

        def work(model: LoadedModel, numbers: list[int]) -> list[GenerationResult]:
            return _continue_prompts(model, decoding, [prompts[index] for index in numbers], numbers)

        return self._run(AsyncGenerationResult, work, list(map(len, prompts)), max_batch_size, batch_type)

    def _score(
        self,
        tokens: Iterable[Sequence[str]],
        max_batch_size: int,
        batch_type: str,
        max_input_length: int,
    ) -> list[AsyncResult[ScoringResult]]:
        with as_argument_errors():
            check_integer("max_input_length", max_input_length, 0)
        texts = check_tokens("tokens", tokens)

        def work(model: LoadedModel, numbers: list[int]) -> list[ScoringResult]:
            return _score_texts(model, [texts[index][: max_input_length or None] for index in numbers])

        return self._run(AsyncScoringResult, work, list(map(len, texts)), max_batch_size, batch_type)


def _prompt_ids(
    model: LoadedModel, decoding: GenerationOptions, prompts: Sequence[Tokens]
) -> tuple[list[list[int]], list[list[int]], SearchOptions]:
    """Return the token ids of the prompts and prefixes of a batch, and its search options.

    If the results include the prompts, all tokens of a prompt after the first form its prefix, which counts
    towards the length limits.
    """
    static_ids = model.target.ids(decoding.static_prompt or [])
    sources, prefixes = list[list[int]](), list[list[int]]()
    for number, prompt in enumerate(prompts, start=1):
        if not prompt:
            raise ArgumentError(f"prompt {number} has no tokens; give at least a start token")
        ids = model.target.ids(prompt)
        split = 1 if decoding.include_prompt_in_result else len(ids)
        sources.append(static_ids + ids[:split])
        prefixes.append(ids[split:])
    return sources, prefixes, search_options(decoding, model, decoding.min_length, decoding.max_length)


def _continue_prompts(
    model: LoadedModel, decoding: GenerationOptions, prompts: Sequence[Tokens], numbers: Sequence[int]
) -> list[GenerationResult]:
    """Return the continuations for a batch; ``numbers`` are the indices of its prompts in the call."""
    sources, prefixes, search = _prompt_ids(model, decoding, prompts)
    callback = decoding.callback
    hypotheses = decode(
        adjusted_decoder(model.decoder, decoding, model, seed=search.seed if callback is None else None),
        sources,
        prefixes,
        search,
        decoding.alternatives,
        None
        if callback is None
        else lambda token: callback(step_result(token, model, numbers[token.input], decoding.return_scores)),
    )
    return [
        _result(model, decoding, model.target.ids(prompt[:1]), prompt_hypotheses)
        for prompt, prompt_hypotheses in zip(prompts, hypotheses, strict=True)
    ]


def _result(
    model: LoadedModel, decoding: GenerationOptions, first_ids: list[int], hypotheses: Sequence[Hypothesis]
) -> GenerationResult:
    prefix = first_ids if decoding.include_prompt_in_result else []
    ids = [prefix + model.result_ids(hypothesis, decoding.return_end_token) for hypothesis in hypotheses]
    scores = [hypothesis.score for hypothesis in hypotheses] if decoding.return_scores else []
    return GenerationResult([model.target.tokens(row) for row in ids], ids, scores)


def _score_texts(model: LoadedModel, texts: Sequence[Tokens]) -> list[ScoringResult]:
    """Return the scores of a batch of texts; texts of fewer than two tokens have no scores."""
    ids = [model.target.ids(text) for text in texts]
    scorable_indices = [index for index, row in enumerate(ids) if len(row) > 1]
    pairs = [TokenPair(ids[index][:1], ids[index][1:]) for index in scorable_indices]
    log_probs = score_in_batches(model.scorer, pairs, model.decoding.batch_tokens)
    scores = dict(zip(scorable_indices, log_probs, strict=True))
    return [
        ScoringResult(model.target.tokens(row[1:]), scores.get(index, [])) for index, row in enumerate(ids)
    ]
