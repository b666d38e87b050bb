"""Settings of a training run: its corpora, text, model, training and decoding."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from uwaga.settings.corpora import DataSettings
from uwaga.settings.models import MODEL_PRESETS, DecodingSettings, ModelSettings
from uwaga.settings.parsing import Probability, StrictModel, parse
from uwaga.settings.transformer import DecoderOnlySettings, TransformerSettings
from uwaga.settings.yaml_text import read_yaml

Multiplier = Annotated[float, Field(gt=0.0)]


class LoraSettings(StrictModel):
    """Low-rank adapters of frozen matrices (Hu 2021)."""

    rank: int = Field(16, ge=1, le=1 << 16, description="rank of each update")
    alpha: float = Field(32.0, gt=0.0, description="an update is multiplied by alpha / rank")
    dropout: Probability = Field(0.0, description="dropout on the inputs of the adapters")
    targets: list[str] = Field(
        default_factory=lambda: ["*"],
        min_length=1,
        description="patterns of the linear layers that get an adapter, such as *attention.query",
    )


class AdaptSettings(StrictModel):
    """How a run fine-tunes the model named by init."""

    vocabulary: Literal["keep", "new"] = Field(
        "keep",
        description="keep the vocabulary, or learn new subwords from data.train with the settings in text; "
        "pieces in both vocabularies keep their embeddings",
    )
    freeze: list[str] = Field(
        default_factory=list, description="name patterns of weights that are not trained, such as encoder.*"
    )
    rates: dict[str, Multiplier] = Field(
        default_factory=dict,
        description="learning rate factors by name pattern of weights; the last matching pattern applies",
    )
    lora: LoraSettings | None = Field(
        None, description="train only adapters: {rank: 16, alpha: 32, dropout: 0.0, targets: ['*']}"
    )

    @model_validator(mode="after")
    def _check_lora(self) -> AdaptSettings:
        if self.lora is None:
            return self
        if self.freeze:
            raise ValueError("freeze: with lora, only the adapters are trained; omit freeze or lora")
        if self.vocabulary == "new":
            raise ValueError(
                "vocabulary: new embeddings must be trained, but lora does not train embeddings; set "
                "vocabulary: keep or omit lora"
            )
        return self


class TextSettings(StrictModel):
    """Segmentation of text into subwords."""

    kind: Literal["unigram", "bpe"] = Field("unigram", description="type of subword model")
    size: int = Field(
        8000, ge=16, description="number of pieces in the vocabulary, including special symbols"
    )
    joint: bool = Field(True, description="one model for both sides instead of one per side")
    normalisation: Literal["nfkc", "identity"] = Field("nfkc", description="Unicode normalisation")
    coverage: float = Field(1.0, gt=0.9, le=1.0, description="share of characters that become pieces")
    byte_fallback: bool = Field(True, description="encode unknown characters as bytes, so that none is lost")
    split_digits: bool = Field(
        False, description="make every digit a separate piece, which helps to copy numbers"
    )
    lines: PositiveInt = Field(
        5_000_000,
        description="maximum number of lines to learn from, which are held in memory; a larger corpus is "
        "sampled",
    )


class ScheduleSettings(StrictModel):
    """Learning rate schedule."""

    kind: Literal["inverse_sqrt", "cosine", "linear", "constant"] = Field(
        "inverse_sqrt", description="form of the decay after the warm-up"
    )
    peak: float = Field(5e-4, gt=0.0, description="learning rate at the end of the warm-up")
    warmup: NonNegativeInt = Field(4000, description="number of updates in the linear warm-up")
    floor: float = Field(0.0, ge=0.0, description="learning rate at the end of a cosine or linear decay")


class GuidedAlignmentSettings(StrictModel):
    """Supervision of a cross-attention head by word alignments (Chen 2016; Garg 2019)."""

    weight: float = Field(
        0.05, gt=0.0, description="weight of the alignment cross-entropy that is added to the loss"
    )
    layer: PositiveInt | None = Field(
        None, description="layer of a Transformer's decoder, from 1; the penultimate layer if not given"
    )
    head: PositiveInt | None = Field(None, description="head of the layer, from 1; 1 if not given")
    step: Literal["predicting", "reading"] = Field(
        "predicting",
        description="the decoder step whose attention aligns a target token: the one that predicts it, or "
        "the next one, which reads it",
    )
    words: Literal["words", "spaces"] = Field(
        "spaces",
        description="units that alignment files count: strings between spaces, or words and punctuation "
        "marks",
    )


class TrainingSettings(StrictModel):
    """The training loop."""

    seed: int = Field(1, description="random seed for initial weights, data order and dropout")
    steps: PositiveInt = Field(100_000, description="maximum number of updates")
    batch_tokens: PositiveInt = Field(4096, description="target tokens in a batch, including padding")
    accumulate: PositiveInt = Field(1, description="number of batches per update")
    schedule: ScheduleSettings = Field(default_factory=ScheduleSettings)
    weight_decay: float = Field(0.0, ge=0.0, description="decoupled weight decay, as in AdamW")
    betas: tuple[float, float] = Field((0.9, 0.98), description="decay rates of Adam's two moments")
    epsilon: float = Field(
        1e-9, gt=0.0, description="number added to the square root of Adam's second moment"
    )
    clip: float = Field(0.0, ge=0.0, description="maximum gradient norm, 0 for no clipping")
    label_smoothing: Probability = Field(0.1, description="probability spread over the vocabulary")
    precision: Literal["float32", "bfloat16", "float64"] = Field(
        "float32",
        description="precision of the matrix products in an update; bfloat16 is faster where hardware "
        "supports it, float64 (also of weights and moments) is for comparing runs",
    )
    quantisation: Literal["none", "int8"] = Field(
        "none",
        description="int8: simulate the int8 engine in training, so that conversion does not reduce quality",
    )
    guided_alignment: GuidedAlignmentSettings | None = Field(
        None,
        description="train one attention head to align words as the alignment files of data.train do: "
        "{weight: 0.05, layer: 5, head: 1, step: predicting, words: spaces}, or {} for the defaults",
    )
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N")
    threads: NonNegativeInt = Field(0, description="CPU threads, 0 for all available cores")
    distributed: Literal["ddp", "fsdp"] = Field(
        "ddp",
        description="what each torchrun process holds: the whole model (ddp), or a shard of the weights, "
        "gradients and moments (fsdp)",
    )
    timeout: PositiveInt = Field(
        600, description="seconds without a message from another process after which the run ends"
    )
    peak_flops: float = Field(
        0.0,
        ge=0.0,
        description="peak speed of a device in floating-point operations per second, for the utilisation; 0: "
        "measured with a matrix product if there are several processes or a GPU",
    )
    validate_every: PositiveInt = Field(1000, description="number of updates between validations")
    validation_sentences: NonNegativeInt = Field(
        500, description="number of dev sentences translated in a validation, 0 for none"
    )
    validation_beam: PositiveInt = Field(1, description="beam size for these translations, 1 for greedy")
    patience: NonNegativeInt = Field(
        0, description="number of validations without improvement after which training stops; 0: never"
    )
    early_stopping_metric: Literal["loss", "bleu", "chrf"] = Field(
        "loss", description="metric by which the best checkpoint is chosen"
    )
    bleu_tokenise: str = Field("13a", description="sacreBLEU tokeniser; none for tokenised corpora")
    save_every: PositiveInt = Field(1000, description="number of updates between checkpoints")
    save_dtype: Literal["float32", "float16", "bfloat16", "int8"] = Field(
        "float32", description="precision in which the final model's weights are stored"
    )
    keep_last: PositiveInt = Field(5, description="number of newest checkpoints to keep")
    keep_best: NonNegativeInt = Field(1, description="number of best checkpoints to keep")
    average: NonNegativeInt = Field(
        5,
        description="number of newest checkpoints averaged into the final model, if that is better; 0: none",
    )


class Settings(StrictModel):
    """A training run: the settings file of `uwaga train`."""

    run: Path = Field(description="folder for checkpoints, logs and the finished model")
    plugins: list[str] = Field(
        default_factory=list, description="Python files that extend uwaga, for example with attention scores"
    )
    init: str | None = Field(
        None, description="folder or name of a model to start from; its sizes and tokenisers are used"
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
    def _check_alignments(self) -> Settings:
        if self.training.guided_alignment is None and any(corpus.alignment for corpus in self.data.train):
            raise ValueError(
                "data.train: an alignment is given but not used; remove it, or set "
                "training.guided_alignment: {}"
            )
        return self

    @model_validator(mode="after")
    def _check_prompt_length(self) -> Settings:
        if not isinstance(self.model, DecoderOnlySettings) or self.init is not None:
            return self
        if not self.text.joint:
            raise ValueError(
                "model.family: a decoder-only model has a single vocabulary; set text.joint: true"
            )
        needed_tokens = 2 * self.data.max_tokens + 1
        if self.model.max_length < needed_tokens:
            raise ValueError(
                f"a source, its end symbol and the target need up to {needed_tokens} positions, but "
                f"model.max_length is {self.model.max_length}: raise it, or lower data.max_tokens"
            )
        return self


def load_settings(path: Path) -> Settings:
    """Load the YAML settings file of a training run.

    Raises:
        SettingsError: the file is missing, is not YAML, or has an invalid setting.
    """
    return parse(Settings, read_yaml(path), str(path))


Value = bool | int | float | str


class ParameterSettings(StrictModel):
    """The values to try for a parameter: a list, or a range of numbers.

    A range contains only integers if both of its ends are integers.
    """

    values: list[Value] | None = Field(None, description="list of values to try", min_length=1)
    low: int | float | None = Field(None, description="lower end of a range")
    high: int | float | None = Field(None, description="upper end of the range, inclusive")
    step: int | float | None = Field(
        None, gt=0, description="distance between the values to try; any number in the range if not given"
    )
    log: bool = Field(False, description="draw on a logarithmic scale, as for learning rates")

    @model_validator(mode="after")
    def _check_form(self) -> ParameterSettings:
        if self.values is not None:
            if (self.low, self.high, self.step, self.log) != (None, None, None, False):
                raise ValueError("values cannot be combined with low, high, step and log")
            if len({(type(value), value) for value in self.values}) < len(self.values):
                raise ValueError("values contains a duplicate")
            return self
        low, high = self.range
        if low >= high:
            raise ValueError(f"low {low} is not below high {high}")
        if self.log and (low <= 0 or self.step is not None):
            raise ValueError("log requires that low is greater than 0 and that step is not given")
        if self.is_integer and isinstance(self.step, float):
            raise ValueError(f"step {self.step} must be a whole number, like low and high")
        return self

    @property
    def range(self) -> tuple[int | float, int | float]:
        """The ends of the range.

        Raises:
            ValueError: the parameter is not given as a range.
        """
        if self.low is None or self.high is None:
            raise ValueError("give values, or low and high")
        return self.low, self.high

    @property
    def is_integer(self) -> bool:
        """True if both ends of the range are integers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    @property
    def extremes(self) -> list[Value]:
        """The values to check before training: all listed values, or both ends of the range."""
        return list(self.range) if self.values is None else list(self.values)


