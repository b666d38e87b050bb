"""The one record of a model that lies in files, whoever wrote them. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from uwaga.checkpoints.card import Card
from uwaga.checkpoints.usual import UsualScore
from uwaga.decoder import Symbols
from uwaga.search import SearchOptions
from uwaga.settings import AlignmentHead, DecoderOnlySettings, EncoderOnlySettings
from uwaga.tokenizers.subwords import Subwords
from uwaga.tokenizers.text import TextOptions

if TYPE_CHECKING:
    from uwaga.checkpoints.languages import Direction, Languages
    from uwaga.checkpoints.weight_map import Weights
    from uwaga.engine.packing import Packed, Precision
    from uwaga.engine.shortlist import Shortlist
    from uwaga.settings import ModelSettings

Task = Literal["translate", "generate", "fill"]
"""What a model does: it translates, continues texts, or fills gaps in them."""

KINDS: dict[Task, tuple[str, str]] = {
    "translate": ("an encoder–decoder", "uwaga.Translator and `uwaga translate`"),
    "generate": ("a decoder-only model", "uwaga.TextGenerator and `uwaga generate`"),
    "fill": ("an encoder-only model", "uwaga.MaskFiller and `uwaga fill`"),
}
"""What a model of each task is, and what runs it."""


@dataclass(frozen=True)
class Checkpoint:
    """A model with all that is needed to run it: checked, and nothing of it in memory yet.

    ``uwaga.checkpoints.to_engine`` and ``uwaga.checkpoints.to_torch`` make models of it.

    Attributes:
        place: folder or file.
        format: by the registry's name for it.
        family: ``transformer``, ``marian``, ``bart`` and so on.
        settings: of the model, of whichever family.
        symbols: special token ids of the target side.
        source_vocabulary: rows of the source embedding, or of the only one.
        target_vocabulary: rows of the output.
        vocabulary: pieces of source and target as the format counts them. The tables may have a row more,
            for a padding token that the format lacks.
        source: tokeniser of the source side, or of the only one.
        target: tokeniser of the target side.
        languages: those that it knows, and what choosing two of them changes.
        decoding: how to search unless told otherwise.
        text: what happens to texts before the model sees them, unless told otherwise.
        card: what the model's card states.
        weights: the weights on demand, in float32; None of an int8 folder.
        packed: the weights as the engine reads them, of an int8 folder alone.
        usual: what its scores usually are, where its folder says it.
        precision: what the engine computes in unless told otherwise, where the weights are of whole numbers.
        shortlist: reads the vocabulary shortlist that lies beside the model, which then runs with it.
        alignment_head: whose attention aligns words, where it has been chosen.
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
    usual: UsualScore | None = None
    precision: Precision | None = None
    shortlist: Callable[[], Shortlist] | None = None
    alignment_head: AlignmentHead | None = None

    @property
    def task(self) -> Task:
        """What the model does."""
        if isinstance(self.settings, DecoderOnlySettings):
            return "generate"
        return "fill" if isinstance(self.settings, EncoderOnlySettings) else "translate"

    def towards(self, direction: Direction) -> Checkpoint:
        """The same model for a pair of languages; see :meth:`Languages.direction`."""
        start = self.symbols.start if direction.start is None else direction.start
        return replace(
            self,
            source=direction.source,
            target=direction.target,
            symbols=replace(self.symbols, start=start),
            decoding=replace(self.decoding, first=direction.first),
        )
