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
    "coverage_penalty": (0, "not supported by uwaga's search"),
    "return_logits_vocab": (False, "the logits of the vocabulary are not returned"),
}
"""For each option that uwaga does not support, the only accepted value and the reason to refuse others."""


class _SeedGenerator:
    """A generator of one seed per call: first the seed that was set, then seeds derived from it."""

    def __init__(self) -> None:
        self._random = random.Random()
        self._first: int | None = None

    def set(self, seed: int) -> None:
        self._random.seed(seed)
        self._first = seed % 2**32

    def next(self) -> int:
        seed, self._first = self._first, None
        return self._random.getrandbits(32) if seed is None else seed


_seeds = _SeedGenerator()


def set_random_seed(seed: int) -> None:
    """Set the seed of sampling in subsequent calls.

    In the next call, the samples of each text equal those that CTranslate2 draws with this seed for a single
    text. They do not depend on the other texts of the call.
    """
    _seeds.set(seed)


@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """The options common to translation and generation, with CTranslate2's names and defaults.

    Raises:
        SettingsError: if a value is invalid or not supported by uwaga.
    """

    beam_size: int = field(
        default=2, metadata=option("Beam size; 1 is greedy search", minimum=1, maximum=MAX_BEAM)
    )
    patience: float = field(default=1, metadata=option("Only 1 is supported"))
    num_hypotheses: int = field(default=1, metadata=option("Number of hypotheses to return", minimum=1))
    length_penalty: float = field(
        default=1,
        metadata=option(
            "Exponent of the length by which scores are divided",
            minimum=-MAX_LENGTH_PENALTY,
            maximum=MAX_LENGTH_PENALTY,
        ),
    )
    repetition_penalty: float = field(
        default=1,
        metadata=option(
            "Penalty that makes previously generated tokens less probable if it is above 1",
            minimum=1e-9,
            maximum=1e9,
        ),
    )
    no_repeat_ngram_size: int = field(
        default=0, metadata=option("Size of n-grams that must not be repeated; 0 disables this", minimum=0)
    )
    disable_unk: bool = field(default=False, metadata=option("True to exclude the unknown token"))
    suppress_sequences: list[list[str]] | None = field(
        default=None, metadata=option("Sequences of tokens that must not be generated")
    )
    end_token: str | list[str] | list[int] | None = field(
        default=None, metadata=option("Only the model's end token is supported")
    )
    return_end_token: bool = field(default=False, metadata=option("True to include the end token in results"))
    return_scores: bool = field(default=False, metadata=option("True to include scores in results"))
    return_logits_vocab: bool = field(default=False, metadata=option("Only False is supported"))
    return_alternatives: bool = field(
        default=False, metadata=option("True to return alternatives at the first position after the prefix")
    )
    min_alternative_expansion_prob: float = field(
        default=0, metadata=option("Minimum probability of an alternative", minimum=0.0, maximum=1.0)
    )
    sampling_topk: int = field(
        default=1,
        metadata=option(
            "Number of most probable tokens to sample from; 0 for all, 1 to disable sampling", minimum=0
        ),
    )
    sampling_topp: float = field(
        default=1,
        metadata=option(
            "Total probability of the most probable tokens to sample from", minimum=1e-9, maximum=1.0
        ),
    )
    sampling_temperature: float = field(
        default=1, metadata=option("Temperature of sampling", minimum=0.0, maximum=1e6)
    )
    callback: Callback | None = field(
        default=None, metadata=option("Function that is called with each token")
    )

    def __post_init__(self) -> None:
        """Check each value, and then combinations of values."""
        check_options(self)
        for name, (accepted_values, explanation) in UNSUPPORTED_OPTIONS.items():
            if (value := getattr(self, name, accepted_values)) != accepted_values:
                raise SettingsError(f"{name}={quoted(value)}: {explanation}")
        if self.samples and self.beam_size > 1:
            raise SettingsError(
                f"sampling_topk={self.sampling_topk} and beam_size={self.beam_size}: sampling with "
                "beam search is not supported; set beam_size=1"
            )
        if self.callback is not None and (self.beam_size > 1 or self.return_alternatives):
            raise SettingsError("callback: supported only with beam_size=1 and without alternatives")
        if not self.samples and not self.return_alternatives and self.num_hypotheses > self.beam_size:
            raise SettingsError(
                f"num_hypotheses {self.num_hypotheses} is greater than beam_size * patience "
                f"({self.beam_size}); increase beam_size, or use sampling"
            )

    def check_streaming(self) -> None:
        """Check that tokens can be yielded as soon as they are decoded.

        Raises:
            ArgumentError: if several hypotheses or a callback are requested.
        """
        if self.beam_size > 1 or self.num_hypotheses > 1 or self.return_alternatives:
            raise ArgumentError(
                "tokens can be yielded only for a single hypothesis; omit beam_size, num_hypotheses and "
                "return_alternatives"
            )
        if self.callback is not None:
            raise ArgumentError("callback: not supported for a method that yields tokens; omit it")

    @property
    def alternatives(self) -> Alternatives | None:
        """The options for alternatives, or None for an ordinary search."""
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

    coverage_penalty: float = field(default=0, metadata=option("Only 0 is supported"))
    prefix_bias_beta: float = field(
        default=0,
        metadata=option(
            "Share of the probability that is moved to the target prefix, which is then not forced; less "
            "than 1",
            minimum=0.0,
            maximum=1.0,
        ),
    )
    max_input_length: int = field(
        default=1024,
        metadata=option("Number of tokens to which inputs are truncated; 0 to disable", minimum=0),
    )
    max_decoding_length: int = field(
        default=256, metadata=option("Maximum number of tokens, including the end token", minimum=1)
    )
    min_decoding_length: int = field(
        default=1, metadata=option("Minimum number of tokens, without the end token", minimum=0)
    )
    use_vmap: bool = field(default=False, metadata=option("True to use the model's vocabulary map"))
    return_attention: bool = field(default=False, metadata=option("True to include the attention in results"))
    replace_unknowns: bool = field(
        default=False,
        metadata=option("True to replace unknown tokens with the source token of greatest attention"),
    )

    def __post_init__(self) -> None:
        """Check each value, and then combinations of values."""
        super().__post_init__()
        if self.prefix_bias_beta == 1:
            raise SettingsError(
                "prefix_bias_beta=1: the value must be less than 1; to force a prefix, omit the option"
            )
        if self.prefix_bias_beta and (self.return_alternatives or self.callback is not None):
            raise SettingsError("prefix_bias_beta cannot be combined with return_alternatives or a callback")

    @property
    def needs_attention(self) -> bool:
        """True if the options require attention weights."""
        return self.return_attention or self.replace_unknowns


