"""Settings of a training run: its corpora, text, model, training and decoding."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from uwaga.settings.corpora import DataSettings
from uwaga.settings.models import MODEL_PRESETS, DecodingSettings, ModelSettings
from uwaga.settings.parsing import Probability, StrictModel, parse, read_yaml
from uwaga.settings.transformer import TransformerSettings

Multiplier = Annotated[float, Field(gt=0.0)]


class LoraSettings(StrictModel):
    """Low-rank adapters beside frozen matrices (Hu 2021)."""

    rank: int = Field(16, ge=1, le=1 << 16, description="of each update")
    alpha: float = Field(32.0, gt=0.0, description="an update is multiplied by alpha / rank")
    dropout: Probability = Field(0.0, description="on what the adapters read")
    targets: list[str] = Field(
        default_factory=lambda: ["*"],
        min_length=1,
        description="patterns of the linear layers that get one, such as *attention.query",
    )


class AdaptSettings(StrictModel):
    """What of the model named by init trains, and how."""

    vocabulary: Literal["keep", "new"] = Field(
        "keep",
        description="new: subwords as text says, learned on data.train; shared pieces keep their embeddings",
    )
    freeze: list[str] = Field(
        default_factory=list, description="patterns of weights that stay as they are, such as encoder.*"
    )
    rates: dict[str, Multiplier] = Field(
        default_factory=dict,
        description="by pattern of weights, what the learning rate is multiplied by; the last that fits",
    )
    lora: LoraSettings | None = Field(
        None, description="train adapters alone: {rank: 16, alpha: 32, dropout: 0.0, targets: ['*']}"
    )

    @model_validator(mode="after")
    def _adapters_train_alone(self) -> AdaptSettings:
        if self.lora is None:
            return self
        if self.freeze:
            raise ValueError("freeze: with lora nothing but the adapters trains; leave one of the two out")
        if self.vocabulary == "new":
            raise ValueError(
                "vocabulary: new embeddings must be trained, and lora trains none; leave one out"
            )
        return self


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


def load_settings(path: Path) -> Settings:
    """Read a training run's YAML settings file.

    Raises:
        SettingsError: the file is missing, is not YAML, or holds a bad setting.
    """
    return parse(Settings, read_yaml(path), str(path))


Value = bool | int | float | str


class ParameterSettings(StrictModel):
    """The values of one parameter: listed, or a range of numbers, whole where both its ends are whole."""

    values: list[Value] | None = Field(None, description="any of these", min_length=1)
    low: int | float | None = Field(None, description="or numbers from here")
    high: int | float | None = Field(None, description="to here, inclusive")
    step: int | float | None = Field(None, gt=0, description="in steps of this; any if none")
    log: bool = Field(False, description="drawn evenly by magnitude, as learning rates are")

    @model_validator(mode="after")
    def _one_form(self) -> ParameterSettings:
        if self.values is not None:
            if (self.low, self.high, self.step, self.log) != (None, None, None, False):
                raise ValueError("values stand alone, without low, high, step and log")
            if len({(type(one), one) for one in self.values}) < len(self.values):
                raise ValueError("values holds one of them twice")
            return self
        low, high = self.range
        if low >= high:
            raise ValueError(f"low {low} is not below high {high}")
        if self.log and (low <= 0 or self.step is not None):
            raise ValueError("log needs a low above 0, and no step")
        if self.whole and isinstance(self.step, float):
            raise ValueError(f"step {self.step} is not whole, as low and high are")
        return self

    @property
    def range(self) -> tuple[int | float, int | float]:
        """Its ends, where no values are listed.

        Raises:
            ValueError: they are not given.
        """
        if self.low is None or self.high is None:
            raise ValueError("needs values, or low and high")
        return self.low, self.high

    @property
    def whole(self) -> bool:
        """Whether the numbers of the range are whole."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def ends(self) -> list[Value]:
        """The values that are checked before anything is trained: all that are listed, or both ends."""
        return list(self.range) if self.values is None else list(self.values)


class SweepSettings(StrictModel):
    """A search for good settings: the file that `uwaga train --sweep` reads."""

    parameters: dict[str, ParameterSettings] = Field(
        description="the values that are tried of each setting, such as training.schedule.peak",
        min_length=1,
    )
    trials: PositiveInt = Field(20, description="runs in all, those of earlier calls among them")
    metric: Literal["bleu", "chrf", "loss"] | None = Field(
        None, description="what is best on the dev set; training.early_stopping_metric if none"
    )
    run: Path | None = Field(None, description="folder of the study and its runs; the settings' run if none")
    sampler: Literal["tpe", "random", "grid"] = Field(
        "tpe", description="how parameters are drawn: by what went well before, by chance, or each in turn"
    )
    pruner: Literal["median", "hyperband", "none"] = Field(
        "median",
        description="which runs are stopped early: those below the median, by halving, or none",
    )
    warm_trials: NonNegativeInt = Field(5, description="first runs, none of which is stopped early")
    warm_validations: NonNegativeInt = Field(1, description="of a run, after which it may be stopped early")
    jobs: PositiveInt = Field(1, description="runs at the same time")
    seed: int = Field(1, description="of what is drawn")

    @model_validator(mode="after")
    def _grid_is_finite(self) -> SweepSettings:
        endless = [
            name
            for name, one in self.parameters.items()
            if one.values is None and one.step is None and not one.whole
        ]
        if self.sampler == "grid" and endless:
            raise ValueError(f"sampler grid: {endless[0]} needs values, a step or whole ends")
        return self
