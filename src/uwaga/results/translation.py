"""Results: hypotheses of a search, translations, word alignments and glossary terms."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Container, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np

from uwaga.errors import UwagaError
from uwaga.results.attention import Attentions, Floats
from uwaga.results.confidence import Confidence, Word, estimate_confidence, words_from_tokens


class JsonRecord:
    """Base class of results that can be converted to JSON."""

    def to_dict(self) -> dict[str, object]:
        """Return the fields by name, as JSON-compatible values."""
        raise NotImplementedError

    def to_json(self) -> str:
        """Return :meth:`to_dict` as a line of JSON, with non-ASCII characters unescaped."""
        return json.dumps(self.to_dict(), ensure_ascii=False)


def json_number(value: float) -> float | None:
    """Return a number rounded to six decimals, or None for infinity and NaN."""
    return round(value, 6) if math.isfinite(value) else None


def json_numbers(record: object) -> dict[str, object]:
    """Return the number and string fields of an object as JSON values, without fields that are None."""
    values = {name: value for name, value in vars(record).items() if value is not None}
    return {name: json_number(value) if isinstance(value, float) else value for name, value in values.items()}


MAX_REPR_CHARACTERS = 60
"""Maximum number of characters of a text in a ``repr``."""
MAX_REPR_LINKS = 50
"""Maximum number of links of an alignment in a ``repr``."""


def shorten(text: str, length: int = MAX_REPR_CHARACTERS) -> str:
    """Return a text truncated to a maximum number of characters."""
    return text if len(text) <= length else text[: length - 1] + "…"


def equal_fields(record: object, other: object) -> bool:
    """Return True if two objects have the same class and equal fields; arrays are compared by element."""
    if type(record) is not type(other):
        return False
    for name, left in vars(record).items():
        right = getattr(other, name)
        arrays = isinstance(left, np.ndarray), isinstance(right, np.ndarray)
        if not (np.array_equal(left, right) if all(arrays) else not any(arrays) and left == right):
            return False
    return True


GlossaryMode = Literal["forced", "soft"]
"""How glossary terms are enforced: ``forced`` terms are always used, ``soft`` terms are preferred."""

MemoryUsage = Literal["verbatim", "fitted", "retrieved"]
"""How a pair of a translation memory was used; see :class:`MemoryUse`."""


@dataclass(frozen=True)
class TermUse(JsonRecord):
    """A glossary term found in a source text.

    ``target`` is the form of the term that occurs in the translation, or its first form if none occurs.
    ``applied`` is True if a form occurs and replaces the word that the model would use for the term.
    """

    source: str
    target: str
    applied: bool

    def to_dict(self) -> dict[str, object]:
        """Return the fields by name."""
        return dict(vars(self))


@dataclass(frozen=True)
class MemoryUse(JsonRecord):
    """A pair of a translation memory that was used for a translation.

    Attributes:
        source: the pair's source.
        target: the pair's translation.
        score: the similarity of the source to the text, in percent; 101 for the same text in the same
            context.
        used: ``verbatim``: the translation is ``target``; ``fitted``: it is ``target`` with the names,
            numbers and placeholders of the text; ``retrieved``: the model looked up the decoder states of
            the pair at each token.
        origin: the origin of the pair, such as a file.
        created: the time at which the pair was added, in ISO 8601.
    """

    source: str
    target: str
    score: float
    used: MemoryUsage
    origin: str = ""
    created: str = ""

    def to_dict(self) -> dict[str, object]:
        """Return the fields by name."""
        return json_numbers(self)


Span = tuple[int, int]
"""Start and end offset of a word in its text, in Unicode code points."""


@dataclass(frozen=True)
class Coverage(JsonRecord):
    """Words and numbers in which the translation of a text differs from the text.

    Attributes:
        omitted: words of the source that are not translated; see
            :mod:`uwaga.translator.layers.coverage`.
        missing_numbers: numbers of the source that are not in the translation.
        added_numbers: numbers of the translation that are not in the source.
        omitted_spans: the spans of ``omitted`` in the source; empty if they are unknown, as in a text with
            markup or for a chain of models.
    """

    omitted: tuple[str, ...] = ()
    missing_numbers: tuple[str, ...] = ()
    added_numbers: tuple[str, ...] = ()
    omitted_spans: tuple[Span, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """A warning for each kind of difference."""
        kinds = (
            ("not translated", self.omitted),
            ("number missing from the translation", self.missing_numbers),
            ("number added by the translation", self.added_numbers),
        )
        return tuple(f"{kind}: {', '.join(map(repr, words))}" for kind, words in kinds if words)

    def without(self, words: Container[str]) -> Coverage:
        """Return a copy without the given words and numbers."""

        def kept(values: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(word for word in values if word not in words)

        pairs = zip(self.omitted, self.omitted_spans, strict=False)
        spans = tuple(span for word, span in pairs if word not in words)
        return Coverage(kept(self.omitted), kept(self.missing_numbers), kept(self.added_numbers), spans)

    def to_dict(self) -> dict[str, object]:
        """Return the fields as lists by name."""
        values: dict[str, object] = {name: list(value) for name, value in vars(self).items()}
        return values | {"omitted_spans": [list(span) for span in self.omitted_spans]}


@dataclass(frozen=True, repr=False)
class WordAlignment(JsonRecord):
    """Word alignment of a text and its translation.

    ``source`` and ``target`` are the spans of the words in their texts, ascending and not overlapping;
    ``links`` are pairs of word indices (source, target) from 0, ascending. A word may have any number of
    links. If the model estimates probabilities, ``likely`` contains triples (source, target, probability of
    the link), which include the pairs of ``links``.
    """

    source: tuple[Span, ...]
    target: tuple[Span, ...]
    links: tuple[tuple[int, int], ...]
    likely: tuple[tuple[int, int, float], ...] = field(default=(), compare=False, repr=False)
    texts: tuple[str, str] | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        if self.texts is None:
            return f"WordAlignment({self})"
        (source, target), words = self.texts, []
        for source_index, target_index in self.links[:MAX_REPR_LINKS]:
            (left, left_end), (right, right_end) = self.source[source_index], self.target[target_index]
            words.append(f"{source[left:left_end]} → {target[right:right_end]}")
        words += ["…"] if len(self.links) > MAX_REPR_LINKS else []
        return f"WordAlignment({', '.join(words)})"

    def __str__(self) -> str:
        """Return the links in Moses format: ``0-0 1-2``."""
        return " ".join(f"{source}-{target}" for source, target in self.links)

    def moved(self, source: int, target: int) -> WordAlignment:
        """Return a copy whose spans are moved by a number of characters in each text."""

        def move(spans: tuple[Span, ...], offset: int) -> tuple[Span, ...]:
            return tuple((start + offset, end + offset) for start, end in spans)

        return replace(self, source=move(self.source, source), target=move(self.target, target), texts=None)

    def to_dict(self) -> dict[str, object]:
        """Return the spans and links as nested lists by name."""
        return {name: [list(pair) for pair in getattr(self, name)] for name in ("source", "target", "links")}

    @property
    def link_probabilities(self) -> dict[tuple[int, int], float]:
        """The probability of each link, from ``likely``; 1 for each of ``links`` if ``likely`` is empty."""
        if self.likely:
            return {(source, target): probability for source, target, probability in self.likely}
        return dict.fromkeys(self.links, 1.0)


def noisy_or(probabilities: Iterable[tuple[tuple[int, int], float]]) -> tuple[tuple[int, int, float], ...]:
    """Return each pair with its combined probability 1 - Π(1 - p), in ascending order of pairs."""
    complements: dict[tuple[int, int], float] = {}
    for pair, probability in probabilities:
        complements[pair] = complements.get(pair, 1.0) * (1.0 - probability)
    return tuple((*pair, 1.0 - complement) for pair, complement in sorted(complements.items()))


def without_last_words(text: str, count: int) -> str:
    """Return a text without its last ``count`` words and the white space before them."""
    if not count:
        return text
    starts = [word.start() for word in re.finditer(r"\S+", text)]
    return text[: starts[-count]].rstrip() if count < len(starts) else ""


class DraftUse(NamedTuple):
    """The use of a draft by a search.

    The search checked ``proposed`` tokens of the draft in ``passes`` passes of the model, and the model also
    chose ``accepted`` of these tokens. Without a draft, each pass decides one token.
    """

    proposed: int
    accepted: int
    passes: int

    @property
    def share_accepted(self) -> float:
        """Share of the proposed tokens that the model also chose; 0 if no token was proposed."""
        return self.accepted / self.proposed if self.proposed else 0.0

    @property
    def share_saved(self) -> float:
        """Share of passes that the draft saved, compared with a search without drafts."""
        return self.accepted / (self.accepted + self.passes) if self.accepted else 0.0

    @classmethod
    def total(cls, parts: Iterable[DraftUse | None]) -> DraftUse | None:
        """Return the sums of the parts that are not None; None if all parts are None."""
        parts_with_coverage = [part for part in parts if part is not None]
        return cls(*map(sum, zip(*parts_with_coverage, strict=True))) if parts_with_coverage else None

    def to_dict(self) -> dict[str, object]:
        """Return the numbers and shares by name."""
        shares = {"share_accepted": self.share_accepted, "share_saved": self.share_saved}
        return self._asdict() | {name: json_number(share) for name, share in shares.items()}


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A finished hypothesis of a search.

    Attributes:
        tokens: ids, without start and end symbols.
        score: sum of ``token_scores`` after length normalisation.
        log_prob: sum of ``token_scores``.
        token_scores: natural log-probabilities of the tokens and, unless ``truncated``, of the end symbol.
            A hypothesis that ends with one of the ``stops`` of :class:`uwaga.decoder.Symbols` has no separate
            end symbol.
        truncated: True if the hypothesis was cut at a length limit.
        attention: (target, source), a row for each entry of ``token_scores``; None if not requested.
        attentions: all attention matrices; None if not requested.
        entropies: the entropy in nats of the distribution at each entry of ``token_scores``; empty if not
            requested.
        alignment: (tokens, source) attention weights that align each token; None if not requested.
        link_maps: (heads, tokens, source), the attention weights of each alignment head; None if not
            requested.
        draft: how the search used a draft; None if there was none.
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
    draft: DraftUse | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Hypothesis) and equal_fields(self, other)

    def __hash__(self) -> int:
        return hash((self.tokens, self.score))


@dataclass(frozen=True, eq=False, repr=False)
class Translation(JsonRecord):
    """A translated text.

    ``str()`` returns ``text``. Translations are equal if all their fields are equal.

    Attributes:
        text: the translation.
        score: see :class:`Hypothesis`.
        tokens: subword pieces of the translation.
        token_scores: see :class:`Hypothesis`.
        log_prob: see :class:`Hypothesis`.
        truncated: True if the translation was cut at a length limit.
        source_tokens: subword pieces of the source.
        attention: see :class:`Hypothesis`.
        alternatives: the other translations of the n-best list, best first.
        source: the source text.
        warnings: reasons why the translation may be bad, and changes to the text before translation.
        error: the error that prevented the translation, if the call requested that errors be returned
            instead of raised.
        steps: the translation by each model of a chain: the ``text`` of a step is the ``source`` of the next,
            and each step has an ``attention``. ``score``, ``tokens`` and their scores are those of the last
            model, ``source`` and ``source_tokens`` those of the first. Empty for a single model.
        entropies: see :class:`Hypothesis`.
        attentions: see :class:`Hypothesis`.
        alignment: links between the words of ``source`` and ``text``; None if not requested.
        terms: glossary terms that occur in the source.
        coverage: words and numbers that differ from the source; None if not requested. For a chain, the
            differences of each model, in its own languages.
        draft: the total use of drafts in all sentences; None without drafts.
        memory: the pairs of a translation memory that the translation uses, at most one per paragraph.
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
    coverage: Coverage | None = None
    draft: DraftUse | None = None
    memory: tuple[MemoryUse, ...] = ()

    def __post_init__(self) -> None:
        if self.alignment is not None and self.alignment.texts != (texts := (self.source, self.text)):
            object.__setattr__(self, "alignment", replace(self.alignment, texts=texts))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        notes = [f"score={self.score:.4g}", f"{len(self.tokens)} tokens"]
        notes += ["truncated"] if self.truncated else []
        notes += [f"attention {self.attention.shape}"] if self.attention is not None else []
        notes += [f"{len(self.alternatives)} alternatives"] if self.alternatives else []
        notes += [f"{len(self.steps)} steps"] if self.steps else []
        return f"Translation({shorten(self.text)!r}, {', '.join(notes)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Translation) and equal_fields(self, other)

    def __hash__(self) -> int:
        return hash((self.source, self.text, self.tokens, self.score))

    def without_last(self, words: int) -> str:
        """Return the text without its last ``words`` words, which change most while a text grows."""
        return without_last_words(self.text, words)

    @property
    def words(self) -> tuple[Word, ...]:
        """Words of the translation with their probabilities, ends of sentences included."""
        return words_from_tokens(self.text, self.tokens, self.token_scores, self.entropies)

    @property
    def confidence(self) -> Confidence | None:
        """Quality estimates of the complete text; None if it was copied rather than translated."""
        return estimate_confidence(self.words, self.token_scores, self.entropies)

    def _repr_html_(self) -> str:
        """Return HTML for notebooks.

        The HTML shows the text with improbable words coloured, the score, warnings, alternatives and, if
        present, the attention; for a chain of models, it shows each step. All text is escaped.
        """
        from uwaga.results.html import details, escape
        from uwaga.results.views import attention_view, colour_words

        faint = 'style="opacity:.75"'
        parts = [
            f"<p {faint}>{escape(self.source)}</p>",
            f"<p><strong>{colour_words(self.text, self.words)}</strong></p>",
            f"<p {faint}>{escape(self._summary())}</p>",
        ]
        notes = [*self.warnings, *([str(self.error)] if self.error else [])]
        parts += [f"<p>⚠ {escape(note)}</p>" for note in notes]
        if self.alternatives:
            rows = "".join(
                f"<li>{colour_words(other.text, other.words)} <small>{other.score:.2f}</small></li>"
                for other in self.alternatives
            )
            parts.append(details(f"{len(self.alternatives)} alternatives", f'<ol start="2">{rows}</ol>'))
        attentions = self.attentions
        if not attentions and self.attention is not None and self.attention.size:
            attentions = Attentions(cross=self.attention[None, None])
        if self.steps:
            parts += [
                details(f"step {step_number}", step._repr_html_())
                for step_number, step in enumerate(self.steps, 1)
            ]
        elif attentions:
            parts.append(attention_view(attentions, self.source_tokens, self.tokens))
        return f'<div class="uwaga-translation">{"".join(parts)}</div>'

    def _summary(self) -> str:
        """Return the score and the quality estimates as one line of text."""
        notes = [f"score {self.score:.3f}"]
        confidence = self.confidence
        if confidence is not None:
            notes.append(f"geometric mean token probability {confidence.probability:.2f}")
            notes.append(f"mean word {confidence.mean_word:.2f}")
            notes.append(f"lowest word {confidence.lowest_word:.2f}")
            notes += [f"entropy {confidence.entropy:.2f}"] if confidence.entropy is not None else []
        notes += ["cut at the length limit"] if self.truncated else []
        return "; ".join(notes)

    def to_dict(self, *, confidence: bool = False) -> dict[str, object]:
        """Return the translation as JSON-compatible values, without optional fields that are empty.

        Args:
            confidence: whether to add the fields ``words`` and ``confidence``.

        Returns:
            Fields by name. Numbers are rounded to six decimals; the infinite score of an impossible token is
            None.
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
        values |= _present_dicts({"attentions": self.attentions, "alignment": self.alignment})
        if self.entropies:
            values["entropies"] = [json_number(entropy) for entropy in self.entropies]
        if self.terms:
            values["terms"] = [term.to_dict() for term in self.terms]
        if self.memory:
            values["memory"] = [use.to_dict() for use in self.memory]
        values |= _present_dicts({"coverage": self.coverage, "draft": self.draft})
        if confidence:
            values["words"] = [json_numbers(word) for word in self.words]
            values["confidence"] = None if self.confidence is None else json_numbers(self.confidence)
        if self.alternatives:
            values["alternatives"] = [
                alternative.to_dict(confidence=confidence) for alternative in self.alternatives
            ]
        if self.steps:
            values["steps"] = [step.to_dict(confidence=confidence) for step in self.steps]
        return values


def _present_dicts(
    parts: dict[str, Attentions | WordAlignment | Coverage | DraftUse | None],
) -> dict[str, object]:
    """Return the parts that are not None as JSON values by name."""
    return {name: part.to_dict() for name, part in parts.items() if part is not None}
