"""What a call says of its texts: their format, and what is kept in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict, get_args

from uwaga.errors import SettingsError, shown
from uwaga.markup.formats import Format
from uwaga.markup.placeholders import Placeholders, kept_placeholders
from uwaga.settings.options import check_one_of

if TYPE_CHECKING:
    from uwaga.markup.outline import XmlOutline


class MarkupOverrides(TypedDict, total=False):
    """What a call may say of its texts; :class:`TextMarkup` says what each means."""

    format: Format | None
    placeholders: bool | Sequence[str] | None
    ignore_tags: Sequence[str] | None
    outline: XmlOutline | None


@dataclass(frozen=True)
class TextMarkup:
    """How texts are read.

    ``format``: what tags and entities in them mean; ``text`` has none. ``placeholders``: what is kept, None
    for nothing. ``ignored``: names of tags that are left alone with all they hold. ``outline``: which
    elements of XML part its texts; None where all of it is one text.
    """

    format: Format = "text"
    placeholders: Placeholders | None = None
    ignored: frozenset[str] = frozenset()
    outline: XmlOutline | None = None

    @classmethod
    def of(
        cls,
        format: Format | None = None,  # noqa: A002
        placeholders: bool | Sequence[str] | None = None,
        ignore_tags: Sequence[str] | None = None,
        outline: XmlOutline | None = None,
    ) -> TextMarkup:
        """From what a call says.

        Args:
            format: ``text``, ``html``, ``xml`` or ``markdown``; None for text.
            placeholders: True or None to keep the usual ones, False for none, regular expressions for more.
            ignore_tags: names of tags.
            outline: a :class:`uwaga.markup.outline.XmlOutline`, of xml alone.

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
        if outline is not None:
            _check_outline(outline, chosen)
        ignored = frozenset(name.lower() for name in names)
        return cls(chosen, kept_placeholders(placeholders), ignored, outline)


def _check_outline(outline: object, format: str) -> None:  # noqa: A002
    from uwaga.markup.outline import XmlOutline

    if not isinstance(outline, XmlOutline):
        raise SettingsError(f"outline must be a uwaga.markup.outline.XmlOutline, not {shown(outline)}")
    if format != "xml":
        raise SettingsError(f"outline is of xml: a {format} has no elements to part it")
