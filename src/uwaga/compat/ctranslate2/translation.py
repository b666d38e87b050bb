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
from uwaga.translator.score import force, in_batches

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
    found = dict(zip(read, made, strict=True))
    return [
        _result(model, wanted, search, tokens, framed[at], found[at])
        if tokens
        else _of_nothing(model, wanted, prefixes[at])
        for at, tokens in enumerate(sources)
    ]


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
    search: SearchOptions,
    tokens: Tokens,
    framed: Framed,
    hypotheses: Sequence[Hypothesis],
) -> TranslationResult:
    """Return the result of a text with tokens."""
    ids = [model.result_ids(one, wanted.return_end_token) for one in hypotheses]
    texts, weights = [model.target.tokens(row) for row in ids], list[list[list[float]]]()
    if wanted.return_attention or wanted.replace_unknowns:
        start = start_token(search, model.decoder.symbols)
        for matrix in _attention(model, framed.ids, ids, start):
            own = matrix[:, framed.before : framed.before + framed.kept]
            weights.append(np.pad(own, ((0, 0), (0, len(tokens) - framed.kept))).tolist())
    if wanted.replace_unknowns:
        for text, rows in zip(texts, weights, strict=True):
            for at, row in enumerate(rows):
                if text[at] == model.target.unknown:
                    text[at] = tokens[int(np.argmax(row))]
    return TranslationResult(
        texts,
        [one.score for one in hypotheses] if wanted.return_scores else [],
        weights if wanted.return_attention else [],
    )


def _attention(
    model: LoadedModel, source: Sequence[int], targets: Sequence[Sequence[int]], start: int
) -> list[Floats]:
    """Return the attention (target, source) of each target.

    Raises:
        SettingsError: the model has no attention.
    """
    decoder, long = model.decoder, [at for at, target in enumerate(targets) if target]
    found = [np.zeros((0, len(source)), dtype=np.float32) for _ in targets]
    if model.alignment is not None and decoder.cross_attentions is not None and long:
        layer, heads = model.alignment
        fed = [[start, *targets[at][:-1]] for at in long]
        matrices = decoder.cross_attentions([source] * len(long), fed)  # (layers, heads, target, source)
        for at, each in zip(long, matrices, strict=True):
            found[at] = each[layer][: heads or None].mean(axis=0)
    else:
        for at in long:
            attention = force(decoder, source, targets[at], start).attention
            assert attention is not None
            found[at] = attention
    return found


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
