"""Models whose results are drafts for another, which checks them in few passes (M42).

A draft costs time where it is wrong, and never changes a translation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from uwaga.checkpoints.languages import UNSTATED_LANGUAGES
from uwaga.decoder import Decoder, Draft
from uwaga.errors import SettingsError
from uwaga.languages.codes import same_language
from uwaga.search import SearchOptions, search
from uwaga.tokenizers.prompt_tokeniser import PromptTokeniser
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.model import Drafter, Model
from uwaga.translator.plan import make_plan
from uwaga.translator.request import build_requests
from uwaga.translator.search_sentences import text_draft
from uwaga.translator.translate import translate_requests

if TYPE_CHECKING:
    from uwaga.translator.split import Sentence

MOST_LISTED = 4
"""Most sentences in a search for which a shortlist drafts: with more, its drafts cost more than they save."""


@dataclass(frozen=True)
class ListedDrafter:
    """Drafts of the model itself with a shortlist, for searches of at most :data:`MOST_LISTED` sentences."""

    decoder: Decoder

    def drafts(
        self,
        model: Model,
        sentences: Sequence[Sentence],
        prefixes: Sequence[Sequence[int]],
        options: SearchOptions,
    ) -> Sequence[Draft | None]:
        """See :meth:`uwaga.translator.model.Drafter.drafts`."""
        if len(sentences) > MOST_LISTED:
            return [None] * len(sentences)
        plain = replace(options, attention=False, alignment=False, entropy=False, coverage=False)
        found = search(self.decoder, [one.ids for one in sentences], plain, prefixes=prefixes)
        return [Draft(nbest[0].tokens) for nbest in found]

    def searched_by(self, wrap: Callable[[Decoder], Decoder]) -> ListedDrafter:
        """See :meth:`uwaga.translator.model.Drafter.searched_by`."""
        return ListedDrafter(wrap(self.decoder))


@dataclass(frozen=True)
class TextDrafter:
    """Drafts of a model with vocabularies of its own: its greedy translations, tokenised anew."""

    model: Model

    def drafts(
        self,
        model: Model,
        sentences: Sequence[Sentence],
        prefixes: Sequence[Sequence[int]],
        options: SearchOptions,
    ) -> Sequence[Draft | None]:
        """See :meth:`uwaga.translator.model.Drafter.drafts`."""
        drafting = for_languages(self.model, model.languages)
        wanted = {"beam": 1, "nbest": 1, "sample": False, "placeholders": False}
        texts = [sentence.text for sentence in sentences]
        requests = build_requests(texts, {**wanted, "split": "sentences", "on_error": "return"})
        if not requests:
            return []
        plan = make_plan([drafting], drafting.language_pair, requests[0], texts)
        made = translate_requests(plan, requests)
        return [text_draft(model, one.text) if one.text else None for one in made]

    def searched_by(self, wrap: Callable[[Decoder], Decoder]) -> TextDrafter:
        """See :meth:`uwaga.translator.model.Drafter.searched_by`."""
        return TextDrafter(self.model.searched_by(wrap))


@dataclass(frozen=True)
class BlockDrafter:
    """Drafts of a smaller language model of the same vocabulary, which reads the same prompt."""

    decoder: Decoder

    def drafts(
        self,
        model: Model,
        sentences: Sequence[Sentence],
        prefixes: Sequence[Sequence[int]],
        options: SearchOptions,
    ) -> Decoder:
        """See :meth:`uwaga.translator.model.Drafter.drafts`."""
        return self.decoder

    def searched_by(self, wrap: Callable[[Decoder], Decoder]) -> BlockDrafter:
        """See :meth:`uwaga.translator.model.Drafter.searched_by`."""
        return BlockDrafter(wrap(self.decoder))


def share_vocabulary(decoder: Decoder, target: Subwords, drafter: Decoder, drafting: Subwords) -> bool:
    """Return True if two models, each with the tokeniser of its targets, have the same tokens."""
    return decoder.vocabulary == drafter.vocabulary and target.model_bytes == drafting.model_bytes


def drafter_of(model: Model, drafting: Model) -> Drafter:
    """Return what drafts for a model by another one: block by block if both are language models of the same
    vocabulary, else by its translations.
    """
    for_languages(drafting, model.languages)
    continuing = [isinstance(one.source, PromptTokeniser) for one in (model, drafting)]
    if all(continuing) and share_vocabulary(model.decoder, model.target, drafting.decoder, drafting.target):
        return BlockDrafter(drafting.decoder)
    return TextDrafter(drafting)


def for_languages(drafting: Model, languages: tuple[str, str]) -> Model:
    """Return a drafting model for a pair of languages; one that states none is returned as it is.

    A language model is asked to translate between any two.
    """
    if isinstance(drafting.source, PromptTokeniser):
        return drafting.between(*(None if code in UNSTATED_LANGUAGES else code for code in languages))
    chosen: list[str | None] = []
    for code, own, known in zip(languages, drafting.languages, drafting.all_languages.pairs, strict=True):
        if code in UNSTATED_LANGUAGES or (own not in UNSTATED_LANGUAGES and same_language(own, code)):
            chosen.append(None)
            continue
        same = next((one for one in known if same_language(one, code)), None)
        if same is None and (known or own not in UNSTATED_LANGUAGES):
            raise SettingsError(
                f"the draft model {drafting.all_languages.location or drafting!r} does not translate from "
                f"{languages[0]} to {languages[1]}: choose another, or leave out draft"
            )
        chosen.append(same)
    return drafting.between(*chosen)
