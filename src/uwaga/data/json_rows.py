"""Pairs of a JSON Lines file: one object a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from uwaga.data.columns import Placed, inner_value, present_columns
from uwaga.files.lines import read_lines
from uwaga.settings import CorpusSettings


def json_rows(file: str, corpus: CorpusSettings) -> Iterator[Placed]:
    """The pairs of a JSON Lines file, whose columns are the keys of its first object.

    Raises:
        DataError: missing, damaged, not text, or the first object lacks a column.
    """
    columns: tuple[str, ...] = ()
    for number, line in enumerate(read_lines(file), start=1):
        if line is None:
            yield number, "line over 1 MiB"
            continue
        try:
            row: Any = json.loads(line)
        except UnicodeDecodeError:
            yield number, "bad UTF-8"
            continue
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            yield number, "not a JSON object"
            continue
        columns = columns or tuple(present_columns(file, corpus, _names(row)))
        cells = tuple(inner_value(row, column) for column in columns)
        texts = tuple(cell for cell in cells if isinstance(cell, str))
        if not all(isinstance(cell, str) for cell in cells[:2]):
            yield number, "missing column"
        elif not all(map(_is_unicode, texts)):
            yield number, "bad UTF-8"
        else:
            yield number, texts


def _is_unicode(text: str) -> bool:
    r"""Whether no half of a surrogate pair stands alone: JSON can write it (``"\ud800"``), UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _names(row: dict[str, Any]) -> list[str]:
    names = list(row)
    for name, value in row.items():
        if isinstance(value, dict):
            names += [f"{name}.{inner}" for inner in value]
    return names
