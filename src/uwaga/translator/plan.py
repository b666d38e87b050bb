"""The plan of a call: the models, options, glossary and placeholders that its requests share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from uwaga.checkpoints.languages import UNSTATED_LANGUAGES, LanguagePair, resolve_languages
from uwaga.errors import SettingsError
from uwaga.languages.codes import same_language
from uwaga.languages.detection import AUTO, UNDETERMINED, detect_language
from uwaga.markup.placeholders import Placeholders, resolve_placeholders
from uwaga.scheduling.call_context import while_active
from uwaga.search import SearchOptions
from uwaga.translator.memories import TranslationMemory, open_memory
from uwaga.translator.model import Model
from uwaga.translator.request import Request, Split
from uwaga.translator.split import Segmenter
from uwaga.translator.text import Passage

if TYPE_CHECKING:
    from uwaga.decoder import Decoder
    from uwaga.terms.apply import TermFinder


MAX_LISTED_LANGUAGES = 8


class ResolvedSource(NamedTuple):
    """The source language of texts, as a code of the model, and the texts that need no translation."""

    source: str | None
    untranslated: frozenset[str] = frozenset()


def resolve_source(
    source: str | None, texts: Sequence[str], languages: LanguagePair, target: str | None = None
) -> ResolvedSource:
    """Return the source language of texts; ``auto`` detects the common language of all texts.

    With ``auto``, texts that are already in the target language or have no letters are not translated.

    Args:
        source: source language of the requests: a code, ``auto``, or None for the model's source language.
        texts: the texts of the requests.
        languages: the languages of the model.
        target: target language of the requests; None for the model's target language.
    """
    if not isinstance(source, str) or source != AUTO:
        return ResolvedSource(source)
    if not languages.sources:
        raise SettingsError(
            "source 'auto' needs a model that states its languages; give the code of the language instead"
        )
    target = target or (None if languages[1] == UNSTATED_LANGUAGES[1] else languages[1])
    untranslated = frozenset(
        text for text in while_active(texts) if needs_no_translation(text, languages.sources, target)
    )
    remaining_texts = [text for text in texts if text not in untranslated]
    if not remaining_texts:
        return ResolvedSource(languages.sources[0], untranslated)
    detected_language = detect_language(remaining_texts, languages.sources, target)
    if target is not None and same_language(target, detected_language.language):
        return ResolvedSource(languages.sources[0], frozenset(texts))
    for code in languages.sources:
        if same_language(code, detected_language.language):
            return ResolvedSource(code, untranslated)
    if detected_language.language == UNDETERMINED:
        raise SettingsError("the language of the text cannot be detected; give its code as the source")
    language_list = ", ".join(languages.sources[:MAX_LISTED_LANGUAGES]) + (
        ", ..." if len(languages.sources) > MAX_LISTED_LANGUAGES else ""
    )
    raise SettingsError(
        f"the text is in {detected_language.language!r} (probability {detected_language.probability:.2f}), "
        "but this model "
        f"translates from {language_list}: choose a model for that language, or state the text's language "
        "if the detection is wrong"
    )


def needs_no_translation(text: object, sources: Sequence[str], target: str | None) -> bool:
    """Return True if a text has no letters or is in the target language."""
    if not isinstance(text, str):
        return False
    if not any(map(str.isalpha, text)):
        return True
    return target is not None and same_language(target, detect_language([text], sources, target).language)


LAST_MODEL_OPTIONS = ("nbest", "min_length", "max_length", "start", "first", "banned")
"""Search options that apply only to a chain's last model: they concern the final text or its vocabulary."""


@dataclass(frozen=True)
class Stage:
    """One model of a chain, prepared for the requests of a call.

    ``terms`` finds the glossary terms of sentences; None without a glossary. ``is_in_chain`` is True if
    there are several models, so that warnings name the languages of each model. ``drafter`` is a smaller
    model that drafts during a search. ``memory`` is a translation memory whose pairs the model looks up, if
    it is the only model.
    """

    model: Model
    options: SearchOptions
    segmenter: Segmenter
    split: Split
    terms: TermFinder | None = None
    is_in_chain: bool = False
    drafter: Decoder | None = None
    memory: TranslationMemory | None = None

    @cached_property
    def search_decoder(self) -> Decoder:
        """The decoder for the search, which records the attention that the options request.

        A recording decoder caches the sources that it has encoded, so each search needs a new stage.
        """
        records_all = self.options.attention == "all"
        if not records_all and not self.options.alignment:
            return self.model.decoder
        from uwaga.translator.attention import recording_decoder

        return recording_decoder(self.model.decoder, all_matrices=records_all)

    @property
    def accepts_drafts(self) -> bool:
        """True if drafts can be used, because the search returns a single best translation."""
        return self.options.nbest == 1 and not self.options.sample

    def with_alignment(self) -> Stage:
        """Return a copy of the stage that also aligns words."""
        return replace(self, options=replace(self.options, alignment=True))

    def split_text(self, text: str, name: str) -> Passage:
        """Split a text into sentences, as the first model of a chain does."""
        return self.segmenter.split_text(text, self.split, name)

    def split_translated(self, passage: Passage, name: str) -> Passage:
        """Split the previous model's translation of a passage at the sentences of the passage.

        Args:
            passage: the translated passage.
            name: the name of the text in messages, to which the language of the translation is added.
        """
        if self.terms is not None:  # if the translation of a sentence is empty, its terms must not be lost
            for sentence in passage.sentences:
                is_empty = not self.segmenter.ids(sentence.translation)
                if is_empty and self.terms.find_terms(sentence.first_text) is not None:
                    sentence.translation = sentence.first_text
        split: Split = "never" if self.split == "never" else "auto"
        return self.segmenter.split_translated(passage, split, f"{name} in {self.model.languages[0]}")

    def with_languages(self, warning: str) -> str:
        """Return a warning to which, in a chain, the languages of this stage's model are added."""
        return f"{warning} (in the step {' → '.join(self.model.languages)})" if self.is_in_chain else warning


