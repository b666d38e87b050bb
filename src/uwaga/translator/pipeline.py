"""The path of texts: taken apart, searched, put together, looked over."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Literal, TypeVar, get_args

from uwaga.checkpoints.usual import UsualScore
from uwaga.decoder import Decoder
from uwaga.errors import DataError
from uwaga.results.translation import Translation
from uwaga.search import SearchOptions
from uwaga.settings import AlignmentHead
from uwaga.settings.options import check_one_of
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.guards import warnings_of
from uwaga.translator.joining import COPIED, assemble, sentence_text
from uwaga.translator.nbest import search_texts
from uwaga.translator.recording import recorder, with_attentions
from uwaga.translator.segmentation import Passage, Segmenter, Sentence, Split, listed_prefixes, prefix_ids
from uwaga.translator.streaming import grow

if TYPE_CHECKING:
    from uwaga.alignment.piece_alignment import PieceAlignment
    from uwaga.terms.apply import SentenceTerms, TermFinder

OnError = Literal["raise", "return", "copy"]
"""What happens to a text that cannot be translated: an error for all; one in its place; the text itself."""
Made = TypeVar("Made")


@dataclass(frozen=True)
class TranslatedPassage:
    """A translation and how it came about: the text taken apart, and the translation of each sentence.

    ``pieces`` says of each sentence, where the options ask for ``alignment``, which of its translation's
    pieces come from which of its own.
    """

    translation: Translation
    passage: Passage
    sentences: tuple[str, ...]
    pieces: tuple[PieceAlignment, ...] = ()


@dataclass(frozen=True)
class Pipeline:
    """What all texts of a call have in common.

    ``usual`` are the model's own figures, if it has any; ``head`` is whose attention aligns words, if
    chosen; ``terms`` are those of a glossary.
    """

    decoder: Decoder
    segmenter: Segmenter
    target: Subwords
    options: SearchOptions
    split: Split
    usual: UsualScore | None = None
    head: AlignmentHead | None = None
    terms: TermFinder | None = None

    def run(
        self,
        texts: Sequence[str],
        prefix: str | Iterable[str] | None,
        names: Sequence[str],
        on_error: OnError = "raise",
    ) -> list[Translation]:
        """Translate texts, called ``names`` in messages; a text that fails does not hold up the others.

        Raises:
            DataError: with ``raise``, of the first text that cannot be translated.
            SettingsError: the options do not fit the model, the number of prefixes not the texts.
        """
        prefixes = listed_prefixes(prefix, len(texts))
        return [one.translation for one in self.translate(texts, prefixes, names, on_error)]

    def translate(
        self, texts: Sequence[str], prefixes: Sequence[str], names: Sequence[str], on_error: OnError
    ) -> list[TranslatedPassage]:
        """As :meth:`run`, with what each text was taken apart into."""

        def work(part: slice) -> list[TranslatedPassage]:
            return self._search(self.segmenter.cut_all(texts[part], self.split, names[part]), prefixes[part])

        return isolated(
            range(len(texts)), work, on_error, lambda at, error: failed(texts[at], error, on_error)
        )

    def translate_further(
        self,
        made: Sequence[TranslatedPassage],
        prefixes: Sequence[str],
        names: Sequence[str],
        on_error: OnError,
    ) -> list[TranslatedPassage]:
        """Translate what another model has made of texts, sentence by sentence where they were taken apart.

        Arguments and errors are those of :meth:`run`.
        """

        def work(part: slice) -> list[TranslatedPassage]:
            passages = [
                self.cut_further(one, name) for one, name in zip(made[part], names[part], strict=True)
            ]
            return self._search(passages, prefixes[part])

        def refused(at: int, error: DataError) -> TranslatedPassage:
            return failed(made[at].translation.text, error, on_error)

        return isolated(range(len(made)), work, on_error, refused)

    def cut_further(self, made: TranslatedPassage, name: str) -> Passage:
        """What another model has made of a text, taken apart where that was; ``name`` is for messages.

        Raises:
            TextTooLongError, SettingsError: as :meth:`Segmenter.cut`.
        """
        split: Split = "never" if self.split == "never" else "auto"
        sentences = made.sentences
        if self.terms is not None:  # of a sentence that has become nothing, the terms stay
            given = [one.text if one.origin is None else one.origin for one in made.passage.sentences]
            sentences = tuple(map(self._with_something, sentences, given))
        return self.segmenter.cut_translated(made.passage, sentences, made.translation.text, split, name)

    def grow(self, passage: Passage, prefix: str) -> Generator[str, None, bool]:
        """The translation of a passage piece by piece; returns whether a limit has cut it."""
        [prefixes] = prefix_ids([passage], [prefix], self.target)
        return self._pieces(passage, prefixes)

    def _pieces(self, passage: Passage, prefixes: Sequence[Sequence[int]]) -> Generator[str, None, bool]:
        truncated = False
        if passage.before:
            yield passage.before
        for sentence, prefix in zip(passage.sentences, prefixes, strict=True):
            if sentence.copy is not None and not prefix:
                yield sentence.copy
            else:
                cut = yield from grow(self.decoder, sentence.ids, self.options, self._text, prefix)
                truncated = truncated or cut
            if sentence.after:
                yield sentence.after
        return truncated

    def _search(self, passages: Sequence[Passage], prefix: Sequence[str]) -> list[TranslatedPassage]:
        prefixes = prefix_ids(passages, prefix, self.target)
        flat = [tokens for each in prefixes for tokens in each]
        sentences = [sentence for passage in passages for sentence in passage.sentences]
        every = [self._terms_of(sentence) for sentence in sentences]
        copied = [
            one.copy is not None and not tokens and found is None
            for one, tokens, found in zip(sentences, flat, every, strict=True)
        ]
        searched = [at for at, is_copied in enumerate(copied) if not is_copied]
        ids, begun = [sentences[at].ids for at in searched], [flat[at] for at in searched]
        options = self.options
        seeing, decoder = options.attention == "all", self.decoder
        if seeing or options.alignment:
            decoder = recorder(decoder, whole=seeing)
        terms = [every[at] for at in searched]
        phrases = [None if one is None else one.phrases for one in terms] if any(terms) else None
        ways = search_texts(decoder, ids, options, begun, self._text, phrases)
        ways = with_attentions(decoder, ids, ways, options.start) if seeing else ways
        if options.alignment:
            from uwaga.translator.aligning import with_alignments

            ways = with_alignments(decoder, self.head, ids, ways, options.start)
        lists = iter(ways)
        found = iter([[COPIED] if is_copied else next(lists) for is_copied in copied])
        of_sentences = iter(every)
        made = []
        for passage in passages:
            own = list(islice(found, len(passage.sentences)))
            glossary = list(islice(of_sentences, len(passage.sentences)))
            sides = self.segmenter.source, self.target
            one = assemble(passage, own, options.nbest, *sides)
            pieces: tuple[PieceAlignment, ...] = ()
            if options.alignment:
                from uwaga.translator.aligning import with_word_alignment

                links = None if self.head is None else self.head.links
                one, pieces = with_word_alignment(one, passage, own, *sides, links)
            best = [nbest[0] for nbest in own]
            doubts = warnings_of([sentence.ids for sentence in passage.sentences], best, self.usual)
            one = replace(one, warnings=(*one.warnings, *doubts)) if doubts else one
            texts = tuple(
                (sentence.copy or "") if hypothesis is COPIED else self._text(hypothesis.tokens)
                for sentence, hypothesis in zip(passage.sentences, best, strict=True)
            )
            if self.terms is not None and self.terms.last:
                from uwaga.terms.apply import with_terms

                one = with_terms(one, glossary, best, texts)
            made.append(TranslatedPassage(one, passage, texts, pieces))
        return made

    def _terms_of(self, sentence: Sentence) -> SentenceTerms | None:
        if self.terms is None:
            return None
        return self.terms.terms_of(sentence.text if sentence.origin is None else sentence.origin)

    def _with_something(self, sentence: str, origin: str) -> str:
        """A sentence; what it was made of where it holds nothing to read, and that holds terms."""
        if self.terms is None or self.segmenter.ids(sentence) or self.terms.terms_of(origin) is None:
            return sentence
        return origin

    def _text(self, tokens: Sequence[int]) -> str:
        return sentence_text(tokens, self.target)


def isolated(
    texts: range,
    work: Callable[[slice], list[Made]],
    on_error: OnError,
    refused: Callable[[int, DataError], Made],
) -> list[Made]:
    """What ``work`` makes of texts; one that fails does not hold up the others.

    Args:
        texts: their numbers.
        work: makes something of each text of a range.
        on_error: whether the first failure is raised.
        refused: what stands in the place of a text that fails.

    Raises:
        DataError: with ``raise``, of the first text that fails.
        SettingsError: there is no such ``on_error``.
    """
    check_one_of("on_error", on_error, get_args(OnError))
    try:
        return work(slice(texts.start, texts.stop))
    except DataError as error:
        if on_error == "raise":
            raise
        if len(texts) == 1:
            return [refused(texts.start, error)]
    half = len(texts) // 2
    return [one for part in (texts[:half], texts[half:]) for one in isolated(part, work, on_error, refused)]


def failed(text: object, error: DataError, on_error: OnError) -> TranslatedPassage:
    """Stands for the translation of a text that has none."""
    copied = text if on_error == "copy" and isinstance(text, str) else ""
    return TranslatedPassage(Translation(copied, 0.0, (), (), error=error), Passage("", ()), ())
