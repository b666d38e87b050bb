"""Strings in a format, and placeholders in any: what the translators do with a text beside searching."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple, TypedDict, get_args

from uwaga.contracts import Translation
from uwaga.decoding import SearchOptions, SearchOverrides
from uwaga.decoding.checks import check_one_of
from uwaga.errors import DataError, SettingsError, shown
from uwaga.markup import Tag
from uwaga.markup.formats import reader
from uwaga.markup.fragments import Format, Fragment, TextUnit
from uwaga.markup.placeholders import Placeholders, kept_placeholders
from uwaga.terms.apply import GivenGlossary, GlossaryMode
from uwaga.translator.inlines import TranslatedInline, translate_inlines
from uwaga.translator.pipeline import OnError, failed
from uwaga.translator.segmentation import Split, listed, listed_prefixes
from uwaga.translator.text_path import TextPath


class MarkupOverrides(TypedDict, total=False):
    """What a call may say of its texts; :class:`TextMarkup` says what each means."""

    format: Format | None
    placeholders: bool | Sequence[str] | None
    ignore_tags: Sequence[str] | None


class GlossaryOverrides(TypedDict, total=False):
    """The terms of a call; :meth:`uwaga.translator.Translator.with_glossary` says what each means."""

    glossary: GivenGlossary
    glossary_mode: GlossaryMode | None


class TextOverrides(SearchOverrides, MarkupOverrides, GlossaryOverrides, total=False):
    """What a call may say of its texts, of their terms, and of the search."""


@dataclass(frozen=True)
class TextMarkup:
    """How texts are read.

    ``format``: what tags and entities in them mean; ``text`` has none. ``placeholders``: what is kept, None
    for nothing. ``ignored``: names of tags that are left alone with all they hold.
    """

    format: Format = "text"
    placeholders: Placeholders | None = None
    ignored: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls,
        format: Format | None = None,  # noqa: A002
        placeholders: bool | Sequence[str] | None = None,
        ignore_tags: Sequence[str] | None = None,
    ) -> TextMarkup:
        """From what a call says.

        Args:
            format: ``text``, ``html``, ``xml`` or ``markdown``; None for text.
            placeholders: True or None to keep the usual ones, False for none, regular expressions for more.
            ignore_tags: names of tags.

        Raises:
            SettingsError: a value is impossible.
        """
        chosen: Format = "text" if format is None else format
        check_one_of("format", chosen, get_args(Format))
        names = [] if ignore_tags is None else ignore_tags
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise SettingsError(f"ignore_tags must be the names of tags in a list, not {shown(ignore_tags)}")
        if names and chosen not in ("html", "xml"):
            raise SettingsError(f"ignore_tags is of html and xml: a {chosen} has no tags to leave alone")
        return cls(chosen, kept_placeholders(placeholders), frozenset(name.lower() for name in names))


def taken_apart(options: TextOverrides) -> tuple[TextMarkup, SearchOverrides]:
    """What a call says of its texts, and of the search.

    Raises:
        SettingsError: what it says of its texts is impossible.
    """
    if options.get("glossary") is not None:
        raise SettingsError("glossary is for a single model, and these translate one after the other")
    search: SearchOverrides = options.copy()
    markup = TextMarkup.of(options.get("format"), options.get("placeholders"), options.get("ignore_tags"))
    for name in MarkupOverrides.__optional_keys__ | GlossaryOverrides.__optional_keys__:
        search.pop(name, None)  # type: ignore[misc]
    return markup, search


def translate_marked(
    translator: TextPath,
    texts: Sequence[str],
    names: Sequence[str],
    options: SearchOptions,
    markup: TextMarkup,
    *,
    prefix: str | Sequence[str] | None = None,
    split: Split = "auto",
    on_error: OnError = "raise",
) -> list[Translation]:
    """Translate texts of a format, with what is kept in them; texts without either take the plain path.

    Args:
        translator: one model, or several one after the other.
        texts: in the format.
        names: of the texts, for messages.
        options: how to search.
        markup: how to read the texts.
        prefix: as in :meth:`uwaga.translator.Translator.translate`; of a text in several parts the first's.
        split: likewise.
        on_error: likewise.

    Raises:
        TextTooLongError, SettingsError, DataError: as :meth:`uwaga.translator.Translator.translate`; or a
            text is not of the format.
    """
    if markup.format == "text" and not any(_holds(markup.placeholders, text) for text in texts):
        return translator.translate_named(
            texts, names, options, prefix=prefix, split=split, on_error=on_error
        )
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


def translate_given(
    translator: TextPath,
    text: str | Iterable[str],
    options: SearchOptions,
    markup: TextMarkup,
    prefix: str | Sequence[str] | None,
    split: Split,
    on_error: OnError,
) -> Translation | list[Translation]:
    """As :func:`translate_marked`, one text or several, as a call has them; a list for several."""
    texts = [text] if isinstance(text, str) else listed(text)
    alone = isinstance(text, str)
    names = ["the text"] if alone else [f"text {number}" for number in range(1, len(texts) + 1)]
    made = translate_marked(
        translator, texts, names, options, markup, prefix=prefix, split=split, on_error=on_error
    )
    return made[0] if alone else made


class LinesOptions(NamedTuple):
    """How any number of lines are translated, as :meth:`Translator.translate_lines` has it."""

    options: SearchOptions
    markup: TextMarkup
    prefix: str | None
    split: Split
    chunk: int
    first: int
    unit: str
    on_error: OnError


def translate_chunks(translator: TextPath, lines: Iterable[str], how: LinesOptions) -> Iterator[Translation]:
    """As :func:`translate_marked`, so many lines at a time, in constant memory."""
    rest, first = iter(lines), how.first
    while part := list(islice(rest, how.chunk)):
        names = [f"{how.unit} {number}" for number in range(first, first + len(part))]
        yield from translate_marked(
            translator,
            part,
            names,
            how.options,
            how.markup,
            prefix=how.prefix,
            split=how.split,
            on_error=how.on_error,
        )
        first += len(part)


def _holds(placeholders: Placeholders | None, text: object) -> bool:
    """Whether a text holds something to keep."""
    if placeholders is None or not isinstance(text, str):
        return False
    return any(isinstance(part, Tag) for part in placeholders.split(text))


def _read(text: object, name: str, markup: TextMarkup, on_error: OnError) -> Fragment | Translation:
    """A text taken apart, or what stands in the place of its translation."""
    try:
        if not isinstance(text, str):
            raise DataError(f"{name} is not a string but {type(text).__name__}")
        if markup.format == "text":
            return Fragment((TextUnit((text,), str),))
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
    )
