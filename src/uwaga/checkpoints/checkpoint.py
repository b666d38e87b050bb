"""The description and data of a model stored in any format. Does not import torch."""

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
    from uwaga.engine.layout import Precision
    from uwaga.engine.packing import PackedWeights
    from uwaga.engine.shortlist import Shortlist
    from uwaga.settings import ModelSettings
    from uwaga.tokenizers.chat_template import ChatTemplate

Task = Literal["translate", "generate", "fill"]
"""What a model does: translate, continue texts, or fill in masked tokens."""

Dtype = Literal["float32", "float16", "bfloat16"]
"""Number formats of floating-point weights."""
StoredDtype = Literal["float32", "float16", "bfloat16", "int8"]
"""Number formats of stored weights, which are converted to float32 when they are read."""
Memory = Literal["fast", "shared", "none"]
"""How weights are loaded: ``fast`` copies them into private memory, ``shared`` memory-maps them to share them
with other processes, and ``none`` reads only the headers of weight files, which suffice for a description."""

MODEL_KINDS: dict[Task, tuple[str, str]] = {
    "translate": ("an encoder–decoder", "uwaga.Translator and `uwaga translate`"),
    "generate": ("a decoder-only model", "uwaga.TextGenerator and `uwaga generate`"),
    "fill": ("an encoder-only model", "uwaga.MaskFiller and `uwaga fill`"),
}
"""The kind of model for each task, and the interfaces that run it."""


@dataclass(frozen=True)
class WeightSummary:
    """The size of stored weights.

    Attributes:
        parameters: number of floating-point parameters, None if it is unknown.
        bytes: size of the weight files in bytes.
        formats: number formats of the weights.
    """

    parameters: int | None
    bytes: int
    formats: tuple[str, ...]

    @classmethod
    def from_tensors(cls, tensors: Iterable[StoredTensor]) -> WeightSummary:
        """Return the summary of the floating-point tensors and of the files that contain them."""
        weights = [tensor for tensor in tensors if tensor.is_floating]
        return cls(
            sum(math.prod(tensor.shape) for tensor in weights),
            sum(path.stat().st_size for path in {tensor.path for tensor in weights}),
            tuple(sorted({tensor.format for tensor in weights})),
        )


@dataclass(frozen=True)
class Checkpoint:
    """A validated model with all the data needed to run it; its weights are read later, on demand.

    :func:`uwaga.checkpoints.to_engine.to_engine` and :func:`uwaga.checkpoints.to_torch.to_torch` build models
    from it.

    Attributes:
        path: folder or file of the model.
        format: name of the format in the registry.
        family: ``transformer``, ``marian``, ``bart`` and so on.
        settings: settings of the model.
        symbols: ids of the special tokens of the target side.
        source_vocabulary: number of rows of the source embedding, or of the only embedding.
        target_vocabulary: number of rows of the output layer.
        vocabulary: number of source and of target tokens in the stored vocabularies. The embeddings may have
            one more row, for a padding token that the format lacks.
        source: tokeniser of the source side, or the only tokeniser.
        target: tokeniser of the target side.
        languages: the model's languages, with methods to select a translation direction.
        decoding: default search options.
        text: default options of text preprocessing.
        card: the model card.
        weights: weights read on demand, in float32; None for int8 and int4 folders.
        packed: weights in the engine's format; None except for int8 and int4 folders.
        score_stats: statistics of the model's translation scores, None if the folder contains none.
        precision: the engine's default precision if the weights are stored as integers, otherwise None.
        shortlist: function that reads the vocabulary shortlist stored next to the model, which the search
            uses by default; None if there is no shortlist.
        alignment_head: the attention head that aligns words, None if none has been chosen.
        chat: the chat template of a decoder-only model, None if it has none.
        summary: size of the weights, for a checkpoint read without weights.
        problems: problems with the weight files, for a checkpoint read without weights.
        details: further properties to show in a description, by name.
        trained_to_translate: True if a decoder-only model was trained to translate, by continuing a source
            and its end symbol with the target.
    """

    path: Path
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
    packed: PackedWeights | None = None
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
        """The model's task, which its architecture and its training determine."""
        if isinstance(self.settings, DecoderOnlySettings) and not self.trained_to_translate:
            return "generate"
        return "fill" if isinstance(self.settings, EncoderOnlySettings) else "translate"

    def for_direction(self, direction: Direction) -> Checkpoint:
        """Return the model for one translation direction; see :meth:`Languages.direction`."""
        start = self.symbols.start if direction.start is None else direction.start
        return replace(
            self,
            source=direction.source,
            target=direction.target,
            symbols=replace(self.symbols, start=start),
            decoding=replace(self.decoding, first=direction.first),
        )
