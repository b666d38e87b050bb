"""Texts read by their format: the parts to translate, placeholders as tags, branches of ICU messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from uwaga.errors import DataError
from uwaga.markup import Inline, Tag, plain_text
from uwaga.markup.formats import read_fragment
from uwaga.markup.icu import parse_message
from uwaga.markup.inline import is_kept
from uwaga.markup.placeholders import Placeholders
from uwaga.markup.strip_tags import StrippedText
from uwaga.markup.units import Fragment
from uwaga.translator.plan import Plan
from uwaga.translator.write import TranslatedInline


def read(plan: Plan, text: object, name: str) -> Fragment | DataError:
    """Read a text by the format of a call; unless ``on_error`` is ``raise``, return an error."""
    try:
        if not isinstance(text, str):
            raise DataError(f"{name} is not a string but {type(text).__name__}")
        return read_fragment(text, plan.request.format, plan.ignored, plan.request.outline)
    except DataError as error:
        if plan.request.on_error == "raise":
            raise DataError(f"{name}: {error}") from None
        return error


def with_placeholders(
    inlines: Sequence[Inline], placeholders: Placeholders | None, prefixes: Sequence[str] = ()
) -> list[Inline]:
    """Return texts with their placeholders as tags.

    A text that has a prefix, and no letters beside its placeholders, stays as it is: the search could not go
    on from the prefix.
    """
    if placeholders is None:
        return list(inlines)
    found: list[Inline] = [
        tuple(
            one for part in inline for one in (placeholders.split(part) if isinstance(part, str) else (part,))
        )
        for inline in inlines
    ]
    for at, prefix in enumerate(prefixes):
        if prefix and not any(isinstance(part, str) and any(map(str.isalpha, part)) for part in found[at]):
            found[at] = inlines[at]
    return found


def has_inner_tags(stripped: StrippedText) -> bool:
    """Return True if a tag stands anywhere but around the whole text, so that words must be aligned."""
    text = stripped.text
    start, end = len(text) - len(text.lstrip()), len(text.rstrip())
    return any(start < mark.position < end for mark in stripped.marks)


class Messages:
    """The ICU messages inside texts; their branches are translated as texts of their own, at any depth."""

    def __init__(self, placeholders: Placeholders | None) -> None:
        self.units: list[Inline] = []
        self.names: list[str] = []
        self._placeholders = placeholders
        self._branches: dict[int, list[int]] = {}  # of a message's tag the numbers of its branches' units
        self._tags: list[Tag] = []
        self._made: list[TranslatedInline] = []

    def take_apart(self, inline: Inline, name: str, counts: bool = False) -> Inline:
        """Return a text whose messages are tags of their own, and record their branches.

        ``counts``: it is inside a plural, where ``#`` is the number.
        """
        if self._placeholders is None or not any(is_kept(part) for part in inline):
            return inline
        parts: list[str | Tag] = []
        for part in inline:
            message = parse_message(part.raw) if is_kept(part) else None
            if message is None or not isinstance(part, Tag):
                parts.append(part)
                continue
            tag = replace(part)
            self._tags.append(tag)
            own = self._branches[id(tag)] = []
            for branch in message.branches:
                [split] = with_placeholders([(branch,)], self._placeholders)
                numbered = counts or message.counts
                if numbered:
                    split = _numbers_kept(split)
                own.append(len(self.units))
                self.units.append(())
                self.names.append(name)
                self.units[own[-1]] = self.take_apart(split, name, numbered)
            parts.append(tag)
        return tuple(parts)

    def translated(self, made: Sequence[TranslatedInline]) -> None:
        """Store the translations of the branches."""
        self._made = list(made)

    def put_together(self, one: TranslatedInline) -> TranslatedInline:
        """Return a translation with the branches of its messages translated, and their warnings."""
        if not self._branches:
            return one
        warnings = list(one.translation.warnings)
        inline = tuple(self._written(part, warnings) for part in one.inline)
        if inline == one.inline:
            return one
        translation = replace(
            one.translation, text=plain_text(inline), warnings=tuple(dict.fromkeys(warnings))
        )
        return TranslatedInline(inline, translation)

    def _written(self, part: str | Tag, warnings: list[str]) -> str | Tag:
        own = self._branches.get(id(part)) if isinstance(part, Tag) else None
        if own is None or not isinstance(part, Tag):
            return part
        message = parse_message(part.raw)
        assert message is not None
        branches = []
        for number in own:
            made = self._made[number]
            warnings += made.translation.warnings
            failed = made.translation.error is not None
            parts = self.units[number] if failed else made.inline
            branches.append(plain_text([self._written(one, warnings) for one in parts]))
        raw = message.with_branches(branches)
        return replace(part, raw=raw, text=raw)


def _numbers_kept(inline: Inline) -> Inline:
    """Return a branch of a plural with every ``#`` as a kept tag."""
    parts: list[str | Tag] = []
    for part in inline:
        if isinstance(part, Tag):
            parts.append(part)
            continue
        for number, text in enumerate(part.split("#")):
            parts += [Tag("kept", "#", "#")] if number else []
            parts += [text] if text else []
    return tuple(parts)
