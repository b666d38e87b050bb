"""The values of a JSON document, by their places, so that its layout stays."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from uwaga.documents.document import Piece, text_unit
from uwaga.errors import DataError
from uwaga.markup import Inline, plain_text

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]', re.DOTALL)


class JsonText(NamedTuple):
    """A value that is text: its path of keys (of a list's items numbers), and where its quotes stand."""

    path: tuple[str, ...]
    start: int
    end: int


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
    is_key = False
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
            path[-1] = str(json.loads(sign))
        else:
            yield JsonText(tuple(map(str, path)), found.start(), found.end())


def json_pieces(text: str, chosen: Callable[[Sequence[str]], bool], where: str) -> Iterator[Piece]:
    """The pieces of a document.

    Args:
        text: the document.
        chosen: says of a path of keys whether its value is translated.
        where: the file, for messages.

    Raises:
        DataError: it is no JSON.
    """
    check_json(text, where)
    at = 0
    for one in json_texts(text):
        if not chosen(one.path):
            continue
        raw = text[one.start : one.end]
        ascii_only = raw.isascii() and "\\u" in raw
        yield text[at : one.start]
        yield text_unit(raw, (str(json.loads(raw)),), _writer(ascii_only))
        at = one.end
    yield text[at:]


def _writer(ascii_only: bool) -> Callable[[Inline], str]:
    return lambda made: json.dumps(plain_text(made), ensure_ascii=ascii_only)
