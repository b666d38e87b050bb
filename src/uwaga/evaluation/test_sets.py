"""The test sets of sacreBLEU's catalogue: WMT, IWSLT, MTNT and others, with sources and references.

sacreBLEU downloads a set once, into ``~/.sacrebleu`` or the folder that ``SACREBLEU`` names, and reads it
from there afterwards, without a network.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from uwaga.errors import DataError, MissingExtraError, SettingsError
from uwaga.evaluation.files import check_aligned, read_lines

if TYPE_CHECKING:
    from sacrebleu.dataset.base import Dataset


@dataclass(frozen=True)
class TestSet:
    """One language pair of a test set.

    Attributes:
        name: name of the test set and language pair, such as ``wmt24:en-de``, or name of a file.
        references: one or more references of each line.
        sources: the source of each line, if known.
        tokeniser: BLEU's tokeniser for the target language.
    """

    name: str
    references: Sequence[Sequence[str]]
    sources: Sequence[str] | None
    tokeniser: str


def read_catalogue_set(name: str, report: Callable[[str], object] = lambda text: None) -> TestSet:
    """Return a test set; if it is not in sacreBLEU's folder, it is downloaded.

    Args:
        name: the name of a set in sacreBLEU's catalogue and a language pair, such as ``wmt24:en-de``.
        report: called with a message about a download before the download begins.
    """
    dataset, pair = _find(name)
    with _convert_errors(name, report):
        source = Path(dataset.get_source_file(pair))  # type: ignore[no-untyped-call]
        paths = [Path(path) for path in dataset.get_reference_files(pair)]  # type: ignore[no-untyped-call]
    sources = read_lines(source)
    streams = [read_lines(path) for path in paths]
    try:
        for path, lines in zip(paths, streams, strict=True):
            check_aligned(str(path), len(lines), str(source), len(sources))
        if not sources:
            raise DataError(f"{source} is empty")
    except DataError as error:
        raise DataError(f"{error}; delete the folder {source.parent} to download the set again") from None
    references = tuple(tuple(line for line in lines if line) for lines in zip(*streams, strict=True))
    return TestSet(name, references, sources, _tokeniser(pair))


def _find(name: str) -> tuple[Dataset, str]:
    """Return a test set from the catalogue, and its language pair."""
    try:
        from sacrebleu.dataset import DATASETS
    except ImportError:
        raise MissingExtraError("test sets need sacrebleu: pip install 'uwaga[evaluate]'") from None
    set_name, _, pair = name.partition(":")
    dataset = DATASETS.get(set_name)
    if dataset is None:
        raise SettingsError(f"unknown test set {set_name!r}; {_suggestion(set_name, sorted(DATASETS))}")
    if pair not in dataset.langpairs:
        suggestion = _suggestion(pair, sorted(dataset.langpairs))
        problem = f"has no language pair {pair!r}" if pair else f"needs a language pair: {set_name}:FROM-TO"
        raise SettingsError(f"test set {set_name} {problem}; {suggestion}")
    return dataset, pair


def _suggestion(name: str, names: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, names, 3)
    return f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(names)}"


@contextmanager
def _convert_errors(name: str, report: Callable[[str], object]) -> Iterator[None]:
    """Convert errors of sacreBLEU in the block, including those logged before it exits, to DataError."""
    from sacrebleu.utils import SACREBLEU_DIR

    logged_errors: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.ERROR:
                logged_errors.append(record.getMessage())
            elif record.getMessage().startswith("Downloading"):
                report(record.getMessage())

    logger, handler = logging.getLogger("sacrebleu"), Handler()
    previous_settings = logger.propagate, logger.level
    logger.addHandler(handler)
    logger.propagate = False
    logger.setLevel(logging.INFO)
    try:
        yield
    except (Exception, SystemExit) as error:
        reason = " ".join(" ".join(logged_errors or [str(error)]).split()).rstrip(".")
        raise DataError(
            f"test set {name} is not in {SACREBLEU_DIR} and cannot be downloaded: {reason}. Download it on a "
            "machine with a network, and copy that folder here, or set SACREBLEU to its path"
        ) from error
    finally:
        logger.removeHandler(handler)
        logger.propagate, logger.level = previous_settings


def _tokeniser(pair: str) -> str:
    from sacrebleu.metrics.bleu import BLEU

    target = pair.partition("-")[2]
    return BLEU._TOKENIZER_MAP.get(target, BLEU.TOKENIZER_DEFAULT)
