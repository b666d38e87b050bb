"""The settings of one search, checked together."""

from __future__ import annotations

import difflib
import math
import secrets
from dataclasses import dataclass, replace
from typing import Any, Literal, TypedDict

from uwaga.decoder import MOST_TOKENS, STEEPEST_PENALTY, WIDEST_BEAM, EarlyStopping
from uwaga.errors import SettingsError, shown
from uwaga.search.utility import UTILITIES, Utility
from uwaga.settings.checks import check_between, check_flag, check_one_of, check_whole

LengthFormula = Literal["average", "gnmt", "none"]

MOST_SAMPLES = 1 << 16


@dataclass(frozen=True)
class SearchOptions:
    """How to search. The defaults are those of :class:`uwaga.settings.DecodingSettings`.

    A model brings its own; a call changes them by :meth:`changed`.

    Width:
        ``beam``: hypotheses kept per sentence; 1 is greedy. ``nbest``: how many to return, at most
        ``beam``. With ``sample`` the beam plays no part: ``nbest`` independent samples are drawn.
    Ranking:
        ``length_penalty`` and ``length_formula``: see :mod:`uwaga.search.rank`. The length counts the
        end symbol. A hypothesis that a limit cut competes with the finished ones on its own length and
        log-probability, as in ``transformers``, and is marked ``truncated``.
        ``score_forced``: whether tokens that were not chosen but forced count in ``score``. False ranks
        as ``transformers`` does: a forced prefix adds neither log-probability nor length, a forced first
        or last token adds length only. ``log_prob`` and ``token_scores`` always hold the true values.
    Stopping:
        ``early_stopping`` True: a sentence is done at ``beam`` finished hypotheses. False: only when no
        running hypothesis can still enter the n-best (an exact bound, ``"never"`` in ``transformers``).
        ``"estimate"``: when the best running hypothesis, ranked as if it ended now, is worse than the
        worst of ``beam`` finished ones (False in ``transformers``; may miss a better long hypothesis).
    Lengths, all in target tokens, a forced prefix included:
        ``min_length``: fewest tokens, the end symbol not counted. ``max_length``: most steps, so the end
        symbol is counted, as in a decoder's ``max_target``; None for the decoder's own limit.
        ``max_ratio`` and ``max_extra``: most steps are ``max_ratio * source tokens + max_extra`` too, but
        never so few that ``min_length`` or a prefix cannot be met; infinite for no such limit.
        ``force_end``: make the last permitted step the end symbol. Such a hypothesis is still marked
        ``truncated``.
    Constraints:
        ``no_repeat_ngram``: no n-gram of this size twice, 0 for off. ``start``: token that decoding starts
        from and that is no part of the target, None for the decoder's start symbol (of some multilingual
        models it is the target language). ``first``: token forced as the first, before a prefix too
        unless it begins with it. ``banned``: tokens never produced (what decoding starts from and the
        padding symbol never are). ``unknown``: whether the unknown symbol may be produced.
        ``renormalise``: share the probability of banned tokens among the others (``renormalize_logits``
        in ``transformers``).
    Sampling:
        ``temperature``, then ``top_k`` (0 for all), then ``top_p`` shape the distribution that is drawn
        from; reported log-probabilities stay the model's own. ``seed``, the source and the number of
        the sample alone decide the draws. None is not chosen yet: :meth:`changed` draws one, which then
        stays, and a search that is given none takes 0.
        ``mbr``: draw so many samples of a text and take the one of the highest expected utility among them
        (:mod:`uwaga.search.mbr`), which is then its ``score``; 0 for off. ``nbest`` of them are returned.
        ``utility``: ``chrf`` or ``bleu``. It looks at texts, so the translator does it, not the search.
    Other:
        ``attention``: return cross-attention weights: True for (target, source), the mean over the heads of
        the last layer; ``"all"`` for every matrix of the model, which the translator records of what is
        found: to the search it is as if off. ``alignment``: link the words of text and translation, which the
        translator does likewise. ``entropy``: measure the entropy of the model's distribution at
        each token, by another pass over what was found. ``batch_tokens``: source tokens decoded together,
        padding and beams counted.

    Raises:
        SettingsError: a value is out of its range or two values cannot go together.
    """

    beam: int = 5
    nbest: int = 1
    length_penalty: float = 1.0
    length_formula: LengthFormula = "average"
    score_forced: bool = True
    early_stopping: EarlyStopping = True
    min_length: int = 0
    max_length: int | None = 256
    max_ratio: float = 3.0
    max_extra: int = 20
    force_end: bool = False
    no_repeat_ngram: int = 0
    start: int | None = None
    first: int | None = None
    banned: tuple[int, ...] = ()
    unknown: bool = True
    renormalise: bool = False
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    mbr: int = 0
    utility: Utility = "chrf"
    attention: bool | Literal["all"] = False
    entropy: bool = False
    alignment: bool = False
    batch_tokens: int = 4096

    def __post_init__(self) -> None:
        """Check every value, then the values together."""
        for name, (least, most) in _WHOLE.items():
            check_whole(name, getattr(self, name), least, most)
        for name, (least, most) in _WHOLE_OR_NONE.items():
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), least, most)
        for name in _FLAGS:
            check_flag(name, getattr(self, name))
        if not isinstance(self.banned, (tuple, list)):
            raise SettingsError(f"banned must be a tuple of token ids, not {shown(self.banned)}")
        for token in self.banned:
            check_whole("banned", token, 0)
        object.__setattr__(self, "banned", tuple(self.banned))
        check_between("length_penalty", self.length_penalty, -STEEPEST_PENALTY, STEEPEST_PENALTY)
        check_between("max_ratio", self.max_ratio, 0.0, math.inf)
        check_between("temperature", self.temperature, 1e-6, 1e6)
        check_between("top_p", self.top_p, 1e-9, 1.0)
        check_one_of("length_formula", self.length_formula, ("average", "gnmt", "none"))
        check_one_of("early_stopping", self.early_stopping, (True, False, "estimate"))
        check_one_of("utility", self.utility, UTILITIES)
        check_one_of("attention", self.attention, (True, False, "all"))
        self._check_together()

    def _check_together(self) -> None:
        if not self.sample and self.nbest > self.beam:
            raise SettingsError(
                f"nbest {self.nbest} is more than beam {self.beam}: "
                "raise beam, lower nbest, or set sample to draw independent samples"
            )
        if self.mbr and not self.sample:
            raise SettingsError("mbr chooses among samples: do not set sample to False with it")
        if self.mbr and self.nbest > self.mbr:
            raise SettingsError(f"nbest {self.nbest} is more than the {self.mbr} samples of mbr: draw more")
        if self.max_length is not None and self.min_length > self.max_length:
            raise SettingsError(f"min_length {self.min_length} is more than max_length {self.max_length}")
        shaped = self.temperature != 1.0 or self.top_k != 0 or self.top_p != 1.0
        if shaped and not self.sample:
            raise SettingsError("temperature, top_k and top_p shape sampling: set sample, or leave them out")
        if self.first is not None and self.first in self.banned:
            raise SettingsError(f"token {self.first} is both forced as the first and banned")

    @property
    def rows(self) -> int:
        """Decoder rows per sentence: the beam, or the samples."""
        return self.nbest if self.sample else self.beam

    def changed(self, overrides: SearchOverrides) -> SearchOptions:
        """These options, a model's own, with what a call asks for instead.

        A model may sample unless told otherwise. Who asks such a model for a ``beam``, or for ``sample``
        False, wants the best and no draw: the shape that the model gives its distribution is then left out.
        ``nbest`` alone is that many samples. Where samples are drawn and no ``seed`` was ever named, it gets
        a new one. ``mbr`` draws samples without being told to.

        Raises:
            SettingsError: an override has an unknown name, or a value is impossible.
        """
        values = _known(overrides)
        if not values and not self.sample:
            return self
        if "sample" in values:
            check_flag("sample", values["sample"])
        check_whole("mbr", values.get("mbr", self.mbr), *_WHOLE["mbr"])  # before it decides anything
        chosen = values.get("mbr", self.mbr) > 0
        samples = values.setdefault("sample", chosen or (self.sample and "beam" not in values))
        if self.sample and not samples:
            values = {"temperature": 1.0, "top_k": 0, "top_p": 1.0} | values
        if samples and self.seed is None:
            values.setdefault("seed", secrets.randbits(32))
        return replace(self, **values)

    def for_stream(self, overrides: SearchOverrides) -> SearchOptions:
        """As :meth:`changed`, but one hypothesis unless more are asked for: greedy, or one sample.

        Raises:
            SettingsError: as :meth:`changed`; or more than one hypothesis is asked for, where no token is
                decided before the end.
        """
        values = _known(overrides)
        options = self.changed(overrides)
        if "nbest" not in values:
            options = replace(options, nbest=1)
        if "beam" not in values:
            options = replace(options, beam=1)
        options.check_streams()
        return options

    def check_streams(self) -> None:
        """Refuse what cannot be given out token by token.

        Raises:
            SettingsError: a beam or more than one sample.
        """
        if self.mbr:
            raise SettingsError("streaming shows one sample as it grows, and mbr chooses among whole ones")
        if self.alignment:
            raise SettingsError("streaming shows tokens as they grow, and words are aligned afterwards")
        if self.entropy:
            raise SettingsError("streaming shows tokens as they grow, and entropy is measured afterwards")
        if self.rows != 1:
            raise SettingsError(
                "streaming needs beam 1 or a single sample: a beam decides its tokens at the end"
            )


