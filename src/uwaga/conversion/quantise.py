"""Quantisation to int8 or int4, and measurement of the agreement with the float32 model.

The two models are compared on the user's sentences, or on sentences in languages of ten scripts that were
written for uwaga (``sentences.txt``). If neither is suitable, they are compared on random pieces, for which a
model's predictions are uncertain.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from uwaga.checkpoints.checkpoint import Checkpoint
from uwaga.checkpoints.formats.uwaga.int8 import write_quantised
from uwaga.checkpoints.registry import read
from uwaga.checkpoints.score_stats import ScoreStats, summarise_scores
from uwaga.checkpoints.to_engine import pack_weights, to_engine
from uwaga.engine import NativeModel
from uwaga.engine.layout import Precision
from uwaga.errors import ModelError, SettingsError
from uwaga.languages.codes import base_language
from uwaga.search import SearchInput, SearchOptions, search
from uwaga.settings import DecoderOnlySettings
from uwaga.tokenizers.framed import FramedTokeniser
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.score import score_in_batches, step_scorer
from uwaga.translator.text import TokenPair

SAMPLE_SOURCES, MIN_SAMPLE_TOKENS, MAX_SAMPLE_TOKENS = 32, 6, 20
"""Number of random sources if no sample is given, and their minimum and maximum length in tokens."""
BATCH_TOKENS = 2048
GOOD_DIFFERENCE, FAIR_DIFFERENCE = 0.05, 0.25
"""Largest good and fair mean differences of log-probabilities, in nats: 5 % and 25 % of a probability."""
CONTINUATION_TOKENS = 32
"""Maximum number of tokens that a decoder-only model generates after each prompt."""


@dataclass(frozen=True)
class Agreement:
    """The agreement between a float32 model and its int8 or int4 version on a sample, with greedy search.

    Attributes:
        sentences: number of sentences in the sample.
        same: share of sentences for which both models give the same result.
        tokens: share of tokens in the common prefixes of the two models' results.
        difference: mean absolute difference of the log-probabilities of the tokens in the float32 results.
        largest: the largest mean absolute difference in a single sentence.
        continued: True if the model is a decoder-only model, which continues the sentences.
        measured_on: description of the sample.
    """

    sentences: int
    same: float
    tokens: float
    difference: float
    largest: float
    continued: bool = False
    measured_on: str = "sentences"

    @property
    def verdict(self) -> str:
        """An assessment of the mean difference of log-probabilities, as a line of text.

        Log-probabilities are used because errors do not accumulate in them as they do in the tokens.
        """
        if self.difference <= GOOD_DIFFERENCE:
            return "good: the quality is that of float32"
        if self.difference <= FAIR_DIFFERENCE:
            return "fair: compare the quality on your own texts, with uwaga evaluate"
        return "poor: keep some matrices in a higher precision (--keep output), or use int8 instead of int4"

    def to_dict(self) -> dict[str, object]:
        """Return the agreement as JSON values."""
        return asdict(self)


def measure_agreement(
    exact_model: NativeModel,
    quantised_model: NativeModel,
    sources: Sequence[Sequence[int]],
    first: int | None = None,
) -> Agreement:
    """Measure the agreement between two engines of a model.

    Args:
        exact_model: the engine in float32.
        quantised_model: the engine in int8 or int4.
        sources: token ids of the sources, with end symbols. A decoder-only model continues them as prompts.
        first: id of the token that every translation must begin with, None if there is none.
    """
    max_length = None if exact_model.max_target else 256
    options = SearchOptions(beam=1, max_length=max_length, batch_tokens=BATCH_TOKENS, first=first)
    continues = isinstance(exact_model.settings, DecoderOnlySettings)
    if continues and exact_model.max_source is not None:
        # the last generated token needs no position
        limit = exact_model.max_source - max(map(len, sources)) + 1
        options = options.changed({"max_length": min(CONTINUATION_TOKENS, limit), "max_ratio": math.inf})
    sentences = list(map(SearchInput, sources))
    results = [
        [hypothesis for [hypothesis] in search(model, sentences, options)]
        for model in (exact_model, quantised_model)
    ]
    pairs = [(left.tokens, right.tokens) for left, right in zip(*results, strict=True)]
    agreeing_tokens = sum(_common_prefix_length(left, right) for left, right in pairs)
    scored_texts = [
        TokenPair(
            source,
            hypothesis.tokens if hypothesis.truncated else (*hypothesis.tokens, exact_model.symbols.end),
        )
        for source, hypothesis in zip(sources, results[0], strict=True)
    ]
    scores = [
        score_in_batches(step_scorer(model), scored_texts, BATCH_TOKENS)
        for model in (exact_model, quantised_model)
    ]
    differences = [
        np.asarray(left) - np.asarray(right) for left, right in zip(scores[0], scores[1], strict=True)
    ]
    all_differences = np.concatenate(differences)
    return Agreement(
        sentences=len(pairs),
        same=sum(left == right for left, right in pairs) / len(pairs),
        tokens=agreeing_tokens / max(1, sum(max(len(left), len(right)) for left, right in pairs)),
        difference=float(np.abs(all_differences).mean()),
        largest=max(float(np.abs(difference).mean()) for difference in differences),
        continued=continues,
    )


def _common_prefix_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the length of the common prefix of two sequences."""
    length = 0
    for left, right in zip(first, second, strict=False):
        if left != right:
            break
        length += 1
    return length


