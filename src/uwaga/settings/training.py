"""Settings of a training run: its corpora, text, model, training and decoding."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator, Field, NonNegativeInt, PositiveInt, model_validator

from uwaga.decoder import MAX_BEAM, MAX_LENGTH_PENALTY, MAX_TOKENS
from uwaga.settings.adapt import AdaptSettings
from uwaga.settings.base import Probability, StrictModel
from uwaga.settings.corpora import DataSettings
from uwaga.settings.presets import MODEL_PRESETS, model_values
from uwaga.settings.prophetnet import ProphetNetSettings
from uwaga.settings.recurrent import (
    BahdanauSettings,
    ChoSettings,
    GnmtSettings,
    LuongSettings,
    SutskeverSettings,
)
from uwaga.settings.transformer import TransformerSettings


class TextSettings(StrictModel):
    """How text becomes subword ids."""

    kind: Literal["unigram", "bpe"] = Field("unigram", description="subword model")
    size: int = Field(8000, ge=16, description="pieces in the vocabulary, special symbols included")
    joint: bool = Field(True, description="one model for both sides, or one per side")
    normalisation: Literal["nfkc", "identity"] = Field("nfkc", description="Unicode normalisation")
    coverage: float = Field(1.0, gt=0.9, le=1.0, description="share of characters kept as pieces")
    byte_fallback: bool = Field(True, description="spell unknown characters in bytes: nothing is lost")
    split_digits: bool = Field(False, description="every digit a piece of its own, as copying wants it")
    lines: PositiveInt = Field(
        5_000_000, description="lines it is learned from, a fair sample of more; they are held in memory"
    )


Family = (
    TransformerSettings
    | ChoSettings
    | SutskeverSettings
    | BahdanauSettings
    | LuongSettings
    | GnmtSettings
    | ProphetNetSettings
)
FAMILIES: dict[str, type[StrictModel]] = {
    kind.model_fields["family"].default: kind for kind in get_args(Family)
}
ModelSettings = Annotated[
    Annotated[Family, Field(discriminator="family")],
    BeforeValidator(model_values),
]


class ScheduleSettings(StrictModel):
    """The learning rate over time."""

    kind: Literal["inverse_sqrt", "cosine", "linear", "constant"] = Field(
        "inverse_sqrt", description="how the rate falls after the warm-up"
    )
    peak: float = Field(5e-4, gt=0.0, description="learning rate at the end of the warm-up")
    warmup: NonNegativeInt = Field(4000, description="steps of linear warm-up")
    floor: float = Field(0.0, ge=0.0, description="lowest rate of cosine and linear")


class GuidedAlignmentSettings(StrictModel):
    """Cross-attention taught to be a word alignment (Chen 2016; Garg 2019)."""

    weight: float = Field(0.05, gt=0.0, description="of the alignment's cross-entropy beside the loss")
    layer: PositiveInt | None = Field(
        None, description="of a Transformer's decoder, from 1; the last but one if not given"
    )
    head: PositiveInt | None = Field(None, description="of a Transformer's layer, from 1; 1 if not given")
    step: Literal["predicting", "reading"] = Field(
        "predicting",
        description="whose attention aligns a target token: that of the step which predicts it, or of the "
        "next one, which reads it",
    )
    words: Literal["words", "spaces"] = Field(
        "spaces",
        description="what files of links count: stretches between spaces, or words and punctuation marks",
    )


class TrainingSettings(StrictModel):
    """The training loop."""

    seed: int = Field(1, description="of the first weights, the order of the data and dropout")
    steps: PositiveInt = Field(100_000, description="updates at most")
    batch_tokens: PositiveInt = Field(4096, description="target tokens in a batch, padding included")
    accumulate: PositiveInt = Field(1, description="batches per update")
    schedule: ScheduleSettings = Field(default_factory=ScheduleSettings)
    weight_decay: float = Field(0.0, ge=0.0, description="decoupled, as in AdamW")
    betas: tuple[float, float] = Field((0.9, 0.98), description="decay of Adam's two moments")
    epsilon: float = Field(1e-9, gt=0.0, description="added to the root of Adam's second moment")
    clip: float = Field(0.0, ge=0.0, description="largest gradient norm, 0 for no clipping")
    label_smoothing: Probability = Field(0.1, description="share of the target spread over the vocabulary")
    precision: Literal["float32", "bfloat16", "float64"] = Field(
        "float32",
        description="of the products in an update; bfloat16 is faster where it is built in, float64 (weights "
        "and moments too) is for comparing runs",
    )
    quantisation: Literal["none", "int8"] = Field(
        "none", description="int8: train as the int8 engine computes, so that converting costs nothing"
    )
    guided_alignment: GuidedAlignmentSettings | None = Field(
        None,
        description="teach one attention head the word alignment of data.train: {weight: 0.05, layer: 5, "
        "head: 1, step: predicting, words: spaces}, {} for these; see alignment under data.train",
    )
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N")
    threads: NonNegativeInt = Field(0, description="CPU cores that share an update, 0 for all it may use")
    distributed: Literal["ddp", "fsdp"] = Field(
        "ddp",
        description="what each of several processes (torchrun) holds: ddp the whole model, fsdp its share of "
        "weights, gradients and moments",
    )
    timeout: PositiveInt = Field(
        600, description="seconds after which a process of several that is not heard of ends the run"
    )
    peak_flops: float = Field(
        0.0,
        ge=0.0,
        description="floating-point operations a second of each process's device, for the utilisation; 0: "
        "measured with a matrix product where there are several processes or a GPU",
    )
    validate_every: PositiveInt = Field(1000, description="steps between validations")
    validation_sentences: NonNegativeInt = Field(
        500, description="dev sentences decoded for BLEU, 0 for none"
    )
    validation_beam: PositiveInt = Field(1, description="beam of those sentences, 1 for greedy")
    patience: NonNegativeInt = Field(
        0, description="validations without a better score before stopping, 0: never"
    )
    early_stopping_metric: Literal["loss", "bleu", "chrf"] = Field(
        "loss", description="what decides which checkpoint is best"
    )
    bleu_tokenise: str = Field("13a", description="sacreBLEU tokeniser; none for tokenised corpora")
    save_every: PositiveInt = Field(1000, description="steps between checkpoints")
    save_dtype: Literal["float32", "float16", "bfloat16"] = Field(
        "float32", description="weights of the finished model"
    )
    keep_last: PositiveInt = Field(5, description="newest checkpoints kept")
    keep_best: NonNegativeInt = Field(1, description="best checkpoints kept")
    average: NonNegativeInt = Field(
        5, description="newest checkpoints averaged into the final model, if that is better; 0: none"
    )


class DecodingSettings(StrictModel):
    """How a trained model translates unless told otherwise."""

    beam: PositiveInt = Field(5, le=MAX_BEAM, description="hypotheses kept, 1 for greedy")
    length_penalty: float = Field(
        1.0, ge=-MAX_LENGTH_PENALTY, le=MAX_LENGTH_PENALTY, description="exponent alpha"
    )
    length_formula: Literal["average", "gnmt", "none"] = Field(
        "average", description="divide by length**alpha, or by ((5 + length) / 6)**alpha, or not"
    )
    early_stopping: bool = Field(
        True, description="stop at `beam` finished hypotheses, or only when none can win"
    )
    min_length: NonNegativeInt = Field(0, le=MAX_TOKENS, description="fewest target tokens")
    max_length: PositiveInt = Field(256, le=MAX_TOKENS, description="most target tokens")
    max_ratio: float = Field(3.0, gt=0.0, description="most target tokens as a multiple of the source's")
    max_extra: NonNegativeInt = Field(20, le=MAX_TOKENS, description="added to that multiple")
    no_repeat_ngram: NonNegativeInt = Field(
        0, le=MAX_TOKENS, description="no n-gram of this size twice, 0 for off"
    )
    split_above: NonNegativeInt = Field(
        0,
        description="source tokens above which a line is split into sentences: 1 any line, 0 at the limit",
    )
    lower_capitals: bool = Field(
        False, description="lower-case a source sentence that is written in capitals, two words or more"
    )

    @model_validator(mode="after")
    def _lengths_agree(self) -> DecodingSettings:
        if self.min_length > self.max_length:
            raise ValueError(f"min_length {self.min_length} is more than max_length {self.max_length}")
        return self


class Settings(StrictModel):
    """A whole training run: the file that `uwaga train` reads."""

    run: Path = Field(description="folder for checkpoints, logs and the finished model")
    init: str | None = Field(
        None, description="a model to start from, folder or name, whose sizes and tokenisers the run takes"
    )
    adapt: AdaptSettings = Field(default_factory=AdaptSettings)
    data: DataSettings
    text: TextSettings = Field(default_factory=TextSettings)
    model: ModelSettings = Field(
        default_factory=TransformerSettings,
        description="a preset's name (" + ", ".join(MODEL_PRESETS) + "), a preset with changes "
        "({preset: luong-small, score: dot}), or a family with its settings",
    )
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    decoding: DecodingSettings = Field(default_factory=DecodingSettings)

    @model_validator(mode="after")
    def _alignments_guide(self) -> Settings:
        if self.training.guided_alignment is None and any(corpus.alignment for corpus in self.data.train):
            raise ValueError(
                "data.train: an alignment is given, which nothing uses; say training.guided_alignment: {}"
            )
        return self
