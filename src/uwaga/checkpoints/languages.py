"""The languages that a model translates between, and what choosing two of them changes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from uwaga.checkpoints.card import Card
from uwaga.errors import SettingsError
from uwaga.languages.codes import base_language, same_language
from uwaga.settings.options import check_word
from uwaga.tokenizers.framed import FramedTokeniser
from uwaga.tokenizers.marian import MarianTokeniser
from uwaga.tokenizers.prompt_tokeniser import PromptTokeniser
from uwaga.tokenizers.subwords import Subwords
from uwaga.tokenizers.tokeniser import Tokeniser, tag_language

UNKNOWN = ("src", "tgt")
Pairs = tuple[tuple[str, ...], tuple[str, ...]]
"""Codes of the source languages and of the target languages."""
Tagged = MarianTokeniser | Tokeniser
"""Tokenisers whose texts may begin with the tag of a target language."""
TASK = re.compile(r"translation_(\w{1,32}?)_to_(\w{1,32})")


class LanguagePair(tuple[str, str]):
    """A pair of language codes, source and target, with all languages of the model.

    It compares as a tuple; ``sources`` and ``targets`` are sorted, and empty if the model states none.
    """

    sources: tuple[str, ...]
    targets: tuple[str, ...]

    def __new__(
        cls, source: str, target: str, sources: tuple[str, ...] = (), targets: tuple[str, ...] = ()
    ) -> LanguagePair:
        """Create the pair; ``sources`` and ``targets`` are extra attributes."""
        made = super().__new__(cls, (source, target))
        made.sources, made.targets = sources, targets
        return made


@dataclass(frozen=True)
class Direction:
    """The tokenisers and forced tokens for translation from one language to another.

    Attributes:
        source: tokeniser of the source side, which puts the language's token or text before a source.
        target: tokeniser of the target side.
        languages: codes of source and target.
        first: the token that every target must begin with, None for none.
        start: the token that the decoder starts from, None for the start token of the model's symbols.
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
        source: tokeniser of the source side, as the folder states it.
        target: tokeniser of the target side.
        stated: codes that the folder states; those in :data:`UNKNOWN` count as not stated.
        first: the token that the folder forces first.
        tasks: task prefixes by language pair.
        card: the model's card, whose languages are used if nothing else is stated.
        where: the folder or file, for messages.
        default: the default languages, chosen when the model was loaded.
    """

    source: Subwords
    target: Subwords
    stated: tuple[str, str] = UNKNOWN
    first: int | None = None
    tasks: Mapping[tuple[str, str], str] = field(default_factory=dict)
    card: Card = field(default=Card())
    where: str = ""
    default: tuple[str | None, str | None] = (None, None)

    @property
    def pairs(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Codes of the source languages and of the target languages, empty if none are stated."""
        if isinstance(self.source, FramedTokeniser) and (self.source.languages or self.source.tags):
            codes = tuple(sorted(self.source.languages or self.source.tags))
            return codes, codes
        marked = self.source.languages if isinstance(self.source, Tagged) else ()
        source, target = (
            tuple(code for code in (stated,) if code != unknown)
            for stated, unknown in zip(self.stated, UNKNOWN, strict=True)
        )
        target = target_codes(marked) or target
        return (source, target) if source or target else (self.card.languages, self.card.languages)

    def chosen(self, source: str | None = None, target: str | None = None) -> Languages:
        """Return a copy with other default languages; None keeps the present one."""
        _check_codes(source, target)
        pair = (source or self.default[0], target or self.default[1])
        made = replace(self, default=pair)
        if isinstance(self.source, FramedTokeniser) and isinstance(self.target, FramedTokeniser):
            for tokeniser, language in zip((self.source, self.target), pair, strict=True):
                if language is not None and tokeniser.languages:
                    tokeniser.with_language(language)  # fail here rather than at the first call
                elif language is not None and tokeniser.tags:
                    tokeniser.code(language)
        return made

    def needs(self, source: str | None = None, target: str | None = None) -> bool:
        """Return True if a language, besides these, must be chosen before the model can translate."""
        source, target = source or self.default[0], target or self.default[1]
        ours, theirs = self.source, self.target
        if isinstance(ours, PromptTokeniser):
            return source is None or target is None
        if not (isinstance(ours, FramedTokeniser) and isinstance(theirs, FramedTokeniser) and ours.languages):
            return False
        forced = theirs.language is not None or self.first in theirs.languages.values()
        return (source is None and ours.language is None) or (target is None and not forced)

    def knows(self, source: str, target: str) -> bool:
        """Return True if the model is certain to translate from one language to another.

        Languages that only a card lists do not count: they may be those of an encoder or of one direction.

        Args:
            source: code of the source language, as in :attr:`pairs`.
            target: code of the target language.
        """
        ours = self.source
        if isinstance(ours, FramedTokeniser) and (ours.languages or self.tasks):
            return {source, target} <= ours.languages.keys() or (source, target) in self.tasks
        if isinstance(ours, FramedTokeniser) and ours.tags:
            return {source, target} <= set(ours.tags)
        marked = ours.languages if isinstance(ours, Tagged) else ()
        fits = target in target_codes(marked) if marked else same_language(target, self.stated[1])
        return fits and same_language(source, self.stated[0])

    def direction(self, source: str | None = None, target: str | None = None) -> Direction:
        """Return the tokenisers and forced tokens for one translation direction.

        Multilingual models take the source language into the source's frame and the target language into the
        first target token (mBART-50, M2M-100, NLLB), the decoder's start (mBART), a token at the beginning
        of each source (OPUS-MT, MADLAD-400) or a text there (T5, whose ``config.json`` states it for each
        pair), or both languages into the prompt of a language model. A language that is None defaults to the
        one chosen when the model was loaded, else to the folder's.
        """
        _check_codes(source, target)
        ours, theirs = self.source, self.target
        source, target = source or self.default[0], target or self.default[1]
        if isinstance(ours, PromptTokeniser):
            asked = ours.between(source, target)
            assert asked.languages is not None
            return Direction(asked, theirs, asked.languages)
        if isinstance(ours, FramedTokeniser) and isinstance(theirs, FramedTokeniser):
            if ours.languages:
                return self._multilingual(ours, theirs, source, target)
            if source is not None and target is not None and self.tasks:
                return self._task(ours, (source, target))
            if ours.tags and target is not None:
                pair = (UNKNOWN[0] if source is None else ours.code(source), ours.code(target))
                return Direction(ours.with_prompt_prefix(f"<2{pair[1]}> "), theirs, pair, self.first)
        pair = self.stated
        if isinstance(ours, Tagged) and ours.languages and target is not None:
            ours, pair, target = ours.with_target(target), (pair[0], target), None
        return Direction(ours, theirs, resolve_languages(pair, source, target, self.where), self.first)

    def _multilingual(
        self,
        ours: FramedTokeniser,
        theirs: FramedTokeniser,
        source_language: str | None,
        target_language: str | None,
    ) -> Direction:
        codes = {token: code for code, token in theirs.languages.items()}
        if target_language is None and theirs.language is None and self.first in codes:
            target_language = codes[self.first]
        source = self._spoken(ours, source_language, "source")
        target = self._spoken(theirs, target_language, "target")
        assert source.language is not None
        assert target.language is not None
        first = target.first if target.place == "before" or self.first in codes else self.first
        start = target.symbols.start if target.place == "start" else None
        return Direction(source, target, (source.language, target.language), first, start)

    def _spoken(self, tokeniser: FramedTokeniser, language: str | None, side: str) -> FramedTokeniser:
        if language is not None:
            return tokeniser.with_language(language)
        if tokeniser.language is None:
            raise SettingsError(
                f"{self.where}: a model of several languages without a {side}; {tokeniser.choices()}"
            )
        return tokeniser

    def _task(self, source: FramedTokeniser, pair: tuple[str, str]) -> Direction:
        if pair not in self.tasks:
            known = ", ".join(f"{one} to {other}" for one, other in sorted(self.tasks))
            raise SettingsError(
                f"{self.where}: does not translate {pair[0]} to {pair[1]}; its config.json knows {known}"
            )
        return Direction(source.with_prompt_prefix(self.tasks[pair]), self.target, pair, self.first)


