"""The records of a translation: a text in the layers, its passages and their sentences."""

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


@dataclass(frozen=True)
class InlineText:
    """A text with tags, and its position in its document."""

    inline: Inline
    context: TextContext | None = None

    @classmethod
    def from_text(cls, text: Inline | InlineText) -> InlineText:
        """Return a text with tags, without a context if it has none."""
        return text if isinstance(text, InlineText) else cls(text)


class TokenPair(NamedTuple):
    """The tokens of a source and of a target."""

    source: Sequence[int]
    target: Sequence[int]


class Example(NamedTuple):
    """A similar text, its translation, and its similarity in percent; untranslated pieces are tags."""

    source: Inline
    target: Inline
    score: float

    @property
    def words(self) -> tuple[str, str]:
        """Both texts, with the words of untranslated pieces."""
        return plain_text(self.source), plain_text(self.target)


class TextDraft(NamedTuple):
    """A probable translation of a text (M42).

    Its tokens have the weight ``bias``, except those of its last ``mask`` words, as long as the translation
    equals the draft.
    """

    text: str
    bias: float = 0.0
    mask: int = 0


class TaggedTranslation(NamedTuple):
    """A translation without and with its tags."""

    translation: Translation
    inline: Inline


@dataclass(eq=False)
class Text:
    """A text that the layers of :func:`uwaga.translator.pipeline.pipeline` process.

    A layer that translates another text in its place, such as one without tags, makes a new one with this
    text as its ``parent``.

    Attributes:
        content: words and tags. The outermost layers get the string of a request, in its format.
        name: the name of the text in messages.
        prefix: the beginning of the translation.
        draft: a probable translation.
        context: the position of the text in its document.
        examples: similar texts with their translations, whose states the model looks up.
        parent: the text from which this one was derived.
        symbols: words of ``content`` that stand for untranslated pieces.
        is_aligned: True if the words of the translation must be aligned in order to place tags.
        translation: the translation, set by the layers.
        inlines: the translation and its alternatives with their tags; empty for a text without tags.
        error: why the text cannot be translated.
    """

    content: Inline
    name: str
    prefix: str = ""
    draft: TextDraft | None = None
    parent: Text | None = None
    symbols: tuple[Symbol, ...] = ()
    is_aligned: bool = False
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
    def hypotheses(self) -> list[Translation]:
        """The translation and its alternatives."""
        return [self.result, *self.result.alternatives]

    @property
    def tagged(self) -> list[TaggedTranslation]:
        """The translation and its alternatives with their tags."""
        inlines = self.inlines or [(translation.text,) for translation in self.hypotheses]
        return [TaggedTranslation(*pair) for pair in zip(self.hypotheses, inlines, strict=True)]

    def written(self) -> list[TaggedTranslation]:
        """Return the translation and its alternatives with their tags, between the white space that surrounds
        the content.
        """
        return [
            TaggedTranslation(translation, _with_surrounding_space(inline, self.content))
            for translation, inline in self.tagged
        ]


class Layer(Protocol):
    """A step in the translation of texts, which calls the next step."""

    def translate(self, texts: Sequence[Text]) -> None:
        """Set the ``translation`` of every text."""
        ...


@dataclass(frozen=True)
class TranslatedInline:
    """A translation with the tags of its source, ``inline``, and without them, ``translation``.

    ``alternatives`` are those of the translation, with their tags.
    """

    inline: Inline
    translation: Translation
    alternatives: tuple[Inline, ...] = ()


@dataclass(eq=False)
class Sentence(SearchInput):
    """A sentence for a model to translate, with its hypotheses and its translation.

    Attributes:
        ids: its tokens, end symbol included.
        prefix: tokens that the translation begins with.
        phrases: the phrases that the translation must contain.
        draft: a probable translation.
        after: the separator between its translation and the next.
        copy: the translation, if it is the text itself or a single term; None for a sentence to search.
        is_glued: True if the sentence was split inside a word that continues in the next part.
        is_bare: True if the sentence ends a line without a final mark, so that its translation gets none.
        span: its span in the passage.
        text: the text of the span.
        origin: the first model's input for it in a chain; None for the first model.
        terms: terms of a glossary in it.
        hypotheses: the n-best list, best first; empty for a sentence that is copied.
        translation: the text of the first hypothesis, or the copy.
    """

    after: str = ""
    copy: str | None = None
    is_glued: bool = False
    is_bare: bool = False
    span: Span = (0, 0)
    text: str = ""
    origin: str | None = None
    terms: SentenceTerms | None = None
    hypotheses: list[Hypothesis] = field(default_factory=list)
    translation: str = ""

    @property
    def first_text(self) -> str:
        """The first model's input for the sentence, in which the terms of a glossary are found."""
        return self.text if self.origin is None else self.origin

    @property
    def is_searched(self) -> bool:
        """True if the model translates the sentence; False if it is copied."""
        return self.copy is None or bool(self.prefix)


@dataclass(eq=False)
class Passage:
    """A text for a model to translate, split into sentences.

    Attributes:
        before: the line breaks before the first sentence.
        sentences: the sentences.
        warnings: unusual properties of the text, and sentences that had to be split.
        text: the text.
        prefix: the beginning of the translation.
        draft: a probable translation.
        examples: similar texts, each with its translation, the most similar first.
        translation: the translation, once it is assembled.
        pieces: for each sentence, its pieces aligned with those of its translation, if the options ask for
            ``alignment``.
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
    """Return a translation with the white space around it replaced by that of its source."""
    first = content[0] if content else ""
    last = content[-1] if content else ""
    parts = list(translation)
    if isinstance(first, str) and not first.isspace() and first[:1].isspace():
        if parts and isinstance(parts[0], str):
            parts[0] = parts[0].lstrip()
        parts.insert(0, first[: len(first) - len(first.lstrip())])
    if isinstance(last, str) and not last.isspace() and last[-1:].isspace():
        if parts and isinstance(parts[-1], str):
            parts[-1] = parts[-1].rstrip()
        parts.append(last[len(last.rstrip()) :])
    return join_parts(parts)
