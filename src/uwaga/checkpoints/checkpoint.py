"""The record of a model in files of any format. Nothing here needs torch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from uwaga.checkpoints.card import Card
from uwaga.checkpoints.score_stats import ScoreStats
from uwaga.decoder import Symbols
from uwaga.search import SearchOptions
from uwaga.settings import AlignmentHead, DecoderOnlySettings, EncoderOnlySettings
from uwaga.settings.text_options import TextOptions
from uwaga.tokenizers.subwords import Subwords

if TYPE_CHECKING:
    from uwaga.checkpoints.languages import Direction, Languages
    from uwaga.checkpoints.storage.tensors import StoredTensor
    from uwaga.checkpoints.weight_map import Weights
    from uwaga.engine.packing import Packed, Precision
    from uwaga.engine.shortlist import Shortlist
    from uwaga.settings import ModelSettings
    from uwaga.tokenizers.chat_template import ChatTemplate

Task = Literal["translate", "generate", "fill"]
"""A model translates, continues texts, or fills gaps in them."""

Dtype = Literal["float32", "float16", "bfloat16"]
StoredDtype = Literal["float32", "float16", "bfloat16", "int8"]
"""Number formats of stored weights, which are float32 when they are read."""
"""Number formats of floating-point weights."""
Memory = Literal["fast", "shared", "none"]
"""Where a reader puts weights: into memory of its own, mapped from the file and shared with other processes,
or nowhere, for a description that reads only the headers of the weight files."""

KINDS: dict[Task, tuple[str, str]] = {
    "translate": ("an encoder–decoder", "uwaga.Translator and `uwaga translate`"),
    "generate": ("a decoder-only model", "uwaga.TextGenerator and `uwaga generate`"),
    "fill": ("an encoder-only model", "uwaga.MaskFiller and `uwaga fill`"),
}
"""The kind of model that each task needs, and what runs it."""


@dataclass(frozen=True)
class WeightSummary:
    """The stored weights: number of floating-point parameters (None: unknown), bytes and number formats."""

    parameters: int | None
    bytes: int
    formats: tuple[str, ...]

    @classmethod
    def of(cls, tensors: Iterable[StoredTensor]) -> WeightSummary:
        """Summarize the tensors that can be weights, with the bytes of the files that hold them."""
        weights = [tensor for tensor in tensors if tensor.floating]
        return cls(
            sum(math.prod(tensor.shape) for tensor in weights),
            sum(path.stat().st_size for path in {tensor.path for tensor in weights}),
            tuple(sorted({tensor.format for tensor in weights})),
        )


@dataclass(frozen=True)
class Checkpoint:
    """A model with all that is needed to run it: checked, with none of its weights in memory yet.

    :func:`uwaga.checkpoints.to_engine.to_engine` and :func:`uwaga.checkpoints.to_torch.to_torch` build models
    from it.

    Attributes:
        place: folder or file.
        format: name of the format in the registry.
        family: ``transformer``, ``marian``, ``bart`` and so on.
        settings: of the model.
        symbols: special token ids of the target side.
        source_vocabulary: rows of the source embedding, or of the only one.
        target_vocabulary: rows of the output.
        vocabulary: pieces of source and target as the format counts them. The tables may have one row more,
            for a padding token that the format lacks.
        source: tokeniser of the source side, or of the only one.
        target: tokeniser of the target side.
        languages: the model's languages, and the changes that a choice of two of them makes.
        decoding: default search options.
        text: default processing of texts before the model sees them.
        card: facts from the model card.
        weights: the weights on demand, in float32; None for an int8 folder.
        packed: the weights as the engine reads them, for an int8 folder alone.
        score_stats: statistics of the scores of its translations, if its folder holds them.
        precision: the engine's default precision, if the weights are stored as integers.
        shortlist: reads the vocabulary shortlist next to the model, which is then used by default.
        alignment_head: the attention head that aligns words, if one has been chosen.
        chat: the chat template of a decoder-only model, if it has one.
        summary: sizes of the weights, for a checkpoint that was read without them.
        problems: faults of the weight files, likewise.
        details: further facts for a description, by name.
        trained_to_translate: whether a decoder-only model is a translator: it continues a source and its end
            symbol with the target.
    """

    place: Path
    format: str
    family: str
    settings: ModelSettings | DecoderOnlySettings | EncoderOnlySettings
    symbols: Symbols
    source_vocabulary: int
    target_vocabulary: int
    vocabulary: tuple[int, int]
    source: Subwords
    target: Subwords
    languages: Languages
    decoding: SearchOptions
    text: TextOptions = field(default=TextOptions())
    card: Card = field(default=Card())
    weights: Weights | None = None
    packed: Packed | None = None
    score_stats: ScoreStats | None = None
    precision: Precision | None = None
    shortlist: Callable[[], Shortlist] | None = None
    alignment_head: AlignmentHead | None = None
    chat: ChatTemplate | None = None
    summary: WeightSummary | None = None
    problems: tuple[str, ...] = ()
    details: Mapping[str, int | str] = field(default_factory=dict)
    trained_to_translate: bool = False

    @property
    def task(self) -> Task:
        """The task of the model, by the kind of its settings and what it was trained for."""
        if isinstance(self.settings, DecoderOnlySettings) and not self.trained_to_translate:
            return "generate"
        return "fill" if isinstance(self.settings, EncoderOnlySettings) else "translate"

    def towards(self, direction: Direction) -> Checkpoint:
        """Return the same model for a pair of languages; see :meth:`Languages.direction`."""
        start = self.symbols.start if direction.start is None else direction.start
        return replace(
            self,
            source=direction.source,
            target=direction.target,
            symbols=replace(self.symbols, start=start),
            decoding=replace(self.decoding, first=direction.first),
        )
