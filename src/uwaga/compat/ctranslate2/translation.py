"""Translations and scores of one batch of lists of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from uwaga.compat.ctranslate2.decode import decode, steps
from uwaga.compat.ctranslate2.loading import Framed, LoadedModel
from uwaga.compat.ctranslate2.options import TranslationOptions, search_options, step_result
from uwaga.compat.ctranslate2.results import GenerationStepResult, ScoringResult, TranslationResult
from uwaga.decoder import Decoder
from uwaga.results.attention import Floats
from uwaga.results.translation import Hypothesis
from uwaga.search import SearchOptions
from uwaga.search.constraints import start_token
from uwaga.search.length_batching import map_batches
from uwaga.translator.score import in_batches, no_attention

Tokens = Sequence[str]


def _search(model: LoadedModel, wanted: TranslationOptions) -> SearchOptions:
    return search_options(wanted, model, wanted.min_decoding_length, wanted.max_decoding_length)


def _decoder(model: LoadedModel, wanted: TranslationOptions) -> Decoder:
    return model.with_vmap if wanted.use_vmap else model.decoder


def translated(
    model: LoadedModel,
    wanted: TranslationOptions,
    sources: Sequence[Tokens],
    prefixes: Sequence[Tokens],
    numbers: Sequence[int],
) -> list[TranslationResult]:
    """Return the translations of a batch; ``numbers`` are those of its texts in the call."""
    search, callback = _search(model, wanted), wanted.callback
    framed = [model.framed(tokens, wanted.max_input_length) for tokens in sources]
    read = [at for at, tokens in enumerate(sources) if tokens]
    made = decode(
        _decoder(model, wanted),
        [framed[at].ids for at in read],
        [model.target.ids(prefixes[at]) for at in read],
        search,
        wanted.alternatives,
        None
        if callback is None
        else lambda one: callback(step_result(one, model, numbers[read[one.input]], wanted.return_scores)),
    )
    ids = [[model.result_ids(one, wanted.return_end_token) for one in found] for found in made]
    rows = _attention(model, [framed[at] for at in read], ids, search) if wanted.attends else None
    results = [_of_nothing(model, wanted, prefix) for prefix in prefixes]
    for number, at in enumerate(read):
        own = None if rows is None else _over_tokens(rows[number], framed[at], len(sources[at]))
        results[at] = _result(model, wanted, sources[at], made[number], ids[number], own)
    return results


def translated_tokens(
    model: LoadedModel, wanted: TranslationOptions, source: Tokens, prefix: Tokens, scored: bool
) -> Iterator[GenerationStepResult]:
    """Yield the tokens of a translation as they are decided; none for a text without tokens."""
    search = _search(model, wanted)
    if source:
        ids = model.framed(source, wanted.max_input_length).ids
        for one in steps(_decoder(model, wanted), [ids], [model.target.ids(prefix)], search):
            yield step_result(one, model, 0, scored)


def _of_nothing(model: LoadedModel, wanted: TranslationOptions, prefix: Tokens) -> TranslationResult:
    """Return the translation of a text without tokens: its prefix."""
    copies = range(wanted.num_hypotheses)
    ids = model.target.ids(prefix[: wanted.max_decoding_length])
    return TranslationResult(
        [model.target.tokens(ids) for _ in copies],
        [0.0 for _ in copies] if wanted.return_scores else [],
        [[] for _ in copies] if wanted.return_attention else [],
    )


def _result(
    model: LoadedModel,
    wanted: TranslationOptions,
    source: Tokens,
    hypotheses: Sequence[Hypothesis],
    ids: Sequence[Sequence[int]],
    weights: list[list[list[float]]] | None,
) -> TranslationResult:
    """Return the result of a text; ``weights`` are (target, source) for each hypothesis, if needed."""
    texts = [model.target.tokens(row) for row in ids]
    if wanted.replace_unknowns and weights is not None:
        for text, rows in zip(texts, weights, strict=True):
            for at, row in enumerate(rows):
                if text[at] == model.target.unknown:
                    text[at] = source[int(np.argmax(row))]
    return TranslationResult(
        texts,
        [one.score for one in hypotheses] if wanted.return_scores else [],
        weights if wanted.return_attention and weights is not None else [],
    )


def _attention(
    model: LoadedModel, sources: Sequence[Framed], targets: Sequence[list[list[int]]], search: SearchOptions
) -> list[list[Floats]]:
    """Return the attention (target, source) of each target of each source."""
    attend, (layer, heads) = model.decoder.cross_attention, model.alignment
    if attend is None:
        raise no_attention()
    start = start_token(search, model.decoder.symbols)
    given = [source.ids for source, each in zip(sources, targets, strict=True) for _ in each]
    fed = [[start, *target[:-1]] for each in targets for target in each]  # a last token is fed to nothing

    def of_batch(indices: list[int]) -> list[Floats]:
        rows = [given[index] for index in indices], [fed[index] for index in indices]
        of_heads = [attend(*rows, layer, head) for head in (range(heads) if heads else [None])]
        return [np.mean(each, axis=0) for each in zip(*of_heads, strict=True)]

    lengths = [max(len(source), len(target)) for source, target in zip(given, fed, strict=True)]
    rest = iter(map_batches(of_batch, lengths, search.batch_tokens))
    return [[next(rest)[: len(target)] for target in each] for each in targets]


def _over_tokens(matrices: Sequence[Floats], framed: Framed, tokens: int) -> list[list[list[float]]]:
    """Return attention over the tokens of a source: without special tokens, 0 for tokens that were cut."""
    kept, cut = slice(framed.before, framed.before + framed.kept), tokens - framed.kept
    return [np.pad(rows[:, kept], ((0, 0), (0, cut))).tolist() for rows in matrices]


def scored(
    model: LoadedModel, pairs: Sequence[tuple[Tokens, Tokens]], most: int, offset: int
) -> list[ScoringResult]:
    """Return the scores of the targets of a batch."""
    end = model.decoder.symbols.end
    sources = [model.framed(source, most).ids for source, _ in pairs]
    targets = [[*model.target.ids(target[: most - 1] if most else target), end] for _, target in pairs]
    read = [at for at, (source, _) in enumerate(pairs) if source]
    own = model.decoding
    made = in_batches(
        model.scorer, [sources[at] for at in read], [targets[at] for at in read], own.batch_tokens, own.start
    )
    results = [ScoringResult(model.target.tokens(target), [0.0] * len(target)) for target in targets]
    for at, log_probs in zip(read, made, strict=True):
        results[at] = ScoringResult(results[at].tokens[offset:], log_probs[offset:])
    return results
