"""Several models one after the other: from a language to another by way of others."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, overload

from uwaga.checkpoints.languages import UNKNOWN, LanguagePair, resolve_languages
from uwaga.decoder import Decoder
from uwaga.errors import SettingsError, shown
from uwaga.languages.codes import same_language
from uwaga.results.translation import Translation
from uwaga.search import SearchOptions
from uwaga.translator.detected import known_source
from uwaga.translator.marked import (
    LinesOptions,
    streamed_whole,
    taken_apart,
    translate_chunks,
    translate_given,
)
from uwaga.translator.pipeline import OnError, Pipeline
from uwaga.translator.pivot_options import PivotOptions
from uwaga.translator.segmentation import Split, listed, listed_prefixes
from uwaga.translator.text_markup import TextMarkup

if TYPE_CHECKING:
    from uwaga.terms.apply import GivenGlossary, GlossaryMode, TermFinder


class PivotStep(Protocol):
    """One of the models, as :class:`uwaga.translator.Translator` is one."""

    languages: LanguagePair
    decoding: SearchOptions
    terms: TermFinder | None

    @property
    def aligns(self) -> bool:
        """Whether it can align words."""
        ...

    def between(self, source: str | None = ..., target: str | None = ...) -> PivotStep:
        """The model from one language to another."""
        ...

    def with_glossary(self, glossary: GivenGlossary, mode: GlossaryMode | None, last: bool) -> PivotStep:
        """The same model, held to the terms of a glossary."""
        ...

    def pipeline(self, options: SearchOptions, split: Split) -> Pipeline:
        """The path of texts through it."""
        ...

    def doubts(self, line: str, split: Split = ...) -> tuple[str, ...]:
        """What is strange about a text."""
        ...

    def searched_by(self, way: Callable[[Decoder], Decoder]) -> PivotStep:
        """The same model, searched another way."""
        ...


class PivotTranslator:
    """Translators one after the other, such as Portuguese to English and English to Spanish.

    It is used as a :class:`uwaga.translator.Translator`. A text is taken apart once, by the first model; each
    of its sentences, many at a time, goes through all of them, and is put together once. What comes out is
    what calling the models by hand gives, sentence by sentence.

    Args:
        steps: two translators or more. Each translates from the language that the one before it translates
            to. Of one that knows several languages both must be chosen, with
            :meth:`uwaga.translator.Translator.between`.

    Raises:
        SettingsError: they are fewer, do not follow each other, or need a language that nobody has chosen.
    """

    def __init__(self, steps: Sequence[PivotStep]) -> None:
        if len(steps) < 2:
            raise SettingsError(f"a pivot needs two translators or more, not {len(steps)}")
        self.steps = tuple(step.between() for step in steps)
        for number, (one, other) in enumerate(pairwise(self.steps), start=1):
            into, out_of = one.languages[1], other.languages[0]
            if into != UNKNOWN[1] and out_of != UNKNOWN[0] and not same_language(into, out_of):
                raise SettingsError(
                    f"translator {number} translates to {into} and the next one from {out_of}: they do not "
                    "follow each other"
                )
        source, target = self.steps[0].languages[0], self.steps[-1].languages[1]
        self.languages = LanguagePair(source, target, (source,), (target,))
        self.decoding = PivotOptions.of([step.decoding for step in self.steps])

    def __repr__(self) -> str:
        return f"PivotTranslator({', '.join(map(repr, self.steps))})"

    def searched_by(self, way: Callable[[Decoder], Decoder]) -> PivotTranslator:
        """The same translators, each searched as :meth:`uwaga.translator.Translator.searched_by` has it."""
        made = copy.copy(self)
        made.steps = tuple(step.searched_by(way) for step in self.steps)
        return made

    def with_glossary(self, glossary: GivenGlossary, mode: GlossaryMode | None = None) -> PivotTranslator:
        """The same translators, whose last translation of a sentence holds the terms that its text has.

        The last model is led by terms of the first one's language, sentence by sentence. A term that is not
        translated is held to by every model that can spell it. All else is as
        :meth:`uwaga.translator.Translator.with_glossary` has it.

        Raises:
            DataError, SettingsError: likewise.
        """
        if glossary is None:
            return self
        from uwaga.terms.glossary import Glossary

        known, made = Glossary.of(glossary, self.languages), copy.copy(self)
        *before, last = self.steps
        made.steps = (
            *(step.with_glossary(known, mode, False) for step in before),
            last.with_glossary(known, mode, True),
        )
        return made

    @property
    def terms(self) -> TermFinder | None:
        """Those of a glossary that its translations hold."""
        return self.steps[-1].terms

    @property
    def route(self) -> tuple[str, ...]:
        """Codes of the languages that a text goes through, from the source's to the target's."""
        return (self.languages[0], *(step.languages[1] for step in self.steps))

    def between(self, source: str | None = None, target: str | None = None) -> PivotTranslator:
        """Itself: it translates between its own languages only.

        Raises:
            SettingsError: a language is another one.
        """
        resolve_languages(self.languages, source, target, "these models together")
        return self

    @overload
    def translate(
        self,
        text: str,
        *,
        source: str | None = ...,
        target: str | None = ...,
        prefix: str | Sequence[str] | None = ...,
        split: Split = ...,
        on_error: OnError = ...,
        **options: Any,
    ) -> Translation: ...

    @overload
    def translate(
        self,
        text: Iterable[str],
        *,
        source: str | None = ...,
        target: str | None = ...,
        prefix: str | Sequence[str] | None = ...,
        split: Split = ...,
        on_error: OnError = ...,
        **options: Any,
    ) -> list[Translation]: ...

    def translate(
        self,
        text: str | Iterable[str],
        *,
        source: str | None = None,
        target: str | None = None,
        prefix: str | Sequence[str] | None = None,
        split: Split = "auto",
        on_error: OnError = "raise",
        **options: Any,
    ) -> Translation | list[Translation]:
        """Translate a text, or several; see :meth:`uwaga.translator.Translator.translate`.

        Args:
            text: one text, or any number of them.
            source: code of its own source language; ``auto`` looks whether the texts are in it.
            target: code of its own target language.
            prefix: what the translation begins with: the last model's.
            split: ``auto``, ``sentences`` or ``never``: how the first model takes a text apart. A later
                one cuts a sentence further only where it is too long for it, and not at all with ``never``.
            on_error: ``raise``, ``return`` or ``copy``, whichever model fails.
            **options: for every model, but ``nbest``, ``min_length``, ``max_length``, ``start``, ``first``
                and ``banned`` for the last alone: ``alternatives`` are the last model's, of the best
                translation by the one before.

        Returns:
            a translation for a text, a list of them for several. ``steps`` holds what each model has made,
            with its ``attention`` and its scores; ``warnings`` those of every step, which they name.

        Raises:
            TextTooLongError, SettingsError, DataError: as of a single model.
        """
        given = text if isinstance(text, str) else listed(text)
        self.between(known_source(source, given, self.languages), target)
        here = self.with_glossary(options.pop("glossary", None), options.pop("glossary_mode", None))
        markup, search = taken_apart(options)
        return translate_given(here, given, here.options(**search), markup, prefix, split, on_error)

    def translate_named(
        self,
        texts: Sequence[str],
        names: Sequence[str],
        options: SearchOptions,
        *,
        prefix: str | Sequence[str] | None = None,
        split: Split = "auto",
        on_error: OnError = "raise",
    ) -> list[Translation]:
        """As :meth:`translate`, texts called ``names`` in messages, with options from :meth:`options`."""
        return self._run(texts, prefix, names, _own(options), split, on_error)

    @property
    def aligns(self) -> bool:
        """Whether all of them can tell which words of a translation mean which of its text."""
        return all(step.aligns for step in self.steps)

    def options(self, **options: Any) -> PivotOptions:
        """The models' own decoding settings with what a call asks for instead; see :meth:`translate`.

        Raises:
            SettingsError: an unknown name, or an impossible value.
        """
        return self.decoding.changed(options)

    def translate_lines(
        self,
        lines: Iterable[str],
        options: SearchOptions | None = None,
        *,
        prefix: str | None = None,
        split: Split = "auto",
        chunk: int = 1024,
        first: int = 1,
        unit: str = "line",
        on_error: OnError = "raise",
        markup: TextMarkup | None = None,
    ) -> Iterator[Translation]:
        """Translate any number of lines; see :meth:`uwaga.translator.Translator.translate_lines`.

        Args:
            lines: texts without line breaks.
            options: from :meth:`options`.
            prefix: what every translation begins with.
            split: as in :meth:`translate`.
            chunk: lines translated together.
            first: the number of the first line, for error messages.
            unit: what a line is called in them.
            on_error: as in :meth:`translate`.
            markup: how a line is read; as plain text, whose placeholders are kept, if None.

        Raises:
            TextTooLongError: names the line.
            SettingsError: the options are those of a single model.
        """
        wanted = self.options() if options is None else _own(options)
        how = LinesOptions(wanted, markup or TextMarkup.of(), prefix, split, chunk, first, unit, on_error)
        yield from translate_chunks(self, lines, how)

    def stream(
        self,
        text: str,
        *,
        source: str | None = None,
        target: str | None = None,
        prefix: str | None = None,
        split: Split = "auto",
        placeholders: bool | Sequence[str] | None = None,
        **options: Any,
    ) -> Generator[str, None, bool]:
        """Translate a text and give out its translation as it grows in the last model.

        Joined, the pieces are ``translate(text, beam=1, ...).text``; see
        :meth:`uwaga.translator.Translator.stream`.

        Raises:
            TextTooLongError, SettingsError, DataError: as :meth:`translate`, before the first piece.
        """
        self.between(source, target)
        markup, wanted = TextMarkup.of(placeholders=placeholders), self.decoding.for_stream(options)
        return self.stream_line(text, wanted, prefix=prefix, split=split, name="the text", markup=markup)

    def stream_line(
        self,
        line: str,
        options: SearchOptions,
        *,
        prefix: str | None = None,
        split: Split = "auto",
        name: str = "the line",
        markup: TextMarkup | None = None,
    ) -> Generator[str, None, bool]:
        """As :meth:`stream`, with ``decoding.for_stream``'s options; ``name`` is for error messages.

        Raises:
            TextTooLongError, SettingsError, DataError: as :meth:`translate`, before the first piece.
        """
        wanted = _own(options)
        for one in wanted.steps:
            one.check_streams()
        held = self.terms is not None
        if (whole := streamed_whole(self, line, wanted, markup, prefix, split, name, held)) is not None:
            return whole
        *ways, last = self._pipelines(wanted, split)
        [begin] = listed_prefixes(prefix, 1)
        [made] = ways[0].translate([line], [""], [name], "raise")
        truncated = made.translation.truncated
        for number, way in enumerate(ways[1:], start=1):
            [made] = way.translate_further([made], [""], [self._called(name, number)], "raise")
            truncated = truncated or made.translation.truncated
        passage = last.cut_further(made, self._called(name, len(ways)))
        return _ended(last.grow(passage, begin), truncated)

    def doubts(self, line: str, split: Split = "auto") -> tuple[str, ...]:
        """What is strange about a text before it is translated, as ``warnings`` of its translation has it."""
        return tuple(self._of_step(one, 0) for one in self.steps[0].doubts(line, split))

    def score(self, pairs: Iterable[tuple[str, str]]) -> NoReturn:
        """Refused: no model here knows both a source and its target.

        Raises:
            SettingsError: always.
        """
        raise SettingsError(
            "several models one after the other give a pair of texts no probability; score with one of the "
            "translators in `steps`"
        )

    def attend(self, source: str, target: str | None = None) -> NoReturn:
        """Refused: no model here looks from a target to its source.

        Raises:
            SettingsError: always.
        """
        raise SettingsError(
            "several models one after the other have an attention each: translate with attention='all' and "
            "look at the `steps` of the translation"
        )

    def _run(
        self,
        texts: Sequence[str],
        prefix: str | Sequence[str] | None,
        names: Sequence[str],
        options: PivotOptions,
        split: Split,
        on_error: OnError,
    ) -> list[Translation]:
        prefixes = listed_prefixes(prefix, len(texts))
        nothing = [""] * len(texts)
        first, *ways = self._pipelines(options, split)
        made = first.translate(texts, nothing, names, on_error)
        trails = [[one.translation] for one in made]
        for number, way in enumerate(ways, start=1):
            sound = [at for at, one in enumerate(made) if one.translation.error is None]
            begin = prefixes if number == len(ways) else nothing
            further = way.translate_further(
                [made[at] for at in sound],
                [begin[at] for at in sound],
                [self._called(names[at], number) for at in sound],
                on_error,
            )
            for at, one in zip(sound, further, strict=True):
                made[at] = one
                trails[at].append(one.translation)
        return [
            self._whole(text, trail, on_error == "copy") for text, trail in zip(texts, trails, strict=True)
        ]

    def _whole(self, text: str, trail: Sequence[Translation], copies: bool) -> Translation:
        """One translation of those of every step."""
        first, last = trail[0], trail[-1]
        if last.error is not None:
            return replace(last, text=text if copies and isinstance(text, str) else "")

        from uwaga.alignment.piece_alignment import chained

        # no model looks from the last text to the first
        unseen: Any = {"attention": None, "attentions": None}
        before = [step.alignment for step in trail[:-1]]

        def from_first(one: Translation) -> Translation:
            linked = chained([*before, one.alignment])
            sources: Any = {"source": first.source, "source_tokens": first.source_tokens}
            return replace(one, alignment=linked, **sources, **unseen)

        return replace(
            from_first(last),
            truncated=any(step.truncated for step in trail),
            alternatives=tuple(map(from_first, last.alternatives)),
            warnings=tuple(
                self._of_step(warning, number)
                for number, step in enumerate(trail)
                for warning in step.warnings
            ),
            steps=tuple(trail),
        )

    def _pipelines(self, options: PivotOptions, split: Split) -> list[Pipeline]:
        return [step.pipeline(own, split) for step, own in zip(self.steps, options.steps, strict=True)]

    def _of_step(self, warning: str, number: int) -> str:
        return f"{warning} (in the step {' → '.join(self.steps[number].languages)})"

    def _called(self, name: str, number: int) -> str:
        """What the translation that a step begins with is called in messages."""
        return f"{name} in {self.steps[number].languages[0]}"


def _own(options: SearchOptions) -> PivotOptions:
    if not isinstance(options, PivotOptions):
        raise SettingsError(
            f"options must come from this translator's options(...), not {shown(type(options).__name__)}: "
            "every model has its own"
        )
    return options


def _ended(pieces: Generator[str, None, bool], truncated: bool) -> Generator[str, None, bool]:
    """The same pieces; what it returns is whether anything was cut, before or here."""
    cut = yield from pieces
    return cut or truncated
