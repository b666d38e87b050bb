"""Trees of messages, as in JSON and YAML: the keys to translate, and plural forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from uwaga.markup import Inline, plain_text
from uwaga.markup.html import html_pieces
from uwaga.markup.units import ENTITY, Fragment, Piece, Unit, text_unit, write_pieces
from uwaga.markup.words import is_unspaced
from uwaga_documents.plurals import plural_categories

PLURAL_CATEGORIES = ("zero", "one", "two", "few", "many", "other")
MEMBER_SEPARATOR = re.compile(r"[\s,]*")
MARKUP = re.compile(rf"</?(?:[A-Za-z][\w:.-]*|\d+)(?:\s[^<>]*)?/?>|{ENTITY.pattern}")


ACCELERATOR = re.compile(r"(?<![\w&_])([A-Z][a-z]*)?([&_])([A-Za-z\d]++)(?![\w&_;])")
"""The mark before the access key of a menu item, as in ``&File`` and ``E_xit``, but not in ``R&D``."""
LETTER = re.compile(r"%\S+|\{[^{}]*\}|<[^<>]*>|([^\W\d_])")
"""A letter outside placeholders and tags."""
TRAILING_PUNCTUATION = re.compile(r"(?<![\s.:…])[\s.:…]*+\Z")


def message_unit(raw: str, text: str, write: Callable[[str], str], *, accelerators: bool = False) -> Piece:
    """Build the unit of a message; a message with tags or entities is read as HTML.

    Args:
        raw: the message as it appears in the document.
        text: the message.
        write: writes a message in the document's format.
        accelerators: whether a message may mark an access key.
    """
    marks = [match for match in ACCELERATOR.finditer(text) if not match[1] or match[3][0].islower()]
    if accelerators and len(marks) == 1:
        [mark] = marks
        unmarked = text[: mark.start(2)] + text[mark.end(2) :]
        return message_unit(
            raw,
            unmarked,
            lambda translation: write(
                text if translation == unmarked else _with_accelerator(translation, mark)
            ),
        )
    has_markup = MARKUP.search(text) is not None
    pieces = html_pieces(text, message=True) if has_markup else [text_unit(text, (text,), plain_text)]
    message = Fragment(tuple(pieces))
    if not message.inlines:
        return raw
    return Unit(tuple(message.inlines), lambda inlines: write(message.write(inlines)), raw)


def _with_accelerator(text: str, mark: re.Match[str]) -> str:
    """Mark the access key: the first letter if the source marks its first, else the same letter or the first.

    A text without letters of a keyboard, such as Chinese, gets the key of the source in parentheses.
    """
    letters = [match.start() for match in LETTER.finditer(text) if match[1]]
    candidates = [position for position in letters if not is_unspaced(text[position])]
    key = mark[3][0]
    if not candidates:
        end = TRAILING_PUNCTUATION.search(text)
        assert end is not None
        return f"{text[: end.start()]}({mark[2]}{key.upper()}){end[0]}"
    key_positions = (
        [position for position in candidates if text[position].lower() == key.lower()]
        if mark.start(2)
        else []
    )
    position = min(
        key_positions, key=lambda candidate: text[candidate - 1 : candidate].isalpha(), default=candidates[0]
    )
    return text[:position] + mark[2] + text[position:]


OTHER_KEYS = "of other keys"
"""The reason why values of keys that are not selected are copied."""


class KeyChoice:
    """The keys to translate: those named by the user, or all.

    Args:
        patterns: ``title`` is every key of that name, at any depth, with everything below it; ``menu.file.*``
            is a path from the root, in which ``*`` is any key and ``**`` one or more keys.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.names = frozenset(pattern for pattern in patterns if "." not in pattern and "*" not in pattern)
        self.paths = [pattern.split(".") for pattern in patterns if "." in pattern or "*" in pattern]
        self.root = KeyPath(self, not patterns, {(number, 0) for number in range(len(self.paths))})


