"""The languages of a model, and the choice of a source and a target language."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from uwaga.checkpoints.card import Card
from uwaga.errors import SettingsError
from uwaga.languages.codes import base_language, same_language
from uwaga.settings.options import check_string
from uwaga.tokenizers.framed import FramedTokeniser
from uwaga.tokenizers.marian import MarianTokeniser
from uwaga.tokenizers.prompt_tokeniser import PromptTokeniser
from uwaga.tokenizers.subwords import Subwords
from uwaga.tokenizers.tokeniser import Tokeniser, tag_language

UNSTATED_LANGUAGES = ("src", "tgt")
Pairs = tuple[tuple[str, ...], tuple[str, ...]]
"""Codes of the source languages and of the target languages."""
TaggedTokeniser = MarianTokeniser | Tokeniser
"""Types of tokenisers whose texts may begin with the tag of a target language."""
TASK_NAME = re.compile(r"translation_(\w{1,32}?)_to_(\w{1,32})")


class LanguagePair(tuple[str, str]):
    """The codes of a source and a target language, with the codes of all the model's languages.

    Instances compare as tuples of the two codes.

    Attributes:
        sources, targets: sorted codes of all source and target languages; empty if the model states none.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]

    def __new__(
        cls, source: str, target: str, sources: tuple[str, ...] = (), targets: tuple[str, ...] = ()
    ) -> LanguagePair:
        """Create a pair of two codes with the attributes ``sources`` and ``targets``."""
        pair = super().__new__(cls, (source, target))
        pair.sources, pair.targets = sources, targets
        return pair


class Direction(NamedTuple):
    """The tokenisers and forced tokens for translation from one language to another.

    Attributes:
        source: tokeniser of the source side, which marks each source with tokens or a text for the languages.
        target: tokeniser of the target side.
        languages: codes of the source and target languages.
        first: id of the token that every target must begin with, None if there is none.
        start: id of the token that the decoder starts from, None for the model's default.
    """

    source: Subwords
    target: Subwords
    languages: tuple[str, str]
    first: int | None = None
    start: int | None = None


