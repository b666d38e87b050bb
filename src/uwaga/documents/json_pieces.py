"""The values of a JSON document, by their places, so that its layout stays."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from uwaga.documents.document import Piece
from uwaga.documents.plural_members import ORDER, PluralMember, member_pieces
from uwaga.errors import DataError
from uwaga.markup import Inline, plain_text

PLURAL = re.compile(rf"(.+)(?<!_ordinal)_({'|'.join(ORDER)})", re.DOTALL)
"""A key of i18next for one form of a plural."""
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]', re.DOTALL)


class JsonText(NamedTuple):
    """A value that is text: its path of keys (of a list's items numbers), and where its quotes stand.

    ``key`` is where that of its key begins; of an item of a list, where any before it does.
    """

    path: tuple[str, ...]
    start: int
    end: int
    key: int = 0


def check_json(text: str, where: str) -> None:
    """Refuse what is no JSON.

    Raises:
        DataError: names line and column.
    """
    try:
        json.loads(text, object_pairs_hook=lambda pairs: None)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise DataError(f"{where}: nested too deeply for a file of messages") from None
    except ValueError as error:
        raise DataError(f"{where}: {str(error)[:100]}") from None


def json_texts(text: str) -> Iterator[JsonText]:
    """The texts of a sound document that are values, in its order."""
    path: list[str | int] = []
    objects: list[bool] = []
    is_key, key = False, 0
    for found in TOKEN.finditer(text):
        sign = found[0]
        if sign in "{[":
            objects.append(sign == "{")
            path.append("" if sign == "{" else 0)
            is_key = sign == "{"
        elif sign in "}]":
            objects.pop()
            path.pop()
        elif sign == ",":
            is_key = objects[-1]
            if not is_key:
                path[-1] = int(path[-1]) + 1
        elif sign == ":":
            is_key = False
        elif is_key:
            path[-1], key = str(json.loads(sign)), found.start()
        else:
            yield JsonText(tuple(map(str, path)), found.start(), found.end(), key)


def json_pieces(
    text: str, chosen: Callable[[Sequence[str]], bool], where: str, target: str | None = None
) -> Iterator[Piece]:
    """The pieces of a document.

    Args:
        text: the document.
        chosen: says of a path of keys whether its value is translated.
        where: the file, for messages.
        target: the language whose plurals i18next's keys are to have; None to leave them as they are.

    Raises:
        DataError: it is no JSON.
    """
    check_json(text, where)
    read = ((_stem(one), one) for one in json_texts(text) if chosen(one.path))
    groups = (
        (stem is not None, [_member(text, one, category) for (_, category), one in group])
        for stem, group in groupby(read, lambda found: found[0][0])
    )
    yield from member_pieces(text, groups, target)


def _stem(one: JsonText) -> tuple[tuple[str, ...] | None, str]:
    """What the keys of a plural's forms have in common, and the form; None and nothing of any other key."""
    found = PLURAL.fullmatch(one.path[-1]) if one.path else None
    return (None, "") if found is None else ((*one.path[:-1], found[1]), found[2])


def _member(text: str, one: JsonText, category: str) -> PluralMember:
    raw = text[one.start : one.end]
    write = _writer(raw.isascii() and "\\u" in raw)
    return PluralMember(category, one.key, one.start, one.end, (str(json.loads(raw)),), write)


def _writer(ascii_only: bool) -> Callable[[Inline], str]:
    return lambda made: json.dumps(plain_text(made), ensure_ascii=ascii_only)