class KeyPath:
    """A path in a tree of messages, and whether it is translated.

    Paths are matched key by key: a path stores how much of each pattern matches it, so that deep paths and
    long keys are not matched again for their descendants.
    """

    def __init__(self, choice: KeyChoice, selected: bool, matched: set[tuple[int, int]]) -> None:
        self.selected = selected
        self._choice, self._matched = choice, matched

    def child(self, key: str) -> KeyPath:
        """Return the path of a key below this path."""
        if self.selected:
            return self
        matched = self._matched
        for name in key.split(".") if matched else ():
            matched = {state for number, index in matched for state in self._step(number, index, name)}
        selected = any(index == len(self._choice.paths[number]) for number, index in matched)
        return KeyPath(self._choice, selected or key in self._choice.names, matched)

    def _step(self, number: int, index: int, name: str) -> Iterator[tuple[int, int]]:
        path = self._choice.paths[number]
        if index == len(path):  # everything below is also translated
            yield number, index
            return
        if path[index] == "**":
            yield number, index
        if path[index] in ("*", "**", name):
            yield number, index + 1


@dataclass(frozen=True)
class PluralMember:
    """A form of a plural.

    Attributes:
        category: such as ``one``.
        key: start of its key in the document.
        value: start of its value.
        end: end of its value.
        piece: its value.
    """

    category: str
    key: int
    value: int
    end: int
    piece: Piece


def member_pieces(
    text: str, groups: Iterable[tuple[bool, Sequence[PluralMember]]], target: str | None
) -> Iterator[Piece]:
    """Yield the pieces of a document: a unit for each plural and for each other value.

    Args:
        text: the document.
        groups: its values in order, at least one in a group, and whether the group may be a plural.
        target: the language whose plural forms are written; None to keep the existing forms.
    """
    position = 0
    for may_be_plural, members in groups:
        plural = plural_unit(text, members, target) if may_be_plural else None
        if plural is not None:
            yield text[position : members[0].key]
            yield plural
            position = members[-1].end
            continue
        for member in members:
            yield text[position : member.value]
            yield member.piece
            position = member.end
    yield text[position:]


def plural_unit(text: str, members: Sequence[PluralMember], target: str | None) -> Piece | None:
    """Build the forms of the target language from those of the source, in the order of CLDR.

    A form that the source lacks is translated from ``other``. ``zero`` is always kept, as it may be meant for
    the number 0, for which few languages have a form.

    Args:
        text: the document.
        members: in document order.
        target: the target language, if known.

    Returns:
        a unit from the first key to the last value; None if each value is translated separately: the members
        are not a plural, already have the forms of the target language, or are separated by something other
        than white space.
    """
    by_category = {member.category: member for member in members}
    if target is None or len(by_category) < len(members) or not {"one", "other"} <= by_category.keys():
        return None
    separators = [text[member.end : following.key] for member, following in pairwise(members)]
    categories = {*plural_categories(target), *(("zero",) if "zero" in by_category else ())}
    keys = {
        member.category: _split_at_category(text[member.key : member.value], member.category)
        for member in members
    }
    if (
        categories == by_category.keys()
        or not all(map(MEMBER_SEPARATOR.fullmatch, separators))
        or ("", "") in keys.values()
    ):
        return None
    inlines = tuple(Fragment(tuple(member.piece for member in members)).inlines)
    if not inlines:
        return None

    def write(translations: Sequence[Inline]) -> str:
        values = dict(
            zip(by_category, write_pieces([member.piece for member in members], translations), strict=True)
        )
        forms = []
        for category in PLURAL_CATEGORIES:
            if category in categories:
                source_category = category if category in by_category else "other"
                start, end = keys[source_category]
                forms.append(start + category + end + values[source_category])
        return separators[0].join(forms)

    return Unit(inlines, write)


def _split_at_category(key: str, category: str) -> tuple[str, str]:
    """Return the parts of a key before and after its category; ("", "") if escapes hide the category."""
    match = re.search(rf"{category}(?=[\"']?\s*:)", key)
    return ("", "") if match is None else (key[: match.start()], key[match.end() :])
