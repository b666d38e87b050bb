"""Trees of messages, as in JSON and YAML: which keys are translated, and plural forms side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from uwaga.documents.plurals import plural_categories
from uwaga.markup import Inline
from uwaga.markup.inline import joined
from uwaga.markup.units import Piece, Unit, peeled, text_unit, translatable

ORDER = ("zero", "one", "two", "few", "many", "other")
BETWEEN = re.compile(r"[\s,]*")


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
        inline: its text.
        write: writes a text as the format does.
    """

    category: str
    key: int
    value: int
    end: int
    inline: Inline
    write: Callable[[Inline], str]


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
            yield text_unit(text[one.value : one.end], one.inline, one.write)
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
    read = [peeled(one.inline) for one in members]
    if not any(translatable(core) for _, core, _ in read):
        return None

    def write(made: Sequence[Inline]) -> str:
        values = {}
        for one, (before, core, after), new in zip(members, read, made, strict=True):
            raw = text[one.value : one.end]
            values[one.category] = raw if new == core else one.write(joined((*before, *new, *after)))
        forms = []
        for category in ORDER:
            if category in wanted:
                like = category if category in own else "other"
                begin, end = keys[like]
                forms.append(begin + category + end + values[like])
        return between[0].join(forms)

    return Unit(tuple(core for _, core, _ in read), write)


def _around(key: str, category: str) -> tuple[str, str]:
    """Return the parts of a key before and after its category; ("", "") if escapes hide the category."""
    match = re.search(rf"{category}(?=[\"']?\s*:)", key)
    return ("", "") if match is None else (key[: match.start()], key[match.end() :])
