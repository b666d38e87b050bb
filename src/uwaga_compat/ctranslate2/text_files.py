"""Reading and writing of text files with one tokenised text per line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import tee, zip_longest
from pathlib import Path
from typing import Any, TypeVar

from uwaga.files.atomic import new_file
from uwaga.files.lines import text_lines
from uwaga_compat.ctranslate2.errors import ArgumentError, RunError
from uwaga_compat.ctranslate2.results import ExecutionStats

Result = TypeVar("Result")
Tokens = list[str]
Tokenise = Callable[[str], Tokens]
Detokenise = Callable[[Tokens], str]


@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """Options for reading and writing files, with CTranslate2's names and defaults.

    Attributes:
        max_batch_size: as for ``translate_iterable``.
        read_batch_size: accepted, but does not affect the result.
        batch_type: as for ``translate_iterable``.
        source_tokenize_fn: function that returns the tokens of a source line; requires
            ``target_detokenize_fn``. By default, lines are split at spaces.
        target_tokenize_fn: function that returns the tokens of a target line.
        target_detokenize_fn: function that returns the text of tokens.
    """

    max_batch_size: int = 32
    read_batch_size: int = 0
    batch_type: str = "examples"
    source_tokenize_fn: Tokenise | None = None
    target_tokenize_fn: Tokenise | None = None
    target_detokenize_fn: Detokenise | None = None

    @classmethod
    def take(cls, options: dict[str, Any]) -> FileOptions:
        """Remove the file options from the options of a call, and return them."""
        return cls(**{name: options.pop(name) for name in cls.__dataclass_fields__ if name in options})

    def read(
        self, source_path: str | Path, target_path: str | Path | None = None
    ) -> tuple[Iterator[Tokens], ...]:
        """Return an iterator over the tokens of source lines, and one over those of target lines, if any.

        Raises:
            ArgumentError: if a required function is missing.
        """
        if (self.source_tokenize_fn is None) != (self.target_detokenize_fn is None):
            raise ArgumentError("source_tokenize_fn and target_detokenize_fn must be given together")
        if target_path is None:
            return read_tokens((source_path, self.source_tokenize_fn))
        if self.source_tokenize_fn is not None and self.target_tokenize_fn is None:
            raise ArgumentError("target_tokenize_fn: required for target_path if source_tokenize_fn is given")
        return read_tokens((source_path, self.source_tokenize_fn), (target_path, self.target_tokenize_fn))

    def text(self, tokens: Tokens) -> str:
        """Return the text for the given tokens."""
        return (self.target_detokenize_fn or " ".join)(tokens)


def read_tokens(*files: tuple[str | Path, Tokenise | None]) -> tuple[Iterator[Tokens], ...]:
    """Return, for each file, an iterator over its lines as lists of tokens.

    Args:
        files: the path of each file and the function that splits its lines into tokens; None to split at
            spaces.
    """

    def rows() -> Iterator[tuple[str, ...]]:
        for line_number, row in enumerate(zip_longest(*(text_lines(path) for path, _ in files)), start=1):
            for line, (path, _) in zip(row, files, strict=True):
                if line is None:
                    raise RunError(f"{path}: has less examples than the other file: no line {line_number}")
            yield row

    def tokens(rows: Iterator[tuple[str, ...]], column: int) -> Iterator[Tokens]:
        split = files[column][1] or _split_at_spaces
        return (split(row[column]) for row in rows)

    return tuple(tokens(rows_copy, column) for column, rows_copy in enumerate(tee(rows(), len(files))))


def _split_at_spaces(line: str) -> Tokens:
    return [piece for piece in line.split(" ") if piece]


def write_results(
    path: str | Path,
    results: Iterable[Result],
    lines: Callable[[Result], Sequence[str]],
    size: Callable[[Result], int],
) -> ExecutionStats:
    """Write the lines of each result to a file, atomically, and return statistics.

    Args:
        path: path of the file.
        results: the results, which may be computed lazily.
        lines: function that returns the lines of a result.
        size: function that returns the number of tokens of a result, for the statistics.
    """
    start, tokens, texts = time.perf_counter(), 0, 0
    with new_file(Path(path)) as file:
        for result in results:
            file.writelines(f"{line}\n".encode() for line in lines(result))
            tokens, texts = tokens + size(result), texts + 1
    return ExecutionStats(tokens, texts, 1000 * (time.perf_counter() - start))
