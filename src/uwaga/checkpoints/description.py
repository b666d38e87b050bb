"""Descriptions of models, computed from checkpoints read without weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from uwaga.checkpoints.checkpoint import Checkpoint, WeightSummary
from uwaga.checkpoints.formats.uwaga.read import expand_model
from uwaga.checkpoints.languages import Pairs
from uwaga.settings import DecodingSettings

SEARCH_OPTIONS = ("beam", "length_penalty", "min_length", "max_length", "no_repeat_ngram", "sample")
"""Decoding defaults shown first, before the other fields of :class:`uwaga.settings.DecodingSettings`."""


@dataclass(frozen=True)
class Description:
    """A description of a model.

    Attributes:
        place: folder or file of the model.
        format: name of the format, such as ``uwaga`` or ``Hugging Face``.
        family: ``transformer``, ``marian``, ``bart`` and so on.
        sizes: width, number of layers and the model's other settings.
        weights: number of parameters, size in bytes and number formats.
        vocabulary: number of source and of target tokens.
        languages: codes of the source languages and of the target languages; empty if none are stated.
        licence: the licence stated in the model card, None if it states none.
        decoding: default search options.
        problems: problems that prevent the model from loading.
        alignment_head: the attention head that aligns words, such as ``1.2 reading``; None if none has been
            chosen.
    """

    place: str
    format: str
    family: str
    sizes: Mapping[str, int | float | str]
    weights: WeightSummary
    vocabulary: tuple[int, ...]
    languages: Pairs
    licence: str | None
    decoding: Mapping[str, object]
    problems: tuple[str, ...] = field(default=())
    alignment_head: str | None = None

    def to_dict(self) -> dict[str, object]:
        """Return the description as JSON values; language codes are grouped by ``source`` and ``target``."""
        source, target = self.languages
        values = asdict(self) | {"languages": {"source": list(source), "target": list(target)}}
        if self.alignment_head is None:
            del values["alignment_head"]
        return values


def describe_checkpoint(checkpoint: Checkpoint) -> Description:
    """Return the description of a checkpoint that was read without its weights."""
    values: dict[str, Any] = {}
    for name, value in expand_model(checkpoint.settings).items():
        group = value if isinstance(value, dict) else {"": value}  # a group, such as rotary
        values |= {f"{name} {key}".strip().replace("_", " "): setting for key, setting in group.items()}
    sizes: dict[str, int | float | str] = {
        name: value for name, value in values.items() if name != "family" and type(value) in (int, float, str)
    }
    head = checkpoint.alignment_head
    return Description(
        place=str(checkpoint.path),
        format=checkpoint.format,
        family=checkpoint.family,
        sizes=sizes | dict(checkpoint.details),
        weights=checkpoint.summary
        or WeightSummary.from_tensors(checkpoint.weights.tensors.values() if checkpoint.weights else ()),
        vocabulary=checkpoint.vocabulary,
        languages=checkpoint.languages.pairs,
        licence=checkpoint.card.licence,
        decoding=_decoding_defaults(checkpoint),
        problems=checkpoint.problems,
        alignment_head=None if head is None else str(head),
    )


def _decoding_defaults(checkpoint: Checkpoint) -> dict[str, object]:
    """Return the default decoding options that a uwaga folder can store, except infinite limits."""
    options: dict[str, Any] = {**vars(checkpoint.decoding), **vars(checkpoint.text)}
    names = dict.fromkeys((*SEARCH_OPTIONS, *DecodingSettings.model_fields))
    return {name: options[name] for name in names if options[name] != math.inf}