def comparison_sources(
    sample: Sequence[str] | None, tokeniser: Subwords, model: NativeModel
) -> list[tuple[int, ...]]:
    """Return the token ids of sources for a comparison of two engines.

    Args:
        sample: the sentences to use, None for random pieces.
        tokeniser: tokeniser of the source side.
        model: one of the engines.

    Raises:
        ModelError: if all sentences of the sample are empty or too long.
    """
    limit = model.max_source or 512
    size = model.source_vocabulary
    if sample is not None:
        framed_sources = [
            tuple(tokeniser.add_special_tokens(tokeniser.encode(line.strip())))
            for line in sample
            if line.strip()
        ]
        usable_sources = [source for source in framed_sources if 0 < len(source) <= limit]
        if not usable_sources:
            raise ModelError(
                "all sentences of the sample are empty or too long for the model; give another sample"
            )
        return usable_sources
    symbols = tokeniser.symbols
    special_tokens = {symbols.start, symbols.end, symbols.pad, symbols.unknown}
    pieces = np.array([token for token in range(size) if token not in special_tokens])
    rng = np.random.default_rng(0)
    lengths = rng.integers(
        min(MIN_SAMPLE_TOKENS, limit - 1), min(MAX_SAMPLE_TOKENS, limit - 1) + 1, SAMPLE_SOURCES
    )
    return [tuple(tokeniser.add_special_tokens(rng.choice(pieces, length).tolist())) for length in lengths]


HEADING = re.compile(r"\[(\w+)\]")
MIN_SENTENCES = 5
"""Minimum number of usable sentences for a comparison."""
RANDOM_SOURCES = "sources drawn from the vocabulary (no --sample)"
MAX_LANGUAGES = 3
"""Maximum number of languages in the comparison of a multilingual model."""
MIN_LETTERS_PER_PIECE = 2.0
"""Minimum mean number of letters per piece in a language that a tokeniser is assumed to be trained on."""


@cache
def bundled_sentences() -> dict[str, tuple[str, ...]]:
    """Return the sentences of ``sentences.txt`` by two-letter language code."""
    sentences: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / "sentences.txt").read_text(encoding="utf-8").splitlines():
        heading = HEADING.fullmatch(line)
        if heading:
            current_sentences = sentences.setdefault(heading[1], [])
        else:
            current_sentences.append(line)
    return {code: tuple(lines) for code, lines in sentences.items()}


