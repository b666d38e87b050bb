"""Data classes of a translation: the texts that layers process, their passages and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from uwaga.markup.inline import Inline, Tag, join_parts, plain_text
from uwaga.results.translation import Hypothesis, Span, Translation
from uwaga.search import SearchInput

if TYPE_CHECKING:
    from uwaga.alignment.piece_alignment import PieceAlignment
    from uwaga.errors import DataError
    from uwaga.markup.symbols import Symbol
    from uwaga.terms.apply import SentenceTerms
    from uwaga.translator.memories import TextContext


class InlineText(NamedTuple):
    """A text with tags, and its position in a document."""

    inline: Inline
    context: TextContext | None = None

    @classmethod
    def from_text(cls, text: Inline | InlineText) -> InlineText:
        """Return an :class:`InlineText`; if an :class:`Inline` is given, the result has no context."""
        return text if isinstance(text, InlineText) else cls(text)


class TokenPair(NamedTuple):
    """The token ids of a source and of its target."""

    source: Sequence[int]
    target: Sequence[int]


class Example(NamedTuple):
    """A similar text, its translation, and its similarity in percent.

    Pieces that are not translated, such as placeholders, are tags.
    """

    source: Inline
    target: Inline
    score: float

    @property
    def plain_texts(self) -> tuple[str, str]:
        """Both texts as strings, untranslated pieces included."""
        return plain_text(self.source), plain_text(self.target)


class TextDraft(NamedTuple):
    """A probable translation of a text (M42).

    As long as the translation agrees with the draft, the draft's tokens have the weight ``bias``, except
    those of its last ``mask`` words.
    """

    text: str
    bias: float = 0.0
    mask: int = 0


class TaggedTranslation(NamedTuple):
    """A translation, and its text with tags."""

    translation: Translation
    inline: Inline


@dataclass(eq=False)
class Text:
    """A text that the layers of :func:`uwaga.translator.pipeline.pipeline` process.

    A layer that translates a modified text instead, such as one without tags, creates a new :class:`Text`
    whose ``parent`` is this text.

    Attributes:
        content: words and tags. For the outermost layers, it is the string of a request, in its format.
        name: the name of the text in messages.
        prefix: text with which the translation must begin.
        draft: a probable translation.
        context: the position of the text in its document.
        examples: similar texts with their translations, whose decoder states the model looks up.
        parent: the text from which this text was derived.
        symbols: words of ``content`` that stand for untranslated pieces.
        needs_alignment: True if the words of the translation must be aligned in order to place tags.
        translation: the translation, set by the layers.
        inlines: the translation and its alternatives with their tags; empty for a text without tags.
        error: the error that prevents the translation; None if there is none.
    """

    content: Inline
    name: str
    prefix: str = ""
    draft: TextDraft | None = None
    parent: Text | None = None
    symbols: tuple[Symbol, ...] = ()
    needs_alignment: bool = False
    translation: Translation | None = None
    inlines: list[Inline] = field(default_factory=list)
    error: DataError | None = None
    context: TextContext | None = None
    examples: tuple[Example, ...] = ()

    @property
    def words(self) -> str:
        """The content without its tags."""
        return "".join([part for part in self.content if isinstance(part, str)])

    @property
    def has_tags(self) -> bool:
        """True if the content has tags, placeholders included."""
        return any(isinstance(part, Tag) for part in self.content)

    @property
    def result(self) -> Translation:
        """The translation, once the layers have set it."""
        assert self.translation is not None
        return self.translation

    @property
    def translations(self) -> list[Translation]:
        """The translation and its alternatives."""
        return [self.result, *self.result.alternatives]

    @property
    def tagged_translations(self) -> list[TaggedTranslation]:
        """The translation and its alternatives with their tags."""
        inlines = self.inlines or [(translation.text,) for translation in self.translations]
        return [TaggedTranslation(*pair) for pair in zip(self.translations, inlines, strict=True)]

    def spaced_translations(self) -> list[TaggedTranslation]:
        """Return the translation and its alternatives with their tags and with the outer white space of the
        content.
        """
        return [
            TaggedTranslation(translation, _with_surrounding_space(inline, self.content))
            for translation, inline in self.tagged_translations
        ]


class Layer(Protocol):
    """A layer of the pipeline, which usually calls the next layer."""

    def translate(self, texts: Sequence[Text]) -> None:
        """Set the ``translation`` of every text."""
        ...


class TranslatedInline(NamedTuple):
    """A translation (``translation``) and its text with the tags of the source (``inline``).

    ``alternatives`` are the alternatives of the translation with their tags.
    """

    inline: Inline
    translation: Translation
    alternatives: tuple[Inline, ...] = ()


@dataclass(eq=False)
class Sentence(SearchInput):
    """A sentence that a model translates, with its hypotheses and its translation.

    Attributes:
        ids: tokens of the sentence, end symbol included.
        prefix: tokens with which the translation must begin.
        phrases: the phrases that the translation must contain.
        draft: a probable translation.
        after: the separator between the translations of this sentence and of the next.
        copy: the translation of a sentence that is copied or is a single term; None for other sentences.
        joins_next: True if no space separates the sentence from the next part of the same text.
        lacks_final_punctuation: True if the sentence ends a line without punctuation, so that its
            translation must not end with a full stop either.
        span: span of the sentence in the text of the passage.
        text: the text of the span.
        origin: the text of the sentence in the first model's input; None for the first model of a chain.
        terms: glossary terms of the sentence.
        hypotheses: the n-best list, best first; empty for a sentence that is copied.
        translation: the text of the first hypothesis, or the copy.
    """

    after: str = ""
    copy: str | None = None
    joins_next: bool = False
    lacks_final_punctuation: bool = False
    span: Span = (0, 0)
    text: str = ""
    origin: str | None = None
    terms: SentenceTerms | None = None
    hypotheses: list[Hypothesis] = field(default_factory=list)
    translation: str = ""

    @property
    def first_text(self) -> str:
        """The text of the sentence in the first model's input, in which glossary terms are found."""
        return self.text if self.origin is None else self.origin

    @property
    def is_searched(self) -> bool:
        """True if the model translates the sentence; False if it is copied."""
        return self.copy is None or bool(self.prefix)


