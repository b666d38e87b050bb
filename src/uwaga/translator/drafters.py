"""Drafters: faster models that draft translations, which the main model checks in few passes (M42).

A wrong draft costs time, but never changes a translation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from uwaga.checkpoints.languages import UNSTATED_LANGUAGES
from uwaga.decoder import Decoder, Draft
from uwaga.errors import SettingsError
from uwaga.languages.codes import same_language
from uwaga.search import SearchOptions, search
from uwaga.tokenizers.prompt_tokeniser import PromptTokeniser
from uwaga.tokenizers.subwords import Subwords
from uwaga.translator.layers.drafts import text_draft
from uwaga.translator.model import Drafter, Model
from uwaga.translator.pipeline import translate_requests
from uwaga.translator.plan import make_plan
from uwaga.translator.request import build_requests
from uwaga.translator.text import Sentence

MAX_DRAFTED_SENTENCES = 4
"""Maximum number of sentences of a search for which a :class:`ShortlistDrafter` drafts translations.

For more sentences, drafts cost more than they save.
"""


@dataclass(frozen=True)
class ShortlistDrafter:
    """A drafter: the same model with a shortlist, for up to :data:`MAX_DRAFTED_SENTENCES` sentences."""

    decoder: Decoder

    def draft(self, model: Model, sentences: Sequence[Sentence], options: SearchOptions) -> Decoder | None:
        """See :meth:`uwaga.translator.model.Drafter.draft`."""
        if len(sentences) <= MAX_DRAFTED_SENTENCES:
            draft_options = replace(options, attention=False, alignment=False, entropy=False, coverage=False)
            for sentence, nbest in zip(
                sentences, search(self.decoder, sentences, draft_options), strict=True
            ):
                sentence.draft = Draft(nbest[0].tokens)
        return None

    def wrap_decoders(self, wrap: Callable[[Decoder], Decoder]) -> ShortlistDrafter:
        """See :meth:`uwaga.translator.model.Drafter.wrap_decoders`."""
        return ShortlistDrafter(wrap(self.decoder))


@dataclass(frozen=True)
class TextDrafter:
    """A drafter that tokenises the greedy translations of a model with other vocabularies."""

    draft_model: Model

    def draft(self, model: Model, sentences: Sequence[Sentence], options: SearchOptions) -> Decoder | None:
        """See :meth:`uwaga.translator.model.Drafter.draft`."""
        drafting = select_languages(self.draft_model, model.languages)
        greedy = {"beam": 1, "nbest": 1, "sample": False, "placeholders": False}
        texts = [sentence.text for sentence in sentences]
        requests = build_requests(texts, {**greedy, "split": "sentences", "on_error": "return"})
        plan = make_plan([drafting], drafting.language_pair, requests[0], texts)
        for sentence, translation in zip(sentences, translate_requests(plan, requests), strict=True):
            sentence.draft = text_draft(model, translation.text) if translation.text else None
        return None

    def wrap_decoders(self, wrap: Callable[[Decoder], Decoder]) -> TextDrafter:
        """See :meth:`uwaga.translator.model.Drafter.wrap_decoders`."""
        return TextDrafter(self.draft_model.wrap_decoders(wrap))


@dataclass(frozen=True)
class BlockDrafter:
    """A drafter: a smaller language model with the same vocabulary, which reads the same prompt."""

    decoder: Decoder

    def draft(self, model: Model, sentences: Sequence[Sentence], options: SearchOptions) -> Decoder | None:
        """See :meth:`uwaga.translator.model.Drafter.draft`."""
        return self.decoder

    def wrap_decoders(self, wrap: Callable[[Decoder], Decoder]) -> BlockDrafter:
        """See :meth:`uwaga.translator.model.Drafter.wrap_decoders`."""
        return BlockDrafter(wrap(self.decoder))


def have_same_vocabulary(
    decoder: Decoder, target: Subwords, other_decoder: Decoder, other_target: Subwords
) -> bool:
    """Return True if two decoders have the same target tokens, according to their target tokenisers."""
    return decoder.vocabulary == other_decoder.vocabulary and target.model_bytes == other_target.model_bytes


def make_drafter(model: Model, drafting: Model) -> Drafter:
    """Return a block drafter for language models that share a vocabulary, otherwise a text drafter."""
    select_languages(drafting, model.languages)
    use_prompts = [isinstance(each_model.source, PromptTokeniser) for each_model in (model, drafting)]
    if all(use_prompts) and have_same_vocabulary(
        model.decoder, model.target, drafting.decoder, drafting.target
    ):
        return BlockDrafter(drafting.decoder)
    return TextDrafter(drafting)


def select_languages(drafting: Model, languages: tuple[str, str]) -> Model:
    """Return a drafting model set to a pair of languages, or unchanged if it states no languages.

    A language model is prompted to translate between any two languages.
    """
    if isinstance(drafting.source, PromptTokeniser):
        return drafting.between(*(None if code in UNSTATED_LANGUAGES else code for code in languages))
    pair: list[str | None] = []
    for code, current_code, available_codes in zip(
        languages, drafting.languages, drafting.all_languages.pairs, strict=True
    ):
        if code in UNSTATED_LANGUAGES or (
            current_code not in UNSTATED_LANGUAGES and same_language(current_code, code)
        ):
            pair.append(None)
            continue
        matching_code = next(
            (candidate for candidate in available_codes if same_language(candidate, code)), None
        )
        if matching_code is None and (available_codes or current_code not in UNSTATED_LANGUAGES):
            raise SettingsError(
                f"the draft model {drafting.all_languages.location or drafting!r} does not translate from "
                f"{languages[0]} to {languages[1]}: choose another draft model, or none"
            )
        pair.append(matching_code)
    return drafting.between(*pair)
