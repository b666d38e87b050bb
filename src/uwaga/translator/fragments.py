"""Texts of a format, or with something in them that is kept: translated part by part and written again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from uwaga.errors import DataError
from uwaga.markup.formats import reader
from uwaga.markup.fragments import Fragment, TextUnit
from uwaga.results.translation import Translation
from uwaga.search import SearchOptions
from uwaga.translator.inlines import TranslatedInline, translate_inlines
from uwaga.translator.pipeline import OnError, failed
from uwaga.translator.segmentation import Split, listed_prefixes
from uwaga.translator.text_markup import TextMarkup
from uwaga.translator.text_path import TextPath


def translate_fragments(
    translator: TextPath,
    texts: Sequence[str],
    names: Sequence[str],
    options: SearchOptions,
    markup: TextMarkup,
    prefix: str | Sequence[str] | None,
    split: Split,
    on_error: OnError,
) -> list[Translation]:
    """As :func:`uwaga.translator.marked.translate_marked`, the texts that do not take the plain path."""
    read = [_read(text, name, markup, on_error) for text, name in zip(texts, names, strict=True)]
    inlines = [one.inlines if isinstance(one, Fragment) else [] for one in read]
    begun = [
        [one, *[""] * (len(own) - 1)][: len(own)]
        for own, one in zip(inlines, listed_prefixes(prefix, len(texts)), strict=True)
    ]
    made = iter(
        translate_inlines(
            translator,
            [inline for own in inlines for inline in own],
            options,
            prefix=[one for own in begun for one in own],
            split=split,
            names=[name for own, name in zip(inlines, names, strict=True) for _ in own],
            on_error=on_error,
            placeholders=markup.placeholders,
        )
    )
    linked = options.alignment and markup.format == "text"  # tags stand between the words of others
    return [
        _whole(text, one, [next(made) for _ in own], linked, on_error) if isinstance(one, Fragment) else one
        for text, one, own in zip(texts, read, inlines, strict=True)
    ]


def _read(text: object, name: str, markup: TextMarkup, on_error: OnError) -> Fragment | Translation:
    """A text taken apart, or what stands in the place of its translation."""
    try:
        if not isinstance(text, str):
            raise DataError(f"{name} is not a string but {type(text).__name__}")
        if markup.format == "text":
            return Fragment((TextUnit((text,), str),))
        if markup.outline is not None:
            from uwaga.markup.outline import read_outlined

            return read_outlined(text, markup.ignored, markup.outline)
        return reader(markup.format)(text, markup.ignored)
    except DataError as error:
        if on_error == "raise":
            raise DataError(f"{name}: {error}") from None
        return failed(text, error, on_error).translation


def _whole(
    text: str, fragment: Fragment, parts: Sequence[TranslatedInline], linked: bool, on_error: OnError
) -> Translation:
    """One translation of those of a text's parts; ``linked``: with its alignment."""
    error = next((one.translation.error for one in parts if one.translation.error is not None), None)
    if isinstance(error, DataError):
        return failed(text, error, on_error).translation
    written = fragment.written([one.inline for one in parts])
    if len(parts) == 1:
        [one] = parts
        others = tuple(
            replace(
                other,
                text=fragment.written([inline]),
                source=text,
                alignment=other.alignment if linked else None,
            )
            for other, inline in zip(one.translation.alternatives, one.alternatives, strict=True)
        )
        alignment = one.translation.alignment if linked else None
        return replace(one.translation, text=written, source=text, alternatives=others, alignment=alignment)
    found = [one.translation for one in parts]
    spoken = [one for one in found if one.tokens]
    return Translation(
        text=written,
        score=math.fsum(one.score for one in spoken) / max(len(spoken), 1),
        tokens=tuple(token for one in found for token in one.tokens),
        token_scores=tuple(score for one in found for score in one.token_scores),
        log_prob=math.fsum(one.log_prob for one in found),
        truncated=any(one.truncated for one in found),
        source_tokens=tuple(token for one in found for token in one.source_tokens),
        source=text,
        warnings=tuple(dict.fromkeys(warning for one in found for warning in one.warnings)),
        entropies=tuple(entropy for one in found for entropy in one.entropies),
        terms=tuple(use for one in found for use in one.terms),
    )
