"""What a model is, read without its weights' numbers and without torch.

Each format describes its own folders beside its reader; :func:`uwaga.checkpoints.registry.describe` finds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

from uwaga.checkpoints.files.stored_tensor import FLOATING
from uwaga.errors import UwagaError

Found = TypeVar("Found")
SEARCH = ("beam", "length_penalty", "min_length", "max_length", "no_repeat_ngram", "sample")
"""Decoding defaults that are shown of other libraries' models."""

Pairs = tuple[tuple[str, ...], tuple[str, ...]]
"""Codes of the languages of both sides."""


@dataclass(frozen=True)
class WeightSummary:
    """The stored weights: how many floating-point numbers (None: not known), bytes, number formats."""

    parameters: int | None
    bytes: int
    formats: tuple[str, ...]

    @classmethod
    def of(cls, tensors: Iterable[tuple[tuple[int, ...], str]], size: int) -> WeightSummary:
        """Of tensors, by their shapes and number formats, in files of so many bytes."""
        floating = [(shape, form) for shape, form in tensors if form in FLOATING or form.startswith("F8_")]
        return cls(
            sum(math.prod(shape) for shape, _ in floating),
            size,
            tuple(sorted({form for _, form in floating})),
        )


@dataclass(frozen=True)
class Description:
    """What a model is.

    Attributes:
        place: folder or file.
        format: by the name that the registry has for it, such as ``uwaga`` or ``Hugging Face``.
        family: ``transformer``, ``marian``, ``bart`` and so on.
        sizes: width, layers and so on, as far as stated.
        weights: how many, and in what number formats.
        vocabulary: pieces of source and target.
        languages: those it translates from, and those it translates to; empty where nothing is stated.
        licence: as the model card states it, None where it does not.
        decoding: how it translates unless told otherwise.
        problems: why parts are not known, or why the model will not load.
        alignment_head: whose attention aligns words, as ``1.2 reading``, where that has been chosen.
    """

    place: str
    format: str
    family: str
    sizes: Mapping[str, int | float | str | bool]
    weights: WeightSummary
    vocabulary: tuple[int, ...]
    languages: Pairs
    licence: str | None
    decoding: Mapping[str, object]
    problems: tuple[str, ...] = field(default=())
    alignment_head: str | None = None

    def to_dict(self) -> dict[str, object]:
        """The description for JSON, its languages by their side."""
        source, target = self.languages
        values = asdict(self) | {"languages": {"source": list(source), "target": list(target)}}
        if self.alignment_head is None:
            del values["alignment_head"]
        return values


def attempt(read: Callable[[], Found], otherwise: Found, problems: list[str]) -> Found:
    """What ``read`` finds, or else ``otherwise`` and a note of why in ``problems``."""
    try:
        return read()
    except UwagaError as error:
        problems.append(str(error))
        return otherwise


def file_size(paths: Iterable[Path]) -> int:
    """Bytes of files."""
    return sum(path.stat().st_size for path in paths)