@dataclass(frozen=True)
class Plan:
    """The plan for requests that share all fields except their text.

    ``request`` is one of these requests. The texts in ``untranslated`` are copied, because they are in the
    target language or have no letters.
    """

    request: Request
    stages: tuple[Stage, ...]
    placeholders: Placeholders | None
    untranslated: frozenset[str] = frozenset()
    memory: TranslationMemory | None = None

    def needs_inline_layers(self, text: object) -> bool:
        """Return True if a text has a format, placeholders, or characters that the model does not know, or if
        there is a translation memory; other texts are translated as plain strings.
        """
        if self.request.format != "text" or self.memory is not None:
            return True
        if not isinstance(text, str):
            return False
        if self.placeholders is None:
            return False
        if self.stages[0].model.characters.find_unfamiliar(text) and any(map(str.isalpha, text)):
            return True
        return not all(isinstance(part, str) for part in self.placeholders.split(text))

    @property
    def can_align(self) -> bool:
        """True if all models can align words."""
        return all(stage.model.aligns for stage in self.stages)


def make_plan(
    models: Sequence[Model],
    languages: LanguagePair,
    request: Request,
    texts: Sequence[str],
    streaming: bool = False,
) -> Plan:
    """Return the plan for requests that share all fields except their text.

    Args:
        models: the models of the chain.
        languages: the languages of the chain.
        request: one of the requests.
        texts: the texts of all requests, from which ``auto`` detects the language.
        streaming: whether the translation is streamed, which needs a search for a single hypothesis.
    """
    request.check()
    source, untranslated = resolve_source(request.source, texts, languages, request.target)
    if len(models) == 1:
        models = [models[0].between(source, request.target)]
    else:
        resolve_languages(languages, source, request.target, "these models together")
    pair = models[0].languages[0], models[-1].languages[1]
    options = search_options([model.decoding for model in models], request.search, streaming)
    term_finders: list[TermFinder] = []
    if request.glossary is not None:
        from uwaga.terms.apply import TermFinder
        from uwaga.terms.glossary import Glossary

        glossary, mode = Glossary.from_argument(request.glossary, pair), request.glossary_mode
        term_finders = [
            TermFinder(glossary, model.target, model.decoder.vocabulary, mode, last=model is models[-1])
            for model in models
        ]
    stages = []
    for index, (model, model_options) in enumerate(zip(models, options, strict=True)):
        terms = term_finders[index] if term_finders else None
        model_options = replace(model_options, alignment=True) if model_options.coverage else model_options
        if model.drafter is not None and (model_options.beam != 1 or model_options.sample):
            raise SettingsError(
                "a draft model needs greedy search: leave out beam, sample and mbr, or the draft model"
            )
        segmenter = model.segmenter(None if terms is None else terms.glossary.spans)
        stages.append(
            Stage(model, model_options, segmenter, request.split, terms, is_in_chain=len(models) > 1)
        )
    placeholders = resolve_placeholders(request.placeholders)
    memory = None if request.memory is None else open_memory(request.memory, pair)
    if memory is not None and len(stages) == 1:
        stages = [replace(stages[0], memory=memory)]
    return Plan(request, tuple(stages), placeholders, untranslated, memory)


def search_options(
    defaults: Sequence[SearchOptions],
    requested_options: SearchOptions | Mapping[str, Any],
    streaming: bool = False,
) -> tuple[SearchOptions, ...]:
    """Return the search options of every model of a chain.

    Args:
        defaults: the defaults of the models.
        requested_options: the options of a request; those in :data:`LAST_MODEL_OPTIONS` are for the last
            model.
        streaming: whether to return options for a single hypothesis.
    """
    if isinstance(requested_options, SearchOptions):
        if len(defaults) > 1:
            raise SettingsError(
                "a SearchOptions object is for a single model: for several models, give the options by name"
            )
        if streaming:
            requested_options.check_streams()
        return (requested_options,)

    def override(options: SearchOptions, overrides: Mapping[str, Any]) -> SearchOptions:
        return options.for_stream(overrides) if streaming else options.changed(overrides)

    *earlier_defaults, last_defaults = defaults
    last_options = override(last_defaults, requested_options)  # checks every name
    if not earlier_defaults:
        return (last_options,)
    shared_options = {
        name: value for name, value in requested_options.items() if name not in LAST_MODEL_OPTIONS
    }
    if last_options.sample and last_options.seed is not None:
        shared_options["seed"] = last_options.seed
    return (
        *(replace(override(model_options, shared_options), nbest=1) for model_options in earlier_defaults),
        last_options,
    )
