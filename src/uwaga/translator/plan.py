"""The parts that the requests of a call share, resolved once: models, options, glossary, placeholders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from uwaga.checkpoints.languages import UNSTATED_LANGUAGES, LanguagePair, resolve_languages
from uwaga.errors import DataError, SettingsError
from uwaga.languages.codes import same_language
from uwaga.languages.detection import AUTO, UNDETERMINED, detect_language
from uwaga.markup.placeholders import Placeholders, resolve_placeholders
from uwaga.scheduling.call_context import while_active
from uwaga.search import SearchOptions, SearchOverrides
from uwaga.translator.model import Model
from uwaga.translator.request import Request, Split
from uwaga.translator.split import Passage, Segmenter, TranslatedPassage

if TYPE_CHECKING:
    from uwaga.terms.apply import TermFinder


MOST_SHOWN = 8


ALREADY = "the text is already in the target language"
"""The warning of a text that is left alone."""


class Sources(NamedTuple):
    """The source language of texts, as the model names it, and those of them that are left alone."""

    source: str | None
    untranslated: frozenset[str] = frozenset()


def known_source(
    source: str | None, texts: Sequence[str], languages: LanguagePair, target: str | None = None
) -> Sources:
    """Return the source language of texts; ``auto`` detects that of all texts together.

    Texts that are already in the target language, and without letters, are then left alone.

    Args:
        source: the source of the request.
        texts: its texts.
        languages: those of the model.
        target: the target of the request; None for the model's own.
    """
    if not isinstance(source, str) or source != AUTO:
        return Sources(source)
    if not languages.sources:
        raise SettingsError("source 'auto' needs a model that states its languages; name the language")
    target = target or (None if languages[1] == UNSTATED_LANGUAGES[1] else languages[1])
    alone = frozenset(text for text in while_active(texts) if is_done(text, languages.sources, target))
    rest = [text for text in texts if text not in alone]
    if not rest:
        return Sources(languages.sources[0], alone)
    found = detect_language(rest, languages.sources, target)
    if target is not None and same_language(target, found.language):
        return Sources(languages.sources[0], frozenset(texts))
    for code in languages.sources:
        if same_language(code, found.language):
            return Sources(code, alone)
    if found.language == UNDETERMINED:
        raise SettingsError("the language of the text cannot be detected; name it")
    some = ", ".join(languages.sources[:MOST_SHOWN]) + (
        ", ..." if len(languages.sources) > MOST_SHOWN else ""
    )
    raise SettingsError(
        f"the text is in {found.language!r} (probability {found.probability:.2f}), and this model translates "
        f"from {some}: choose a model for it, or name the language if that is wrong"
    )


def is_done(text: object, sources: Sequence[str], target: str | None) -> bool:
    """Return True if a text has no letters, or is in the target language."""
    if not isinstance(text, str):
        return False
    if not any(map(str.isalpha, text)):
        return True
    return target is not None and same_language(target, detect_language([text], sources, target).language)


LAST_ONLY = ("nbest", "min_length", "max_length", "start", "first", "banned")
"""Search options about the translation returned, or about one vocabulary: for a chain's last model alone."""


@dataclass(frozen=True)
class Stage:
    """One model of a chain, prepared for the requests of a call.

    ``terms`` finds the terms of a glossary in its sentences; None without a glossary.
    """

    model: Model
    options: SearchOptions
    segmenter: Segmenter
    split: Split
    terms: TermFinder | None = None

    def split_text(self, text: object, name: str) -> Passage:
        """Split a text into sentences, as the first model of a chain does."""
        if not isinstance(text, str):
            raise DataError(f"{name} is not a string but {type(text).__name__}")
        return self.segmenter.cut(text, self.split, name)

    def split_translated(self, before: TranslatedPassage, name: str) -> Passage:
        """Split what the model before this one has made of a text, at the same sentences."""
        split: Split = "never" if self.split == "never" else "auto"
        sentences = before.sentences
        if self.terms is not None:  # if a sentence was translated to nothing, its terms must not be lost
            origins = [one.first_text for one in before.passage.sentences]
            sentences = tuple(map(self._or_origin, sentences, origins))
        return self.segmenter.cut_translated(before.passage, sentences, before.translation.text, split, name)

    def _or_origin(self, sentence: str, origin: str) -> str:
        """Return the sentence; or its origin if the sentence is empty to read and the origin holds terms."""
        assert self.terms is not None
        return sentence if self.segmenter.ids(sentence) or self.terms.find_terms(origin) is None else origin


