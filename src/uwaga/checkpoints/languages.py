"""Choosing the languages that a pretrained model translates between."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from uwaga.checkpoints.huggingface.recipe import Recipe
from uwaga.decoding import SearchOptions
from uwaga.errors import SettingsError
from uwaga.text.framed import FramedTokeniser
from uwaga.text.marian import MarianTokeniser

UNKNOWN = ("src", "tgt")
TASK = re.compile(r"translation_(\w+?)_to_(\w+)")


def in_languages(
    recipe: Recipe,
    options: SearchOptions,
    config: Mapping[str, Any],
    source_language: str | None,
    target_language: str | None,
    where: str,
) -> tuple[Recipe, SearchOptions]:
    """A recipe whose tokenisers, and options whose forced first token, are for these languages.

    Multilingual models take the source language into the source's frame and the target language into the
    first target token (mBART-50, M2M-100, NLLB), the decoder's start (mBART), a token at the beginning of
    each source (OPUS-MT) or a text there (T5, whose ``config.json`` states it for each pair). What is None
    is as the folder states it.

    Raises:
        SettingsError: the model lacks the language, or needs one that nobody has stated; lists those it has.
    """
    source, target = recipe.source, recipe.target
    if isinstance(source, FramedTokeniser) and isinstance(target, FramedTokeniser):
        if source.languages:
            return _multilingual(recipe, source, target, options, source_language, target_language, where)
        if source_language is not None and target_language is not None and (tasks := _tasks(config)):
            return _task(recipe, source, tasks, (source_language, target_language), where), options
    if isinstance(source, MarianTokeniser) and source.languages and target_language is not None:
        source = source.with_target(target_language)
        pair = resolve_languages((recipe.languages[0], target_language), source_language, None, where)
        return replace(recipe, source=source, languages=pair), options
    return replace(
        recipe, languages=resolve_languages(recipe.languages, source_language, target_language, where)
    ), options


def resolve_languages(
    languages: tuple[str, str], source_language: str | None, target_language: str | None, where: str
) -> tuple[str, str]:
    """The languages of a model of one pair, which must be those asked for; unknown ones are believed.

    Raises:
        SettingsError: the model translates between others.
    """
    found = list(languages)
    for side, asked in enumerate((source_language, target_language)):
        if asked is None:
            continue
        if languages[side] == UNKNOWN[side]:
            found[side] = asked
        elif _base(asked) != _base(languages[side]):
            raise SettingsError(
                f"{where}: translates {languages[0]} to {languages[1]} only, {('from', 'to')[side]} "
                f"{asked!r} it cannot; leave the languages out or choose another model"
            )
    return found[0], found[1]


def _multilingual(
    recipe: Recipe,
    source: FramedTokeniser,
    target: FramedTokeniser,
    options: SearchOptions,
    source_language: str | None,
    target_language: str | None,
    where: str,
) -> tuple[Recipe, SearchOptions]:
    codes = {token: code for code, token in target.languages.items()}
    if target_language is None and target.language is None and options.first in codes:
        target_language = codes[options.first]
    source = _spoken(source, source_language, "source", where)
    target = _spoken(target, target_language, "target", where)
    assert source.language is not None
    assert target.language is not None
    first = target.first if target.place == "before" or options.first in codes else options.first
    pair = (source.language, target.language)
    return replace(recipe, source=source, target=target, languages=pair), replace(options, first=first)


def _spoken(tokeniser: FramedTokeniser, language: str | None, side: str, where: str) -> FramedTokeniser:
    if language is not None:
        return tokeniser.with_language(language)
    if tokeniser.language is None:
        raise SettingsError(f"{where}: a model of several languages without a {side}; {tokeniser.choices()}")
    return tokeniser


def _tasks(config: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """The texts that ask for a translation, by pair of languages (``task_specific_params``)."""
    stated = config.get("task_specific_params")
    found: dict[tuple[str, str], str] = {}
    for name, values in (stated if isinstance(stated, dict) else {}).items():
        match = TASK.fullmatch(str(name))
        prefix = values.get("prefix") if isinstance(values, dict) else None
        if match and isinstance(prefix, str):
            found[match[1], match[2]] = prefix
    return found


def _task(
    recipe: Recipe,
    source: FramedTokeniser,
    tasks: Mapping[tuple[str, str], str],
    pair: tuple[str, str],
    where: str,
) -> Recipe:
    if pair not in tasks:
        known = ", ".join(f"{one} to {other}" for one, other in sorted(tasks))
        raise SettingsError(
            f"{where}: does not translate {pair[0]} to {pair[1]}; its config.json knows {known}"
        )
    return replace(recipe, source=source.with_prompt_prefix(tasks[pair]), languages=pair)


def _base(language: str) -> str:
    return re.split("[-_]", language.lower())[0]
