"""Trees of messages, as in JSON and YAML: which keys are translated, and plural forms side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from uwaga.documents.plurals import plural_categories
from uwaga.markup import Inline, plain_text
from uwaga.markup.html import html_pieces
from uwaga.markup.units import ENTITY, Fragment, Piece, Unit, all_written, text_unit
from uwaga.markup.words import is_unspaced

ORDER = ("zero", "one", "two", "few", "many", "other")
BETWEEN = re.compile(r"[\s,]*")
MARKUP = re.compile(rf"</?(?:[A-Za-z][\w:.-]*|\d+)(?:\s[^<>]*)?/?>|{ENTITY.pattern}")


ACCELERATOR = re.compile(r"(?<![\w&_])([A-Z][a-z]*)?([&_])([A-Za-z\d]++)(?![\w&_;])")
"""The mark before the letter of a menu's key, as in ``&File`` and ``E_xit``, but not in ``R&D``."""
LETTER = re.compile(r"%\S+|\{[^{}]*\}|<[^<>]*>|([^\W\d_])")
"""A letter outside placeholders and tags."""
TAIL = re.compile(r"(?<![\s.:…])[\s.:…]*+\Z")


def message_unit(raw: str, text: str, write: Callable[[str], str], *, accelerators: bool = False) -> Piece:
    """Build the unit of a message; one with tags or entities is read as HTML.

    Args:
        raw: the message as it stands in the document.
        text: the message.
        write: writes a message as the document does.
        accelerators: whether a message may mark the letter of a menu's key.
    """
    marks = [found for found in ACCELERATOR.finditer(text) if not found[1] or found[3][0].islower()]
    if accelerators and len(marks) == 1:
        [mark] = marks
        bare = text[: mark.start(2)] + text[mark.end(2) :]
        return message_unit(
            raw, bare, lambda made: write(text if made == bare else _with_accelerator(made, mark))
        )
    marked = MARKUP.search(text) is not None
    pieces = html_pieces(text, message=True) if marked else [text_unit(text, (text,), plain_text)]
    message = Fragment(tuple(pieces))
    if not message.inlines:
        return raw
    return Unit(tuple(message.inlines), lambda made: write(message.written(made)), raw)


def _with_accelerator(text: str, mark: re.Match[str]) -> str:
    """Mark a letter: the first where the source marks its first, else the same, else the first.

    A text without letters that have keys, such as Chinese, gets the key of the source in parentheses.
    """
    letters = [found.start() for found in LETTER.finditer(text) if found[1]]
    typed = [at for at in letters if not is_unspaced(text[at])]
    key = mark[3][0]
    if not typed:
        end = TAIL.search(text)
        assert end is not None
        return f"{text[: end.start()]}({mark[2]}{key.upper()}){end[0]}"
    same = [at for at in typed if text[at].lower() == key.lower()] if mark.start(2) else []
    at = min(same, key=lambda place: text[place - 1 : place].isalpha(), default=typed[0])
    return text[:at] + mark[2] + text[at:]


class KeyChoice:
    """The keys to translate: those that the user names, or all.

    Args:
        patterns: ``title`` is every key of that name, at any depth, with everything below it; ``menu.file.*``
            is a path from the root, where ``*`` is any one key and ``**`` one or more.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.names = frozenset(one for one in patterns if "." not in one and "*" not in one)
        self.paths = [one.split(".") for one in patterns if "." in one or "*" in one]
        self.root = KeyPath(self, not patterns, {(number, 0) for number in range(len(self.paths))})


class KeyPath:
    """A place in a tree of messages, and whether it is translated.

    A path is matched one key at a time: a place knows how much of each pattern matches the path to it, so
    that deep paths and long keys cost nothing further below.
    """

    def __init__(self, choice: KeyChoice, chosen: bool, matched: set[tuple[int, int]]) -> None:
        self.chosen = chosen
        self._choice, self._matched = choice, matched

    def child(self, key: str) -> KeyPath:
        """Return the place of a key below this one."""
        if self.chosen:
            return self
        matched = self._matched
        for name in key.split(".") if matched else ():
            matched = {state for number, at in matched for state in self._step(number, at, name)}
        done = any(at == len(self._choice.paths[number]) for number, at in matched)
        return KeyPath(self._choice, done or key in self._choice.names, matched)

    def _step(self, number: int, at: int, name: str) -> Iterator[tuple[int, int]]:
        path = self._choice.paths[number]
        if at == len(path):  # everything below is translated too
            yield number, at
            return
        if path[at] == "**":
            yield number, at
        if path[at] in ("*", "**", name):
            yield number, at + 1


@dataclass(frozen=True)
class PluralMember:
    """One form of a plural.

    Attributes:
        category: such as ``one``.
        key: where its key begins in the document.
        value: where its value begins.
        end: where its value ends.
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
    """Yield the pieces of a document: one unit for each plural, and one for each other value.

    Args:
        text: the document.
        groups: its values in order, at least one in a group, and whether the group may be a plural.
        target: the language whose plural forms are written; None to keep those that are there.
    """
    at = 0
    for may_be_plural, members in groups:
        plural = plural_unit(text, members, target) if may_be_plural else None
        if plural is not None:
            yield text[at : members[0].key]
            yield plural
            at = members[-1].end
            continue
        for one in members:
            yield text[at : one.value]
            yield one.piece
            at = one.end
    yield text[at:]


def plural_unit(text: str, members: Sequence[PluralMember], target: str | None) -> Piece | None:
    """Build the forms of the target language from those of the source, in the order of CLDR.

    A form that the source lacks is translated from ``other``. ``zero`` is always kept: it may be meant for
    the number 0, for which few languages have a form.

    Args:
        text: the document.
        members: in the order of the document.
        target: the target language, if it is known.

    Returns:
        a unit from the first key to the last value; None where each value is translated by itself: the
        members are no plural, have the forms of the target language already, or something other than white
        space separates them.
    """
    own = {one.category: one for one in members}
    if target is None or len(own) < len(members) or not {"one", "other"} <= own.keys():
        return None
    between = [text[one.end : other.key] for one, other in pairwise(members)]
    wanted = {*plural_categories(target), *(("zero",) if "zero" in own else ())}
    keys = {one.category: _around(text[one.key : one.value], one.category) for one in members}
    if wanted == own.keys() or not all(map(BETWEEN.fullmatch, between)) or ("", "") in keys.values():
        return None
    inlines = tuple(Fragment(tuple(one.piece for one in members)).inlines)
    if not inlines:
        return None

    def write(made: Sequence[Inline]) -> str:
        values = dict(zip(own, all_written([one.piece for one in members], made), strict=True))
        forms = []
        for category in ORDER:
            if category in wanted:
                like = category if category in own else "other"
                begin, end = keys[like]
                forms.append(begin + category + end + values[like])
        return between[0].join(forms)

    return Unit(inlines, write)


def _around(key: str, category: str) -> tuple[str, str]:
    """Return the parts of a key before and after its category; ("", "") if escapes hide the category."""
    match = re.search(rf"{category}(?=[\"']?\s*:)", key)
    return ("", "") if match is None else (key[: match.start()], key[match.end() :])