@dataclass(frozen=True, kw_only=True)
class GenerationOptions(DecodingOptions):
    """The options of :meth:`uwaga_compat.ctranslate2.Generator.generate_batch`."""

    beam_size: int = field(
        default=1, metadata=option("Beam size; 1 is greedy search", minimum=1, maximum=MAX_BEAM)
    )
    max_length: int = field(
        default=512, metadata=option("Maximum number of tokens, including the end token", minimum=1)
    )
    min_length: int = field(
        default=0, metadata=option("Minimum number of tokens, without the end token", minimum=0)
    )
    static_prompt: list[str] | None = field(
        default=None, metadata=option("Tokens that precede every prompt and are not part of the results")
    )
    cache_static_prompt: bool = field(
        default=True, metadata=option("Accepted, but does not affect the result")
    )
    include_prompt_in_result: bool = field(
        default=True, metadata=option("True to include the prompt in results")
    )


def parse_options(record: type[Options], values: Mapping[str, Any]) -> Options:
    """Return the options of a call as an instance of the dataclass ``record``.

    Raises:
        ArgumentError: if a name is unknown, or a value is invalid or not supported by uwaga.
    """
    with as_argument_errors():
        return record(**checked_options(record, values, "decoding"))


def search_options(
    options: DecodingOptions, model: LoadedModel, min_length: int, max_length: int
) -> SearchOptions:
    """Return the search options of a call.

    Args:
        options: the options of the call.
        model: the model, whose start token, forced first token and banned tokens are kept.
        min_length: minimum length in tokens.
        max_length: maximum length in tokens.

    Raises:
        ArgumentError: if the minimum length is greater than the maximum, a suppressed sequence is not a list
            of tokens, or the end token is not that of the model.
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
            f"end_token={quoted(end_token)}: only the model's end token, {model.end!r}, is supported"
        )


def _suppressed_ids(options: DecodingOptions, model: LoadedModel) -> tuple[list[int], list[list[int]]]:
    """Return the ids of tokens that the search has to ban, and the ids of all other suppressed sequences."""
    banned, other_sequences = list[int](), list[list[int]]()
    for sequence in options.suppress_sequences or []:
        if isinstance(sequence, str):
            raise ArgumentError(f"suppress_sequences: {quoted(sequence)} must be a list of tokens")
        ids = model.target.ids(sequence)
        for token, known_token in zip(sequence, model.target.tokens(ids), strict=True):
            if token != known_token:
                raise ArgumentError(f"suppress_sequences: the token {quoted(token)} is not in the vocabulary")
        if len(ids) == 1 and ids[0] not in model.decoder.symbols.ends:
            banned += ids
        elif ids:
            other_sequences.append(ids)
    return banned, other_sequences


def adjusted_decoder(
    decoder: Decoder,
    options: DecodingOptions,
    model: LoadedModel,
    *,
    seed: int | None = None,
    prefix: Sequence[int] = (),
) -> Decoder:
    """Return a decoder with the adjustments that the options require, or the given decoder if there are none.

    Args:
        decoder: the model's decoder.
        options: the options of the call.
        model: the model.
        seed: seed of sampling; None if hypotheses are decoded separately, with independent random draws.
        prefix: token ids of the prefix that ``prefix_bias_beta`` favours.
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
    """Return a decoded token, which belongs to the input with index ``number``, as CTranslate2's result."""
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