@dataclass(frozen=True)
class Languages:
    """The languages of a model.

    Attributes:
        source: tokeniser of the source side in its stored configuration.
        target: tokeniser of the target side.
        stated: codes that the folder states; those in :data:`UNSTATED_LANGUAGES` count as not stated.
        first: id of the token that the folder requires every target to begin with, None if there is none.
        tasks: task prefixes by language pair.
        card: the model card, whose languages are used if the folder states none.
        location: the folder or file, for messages.
        default: the source and target languages chosen when the model was loaded; None if none was chosen.
    """

    source: Subwords
    target: Subwords
    stated: tuple[str, str] = UNSTATED_LANGUAGES
    first: int | None = None
    tasks: Mapping[tuple[str, str], str] = field(default_factory=dict)
    card: Card = field(default=Card())
    location: str = ""
    default: tuple[str | None, str | None] = (None, None)

    @property
    def pairs(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Codes of the source languages and of the target languages, empty if none are stated."""
        if isinstance(self.source, FramedTokeniser) and (self.source.languages or self.source.tags):
            codes = tuple(sorted(self.source.languages or self.source.tags))
            return codes, codes
        tags = self.source.languages if isinstance(self.source, TaggedTokeniser) else ()
        source, target = (
            tuple(code for code in (language,) if code != placeholder_code)
            for language, placeholder_code in zip(self.stated, UNSTATED_LANGUAGES, strict=True)
        )
        target = target_codes(tags) or target
        return (source, target) if source or target else (self.card.languages, self.card.languages)

    def with_default(self, source: str | None = None, target: str | None = None) -> Languages:
        """Return a copy with the given default languages; None keeps the current default."""
        _check_codes(source, target)
        pair = (source or self.default[0], target or self.default[1])
        languages = replace(self, default=pair)
        if isinstance(self.source, FramedTokeniser) and isinstance(self.target, FramedTokeniser):
            for tokeniser, language in zip((self.source, self.target), pair, strict=True):
                if language is not None and tokeniser.languages:
                    tokeniser.with_language(language)  # raises an error for unknown languages
                elif language is not None and tokeniser.tags:
                    tokeniser.code(language)
        return languages

    def requires_language(self) -> bool:
        """Return True if the default languages do not determine a translation direction."""
        (source, target), source_tokeniser, target_tokeniser = self.default, self.source, self.target
        if isinstance(source_tokeniser, PromptTokeniser):
            return source is None or target is None
        if not (
            isinstance(source_tokeniser, FramedTokeniser)
            and isinstance(target_tokeniser, FramedTokeniser)
            and source_tokeniser.languages
        ):
            return False
        is_forced = target_tokeniser.language is not None or self.first in target_tokeniser.languages.values()
        return (source is None and source_tokeniser.language is None) or (target is None and not is_forced)

    def supports(self, source: str, target: str) -> bool:
        """Return True if the model is known to translate from one language to another.

        Languages listed only in a model card do not count, since the card may list languages of an encoder or
        of the other direction.

        Args:
            source: code of the source language, as in :attr:`pairs`.
            target: code of the target language.
        """
        tokeniser = self.source
        if isinstance(tokeniser, FramedTokeniser) and (tokeniser.languages or self.tasks):
            return {source, target} <= tokeniser.languages.keys() or (source, target) in self.tasks
        if isinstance(tokeniser, FramedTokeniser) and tokeniser.tags:
            return {source, target} <= set(tokeniser.tags)
        tags = tokeniser.languages if isinstance(tokeniser, TaggedTokeniser) else ()
        is_match = target in target_codes(tags) if tags else same_language(target, self.stated[1])
        return is_match and same_language(source, self.stated[0])

    def direction(self, source: str | None = None, target: str | None = None) -> Direction:
        """Return the tokenisers and forced tokens for a translation direction.

        Most multilingual models represent the source language by special tokens around each source. The
        target language is represented by the first target token (mBART-50, M2M-100, NLLB), by the decoder's
        start token (mBART), by a token at the beginning of each source (OPUS-MT, MADLAD-400) or by a text at
        the beginning of each source (T5, stated in ``config.json`` for each pair). For language models, the
        prompt names both languages.

        Args:
            source: code of the source language; None for the default chosen when the model was loaded or, if
                none was chosen, for the folder's language.
            target: code of the target language; None as for ``source``.
        """
        _check_codes(source, target)
        source_tokeniser, target_tokeniser = self.source, self.target
        source, target = source or self.default[0], target or self.default[1]
        if isinstance(source_tokeniser, PromptTokeniser):
            prompt_tokeniser = source_tokeniser.between(source, target)
            assert prompt_tokeniser.languages is not None
            return Direction(prompt_tokeniser, target_tokeniser, prompt_tokeniser.languages)
        if isinstance(source_tokeniser, FramedTokeniser) and isinstance(target_tokeniser, FramedTokeniser):
            if source_tokeniser.languages:
                return self._multilingual_direction(source_tokeniser, target_tokeniser, source, target)
            if source is not None and target is not None and self.tasks:
                return self._task_direction(source_tokeniser, (source, target))
            if source_tokeniser.tags and target is not None:
                pair = (
                    UNSTATED_LANGUAGES[0] if source is None else source_tokeniser.code(source),
                    source_tokeniser.code(target),
                )
                return Direction(
                    source_tokeniser.with_prompt_prefix(f"<2{pair[1]}> "), target_tokeniser, pair, self.first
                )
        pair = self.stated
        if (
            isinstance(source_tokeniser, TaggedTokeniser)
            and source_tokeniser.languages
            and target is not None
        ):
            source_tokeniser, pair, target = source_tokeniser.with_target(target), (pair[0], target), None
        return Direction(
            source_tokeniser,
            target_tokeniser,
            resolve_languages(pair, source, target, self.location),
            self.first,
        )

    def _multilingual_direction(
        self,
        source_tokeniser: FramedTokeniser,
        target_tokeniser: FramedTokeniser,
        source_language: str | None,
        target_language: str | None,
    ) -> Direction:
        codes = {token: code for code, token in target_tokeniser.languages.items()}
        if target_language is None and target_tokeniser.language is None and self.first in codes:
            target_language = codes[self.first]
        source = self._with_language(source_tokeniser, source_language, "source")
        target = self._with_language(target_tokeniser, target_language, "target")
        assert source.language is not None
        assert target.language is not None
        first_token = (
            target.first if target.language_position == "before" or self.first in codes else self.first
        )
        start = target.symbols.start if target.language_position == "start" else None
        return Direction(source, target, (source.language, target.language), first_token, start)

    def _with_language(self, tokeniser: FramedTokeniser, language: str | None, side: str) -> FramedTokeniser:
        if language is not None:
            return tokeniser.with_language(language)
        if tokeniser.language is None:
            raise SettingsError(
                f"{self.location}: a multilingual model needs a {side}; {tokeniser.describe_choices()}"
            )
        return tokeniser

    def _task_direction(self, source: FramedTokeniser, pair: tuple[str, str]) -> Direction:
        if pair not in self.tasks:
            supported = ", ".join(
                f"{source_code} to {target_code}" for source_code, target_code in sorted(self.tasks)
            )
            raise SettingsError(
                f"{self.location}: does not translate {pair[0]} to {pair[1]}; its config.json states "
                f"{supported}"
            )
        return Direction(source.with_prompt_prefix(self.tasks[pair]), self.target, pair, self.first)


def target_codes(pieces: Iterable[str]) -> tuple[str, ...]:
    """Return the sorted codes of the languages that have a target-language tag among the pieces.

    Tags are tokens before the source, such as ``>>fra<<`` or ``<2fr>``.
    """
    return tuple(sorted(code for code in map(tag_language, pieces) if code is not None))


def task_prefixes(config: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """Return the task prefixes in ``task_specific_params`` of ``config.json``, by language pair."""
    parameters = config.get("task_specific_params")
    prefixes: dict[tuple[str, str], str] = {}
    for name, values in (parameters if isinstance(parameters, dict) else {}).items():
        match = TASK_NAME.fullmatch(str(name))
        prefix = values.get("prefix") if isinstance(values, dict) else None
        if match and isinstance(prefix, str):
            prefixes[match[1], match[2]] = prefix
    return prefixes


def resolve_languages(
    languages: tuple[str, str], source_language: str | None, target_language: str | None, location: str
) -> tuple[str, str]:
    """Return a single-pair model's language pair after checking that the requested languages match it."""
    resolved_languages = list(languages)
    for side, requested_language in enumerate((source_language, target_language)):
        if requested_language is None:
            continue
        if languages[side] == UNSTATED_LANGUAGES[side]:
            resolved_languages[side] = requested_language
        elif base_language(requested_language) != base_language(languages[side]):
            raise SettingsError(
                f"{location}: translates only {languages[0]} to {languages[1]}, not {('from', 'to')[side]} "
                f"{requested_language!r}; omit the languages or choose another model"
            )
    return resolved_languages[0], resolved_languages[1]


def _check_codes(source: object, target: object) -> None:
    for side, code in (("source", source), ("target", target)):
        check_string(side, code, "the code of a language, such as 'en'")
