"""A text to translate, with all options of its translation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from uwaga.errors import DataError, SettingsError, quoted, suggestion
from uwaga.markup.formats import Format
from uwaga.results.translation import GlossaryMode
from uwaga.search import SearchOptions, SearchOverrides
from uwaga.settings.options import check_integer, option, option_fields
from uwaga.translator.memories import DEFAULT_THRESHOLD, MemoryArgument, TextContext

if TYPE_CHECKING:
    from uwaga.markup.xml_text import XmlOutline
    from uwaga.terms.apply import GlossaryArgument

Split = Literal["auto", "sentences", "never"]
"""When to split a line into sentences: if it is too long for the model, always, or never."""
OnError = Literal["raise", "return", "copy"]
"""How to handle a text that cannot be translated: raise the error, return it, or also copy the text."""


TEXT_FIELDS = frozenset({"text", "prefix", "draft", "name", "context"})
"""Fields in which requests may differ and still be translated together."""


@dataclass(frozen=True)
class Request:
    """A text to translate.

    Each interface (Python, command line, server, jobs, documents) builds requests, and
    :meth:`uwaga.translator.Translator.run` translates them.

    Attributes:
        text: the text, in its ``format``.
        source: code of the language to translate from; None for the model's source language, ``auto`` to
            detect the language.
        target: code of the language to translate to; None for the model's target language.
        format: ``text``, ``html``, ``xml``, ``markdown`` or ``message`` (text of a program with tags of HTML,
            in which line breaks count): which tags and entities the text contains.
        prefix: text with which the translation must begin.
        glossary: terms and their translations: a mapping, a file (``.tsv``, ``.csv``, ``.tbx``), or a
            :class:`uwaga.terms.Glossary`.
        glossary_mode: ``forced``: the required translation of every term in the text is used; ``soft``: it is
            only preferred.
        split: ``auto``: split a line into sentences if it is too long for the model; ``sentences``: always;
            ``never``.
        placeholders: True to keep the common placeholders (``{name}``, ``%s``, addresses), False to keep
            none, or regular expressions whose matches are kept too.
        ignore_tags: names of HTML or XML elements that are left untranslated.
        outline: how elements divide XML into texts; None to treat it as one text.
        search: search options that override the model's, by name; see :class:`uwaga.search.SearchOptions`.
            For a single model it may also be a complete ``SearchOptions``.
        on_error: ``raise``: raise the error; ``return``: return a translation with an ``error`` and no text;
            ``copy``: return such a translation with the source as its text.
        name: the name of the text in error messages.
        draft: a probable translation, which the last model checks in few passes; for greedy search only. A
            text with tags or placeholders is translated without it.
        bias: weight of the draft's tokens, at least 0 and less than 0.5, as long as the translation agrees
            with the draft; with 0, the translation is the same as without a draft.
        mask: number of words at the end of the draft whose tokens are not weighted.
        memory: a translation memory: its file; a file of translations (TMX, TSV, PO, XLIFF), which may be the
            document to translate; or an object with the method ``matches`` of
            :class:`uwaga.translator.memories.TranslationMemory`.
        threshold: the minimum similarity, in percent, of the pairs of the memory that are used.
        context: the position of the text in its document; a pair from the same position scores 101; see
            :class:`uwaga.translator.memories.TextContext`.
    """

    text: str
    source: str | None = None
    target: str | None = None
    format: Format = field(
        default="text",
        metadata=option(
            "Format of the lines; inline tags are re-inserted around the corresponding words", section="Text"
        ),
    )
    prefix: str = field(
        default="", metadata=option("Force every translation to start with this text", section="Text")
    )
    glossary: GlossaryArgument = field(
        default=None,
        metadata=option(
            "Glossary of required translations: a .tsv, .csv or .tbx file", section="Text", kind=Path
        ),
    )
    glossary_mode: GlossaryMode = field(
        default="forced",
        metadata=option("forced: always use glossary terms; soft: prefer them", section="Text"),
    )
    split: Split = field(
        default="auto",
        metadata=option(
            "Split lines into sentences: if too long for the model (auto), always, or never", section="Text"
        ),
    )
    placeholders: bool | Sequence[str] = field(
        default=True,
        metadata=option(
            "Extra regex for text to leave untranslated, in addition to {name}, %s, $VAR, addresses, file "
            "names and numbers with units. Repeatable. `none`: translate everything",
            section="Text",
            kind=list[str],
        ),
    )
    ignore_tags: Sequence[str] = field(
        default=(),
        metadata=option(
            "Element of html or xml to leave untranslated, with its content. Repeatable",
            section="Text",
            kind=list[str],
        ),
    )
    outline: XmlOutline | None = None
    search: SearchOptions | SearchOverrides = field(default_factory=SearchOverrides)
    on_error: OnError = field(
        default="raise",
        metadata=option(
            "If a line cannot be translated: stop, skip it (write an empty line), or copy it",
            section="Output",
        ),
    )
    name: str = "the text"
    draft: str = ""
    bias: float = 0.0
    mask: int = 0
    memory: MemoryArgument = field(
        default=None,
        metadata=option(
            "Translation memory, made by `uwaga memory`, or a TMX, TSV, PO or XLIFF file with translations",
            section="Text",
            kind=Path,
        ),
    )
    threshold: float = field(
        default=DEFAULT_THRESHOLD,
        metadata=option(
            "Minimum similarity, in percent, of the memory's pairs that are used",
            section="Text",
            minimum=1.0,
            maximum=100.0,
        ),
    )
    context: TextContext | None = None

    @property
    def shared(self) -> tuple[object, ...]:
        """All fields except :data:`TEXT_FIELDS`; requests with equal values are translated together."""
        return _shared_fields(self)

    def check(self) -> None:
        """Check all values except search options and languages, whose validity depends on the model.

        Raises:
            SettingsError: a value is invalid; the message names the field.
        """
        options = option_fields(Request)
        for name in ("split", "on_error", "format", "threshold"):
            if (value := getattr(self, name)) is not options[name].default:
                options[name].check(value)
        if isinstance(self.bias, bool) or not isinstance(self.bias, int | float) or not 0 <= self.bias < 0.5:
            raise SettingsError(f"bias must be at least 0 and less than 0.5, not {quoted(self.bias)}")
        check_integer("mask", self.mask, 0)
        names = self.ignore_tags
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise SettingsError(f"ignore_tags must be a list of tag names, not {quoted(names)}")
        if names and self.format not in ("html", "xml"):
            raise SettingsError(f"ignore_tags needs the format html or xml, not {self.format}")
        if self.outline is None:
            return
        from uwaga.markup.xml_text import XmlOutline

        if not isinstance(self.outline, XmlOutline):
            raise SettingsError(
                f"outline must be a uwaga.markup.xml_text.XmlOutline, not {quoted(self.outline)}"
            )
        if self.format != "xml":
            raise SettingsError(f"outline needs the format xml, not {self.format}")


_shared_fields: Callable[[Request], tuple[object, ...]] = attrgetter(
    *(name for name in Request.__dataclass_fields__ if name not in TEXT_FIELDS)
)
REQUEST_FIELDS = Request.__dataclass_fields__.keys() - {"text", "search", "name", "context"}
"""The fields that a call may set by keyword."""
NON_NULL_FIELDS = ("split", "on_error")
"""Fields that must not be None; for other fields, None means the default."""


def build_requests(text: str | Iterable[str], options: Mapping[str, Any]) -> list[Request]:
    """Build the requests of a call from its arguments.

    Args:
        text: one text, or several texts.
        options: fields of :class:`Request`, and of :class:`uwaga.search.SearchOptions` for its ``search``, by
            name; ``prefix`` and ``draft`` are a single value for all texts, or one for each. None means
            the default of the field. With a ``draft``, search is greedy unless ``beam`` is given.

    Raises:
        DataError: ``text`` is neither a string nor an iterable.
        SettingsError: an option is unknown; or the number of prefixes or drafts differs from the number of
            texts, or a prefix or draft is not a string.
    """
    is_single = isinstance(text, str)
    texts = [text] if isinstance(text, str) else as_list(text)
    search = {name: value for name, value in options.items() if name not in REQUEST_FIELDS}
    if unknown_names := search.keys() - SearchOptions.__dataclass_fields__.keys():
        raise unknown_option_error(min(unknown_names))
    fields = {name: value for name, value in options.items() if name in REQUEST_FIELDS}
    prefixes = prefix_list(fields.pop("prefix", None), len(texts))
    drafts = prefix_list(fields.pop("draft", None), len(texts), "draft")
    if any(drafts) and search.get("beam") is None:
        search |= {"beam": 1, "nbest": search.get("nbest") or 1}
    shared_values = {
        name: value for name, value in fields.items() if value is not None or name in NON_NULL_FIELDS
    }
    return [
        Request(
            content,
            prefix=prefix,
            draft=draft,
            search=search,
            name="the text" if is_single else f"text {number}",
            **shared_values,
        )
        for number, (content, prefix, draft) in enumerate(zip(texts, prefixes, drafts, strict=True), start=1)
    ]


def unknown_option_error(name: str) -> SettingsError:
    """Return the error for an unknown option; its message suggests the most similar known option."""
    names = [*sorted(REQUEST_FIELDS), *SearchOptions.__dataclass_fields__]
    hint = suggestion(name, names, f"known options: {', '.join(names)}")
    return SettingsError(f"unknown decoding option {name!r}; {hint}")


def as_list(texts: Iterable[str]) -> list[str]:
    """Return an iterable of texts as a list.

    Raises:
        DataError: the argument is not an iterable of texts.
    """
    if isinstance(texts, bytes) or not isinstance(texts, Iterable):
        raise DataError(f"the texts must be a string or an iterable of strings, not {type(texts).__name__}")
    return list(texts)


def prefix_list(prefix: str | Iterable[str] | None, count: int, argument: str = "prefix") -> list[str]:
    """Return a list with the prefix, or a similar argument such as the draft, of each of ``count`` texts.

    Args:
        prefix: a prefix for all texts, or one for each.
        count: the number of texts.
        argument: the name of the argument, for messages.

    Raises:
        SettingsError: there are not as many prefixes as texts, or a prefix is not a string.
    """
    if prefix is None or isinstance(prefix, str):
        return [prefix or ""] * count
    if not isinstance(prefix, Iterable):
        raise SettingsError(f"{argument} must be a string, or one for each text, not {quoted(prefix)}")
    prefixes = list(prefix)
    for value in prefixes:
        if not isinstance(value, str):
            raise SettingsError(f"{argument} must be a string, or one for each text, not {quoted(value)}")
    if len(prefixes) != count:
        noun = "prefixes" if argument == "prefix" else f"{argument}s"
        raise SettingsError(
            f"there are {len(prefixes)} {noun} for {count} texts: give one for all texts, or one for each"
        )
    return prefixes
