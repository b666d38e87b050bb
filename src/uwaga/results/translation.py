"""The result of a search, and the translation that is made of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from uwaga.errors import UwagaError
from uwaga.results.alignment import WordAlignment
from uwaga.results.attention import Attentions, Floats
from uwaga.results.confidence import Confidence, Word, confidence_of, words_of
from uwaga.results.record import JsonRecord, equal_fields, json_number, json_numbers, shortened
from uwaga.results.terms import TermUse


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """One finished target.

    ``tokens`` without start and end symbols; ``token_scores`` natural log-probabilities of the tokens
    and, unless ``truncated``, of the end symbol after them; ``score`` is their sum after length
    normalisation, ``log_prob`` before it. ``attention`` (target, source) where asked for, a row per
    entry of ``token_scores``, and ``attentions`` likewise; ``entropies`` too, in nats, of the distribution
    that each was taken from. ``alignment`` (tokens, source), where asked for, is where each token comes from;
    ``link_maps`` (heads, tokens, source) the same of all heads that link words together.
    """

    tokens: tuple[int, ...]
    score: float
    log_prob: float
    token_scores: tuple[float, ...]
    truncated: bool = False
    attention: Floats | None = None
    attentions: Attentions | None = None
    entropies: tuple[float, ...] = ()
    alignment: Floats | None = None
    link_maps: Floats | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hypothesis) and equal_fields(self, other)

    def __hash__(self) -> int:
        return hash((self.tokens, self.score))


@dataclass(frozen=True, eq=False, repr=False)
class Translation(JsonRecord):
    """A translated text.

    ``str()`` of it is its ``text``; ``source`` is the text that it translates. Two are equal where everything
    they hold is.

    ``tokens`` are the subword pieces and ``source_tokens`` those of the source; ``token_scores``,
    ``entropies``, ``attention``, ``attentions`` and ``truncated`` are as in :class:`Hypothesis`.
    ``alternatives`` holds the rest of the n-best list, best first, without this one. ``warnings`` says in
    words why it may be no good translation, or what was done to the text to get one; ``error`` why there is
    none, where a call asked not to raise it. ``alignment``, where asked for, links the words of ``source``
    and ``text``; ``terms`` are those of a glossary that the source holds.

    ``steps`` holds the translations of a text that went through several models, one by each: the ``text`` of
    one is the ``source`` of the next. ``score``, ``tokens`` and what belongs to them are then the last
    model's, ``source`` and ``source_tokens`` the first one's, and each step has its own ``attention``.
    """

    text: str
    score: float
    tokens: tuple[str, ...]
    token_scores: tuple[float, ...]
    log_prob: float = 0.0
    truncated: bool = False
    source_tokens: tuple[str, ...] = ()
    attention: Floats | None = None
    alternatives: tuple[Translation, ...] = field(default=())
    source: str = ""
    warnings: tuple[str, ...] = ()
    error: UwagaError | None = None
    steps: tuple[Translation, ...] = ()
    entropies: tuple[float, ...] = ()
    attentions: Attentions | None = None
    alignment: WordAlignment | None = None
    terms: tuple[TermUse, ...] = ()

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        notes = [f"score={self.score:.4g}", f"{len(self.tokens)} tokens"]
        notes += ["truncated"] if self.truncated else []
        notes += [f"attention {self.attention.shape}"] if self.attention is not None else []
        notes += [f"{len(self.alternatives)} alternatives"] if self.alternatives else []
        notes += [f"{len(self.steps)} steps"] if self.steps else []
        return f"Translation({shortened(self.text)!r}, {', '.join(notes)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Translation) and equal_fields(self, other)

    def __hash__(self) -> int:
        return hash((self.source, self.text, self.tokens, self.score))

    @property
    def words(self) -> tuple[Word, ...]:
        """Its words, each with its probability, ends of sentences included."""
        return words_of(self.text, self.tokens, self.token_scores, self.entropies)

    @property
    def confidence(self) -> Confidence | None:
        """How sure the model was of the whole; None where it has made nothing, but copied."""
        return confidence_of(self.words, self.token_scores, self.entropies)

    def _repr_html_(self) -> str:
        """How a notebook shows it: words by their probability, alternatives, attention if it holds any."""
        from uwaga.results.translation_view import translation_view

        return translation_view(self)

    def to_dict(self, *, confidence: bool = False) -> dict[str, object]:
        """What JSON can hold of it, under the same names; attention, alternatives and steps if there are any.

        With ``confidence``, ``words`` and ``confidence`` too. Numbers are rounded to six decimals, and an
        infinite score, an impossible token's, is None.
        """
        values: dict[str, object] = {
            "source": self.source,
            "text": self.text,
            "score": json_number(self.score),
            "log_prob": json_number(self.log_prob),
            "tokens": list(self.tokens),
            "token_scores": [json_number(score) for score in self.token_scores],
            "truncated": self.truncated,
            "source_tokens": list(self.source_tokens),
        }
        if self.warnings:
            values["warnings"] = list(self.warnings)
        if self.error is not None:
            values["error"] = str(self.error)
        if self.attention is not None:
            values["attention"] = [[json_number(weight) for weight in row] for row in self.attention.tolist()]
        if self.attentions is not None:
            values["attentions"] = self.attentions.to_dict()
        if self.alignment is not None:
            values["alignment"] = self.alignment.to_dict()
        if self.entropies:
            values["entropies"] = [json_number(entropy) for entropy in self.entropies]
        if self.terms:
            values["terms"] = [one.to_dict() for one in self.terms]
        if confidence:
            values["words"] = [json_numbers(word) for word in self.words]
            values["confidence"] = None if self.confidence is None else json_numbers(self.confidence)
        if self.alternatives:
            values["alternatives"] = [one.to_dict(confidence=confidence) for one in self.alternatives]
        if self.steps:
            values["steps"] = [one.to_dict(confidence=confidence) for one in self.steps]
        return values