class SearchOverrides(TypedDict, total=False):
    """What a call may ask for: the options of :class:`SearchOptions`, which says what each of them means.

    What is not named, or None, is as the model's own settings say; of ``seed``, a new one.
    """

    beam: int | None
    nbest: int | None
    length_penalty: float | None
    length_formula: LengthFormula | None
    score_forced: bool | None
    early_stopping: EarlyStopping | None
    min_length: int | None
    max_length: int | None
    max_ratio: float | None
    max_extra: int | None
    force_end: bool | None
    no_repeat_ngram: int | None
    start: int | None
    first: int | None
    banned: tuple[int, ...] | None
    unknown: bool | None
    renormalise: bool | None
    sample: bool | None
    temperature: float | None
    top_k: int | None
    top_p: float | None
    seed: int | None
    mbr: int | None
    utility: Utility | None
    attention: bool | Literal["all"] | None
    entropy: bool | None
    alignment: bool | None
    batch_tokens: int | None


def _known(overrides: SearchOverrides) -> dict[str, Any]:
    """The overrides that say something, every name checked."""
    names = SearchOptions.__dataclass_fields__
    values: dict[str, Any] = {}
    for name, value in overrides.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(names)}"
            raise SettingsError(f"unknown decoding option {name!r}; {hint}")
        if value is not None:
            values[name] = value
    return values


_FLAGS = ("score_forced", "force_end", "unknown", "renormalise", "sample", "entropy", "alignment")
_WHOLE = {
    "beam": (1, WIDEST_BEAM),
    "nbest": (1, MOST_SAMPLES),
    "min_length": (0, MOST_TOKENS),
    "max_extra": (0, MOST_TOKENS),
    "no_repeat_ngram": (0, MOST_TOKENS),
    "top_k": (0, MOST_TOKENS),
    "mbr": (0, MOST_SAMPLES),
    "batch_tokens": (1, MOST_TOKENS),
}
_WHOLE_OR_NONE = {
    "max_length": (1, MOST_TOKENS),
    "start": (0, MOST_TOKENS),
    "first": (0, MOST_TOKENS),
    "seed": (-(2**63), 2**63 - 1),
}