@dataclass(frozen=True)
class Plan:
    """How requests that share all fields but their text are translated.

    ``request`` is one of them, ``ignored`` its ``ignore_tags`` in lower case. The texts ``untranslated`` are
    left alone, because their detected language is the target.
    """

    request: Request
    stages: tuple[Stage, ...]
    placeholders: Placeholders | None
    ignored: frozenset[str]
    untranslated: frozenset[str] = frozenset()

    @property
    def aligns(self) -> bool:
        """True if every model can align words."""
        return all(stage.model.aligns for stage in self.stages)

    @property
    def align_words(self) -> Plan:
        """The same plan with ``alignment``."""
        stages = [replace(one, options=replace(one.options, alignment=True)) for one in self.stages]
        return replace(self, stages=tuple(stages))

    def is_plain(self, text: object) -> bool:
        """True if a text has nothing to read and write: no format, and no placeholder in it."""
        if self.request.format != "text":
            return False
        if self.placeholders is None or not isinstance(text, str):
            return True
        return all(isinstance(part, str) for part in self.placeholders.split(text))

    def called(self, name: str, number: int) -> str:
        """Return the name, in messages, of the text that the model with this number reads."""
        return name if number == 0 else f"{name} in {self.stages[number].model.languages[0]}"

    def in_step(self, warning: str, number: int) -> str:
        """Return a warning, with the model that it concerns if there are several."""
        pair = " → ".join(self.stages[number].model.languages)
        return warning if len(self.stages) == 1 else f"{warning} (in the step {pair})"


def make_plan(
    models: Sequence[Model],
    languages: LanguagePair,
    request: Request,
    texts: Sequence[str],
    streaming: bool = False,
) -> Plan:
    """Look up everything that requests with the same fields have in common.

    Args:
        models: the chain.
        languages: its languages.
        request: one of the requests.
        texts: all their texts, by which ``auto`` detects the language.
        streaming: search for a single hypothesis.
    """
    request.check()
    source, untranslated = known_source(request.source, texts, languages, request.target)
    if len(models) == 1:
        models = [models[0].between(source, request.target)]
    else:
        resolve_languages(languages, source, request.target, "these models together")
    options = search_options([model.decoding for model in models], request.search, streaming)
    finders: list[TermFinder] = []
    if request.glossary is not None:
        from uwaga.terms.apply import TermFinder
        from uwaga.terms.glossary import Glossary

        pair = (models[0].languages[0], models[-1].languages[1])
        glossary, mode = Glossary.from_argument(request.glossary, pair), request.glossary_mode
        finders = [
            TermFinder(glossary, model.target, model.decoder.vocabulary, mode, last=model is models[-1])
            for model in models
        ]
    stages = []
    for number, (model, chosen) in enumerate(zip(models, options, strict=True)):
        terms = finders[number] if finders else None
        chosen = replace(chosen, alignment=True) if chosen.coverage else chosen
        if model.drafter is not None and (chosen.beam != 1 or chosen.sample):
            raise SettingsError("a draft model needs greedy search: leave out beam, sample and mbr, or draft")
        segmenter = model.segmenter(None if terms is None else terms.glossary.spans)
        stages.append(Stage(model, chosen, segmenter, request.split, terms))
    ignored = frozenset(name.lower() for name in request.ignore_tags)
    return Plan(request, tuple(stages), resolve_placeholders(request.placeholders), ignored, untranslated)


def search_options(
    defaults: Sequence[SearchOptions], asked: SearchOptions | SearchOverrides, streaming: bool = False
) -> tuple[SearchOptions, ...]:
    """Return the search options of every model of a chain.

    Args:
        defaults: the models' own.
        asked: the options of a request; those in :data:`LAST_ONLY` are for the last model.
        streaming: return options of a single hypothesis.
    """
    if isinstance(asked, SearchOptions):
        if len(defaults) > 1:
            raise SettingsError(
                "whole SearchOptions are for a single model: give several models options by their names"
            )
        if streaming:
            asked.check_streams()
        return (asked,)

    def changed(options: SearchOptions, overrides: SearchOverrides) -> SearchOptions:
        return options.for_stream(overrides) if streaming else options.changed(overrides)

    *earlier, last = defaults
    of_last = changed(last, asked)  # checks every name
    if not earlier:
        return (of_last,)
    shared = {name: one for name, one in asked.items() if name not in LAST_ONLY}
    if of_last.sample and of_last.seed is not None:
        shared["seed"] = of_last.seed
    return (*(replace(changed(one, shared), nbest=1) for one in earlier), of_last)
