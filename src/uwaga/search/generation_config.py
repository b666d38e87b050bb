"""Conversion between ``generation_config.json`` and :class:`SearchOptions`.

With the converted options, :func:`uwaga.search.search` returns the same tokens as ``transformers``, although
the two libraries differ in these definitions:

- ``max_length`` and ``min_length`` count the start symbol in ``transformers``, but not in uwaga; for a
  decoder-only model, they count the prompt too (``max_total``, ``min_total``);
- in ``transformers`` a forced prefix counts neither in the score nor in the length (``score_forced`` False);
- ``transformers`` ignores ``forced_bos_token_id`` if a prefix is forced; uwaga puts it before the prefix;
- ``early_stopping`` False of ``transformers`` is ``"estimate"`` in uwaga, and ``"never"`` is False.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any

from uwaga.decoder import Symbols
from uwaga.errors import SettingsError, quoted
from uwaga.search.options import SearchOptions

_NEUTRAL_VALUES: dict[str, tuple[Any, ...]] = {
    "num_beam_groups": (1,), "diversity_penalty": (0, 0.0), "repetition_penalty": (1, 1.0),
    "encoder_repetition_penalty": (1, 1.0), "encoder_no_repeat_ngram_size": (0,),
    "exponential_decay_length_penalty": (), "begin_suppress_tokens": (), "sequence_bias": (),
    "force_words_ids": (), "constraints": (), "guidance_scale": (1, 1.0), "penalty_alpha": (0, 0.0),
    "min_new_tokens": (0,), "min_p": (0, 0.0), "top_h": (), "typical_p": (1, 1.0), "epsilon_cutoff": (0, 0.0),
    "eta_cutoff": (0, 0.0), "watermarking_config": (), "stop_strings": (), "max_time": (), "dola_layers": (),
}  # fmt: skip
"""Unsupported settings, with the values at which they have no effect."""


def from_generation_config(values: Mapping[str, Any], decoder_only: bool = False) -> SearchOptions:
    """Return the search options of a checkpoint.

    Args:
        values: the mapping in ``generation_config.json``; keys that don't concern the search (special tokens,
            versions, what to return) are ignored.
        decoder_only: whether the model is decoder-only, so that it continues prompts.
    """
    for name, neutral_value in _NEUTRAL_VALUES.items():
        if values.get(name) is not None and values[name] not in neutral_value:
            raise SettingsError(f"generation setting {name!r} = {quoted(values[name])} is not supported")
    beam = int(_value(values, "num_beams", 1))
    sample = bool(_value(values, "do_sample", False))
    if sample and beam > 1:
        raise SettingsError(
            "generation settings combine do_sample with beam search; set num_beams to 1 or do_sample to false"
        )
    early_stopping = _value(values, "early_stopping", False)
    total = _value(values, "max_length", 20)
    steps = _value(values, "max_new_tokens", total - 1)
    shortest = int(_value(values, "min_length", 0))
    counts_prompt = decoder_only and values.get("max_new_tokens") is None and values.get("max_length")
    return SearchOptions(
        beam=beam,
        nbest=int(_value(values, "num_return_sequences", 1)),
        length_penalty=float(_value(values, "length_penalty", 1.0)),
        length_formula="average",
        score_forced=False,
        early_stopping=True if early_stopping is True else False if early_stopping == "never" else "estimate",
        min_length=0 if decoder_only else max(0, shortest - 1),
        max_length=int(steps),
        max_total=int(total) if counts_prompt else None,
        min_total=shortest if decoder_only else 0,
        max_ratio=math.inf,
        force_end=values.get("forced_eos_token_id") is not None,
        no_repeat_ngram=int(_value(values, "no_repeat_ngram_size", 0)),
        first=values.get("forced_bos_token_id"),
        banned=_banned_tokens(values),
        renormalise=bool(_value(values, "renormalize_logits", False)),
        sample=sample,
        temperature=float(_value(values, "temperature", 1.0)) if sample else 1.0,
        top_k=int(_value(values, "top_k", 50)) if sample else 0,
        top_p=float(_value(values, "top_p", 1.0)) if sample else 1.0,
    )


def to_generation_config(
    options: SearchOptions, symbols: Symbols, max_target: int | None, unused: Collection[int] = ()
) -> dict[str, Any]:
    """Return a ``generation_config.json`` with which ``transformers`` searches in the same way.

    ``max_ratio`` and ``max_extra`` are left out, because ``transformers`` has no equivalent of them.

    Args:
        options: how to search.
        symbols: the special symbols of the model in ``transformers``.
        max_target: maximum number of target tokens of the model, None for no limit.
        unused: further tokens to ban, because the model does not use them.
    """
    if options.length_formula == "gnmt" and options.beam > 1 and options.length_penalty != 0.0:
        raise SettingsError(
            "generation_config.json has no equivalent of decoding.length_formula 'gnmt': "
            "set it to 'average' or 'none'"
        )
    banned = ({*options.banned, *unused} | (set() if options.unknown else {symbols.unknown})) - {symbols.end}
    steps = min(limit for limit in (options.max_length, max_target, 1 << 30) if limit is not None)
    early_stopping: dict[object, object] = {True: True, False: "never", "estimate": False}
    values: dict[str, Any] = {
        "decoder_start_token_id": symbols.start if options.start is None else options.start,
        "eos_token_id": symbols.end,
        "pad_token_id": symbols.pad,
        "bos_token_id": None,
        "forced_bos_token_id": options.first,
        "forced_eos_token_id": symbols.end if options.force_end else None,
        "bad_words_ids": [[token] for token in sorted(banned)],
        "num_beams": 1 if options.sample else options.beam,
        "length_penalty": 0.0 if options.length_formula == "none" else options.length_penalty,
        "early_stopping": early_stopping[options.early_stopping],
        "min_length": options.min_length + 1 if options.min_length else 0,
        "max_length": steps + 1,
        "no_repeat_ngram_size": options.no_repeat_ngram,
        "renormalize_logits": options.renormalise,
        "do_sample": options.sample,
    }
    if options.sample:
        values |= {"temperature": options.temperature, "top_k": options.top_k, "top_p": options.top_p}
    return values


def _value(values: Mapping[str, Any], name: str, default: Any) -> Any:
    """Return a setting, or its default in ``transformers`` if it is missing or null."""
    return default if values.get(name) is None else values[name]


def _banned_tokens(values: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the banned tokens; banned phrases of several tokens are not supported."""
    words = _value(values, "bad_words_ids", [])
    if any(len(word) != 1 for word in words):
        raise SettingsError(
            "generation setting 'bad_words_ids' bans phrases of several tokens, which is not supported"
        )
    return tuple(sorted({word[0] for word in words} | set(_value(values, "suppress_tokens", []))))