def bundled_languages(codes: Iterable[str]) -> list[str]:
    """Return the two-letter codes of the given languages that have bundled sentences.

    The given codes may have other forms, such as ``eng_Latn``.
    """
    return [base for base in dict.fromkeys(map(base_language, codes)) if base in bundled_sentences()]


def default_sources(checkpoint: Checkpoint, model: NativeModel) -> tuple[list[tuple[int, ...]], str]:
    """Return the token ids of default sources for a comparison of two engines, and a description of them.

    The sources are bundled sentences in the model's source language or, if there are none, in the language
    that the tokeniser splits into the longest pieces. If the pieces are short in every language, the sources
    are texts sampled from the model.

    Args:
        checkpoint: the checkpoint of the model.
        model: the engine in float32.
    """
    source, _ = checkpoint.languages.pairs
    codes = bundled_languages(source)[:MAX_LANGUAGES]
    tokeniser = checkpoint.source
    if isinstance(tokeniser, FramedTokeniser) and tokeniser.language is not None:
        codes = bundled_languages([tokeniser.language])
    if not codes:
        nearest = nearest_language(tokeniser)
        codes = [nearest] if nearest else []
    usable_sources = _usable_sources(
        tokeniser, model, [line for code in codes for line in bundled_sentences()[code]]
    )
    if len(usable_sources) >= MIN_SENTENCES:
        return usable_sources, f"sentences that come with uwaga in {', '.join(codes)} (no --sample)"
    return _sample_texts(checkpoint, model)


def select_direction(checkpoint: Checkpoint) -> Checkpoint:
    """Return a multilingual model with a source and a target language selected.

    Languages with bundled sentences are preferred. Other models are returned unchanged.
    """
    languages = checkpoint.languages
    if not languages.requires_language():
        return checkpoint
    sources, targets = languages.pairs
    source = next((code for code in sources if bundled_languages([code])), sources[0])
    target = next((code for code in targets if code != source and bundled_languages([code])), targets[-1])
    return checkpoint.for_direction(languages.direction(source, target))


def nearest_language(tokeniser: Subwords) -> str | None:
    """Return the language that a tokeniser splits into the longest pieces, None if all pieces are short."""
    letters = {code: _letters_per_piece(tokeniser, lines) for code, lines in bundled_sentences().items()}
    best_language = max(letters, key=letters.__getitem__)
    return best_language if letters[best_language] >= MIN_LETTERS_PER_PIECE else None


def _letters_per_piece(tokeniser: Subwords, lines: Sequence[str]) -> float:
    ids = [token for line in lines for token in tokeniser.encode(line)]
    if not ids or tokeniser.symbols.unknown in ids:
        return 0.0
    return sum(map(len, lines)) / len(ids)


def _usable_sources(tokeniser: Subwords, model: NativeModel, lines: Sequence[str]) -> list[tuple[int, ...]]:
    """Return the token ids of the sentences that fit the model and contain no unknown token."""
    limit = model.max_source or 512
    rows = [tokeniser.encode(line) for line in lines]
    framed_sources = [
        tuple(tokeniser.add_special_tokens(row)) for row in rows if tokeniser.symbols.unknown not in row
    ]
    return [source for source in framed_sources if 0 < len(source) <= limit]


def _sample_texts(checkpoint: Checkpoint, model: NativeModel) -> tuple[list[tuple[int, ...]], str]:
    """Return the token ids of texts sampled from the model, and a description of them.

    Decoder-only models continue the start symbol; all other models translate random pieces. Random pieces are
    returned if no texts can be sampled.
    """
    tokeniser, symbols = checkpoint.source, checkpoint.symbols
    random_sources = comparison_sources(None, tokeniser, model)
    max_length = min(MAX_SAMPLE_TOKENS, (model.max_source or 512) - 1)
    options = SearchOptions(
        beam=1,
        sample=True,
        min_length=min(MIN_SAMPLE_TOKENS, max_length),
        max_length=max_length,
        max_ratio=math.inf,
    )
    if isinstance(model.settings, DecoderOnlySettings):
        sampling = options.changed({"nbest": SAMPLE_SOURCES, "seed": 0})
        samples = [
            hypothesis.tokens for hypothesis in search(model, [SearchInput([symbols.start])], sampling)[0]
        ]
    elif checkpoint.source.model_bytes == checkpoint.target.model_bytes:
        sentences = list(map(SearchInput, random_sources))
        samples = [hypothesis.tokens for [hypothesis] in search(model, sentences, options)]
    else:
        return random_sources, RANDOM_SOURCES
    sources = [tuple(tokeniser.add_special_tokens(list(row[:max_length]))) for row in samples if row]
    sources = [source for source in sources if len(source) <= (model.max_source or 512)]
    return (
        (sources, "texts sampled from the model (no --sample)")
        if sources
        else (random_sources, RANDOM_SOURCES)
    )


