"""The options of a search, as fields with their help, bounds and section."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from uwaga.decoder import MAX_BEAM, MAX_LENGTH_PENALTY, EarlyStopping
from uwaga.errors import SettingsError
from uwaga.settings.options import check_options, checked_options, option, option_fields
from uwaga.settings.text_options import TextOptions

if TYPE_CHECKING:
    from uwaga.settings import DecodingSettings


LengthFormula = Literal["average", "gnmt", "none"]
Utility = Literal["chrf", "bleu"]

MAX_SAMPLES = 1 << 16
"""Maximum number of samples of a sentence."""

SearchOverrides = dict[str, Any]
"""Some of the fields of :class:`SearchOptions`, by name."""


@dataclass(frozen=True)
class SearchOptions:
    """The options of a search: beam size, ranking, length limits, constraints and sampling.

    Each model has its own defaults; a call overrides some of them with :meth:`changed`. Validation, the
    command-line options, the fields of the server's requests and the reference documentation are all
    generated from the types and metadata of these fields (:mod:`uwaga.settings.options`). Lengths are in
    target tokens and include a forced prefix.

    Raises:
        SettingsError: a value is out of bounds, or two values contradict each other.
    """

    beam: int = field(
        default=5,
        metadata=option(
            "Beam size; 1 is greedy search and fastest",
            section="Search",
            minimum=1,
            maximum=MAX_BEAM,
            unset="the model's",
        ),
    )
    """Number of hypotheses kept per sentence. Unused with ``sample``."""

    nbest: int = field(
        default=1,
        metadata=option(
            "Number of translations to return per text", section="Search", minimum=1, maximum=MAX_SAMPLES
        ),
    )
    """At most ``beam``; with ``sample``, the number of independent samples."""

    length_penalty: float = field(
        default=1.0,
        metadata=option(
            "Exponent of the length that scores are divided by: larger values give longer translations",
            section="Search",
            minimum=-MAX_LENGTH_PENALTY,
            maximum=MAX_LENGTH_PENALTY,
            unset="the model's",
        ),
    )
    """See :mod:`uwaga.search.rank`. The length includes the end symbol. A hypothesis cut by a limit competes
    with finished hypotheses by its length and log-probability, as in ``transformers``."""

    length_formula: LengthFormula = field(
        default="average",
        metadata=option(
            "Length normalisation of scores: average (length ** penalty), gnmt or none",
            section="Search",
            unset="the model's",
        ),
    )

    score_forced: bool | Literal["length"] = field(
        default=True, metadata=option("Count forced tokens in the score", section="Search", internal=True)
    )
    """False ranks as ``transformers`` does: a forced prefix adds neither log-probability nor length, and a
    forced first or last token adds length only. ``"length"`` ranks as CTranslate2 does: all forced tokens add
    length only. In all cases, ``log_prob`` and ``token_scores`` of a result are the model's own values."""

    early_stopping: EarlyStopping = field(
        default=True,
        metadata=option(
            "When to stop: True: at BEAM finished hypotheses; False: when no other can enter the results; "
            "estimate: when the best unfinished one seems worse",
            section="Search",
            internal=True,
        ),
    )
    """False stops only when no unfinished hypothesis can still enter the n-best list (an exact bound,
    ``"never"`` in ``transformers``). ``"estimate"`` stops when the best unfinished hypothesis, ranked as if
    it ended now, is worse than all ``beam`` finished hypotheses (False in ``transformers``; may miss a better
    long hypothesis)."""

    min_length: int = field(
        default=0,
        metadata=option(
            "Minimum tokens per sentence, without the end symbol",
            section="Length",
            minimum=0,
            unset="the model's",
        ),
    )

    max_length: int | None = field(
        default=256,
        metadata=option("Maximum tokens per sentence", section="Length", minimum=1, unset="the model's"),
    )
    """Includes the end symbol, as a decoder's ``max_target`` does. With None, only the decoder's limit
    applies."""

    max_ratio: float = field(
        default=3.0,
        metadata=option(
            "Maximum ratio of target tokens to source tokens",
            section="Length",
            minimum=0.0,
            unset="the model's",
        ),
    )
    """The number of steps is also limited to ``max_ratio * source tokens + max_extra``, or to the number that
    ``min_length`` or a prefix requires if that is larger. Infinity disables this limit."""

    max_extra: int = field(
        default=20,
        metadata=option(
            "Target tokens allowed in addition to the maximum ratio",
            section="Length",
            minimum=0,
            unset="the model's",
        ),
    )

    max_total: int | None = field(
        default=None,
        metadata=option(
            "Maximum tokens of a prompt and its continuation", section="Length", minimum=1, internal=True
        ),
    )
    """``max_length`` of ``transformers`` for decoder-only models; None for no such limit. A call that sets
    ``max_length`` replaces it."""

    min_total: int = field(
        default=0,
        metadata=option(
            "Minimum tokens of a prompt and its continuation", section="Length", minimum=0, internal=True
        ),
    )
    """``min_length`` of ``transformers`` for decoder-only models. A call that sets ``min_length`` replaces
    it."""

    force_end: bool = field(
        default=False,
        metadata=option("Force the end symbol at the last step allowed", section="Length", internal=True),
    )
    """A hypothesis whose end is forced is still marked ``truncated``."""

    no_repeat_ngram: int = field(
        default=0,
        metadata=option(
            "Never repeat an n-gram of this size; 0 is off", section="Search", minimum=0, unset="the model's"
        ),
    )

    start: int | None = field(
        default=None,
        metadata=option("Token id that decoding starts from", section="Search", minimum=0, internal=True),
    )
    """Not part of the target; None for the decoder's start symbol. In some multilingual models it is the
    target language."""

    first: int | None = field(
        default=None,
        metadata=option("Token id that every target begins with", section="Search", minimum=0, internal=True),
    )
    """Precedes a prefix, unless the prefix begins with it."""

    banned: tuple[int, ...] = field(
        default=(), metadata=option("Token ids never produced", section="Search", minimum=0, internal=True)
    )
    """The start and padding symbols are always banned."""

    unknown: bool = field(
        default=True, metadata=option("Allow the unknown symbol", section="Search", internal=True)
    )

    renormalise: bool = field(
        default=False,
        metadata=option("Renormalise the distribution after banning tokens", section="Search", internal=True),
    )
    """``renormalize_logits`` in ``transformers``."""

    sample: bool = field(
        default=False,
        metadata=option(
            "Draw translations at random instead of searching for the best",
            section="Sampling",
            unset="the model's",
        ),
    )
    """``nbest`` independent samples are drawn."""

    temperature: float = field(
        default=1.0,
        metadata=option(
            "Temperature of sampling; below 1 favours probable tokens",
            section="Sampling",
            minimum=1e-6,
            maximum=1e6,
            unset="1",
        ),
    )
    """``temperature``, ``top_k`` and ``top_p`` are applied to the distribution in this order. Reported
    log-probabilities are the model's own."""

    top_k: int = field(
        default=0,
        metadata=option(
            "Sample from the k most probable tokens; 0 is all", section="Sampling", minimum=0, unset="all"
        ),
    )

    top_p: float = field(
        default=1.0,
        metadata=option(
            "Nucleus sampling: keep the smallest set of tokens with at least this total probability",
            section="Sampling",
            minimum=1e-9,
            maximum=1.0,
            unset="1",
        ),
    )

    seed: int | None = field(
        default=None,
        metadata=option(
            "Random seed of sampling",
            section="Sampling",
            minimum=-(2**63),
            maximum=2**63 - 1,
            unset="new each time",
        ),
    )
    """The seed, the source and the index of the sample determine the draws. With None, :meth:`changed` draws
    a random seed; a search with None uses 0."""

    mbr: int = field(
        default=0,
        metadata=option(
            "Minimum Bayes risk decoding: draw this many samples (32 to 128) and keep the one closest to the "
            "rest; 0 is off",
            section="Sampling",
            minimum=0,
            maximum=MAX_SAMPLES,
            unset="off",
        ),
    )
    """The expected utility (:mod:`uwaga.search.mbr`) is then the ``score``; the ``nbest`` samples of the
    highest utility are returned. Utilities compare texts, so the translator computes them, not the search."""

    utility: Utility = field(
        default="chrf",
        metadata=option(
            "Similarity metric of minimum Bayes risk decoding: chrf (characters) or bleu (words)",
            section="Sampling",
        ),
    )

    attention: bool | Literal["all"] = field(
        default=False, metadata=option("Return attention weights", section="Output")
    )
    """True: the cross-attention (target, source) averaged over the heads of the last layer. ``"all"``: every
    attention matrix of the model, which the translator records afterwards; to the search it is False."""

    entropy: bool = field(
        default=False,
        metadata=option(
            "Measure the entropy of the model's distribution at each token, by a second pass",
            section="Output",
        ),
    )

    alignment: bool = field(
        default=False, metadata=option("Align the words of text and translation", section="Output")
    )
    """Computed by the translator, not by the search."""

    coverage: bool | Literal["unaligned"] = field(
        default=False,
        metadata=option(
            "Report words and numbers that the translation lacks; takes 3 to 16 times as long",
            section="Output",
        ),
    )
    """Computed by :mod:`uwaga.translator.layers.coverage`, with the ``alignment``. ``"unaligned"``
    examines only words that are not clearly aligned, and finds nearly as many omissions in less time."""

    batch_tokens: int = field(
        default=4096,
        metadata=option("Batch size in source tokens", section="Computation", minimum=1, unset="4096"),
    )
    """Number of source tokens decoded together, counting padding and beams."""

    def __post_init__(self) -> None:
        """Check each value, then their combinations."""
        check_options(self)
        object.__setattr__(self, "banned", tuple(self.banned))
        if not self.sample and self.nbest > self.beam:
            raise SettingsError(
                f"nbest {self.nbest} is more than beam {self.beam}: "
                "raise beam, lower nbest, or set sample to draw independent samples"
            )
        if self.mbr and not self.sample:
            raise SettingsError("mbr chooses among samples: it cannot be combined with sample False")
        if self.mbr and self.nbest > self.mbr:
            raise SettingsError(f"nbest {self.nbest} is more than the {self.mbr} samples of mbr: raise mbr")
        if self.max_length is not None and self.min_length > self.max_length:
            raise SettingsError(f"min_length {self.min_length} is more than max_length {self.max_length}")
        if (self.temperature != 1.0 or self.top_k != 0 or self.top_p != 1.0) and not self.sample:
            raise SettingsError("temperature, top_k and top_p apply to sampling only: set sample too")
        if self.first is not None and self.first in self.banned:
            raise SettingsError(f"token {self.first} is both the forced first token and banned")

    @property
    def rows(self) -> int:
        """Number of decoder rows per sentence: the beam size, or the number of samples."""
        return self.nbest if self.sample else self.beam

    def changed(self, overrides: Mapping[str, Any]) -> SearchOptions:
        """Return these options with the overrides of a call.

        A model may sample by default. A call that sets ``beam``, or ``sample`` to False, searches for the
        best translation instead, and the model's temperature, ``top_k`` and ``top_p`` are reset. ``mbr``
        implies ``sample``. Sampling without a seed draws a new seed.

        Args:
            overrides: options by name; None means the model's own value.

        Raises:
            SettingsError: a name is unknown, or a value is invalid.
        """
        values = checked_options(self.__class__, overrides, "decoding")
        if not values and not self.sample:
            return self
        for name in ("sample", "mbr"):  # other options depend on these, so they are checked first
            if name in values:
                option_fields(self.__class__)[name].check(values[name])
        mbr = values.get("mbr", self.mbr) > 0
        sample = values.setdefault("sample", mbr or (self.sample and "beam" not in values))
        if self.sample and not sample:
            values = {"temperature": 1.0, "top_k": 0, "top_p": 1.0} | values
        for name, default in (("max", None), ("min", 0)):
            if f"{name}_length" in values:
                values.setdefault(f"{name}_total", default)
        if sample and self.seed is None:
            values.setdefault("seed", secrets.randbits(32))
        return replace(self, **values)

    def for_stream(self, overrides: Mapping[str, Any]) -> SearchOptions:
        """Return the options as :meth:`changed` does, but with one hypothesis by default.

        Raises:
            SettingsError: as in :meth:`changed`, or the options don't allow streaming.
        """
        values = checked_options(self.__class__, overrides, "decoding")
        defaults: dict[str, Any] = {name: 1 for name in ("beam", "nbest") if name not in values}
        options = replace(self.changed(overrides), **defaults)
        options.check_streams()
        return options

    def check_streams(self) -> None:
        """Check that the options allow streaming, which yields each token as soon as it is decided.

        Raises:
            SettingsError: the options ask for a beam larger than 1, for several samples, or for output that
                is computed from complete translations.
        """
        if self.mbr:
            raise SettingsError("mbr compares several whole samples: it cannot be combined with streaming")
        if self.alignment:
            raise SettingsError("streaming cannot return alignment, which needs the whole translation")
        if self.coverage:
            raise SettingsError("streaming cannot return coverage, which needs the whole translation")
        if self.entropy:
            raise SettingsError("streaming cannot return entropy, which needs the whole translation")
        if self.rows != 1:
            raise SettingsError(
                "streaming needs beam 1 or a single sample: a larger beam decides its tokens only at the end"
            )


def options_from_settings(settings: DecodingSettings) -> tuple[SearchOptions, TextOptions]:
    """Return the search and text options of the group ``decoding`` of a settings file or ``config.json``.

    The settings schema has already validated the values, with the file and key in its errors.
    """
    values = dict(settings)
    search = {name: values[name] for name in option_fields(SearchOptions) if name in values}
    text = {name: values[name] for name in option_fields(TextOptions)}
    return SearchOptions(**search), TextOptions(**text)