class SweepSettings(StrictModel):
    """A hyperparameter search: the settings file of `uwaga train --sweep`."""

    parameters: dict[str, ParameterSettings] = Field(
        description="values to try for each setting, such as training.schedule.peak", min_length=1
    )
    trials: PositiveInt = Field(20, description="total number of runs, including those of earlier calls")
    metric: Literal["bleu", "chrf", "loss"] | None = Field(
        None, description="metric on the dev set; training.early_stopping_metric if not given"
    )
    run: Path | None = Field(
        None, description="folder of the study and its runs; the folder `run` of the settings if not given"
    )
    sampler: Literal["tpe", "random", "grid"] = Field(
        "tpe",
        description="how parameters are drawn: based on earlier results (TPE), at random, or from a grid",
    )
    pruner: Literal["median", "hyperband", "none"] = Field(
        "median",
        description="which runs are stopped early: those below the median, those that Hyperband selects, or "
        "none",
    )
    warm_trials: NonNegativeInt = Field(
        5, description="number of runs at the start of the sweep that are never stopped early"
    )
    warm_validations: NonNegativeInt = Field(
        1, description="number of validations of a run before it may be stopped early"
    )
    jobs: PositiveInt = Field(1, description="number of runs at the same time")
    seed: int = Field(1, description="random seed of the sampler")

    @model_validator(mode="after")
    def _check_grid(self) -> SweepSettings:
        infinite = [
            name
            for name, parameter in self.parameters.items()
            if parameter.values is None and parameter.step is None and not parameter.is_integer
        ]
        if self.sampler == "grid" and infinite:
            raise ValueError(f"sampler grid: {infinite[0]} needs values, a step, or integers as low and high")
        return self
