"""Strings in a format, and placeholders in any: what the translators do with a text beside searching."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from uwaga.markup import Tag
from uwaga.markup.placeholders import Placeholders
from uwaga.results.translation import Translation
from uwaga.search import SearchOptions, SearchOverrides
from uwaga.translator.pipeline import OnError
from uwaga.translator.segmentation import Split, listed
from uwaga.translator.text_markup import MarkupOverrides, TextMarkup
from uwaga.translator.text_path import TextPath

if TYPE_CHECKING:
    from uwaga.terms.apply import GivenGlossary, GlossaryMode


class GlossaryOverrides(TypedDict, total=False):
    """The terms of a call; :meth:`uwaga.translator.Translator.with_glossary` says what each means."""

    glossary: GivenGlossary
    glossary_mode: GlossaryMode | None


_OF_TEXTS = MarkupOverrides.__optional_keys__ | GlossaryOverrides.__optional_keys__


def taken_apart(options: Mapping[str, Any]) -> tuple[TextMarkup, SearchOverrides]:
    """What a call says of its texts, and of the search.

    Raises:
        SettingsError: what it says of its texts is impossible.
    """
    search: SearchOverrides = dict(options)
    markup = TextMarkup.of(
        options.get("format"),
        options.get("placeholders"),
        options.get("ignore_tags"),
        options.get("outline"),
    )
    for name in _OF_TEXTS:
        search.pop(name, None)
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
    from uwaga.translator.fragments import translate_fragments  # most texts have nothing but words

    return translate_fragments(translator, texts, names, options, markup, prefix, split, on_error)


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


def streamed_whole(
    translator: TextPath,
    text: str,
    options: SearchOptions,
    markup: TextMarkup | None,
    prefix: str | None,
    split: Split,
    name: str,
    looked_over: bool = False,
) -> Generator[str, None, bool] | None:
    """The translation of a text that has to be looked over as a whole, in one piece; None of any other.

    Args:
        translator: one model, or several one after the other.
        text: in its format.
        options: how to search.
        markup: how to read the text, as plain text if None; what it keeps may have to be put back at the end.
        prefix: what the translation begins with.
        split: as in :meth:`uwaga.translator.Translator.translate`.
        name: of the text, for messages.
        looked_over: it has to be in any case.
    """
    read = markup or TextMarkup.of()
    if not looked_over and read.format == "text" and not _holds(read.placeholders, text):
        return None
    how: Any = {"prefix": prefix, "split": split}
    [made] = translate_marked(translator, [text], [name], options, read, **how)

    def whole() -> Generator[str, None, bool]:
        if made.text:
            yield made.text
        return made.truncated

    return whole()


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