def quantise(
    folder: Path,
    out: Path,
    keep: Sequence[str] = (),
    sample: Sequence[str] | None = None,
    precision: Precision = "int8",
    check: bool = True,
) -> Agreement | None:
    """Quantise a model to int8 or int4, write it as a folder, and compare it with the original model.

    Args:
        folder: a Transformer, a decoder-only or a recurrent model, of any format except int8 and int4.
        out: the folder to create.
        keep: patterns of the names of matrices to store in a higher precision, such as ``output`` or
            ``decoder.5.*``: bfloat16 in an int8 model, int8 in an int4 model.
        sample: sentences for the comparison and, if there are at least a hundred, for the score statistics;
            None to compare the models on bundled sentences and keep the score statistics unchanged.
        precision: int8 or int4.
        check: True to compare the two models.

    Returns:
        the agreement of the two models, None if they are not compared.

    Raises:
        ModelError: if the model cannot be read, is not of a supported family or is already quantised, or if
            ``out`` cannot be written.
        SettingsError: if a pattern in ``keep`` matches no matrix, or if a sample is given for a multilingual
            model.
    """
    checkpoint = read(folder)
    pair_checkpoint = select_direction(checkpoint)
    packed = pack_weights(checkpoint, precision, tuple(keep))
    card = checkpoint.card.text or f"# {folder.name}\n"
    card += f"\nWeights quantised to {precision} by `uwaga convert --{precision}`.\n"
    if not check:
        write_quantised(out, checkpoint, packed, card)
        return None
    exact_model = to_engine(pair_checkpoint, "float32", threads=1)
    quantised_model = to_engine(pair_checkpoint, precision, threads=1, packed=packed)
    if sample is None:
        sources, description = default_sources(pair_checkpoint, exact_model)
    elif pair_checkpoint is not checkpoint:
        raise SettingsError(
            "--sample cannot be used for a multilingual model, which is always compared on the sentences "
            "that come with uwaga"
        )
    else:
        sources, description = comparison_sources(sample, checkpoint.source, exact_model), "sentences"
    score_stats = (
        checkpoint.score_stats
        if sample is None
        else measure_score_stats(checkpoint, quantised_model, sources)
    )
    write_quantised(out, replace(checkpoint, score_stats=score_stats), packed, card)
    agreement = measure_agreement(exact_model, quantised_model, sources, pair_checkpoint.decoding.first)
    return replace(agreement, measured_on=description)


def measure_score_stats(
    checkpoint: Checkpoint, model: NativeModel, sources: Sequence[Sequence[int]]
) -> ScoreStats | None:
    """Return score statistics of a model's translations of a sample, or None for a decoder-only model.

    Args:
        checkpoint: the checkpoint of the model, with the search options. Its statistics are returned if the
            sample is too small.
        model: the engine that translates.
        sources: token ids of the sample, with end symbols.
    """
    if checkpoint.task != "translate":
        return None
    options = checkpoint.decoding.changed({"sample": False, "nbest": 1})
    hypotheses = [hypothesis for [hypothesis, *_] in search(model, list(map(SearchInput, sources)), options)]
    return summarise_scores(hypotheses) or checkpoint.score_stats
