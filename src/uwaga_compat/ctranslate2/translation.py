"""Translation and scoring of batches of lists of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from uwaga.decoder import Decoder
from uwaga.results.attention import Floats
from uwaga.results.translation import Hypothesis
from uwaga.search import SearchOptions
from uwaga.search.constraints import start_token
from uwaga.search.length_batching import map_batches
from uwaga.translator.score import no_attention_error, score_in_batches
from uwaga.translator.text import TokenPair
from uwaga_compat.ctranslate2.decode import decode, decode_steps
from uwaga_compat.ctranslate2.loading import FramedSource, LoadedModel
from uwaga_compat.ctranslate2.options import (
    TranslationOptions,
    adjusted_decoder,
    search_options,
    step_result,
)
from uwaga_compat.ctranslate2.results import GenerationStepResult, ScoringResult, TranslationResult

Tokens = Sequence[str]


def _search(model: LoadedModel, options: TranslationOptions) -> SearchOptions:
    return search_options(options, model, options.min_decoding_length, options.max_decoding_length)


def _decoder(
    model: LoadedModel, options: TranslationOptions, prefix: Sequence[int], seed: int | None = None
) -> Decoder:
    """Return the decoder for a whole call or for a text with a prefix; ``seed`` is the seed of sampling."""
    decoder = model.vmap_decoder(prefix) if options.use_vmap else model.decoder
    return adjusted_decoder(decoder, options, model, seed=seed, prefix=prefix)


def translate_texts(
    model: LoadedModel,
    options: TranslationOptions,
    sources: Sequence[Tokens],
    prefixes: Sequence[Tokens],
    numbers: Sequence[int],
) -> list[TranslationResult]:
    """Return the translations of a batch; ``numbers`` are the indices of its texts in the call."""
    search, callback = _search(model, options), options.callback
    framed_sources = [model.frame_source(tokens, options.max_input_length) for tokens in sources]
    nonempty = [index for index, tokens in enumerate(sources) if tokens]
    ids = [framed_sources[index].ids for index in nonempty]
    prefix_ids = [model.target.ids(prefixes[index]) for index in nonempty]

    def decode_texts(positions: Sequence[int], prefix: Sequence[int]) -> list[list[Hypothesis]]:
        return decode(
            _decoder(model, options, prefix, search.seed if callback is None else None),
            [ids[position] for position in positions],
            [() if options.prefix_bias_beta else prefix_ids[position] for position in positions],
            search,
            options.alternatives,
            None
            if callback is None
            else lambda token: callback(
                step_result(token, model, numbers[nonempty[positions[token.input]]], options.return_scores)
            ),
        )

    if options.prefix_bias_beta or (options.use_vmap and any(prefix_ids)):  # a distribution for each text
        hypotheses = [decode_texts([position], prefix)[0] for position, prefix in enumerate(prefix_ids)]
    else:
        hypotheses = decode_texts(range(len(ids)), ())
    targets = [
        [model.result_ids(hypothesis, options.return_end_token) for hypothesis in text_hypotheses]
        for text_hypotheses in hypotheses
    ]
    attention = (
        _attention(model, [framed_sources[index] for index in nonempty], targets, search)
        if options.needs_attention
        else None
    )
    results = [_empty_result(model, options, prefix) for prefix in prefixes]
    for position, index in enumerate(nonempty):
        weights = (
            None
            if attention is None
            else _token_attention(attention[position], framed_sources[index], len(sources[index]))
        )
        results[index] = _result(
            model, options, sources[index], hypotheses[position], targets[position], weights
        )
    return results


def stream_tokens(
    model: LoadedModel, options: TranslationOptions, source: Tokens, prefix: Tokens, with_scores: bool
) -> Iterator[GenerationStepResult]:
    """Yield the tokens of a translation as soon as they are decoded; a text without tokens yields none."""
    search = _search(model, options)
    if source:
        ids = model.frame_source(source, options.max_input_length).ids
        prefix_ids = model.target.ids(prefix)
        forced_ids = [] if options.prefix_bias_beta else prefix_ids
        for token in decode_steps(_decoder(model, options, prefix_ids), [ids], [forced_ids], search):
            yield step_result(token, model, 0, with_scores)


def _empty_result(model: LoadedModel, options: TranslationOptions, prefix: Tokens) -> TranslationResult:
    """Return the result for a text without tokens, whose translation is its prefix."""
    copies = range(options.num_hypotheses)
    ids = model.target.ids(prefix[: options.max_decoding_length])
    return TranslationResult(
        [model.target.tokens(ids) for _ in copies],
        [0.0 for _ in copies] if options.return_scores else [],
        [[] for _ in copies] if options.return_attention else [],
    )


def _result(
    model: LoadedModel,
    options: TranslationOptions,
    source: Tokens,
    hypotheses: Sequence[Hypothesis],
    ids: Sequence[Sequence[int]],
    weights: list[list[list[float]]] | None,
) -> TranslationResult:
    """Return the result for a text; ``weights`` are the attention (target, source) of each hypothesis."""
    texts = [model.target.tokens(row) for row in ids]
    if options.replace_unknowns and weights is not None:
        for text, rows in zip(texts, weights, strict=True):
            for position, row in enumerate(rows):
                if text[position] == model.target.unknown:
                    text[position] = source[int(np.argmax(row))]
    return TranslationResult(
        texts,
        [hypothesis.score for hypothesis in hypotheses] if options.return_scores else [],
        weights if options.return_attention and weights is not None else [],
    )


def _attention(
    model: LoadedModel,
    sources: Sequence[FramedSource],
    targets: Sequence[list[list[int]]],
    search: SearchOptions,
) -> list[list[Floats]]:
    """Return the attention (target, source) for each target of each source."""
    attend, (layer, heads) = model.decoder.cross_attention, model.alignment
    if attend is None:
        raise no_attention_error()
    start = start_token(search, model.decoder.symbols)
    source_ids = [
        source.ids for source, text_targets in zip(sources, targets, strict=True) for _ in text_targets
    ]
    target_ids = [
        [start, *target[:-1]] for text_targets in targets for target in text_targets
    ]  # the last token is not fed back

    def attend_batch(indices: list[int]) -> list[Floats]:
        rows = [source_ids[index] for index in indices], [target_ids[index] for index in indices]
        by_head = [attend(*rows, layer, head) for head in (range(heads) if heads else [None])]
        return [np.mean(matrices, axis=0) for matrices in zip(*by_head, strict=True)]

    lengths = [max(len(source), len(target)) for source, target in zip(source_ids, target_ids, strict=True)]
    attentions = iter(map_batches(attend_batch, lengths, search.batch_tokens))
    return [[next(attentions)[: len(target)] for target in text_targets] for text_targets in targets]


def _token_attention(
    matrices: Sequence[Floats], framed_source: FramedSource, tokens: int
) -> list[list[list[float]]]:
    """Return the attention to a source's tokens except special tokens; it is 0 for truncated tokens."""
    columns, padding = (
        slice(framed_source.start, framed_source.start + framed_source.count),
        tokens - framed_source.count,
    )
    return [np.pad(rows[:, columns], ((0, 0), (0, padding))).tolist() for rows in matrices]


def score_pairs(
    model: LoadedModel, pairs: Sequence[tuple[Tokens, Tokens]], max_length: int, offset: int
) -> list[ScoringResult]:
    """Return the scores of the targets in a batch, without those of the first ``offset`` tokens."""
    end = model.decoder.symbols.end
    sources = [model.frame_source(source, max_length).ids for source, _ in pairs]
    targets = [
        [*model.target.ids(target[: max_length - 1] if max_length else target), end] for _, target in pairs
    ]
    nonempty = [index for index, (source, _) in enumerate(pairs) if source]
    scored_pairs, defaults = [TokenPair(sources[index], targets[index]) for index in nonempty], model.decoding
    scores = score_in_batches(model.scorer, scored_pairs, defaults.batch_tokens, defaults.start)
    results = [ScoringResult(model.target.tokens(target), [0.0] * len(target)) for target in targets]
    for index, log_probs in zip(nonempty, scores, strict=True):
        results[index] = ScoringResult(results[index].tokens[offset:], log_probs[offset:])
    return results