@dataclass(eq=False)
class Passage:
    """A text that a model translates, split into sentences.

    Attributes:
        before: the line breaks before the first sentence.
        sentences: the sentences.
        warnings: warnings about the text, and about sentences that had to be split.
        text: the text.
        prefix: text with which the translation must begin.
        draft: a probable translation.
        examples: similar texts, each with its translation, the most similar first.
        translation: the translation, once it is assembled.
        pieces: for each sentence, the alignment between the pieces of source and translation, if the options
            request ``alignment``.
    """

    before: str
    sentences: list[Sentence]
    warnings: tuple[str, ...] = ()
    text: str = ""
    prefix: str = ""
    draft: TextDraft | None = None
    examples: Sequence[Example] = ()
    translation: Translation | None = None
    pieces: tuple[PieceAlignment, ...] = ()

    @property
    def result(self) -> Translation:
        """The translation, once it is assembled."""
        assert self.translation is not None
        return self.translation


def _with_surrounding_space(translation: Inline, content: Inline) -> Inline:
    """Return a translation with the outer white space of its source instead of its own."""
    first_part = content[0] if content else ""
    last_part = content[-1] if content else ""
    parts = list(translation)
    if isinstance(first_part, str) and not first_part.isspace() and first_part[:1].isspace():
        if parts and isinstance(parts[0], str):
            parts[0] = parts[0].lstrip()
        parts.insert(0, first_part[: len(first_part) - len(first_part.lstrip())])
    if isinstance(last_part, str) and not last_part.isspace() and last_part[-1:].isspace():
        if parts and isinstance(parts[-1], str):
            parts[-1] = parts[-1].rstrip()
        parts.append(last_part[len(last_part.rstrip()) :])
    return join_parts(parts)
