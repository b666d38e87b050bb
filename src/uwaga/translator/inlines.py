"""Texts with tags inside: tags leave the text before the model sees it and come back by alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from uwaga.contracts import Translation
from uwaga.decoding import SearchOptions
from uwaga.markup import Inline, Lifted, joined, lift, place
from uwaga.translator.pipeline import OnError
from uwaga.translator.segmentation import Split
from uwaga.translator.text_path import TextPath


@dataclass(frozen=True)
class TranslatedInline:
    """A translation with the tags of its source, ``inline``, and without them, ``translation``."""

    inline: Inline
    translation: Translation


def translate_inlines(
    translator: TextPath,
    inlines: Sequence[Inline],
    options: SearchOptions | None = None,
    *,
    split: Split = "auto",
    names: Sequence[str] | None = None,
    on_error: OnError = "raise",
) -> list[TranslatedInline]:
    """Translate texts with tags inside, all together.

    Every tag comes back exactly once, pairs around the words that mean what they stood around. A text without
    tags takes the plain path; only where a tag stands between words are the words aligned.

    Args:
        translator: one model, or several one after the other.
        inlines: the texts; white space at their ends stays as it is.
        options: from ``translator.options(...)``, by default the model's own.
        split: as in :meth:`uwaga.translator.Translator.translate`.
        names: of the texts, for messages.
        on_error: as in :meth:`uwaga.translator.Translator.translate`; the copy of a text has its tags.

    Returns:
        as many translations, in the same order. One that has failed has the tags of its source and, unless it
        is copied, no text.

    Raises:
        TextTooLongError, SettingsError, DataError: as :meth:`uwaga.translator.Translator.translate`.
    """
    wanted = translator.options() if options is None else options
    called = [f"text {number}" for number in range(1, len(inlines) + 1)] if names is None else names
    lifted = [lift(inline) for inline in inlines]
    to_align = [translator.aligns and _needs_alignment(one) for one in lifted]
    made: list[Translation | None] = [None] * len(inlines)
    for aligned in (False, True):
        own = [at for at, needs in enumerate(to_align) if needs is aligned]
        if not own:
            continue
        found = translator.translate_named(
            [lifted[at].text for at in own],
            [called[at] for at in own],
            wanted.changed({"alignment": True}) if aligned else wanted,
            split=split,
            on_error=on_error,
        )
        for at, one in zip(own, found, strict=True):
            made[at] = one
    return [
        _placed(inline, one, translation)
        for inline, one, translation in zip(inlines, lifted, made, strict=True)
        if translation is not None
    ]


def _needs_alignment(lifted: Lifted) -> bool:
    """Whether a tag stands anywhere but around the whole text."""
    text = lifted.text
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    return any(start < mark.at < end for mark in lifted.marks)


def _placed(inline: Inline, lifted: Lifted, translation: Translation) -> TranslatedInline:
    if translation.error is not None and translation.text:
        return TranslatedInline(inline, translation)
    found = place(lifted, translation.text, translation.alignment)
    return TranslatedInline(_with_ends(found, inline), translation)


def _with_ends(found: Inline, inline: Inline) -> Inline:
    """The same, with the white space that a text begins or ends with before and behind its words."""
    first = inline[0] if inline else ""
    last = inline[-1] if inline else ""
    if isinstance(first, str) and not first.isspace() and first[:1].isspace():
        found = (first[: len(first) - len(first.lstrip())], *found)
    if isinstance(last, str) and not last.isspace() and last[-1:].isspace():
        found = (*found, last[len(last.rstrip()) :])
    return joined(found)
