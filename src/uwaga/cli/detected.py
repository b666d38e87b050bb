"""``--from auto``: the language of what comes in, told before a model is chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import typer

from uwaga.errors import DataError

if TYPE_CHECKING:
    from uwaga.cli.lines import Chunk


def detected(texts: Sequence[str]) -> str:
    """The language of texts, which is said on standard error.

    Raises:
        MissingExtraError: py3langid is not installed.
        DataError: there is no letter in them.
    """
    from uwaga.languages.detection import detect_language

    found = detect_language(texts)
    typer.echo(f"note: from {found.language} (probability {found.probability:.2f})", err=True)
    return found.language


def resolve_source(source: str | None, chunks: Iterator[Chunk]) -> tuple[str | None, Iterator[Chunk]]:
    """The source language, and the chunks again, of which the first ones with letters tell ``auto``.

    Raises:
        MissingExtraError, DataError: as :func:`detected`.
    """
    from uwaga.languages.detection import AUTO

    if source != AUTO:
        return source, chunks
    seen: list[Chunk] = []
    for chunk in chunks:
        seen.append(chunk)
        if any(character.isalpha() for line in chunk.lines for character in line):
            return detected(chunk.lines), chain(seen, chunks)
    if not seen:
        raise DataError("nothing came in, so its language cannot be told: name it")
    return detected([line for chunk in seen for line in chunk.lines]), iter(seen)
