"""CTranslate2's decoding options, and their conversion to uwaga's search options."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from uwaga.decoder import MAX_BEAM, MAX_LENGTH_PENALTY, Decoder
from uwaga.errors import SettingsError, quoted
from uwaga.search import SearchOptions
from uwaga.settings.options import check_options, checked_options, option
from uwaga_compat.ctranslate2.adjusted import (
    AdjustedDecoder,
    Adjustment,
    bias_prefix,
    repetition_penalty,
    suppress_sequences,
)
from uwaga_compat.ctranslate2.decode import Alternatives, DecodedToken
from uwaga_compat.ctranslate2.errors import ArgumentError, as_argument_errors
from uwaga_compat.ctranslate2.loading import LoadedModel
from uwaga_compat.ctranslate2.results import GenerationStepResult

Options = TypeVar("Options", bound="DecodingOptions")
Callback = Callable[[GenerationStepResult], bool | None]

UNSUPPORTED_OPTIONS = {
    "patience": (1, "uwaga's search stops at beam_size finished hypotheses"),
    "coverage_penalty": (0, "uwaga's search does not have it"),
    "return_logits_vocab": (False, "the logits of the vocabulary are not returned"),
}
"""Options that uwaga does not support: the only accepted value, and the explanation for other values."""


class _Seeds:
    """The seeds of calls: the first is the seed that was set, the others are derived from it."""

    def __init__(self) -> None:
        self._random = random.Random()
        self._first: int | None = None

    def set(self, seed: int) -> None:
        self._random.seed(seed)
        self._first = seed % 2**32

    def next(self) -> int:
        seed, self._first = self._first, None
        return self._random.getrandbits(32) if seed is None else seed


_seeds = _Seeds()


def set_random_seed(seed: int) -> None:
    """Set the seed of subsequent samples.

    In the next call, the samples of each text are those that CTranslate2 draws with this seed for the text
    alone. They do not depend on the other texts.
    """
    _seeds.set(seed)


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """The options common to translation and generation, with CTranslate2's names and defaults.

    Raises:
        SettingsError: a value is invalid or not supported by uwaga.
    """

    beam_size: int = field(
        default=2, metadata=option("Beam size; 1 is greedy search", minimum=1, maximum=MAX_BEAM)
    )
    patience: float = field(default=1, metadata=option("1 only"))
    num_hypotheses: int = field(default=1, metadata=option("Hypotheses to return", minimum=1))
    length_penalty: float = field(
        default=1,
        metadata=option(
            "Exponent of the length that scores are divided by",
            minimum=-MAX_LENGTH_PENALTY,
            maximum=MAX_LENGTH_PENALTY,
        ),
    )
    repetition_penalty: float = field(
        default=1,
        metadata=option(
            "Multiply the log-probabilities of tokens that were produced", minimum=1e-9, maximum=1e9
        ),
    )
    no_repeat_ngram_size: int = field(
        default=0, metadata=option("Never repeat an n-gram of this size; 0 is off", minimum=0)
    )
    disable_unk: bool = field(default=False, metadata=option("Never produce the unknown token"))
    suppress_sequences: list[list[str]] | None = field(
        default=None, metadata=option("Sequences of tokens that are never produced")
    )
    end_token: str | list[str] | list[int] | None = field(
        default=None, metadata=option("The model's own end token only")
    )
    return_end_token: bool = field(default=False, metadata=option("Include the end token in results"))
    return_scores: bool = field(default=False, metadata=option("Include scores"))
    return_logits_vocab: bool = field(default=False, metadata=option("False only"))
    return_alternatives: bool = field(
        default=False, metadata=option("Return alternatives at the first free position")
    )
    min_alternative_expansion_prob: float = field(
        default=0, metadata=option("Minimum probability of an alternative", minimum=0.0, maximum=1.0)
    )
    sampling_topk: int = field(
        default=1, metadata=option("Sample from the k most probable tokens; 0 is all, 1 none", minimum=0)
    )
    sampling_topp: float = field(
        default=1,
        metadata=option("Sample from the fewest tokens of this probability", minimum=1e-9, maximum=1.0),
    )
    sampling_temperature: float = field(
        default=1, metadata=option("Temperature of sampling", minimum=0.0, maximum=1e6)
    )
    callback: Callback | None = field(default=None, metadata=option("Called with each token"))

    def __post_init__(self) -> None:
        """Check every value, then their combinations."""
        check_options(self)
        for name, (accepted, explanation) in UNSUPPORTED_OPTIONS.items():
            if (value := getattr(self, name, accepted)) != accepted:
                raise SettingsError(f"{name}={quoted(value)}: {explanation}")
        if self.samples and self.beam_size > 1:
            raise SettingsError(
                f"sampling_topk={self.sampling_topk} and beam_size={self.beam_size}: sampling in a beam is "
                "not supported: set beam_size=1"
            )
        if self.callback is not None and (self.beam_size > 1 or self.return_alternatives):
            raise SettingsError("callback: tokens are reported with beam_size=1 and no alternatives only")
        if not self.samples and not self.return_alternatives and self.num_hypotheses > self.beam_size:
            raise SettingsError(
                f"num_hypotheses {self.num_hypotheses} is greater than beam_size * patience "
                f"({self.beam_size}): raise beam_size, or sample"
            )

    def check_streaming(self) -> None:
        """Check that tokens can be yielded as they are decided.

        Raises:
            ArgumentError: there are several hypotheses, or a callback.
        """
        if self.beam_size > 1 or self.num_hypotheses > 1 or self.return_alternatives:
            raise ArgumentError(
                "tokens are yielded for a single hypothesis: leave out beam_size and num_hypotheses"
            )
        if self.callback is not None:
            raise ArgumentError("callback: not supported, because the tokens are yielded: leave it out")

    @property
    def alternatives(self) -> Alternatives | None:
        """The alternatives to return, or None for ordinary search."""
        if not self.return_alternatives:
            return None
        return Alternatives(self.num_hypotheses, self.min_alternative_expansion_prob)

    @property
    def samples(self) -> bool:
        """True if tokens are sampled."""
        return self.sampling_topk != 1 and self.sampling_temperature != 0


@dataclass(frozen=True, kw_only=True)
class TranslationOptions(DecodingOptions):
    """The options of :meth:`uwaga_compat.ctranslate2.Translator.translate_batch`."""

    coverage_penalty: float = field(default=0, metadata=option("0 only"))
    prefix_bias_beta: float = field(
        default=0,
        metadata=option(
            "Share of the probability that moves to the target prefix, which is then not forced; below 1",
            minimum=0.0,
            maximum=1.0,
        ),
    )
    max_input_length: int = field(
        default=1024, metadata=option("Cut inputs after this many tokens; 0 is off", minimum=0)
    )
    max_decoding_length: int = field(
        default=256, metadata=option("Maximum tokens, end token included", minimum=1)
    )
    min_decoding_length: int = field(
        default=1, metadata=option("Minimum tokens, without the end token", minimum=0)
    )
    use_vmap: bool = field(default=False, metadata=option("Use the model's vocabulary map"))
    return_attention: bool = field(default=False, metadata=option("Include attention"))
    replace_unknowns: bool = field(
        default=False, metadata=option("Replace an unknown token by the source token of highest attention")
    )

    def __post_init__(self) -> None:
        """Check every value, then their combinations."""
        super().__post_init__()
        if self.prefix_bias_beta == 1:
            raise SettingsError("prefix_bias_beta=1: it must be below 1; without it, a prefix is forced")
        if self.prefix_bias_beta and (self.return_alternatives or self.callback is not None):
            raise SettingsError("prefix_bias_beta cannot be combined with return_alternatives or a callback")

    @property
    def needs_attention(self) -> bool:
        """True if attention is needed."""
        return self.return_attention or self.replace_unknowns


@dataclass(frozen=True, kw_only=True)
class GenerationOptions(DecodingOptions):
    """The options of :meth:`uwaga_compat.ctranslate2.Generator.generate_batch`."""

    beam_size: int = field(
        default=1, metadata=option("Beam size; 1 is greedy search", minimum=1, maximum=MAX_BEAM)
    )
    max_length: int = field(default=512, metadata=option("Maximum tokens, end token included", minimum=1))
    min_length: int = field(default=0, metadata=option("Minimum tokens, without the end token", minimum=0))
    static_prompt: list[str] | None = field(
        default=None, metadata=option("Tokens before every prompt, not in the results")
    )
    cache_static_prompt: bool = field(default=True, metadata=option("Changes no result"))
    include_prompt_in_result: bool = field(default=True, metadata=option("Include the prompt in results"))


def parse_options(record: type[Options], values: Mapping[str, Any]) -> Options:
    """Return the options of a call.

    Raises:
        ArgumentError: a name is unknown, or a value is invalid or not supported by uwaga.
    """
    with as_argument_errors():
        return record(**checked_options(record, values, "decoding"))


def search_options(
    options: DecodingOptions, model: LoadedModel, min_length: int, max_length: int
) -> SearchOptions:
    """Return the search options of a call.

    Args:
        options: the options of the call.
        model: the model, whose start token, first token and banned tokens are kept.
        min_length: minimum length.
        max_length: maximum length.

    Raises:
        ArgumentError: the minimum length is greater than the maximum, a suppressed sequence is not a list of
            tokens, or the end token is not the model's.
    """
    defaults = model.decoding
    _check_end_token(options, model)
    banned, _ = _suppressed_ids(options, model)
    if min_length > max_length:
        raise ArgumentError(
            f"the minimum decoding length {min_length} is greater than the maximum decoding length "
            f"{max_length}"
        )
    search = replace(
        defaults,
        beam=options.beam_size,
        nbest=min(options.num_hypotheses, options.beam_size),
        length_penalty=options.length_penalty,
        length_formula="average",
        score_forced="length",
        # Without a length penalty, CTranslate2 stops when the best hypothesis is finished.
        early_stopping=options.length_penalty != 0,
        min_length=min_length,
        max_length=max_length,
        max_ratio=math.inf,
        force_end=False,
        no_repeat_ngram=options.no_repeat_ngram_size,
        banned=(*defaults.banned, *banned),
        unknown=defaults.unknown and not options.disable_unk,
        renormalise=True,
        sample=False,
        temperature=1.0,
        top_k=0,
        top_p=1.0,
        mbr=0,
    )
    if not options.samples:
        return search
    return replace(
        search,
        nbest=1 if options.return_alternatives else options.num_hypotheses,
        sample=True,
        temperature=options.sampling_temperature,
        top_k=options.sampling_topk,
        top_p=options.sampling_topp,
        seed=_seeds.next(),
    )


def _check_end_token(options: DecodingOptions, model: LoadedModel) -> None:
    end_token = options.end_token
    if end_token is not None and ([end_token] if isinstance(end_token, str) else end_token) not in (
        [model.end],
        [model.decoder.symbols.end],
    ):
        raise ArgumentError(
            f"end_token={quoted(end_token)}: a target ends with the model's end token, {model.end!r}"
        )


def _suppressed_ids(options: DecodingOptions, model: LoadedModel) -> tuple[list[int], list[list[int]]]:
    """Return the tokens that the search bans, and the other suppressed sequences, the end token included."""
    banned, others = list[int](), list[list[int]]()
    for sequence in options.suppress_sequences or []:
        if isinstance(sequence, str):
            raise ArgumentError(f"suppress_sequences: {quoted(sequence)}: each must be a list of tokens")
        ids = model.target.ids(sequence)
        for token, known in zip(sequence, model.target.tokens(ids), strict=True):
            if token != known:
                raise ArgumentError(f"suppress_sequences: the token {quoted(token)} is not in the vocabulary")
        if len(ids) == 1 and ids[0] not in model.decoder.symbols.ends:
            banned += ids
        elif ids:
            others.append(ids)
    return banned, others


def adjusted_decoder(
    decoder: Decoder,
    options: DecodingOptions,
    model: LoadedModel,
    *,
    seed: int | None = None,
    prefix: Sequence[int] = (),
) -> Decoder:
    """Return a decoder with the adjustments that the options request; the same decoder if there are none.

    Args:
        decoder: the model's decoder.
        options: the options of the call.
        model: the model.
        seed: the seed of the samples; None if each hypothesis is decoded separately, with independent draws.
        prefix: the prefix to favour by ``prefix_bias_beta``.
    """
    adjustments: list[Adjustment] = []
    if options.repetition_penalty != 1:
        adjustments.append(repetition_penalty(options.repetition_penalty))
    _, sequences = _suppressed_ids(options, model)
    if sequences:
        adjustments.append(suppress_sequences(sequences))
    if isinstance(options, TranslationOptions) and options.prefix_bias_beta and len(prefix):
        adjustments.append(bias_prefix(prefix, options.prefix_bias_beta))
    seed = seed if options.samples else None
    return decoder if seed is None and not adjustments else AdjustedDecoder(decoder, adjustments, seed)


def step_result(
    token: DecodedToken, model: LoadedModel, number: int, with_score: bool
) -> GenerationStepResult:
    """Return a token of input ``number`` in CTranslate2's format."""
    [text] = model.target.tokens([token.token])
    return GenerationStepResult(
        step=token.position,
        batch_id=number,
        token_id=token.token,
        hypothesis_id=token.hypothesis,
        token=text,
        log_prob=token.log_prob if with_score else None,
        logits=None,
        is_last=token.last,
    )
