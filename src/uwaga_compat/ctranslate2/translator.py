"""The class ``Translator`` of CTranslate2's Python interface."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from uwaga.settings.options import check_integer
from uwaga_compat.ctranslate2.errors import ArgumentError, RunError, as_argument_errors
from uwaga_compat.ctranslate2.loading import LoadedModel
from uwaga_compat.ctranslate2.options import TranslationOptions, parse_options
from uwaga_compat.ctranslate2.results import (
    AsyncResult,
    AsyncScoringResult,
    AsyncTranslationResult,
    ExecutionStats,
    GenerationStepResult,
    ScoringResult,
    TranslationResult,
)
from uwaga_compat.ctranslate2.text_files import FileOptions, write_results
from uwaga_compat.ctranslate2.translation import score_pairs, stream_tokens, translate_texts
from uwaga_compat.ctranslate2.workers import ModelWorkers, check_tokens, iterate_results

OPTIONS_NOT_FOR_FILES = (
    *("return_scores", "return_attention", "return_alternatives", "min_alternative_expansion_prob"),
    *("return_logits_vocab", "return_end_token", "callback"),
)
"""Options of translations that are not available for files."""


class Translator(ModelWorkers):
    """A model that translates lists of tokens; the arguments are those of :class:`ModelWorkers`."""

    task = "translate"

    @property
    def num_translators(self) -> int:
        """Number of batches that run in parallel."""
        return self._workers

    def translate_batch(
        self,
        source: Iterable[Sequence[str]],
        target_prefix: Iterable[Sequence[str] | None] | None = None,
        *,
        max_batch_size: int = 0,
        batch_type: str = "examples",
        asynchronous: bool = False,
        **options: Any,
    ) -> list[Any]:
        """Return translations of texts, each a list of tokens.

        Args:
            source: the texts, with the special tokens that the model expects unless its folder adds them.
            target_prefix: forced first tokens of each translation, None for a text without a prefix; the
                whole argument is None if no text has a prefix.
            max_batch_size: maximum number of texts or tokens per batch; 0 for a single batch.
            batch_type: unit of ``max_batch_size``, ``examples`` or ``tokens``.
            asynchronous: True to return at once, with results that can be waited for.
            **options: the fields of :class:`uwaga_compat.ctranslate2.options.TranslationOptions` by name.

        Returns:
            a :class:`TranslationResult` for each text, or an :class:`AsyncTranslationResult`.

        Raises:
            ArgumentError: if an argument is unknown, invalid or not supported by uwaga.
            RunError: if the model has been unloaded.
            TextTooLongError: if a text exceeds the model's maximum length.
        """
        results = self._translate(source, target_prefix, max_batch_size, batch_type, options)
        return results if asynchronous else [result.result() for result in results]

    def translate_iterable(
        self,
        source: Iterable[Sequence[str]],
        target_prefix: Iterable[Sequence[str]] | None = None,
        max_batch_size: int = 32,
        batch_type: str = "examples",
        **options: Any,
    ) -> Iterator[TranslationResult]:
        """Yield the translations of each text in an iterable; arguments are those of :meth:`translate_batch`.

        Raises:
            ArgumentError: as for :meth:`translate_batch`, and if the iterables have different lengths.
        """

        def start(source: Any, prefix: Any = None) -> list[AsyncResult[TranslationResult]]:
            return self._translate(source, prefix, max_batch_size, batch_type, options)

        inputs = [source] if target_prefix is None else [source, target_prefix]
        yield from iterate_results(start, inputs, max_batch_size, batch_type)

    def generate_tokens(
        self,
        source: Sequence[str],
        target_prefix: Sequence[str] | None = None,
        *,
        return_log_prob: bool = False,
        **options: Any,
    ) -> Iterator[GenerationStepResult]:
        """Yield the tokens of a translation as soon as they are decoded, by greedy search or sampling.

        Args:
            source: the tokens of the text.
            target_prefix: forced first tokens of the translation.
            return_log_prob: True to include the log-probability of each token.
            **options: as for :meth:`translate_batch`, without ``callback``.

        Raises:
            ArgumentError, RunError, TextTooLongError: as for :meth:`translate_batch`, at the first token.
        """
        decoding = parse_options(TranslationOptions, {"beam_size": 1, **options})
        decoding.check_streaming()
        [tokens] = check_tokens("source", [source])
        [prefix] = check_tokens("target_prefix", [target_prefix or []])
        yield from stream_tokens(self._loaded_model(), decoding, tokens, prefix, return_log_prob)

    def score_batch(
        self,
        source: Iterable[Sequence[str]],
        target: Iterable[Sequence[str]],
        *,
        max_batch_size: int = 0,
        batch_type: str = "examples",
        max_input_length: int = 1024,
        offset: int = 0,
        asynchronous: bool = False,
    ) -> list[Any]:
        """Return the scores of translations.

        Args:
            source: the texts, as for :meth:`translate_batch`.
            target: the tokens of their translations, without the end token.
            max_batch_size: as for :meth:`translate_batch`.
            batch_type: as for :meth:`translate_batch`.
            max_input_length: number of tokens to which sources and targets are truncated; 0 to disable.
            offset: number of first tokens of each target whose scores are omitted.
            asynchronous: True to return at once, with results that can be waited for.

        Returns:
            a :class:`ScoringResult` for each text, which includes the end token, or an
            :class:`AsyncScoringResult`.

        Raises:
            ArgumentError, RunError, TextTooLongError: as for :meth:`translate_batch`.
        """
        results = self._score(source, target, max_batch_size, batch_type, max_input_length, offset)
        return results if asynchronous else [result.result() for result in results]

    def score_iterable(
        self,
        source: Iterable[Sequence[str]],
        target: Iterable[Sequence[str]],
        max_batch_size: int = 64,
        batch_type: str = "examples",
        *,
        max_input_length: int = 1024,
        offset: int = 0,
    ) -> Iterator[ScoringResult]:
        """Yield the scores of translations in iterables; the arguments are those of :meth:`score_batch`.

        Raises:
            ArgumentError: as for :meth:`score_batch`, and if the iterables have different lengths.
        """

        def start(source: Any, target: Any) -> list[AsyncResult[ScoringResult]]:
            return self._score(source, target, max_batch_size, batch_type, max_input_length, offset)

        yield from iterate_results(start, [source, target], max_batch_size, batch_type)

    def translate_file(
        self,
        source_path: str | Path,
        output_path: str | Path,
        target_path: str | Path | None = None,
        *,
        with_scores: bool = False,
        **options: Any,
    ) -> ExecutionStats:
        """Translate a file with one text per line; the output is written atomically.

        Args:
            source_path: path of the source file, with tokens separated by spaces unless
                ``source_tokenize_fn`` is given.
            output_path: path of the output file, which has one line per hypothesis.
            target_path: path of a file with the prefix of each translation on one line; lines may be empty.
            with_scores: True to write the score and `` ||| `` before each hypothesis.
            **options: as for :meth:`translate_batch`, and the fields of
                :class:`uwaga_compat.ctranslate2.text_files.FileOptions`.

        Raises:
            ArgumentError, TextTooLongError: as for :meth:`translate_batch`.
            RunError: if the model has been unloaded, or the files have different numbers of lines.
            DataError: if a file cannot be read or written.
        """
        for name in OPTIONS_NOT_FOR_FILES:
            if name in options:
                raise ArgumentError(f"{name}: not supported for files; use translate_iterable")
        file_options = FileOptions.take(options)
        sources, *prefixes = file_options.read(source_path, target_path)

        def lines(result: TranslationResult) -> list[str]:
            scores = [f"{score:g} ||| " for score in result.scores] or [""] * len(result)
            return [
                score + file_options.text(tokens)
                for score, tokens in zip(scores, result.hypotheses, strict=True)
            ]

        results = self.translate_iterable(
            sources,
            prefixes[0] if prefixes else None,
            file_options.max_batch_size,
            file_options.batch_type,
            return_scores=with_scores,
            **options,
        )
        return write_results(output_path, results, lines, lambda result: len(result.hypotheses[0]))

    def score_file(
        self,
        source_path: str | Path,
        target_path: str | Path,
        output_path: str | Path,
        *,
        max_input_length: int = 1024,
        offset: int = 0,
        with_tokens_score: bool = False,
        **options: Any,
    ) -> ExecutionStats:
        """Score a file of translations, one per line; the output is written atomically.

        Each output line contains the mean log-probability, the translation and, with ``with_tokens_score``,
        the log-probability of each token, separated by `` ||| ``. Other arguments are those of
        :meth:`score_batch`, and the fields of :class:`uwaga_compat.ctranslate2.text_files.FileOptions`.

        Raises:
            ArgumentError, RunError, TextTooLongError, DataError: as for :meth:`translate_file`.
        """
        file_options = FileOptions(**options)

        def lines(result: ScoringResult) -> list[str]:
            scores = result.log_probs
            parts = [f"{np.mean(scores):g}", file_options.text(result.tokens)]
            parts += [" ".join(f"{score:g}" for score in scores)] if with_tokens_score else []
            return [" ||| ".join(parts)]

        sources, targets = file_options.read(source_path, target_path)
        results = self.score_iterable(
            sources,
            targets,
            file_options.max_batch_size,
            file_options.batch_type,
            max_input_length=max_input_length,
            offset=offset,
        )
        return write_results(output_path, results, lines, lambda result: len(result.tokens))

    def _translate(
        self,
        source: Iterable[Sequence[str]],
        target_prefix: Iterable[Sequence[str] | None] | None,
        max_batch_size: int,
        batch_type: str,
        options: dict[str, Any],
    ) -> list[AsyncResult[TranslationResult]]:
        decoding = parse_options(TranslationOptions, options)
        sources = check_tokens("source", source)
        prefixes = check_tokens(
            "target_prefix", [prefix or [] for prefix in target_prefix or [[]] * len(sources)]
        )
        _check_equal_lengths(len(sources), len(prefixes))

        def work(model: LoadedModel, numbers: list[int]) -> list[TranslationResult]:
            return translate_texts(
                model,
                decoding,
                [sources[index] for index in numbers],
                [prefixes[index] for index in numbers],
                numbers,
            )

        lengths = [len(tokens) for tokens in sources]
        return self._run(AsyncTranslationResult, work, lengths, max_batch_size, batch_type)

    def _score(
        self,
        source: Iterable[Sequence[str]],
        target: Iterable[Sequence[str]],
        max_batch_size: int,
        batch_type: str,
        max_input_length: int,
        offset: int,
    ) -> list[AsyncResult[ScoringResult]]:
        with as_argument_errors():
            check_integer("max_input_length", max_input_length, 0)
            check_integer("offset", offset, 0)
        sources, targets = check_tokens("source", source), check_tokens("target", target)
        _check_equal_lengths(len(sources), len(targets))

        def work(model: LoadedModel, numbers: list[int]) -> list[ScoringResult]:
            return score_pairs(
                model, [(sources[index], targets[index]) for index in numbers], max_input_length, offset
            )

        lengths = [
            max(len(source_tokens), len(target_tokens))
            for source_tokens, target_tokens in zip(sources, targets, strict=True)
        ]
        return self._run(AsyncScoringResult, work, lengths, max_batch_size, batch_type)


def _check_equal_lengths(source_count: int, target_count: int) -> None:
    if source_count != target_count:
        raise RunError(
            f"one input has less examples than the other: {source_count} sources and {target_count} targets"
        )