def target_codes(pieces: Iterable[str]) -> tuple[str, ...]:
    """Return the target languages that a token before the source selects (``>>fra<<``, ``<2fr>``)."""
    return tuple(sorted(code for code in map(tag_language, pieces) if code is not None))


def task_prefixes(config: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """Return the task prefixes by language pair (``task_specific_params``)."""
    stated = config.get("task_specific_params")
    found: dict[tuple[str, str], str] = {}
    for name, values in (stated if isinstance(stated, dict) else {}).items():
        match = TASK.fullmatch(str(name))
        prefix = values.get("prefix") if isinstance(values, dict) else None
        if match and isinstance(prefix, str):
            found[match[1], match[2]] = prefix
    return found


def resolve_languages(
    languages: tuple[str, str], source_language: str | None, target_language: str | None, where: str
) -> tuple[str, str]:
    """Return the languages of a model of one pair after checking the requested ones against them."""
    found = list(languages)
    for side, asked in enumerate((source_language, target_language)):
        if asked is None:
            continue
        if languages[side] == UNKNOWN[side]:
            found[side] = asked
        elif base_language(asked) != base_language(languages[side]):
            raise SettingsError(
                f"{where}: translates {languages[0]} to {languages[1]} only, {('from', 'to')[side]} "
                f"{asked!r} it cannot; leave the languages out or choose another model"
            )
    return found[0], found[1]


def _check_codes(source: object, target: object) -> None:
    for side, code in (("source", source), ("target", target)):
        check_word(side, code, "the code of a language, such as 'en'")
