"""Plural forms that stand side by side in a tree of messages, one key for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from uwaga.documents.document import Piece, Unit, joined, peeled, text_unit, translatable
from uwaga.documents.plurals import plural_categories
from uwaga.markup import Inline

ORDER = ("zero", "one", "two", "few", "many", "other")
BETWEEN = re.compile(r"[\s,]*")


@dataclass(frozen=True)
class PluralMember:
    """One form: its category, where its key begins, and its value.

    ``value`` and ``end`` are where that begins and ends in the document, ``inline`` is what it says, and
    ``write`` how the format writes it.
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
    """The pieces of a document: a group is one unit where it is a plural, else each value is one of its own.

    Args:
        text: the document.
        groups: its values in order; whether a group may be a plural, and what is in it, at least one.
        target: the language whose plurals it is to have; None to leave them as they are.
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
    """The forms of the target language from those of the source, in the order of CLDR.

    A form that the source has not is that of ``other``. ``zero`` stays in any case: it may be for the number
    0, which has a form of its own in no language but a few.

    Args:
        text: the document.
        members: in its order.
        target: the language, if it is known.

    Returns:
        what stands from the first key to the last value; None where the members are no plural, or as many
        as the language has, or something but white space is between them, so that each is translated alone.
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
        for one, (before, core, after), said in zip(members, read, made, strict=True):
            raw = text[one.value : one.end]
            values[one.category] = raw if said == core else one.write(joined((*before, *said, *after)))
        forms = []
        for category in ORDER:
            if category in wanted:
                like = category if category in own else "other"
                begin, end = keys[like]
                forms.append(begin + category + end + values[like])
        return between[0].join(forms)

    return Unit(tuple(core for _, core, _ in read), write)


def _around(key: str, category: str) -> tuple[str, str]:
    """What stands before a key's category and behind it, up to its value; nothing where escapes hide it."""
    found = re.search(rf"{category}(?=[\"']?\s*:)", key)
    return ("", "") if found is None else (key[: found.start()], key[found.end() :])
