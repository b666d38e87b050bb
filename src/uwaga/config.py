"""Typed, closed settings. An unknown key is an error that names the nearest known key."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import yaml
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from uwaga.closed import Closed as Closed  # everybody's door to settings is this module
from uwaga.closed import Natural, Positive, Probability
from uwaga.contracts import WIDEST_BEAM
from uwaga.errors import SettingsError
from uwaga.recurrent_settings import (
    PRESETS,
    BahdanauSettings,
    ChoSettings,
    GnmtSettings,
    LuongSettings,
    SutskeverSettings,
)


class TextSettings(Closed):
    """How text becomes subword ids."""

    kind: Literal["unigram", "bpe"] = Field("unigram", description="subword model")
    size: int = Field(8000, ge=16, description="pieces in the vocabulary, special symbols included")
    joint: bool = Field(True, description="one model for both sides, or one per side")
    normalisation: Literal["nfkc", "identity"] = Field("nfkc", description="Unicode normalisation")
    coverage: float = Field(1.0, gt=0.9, le=1.0, description="share of characters kept as pieces")
    byte_fallback: bool = Field(True, description="spell unknown characters in bytes: nothing is lost")


class DataSettings(Closed):
    """The corpora.

    ``train``, ``dev``: one TSV file, a pair of aligned files, or a Moses prefix with ``languages``;
    plain, .gz, .zst or .xz.
    """

    train: list[Path] = Field(min_length=1, max_length=2)
    dev: list[Path] = Field(min_length=1, max_length=2)
    languages: tuple[str, str] = Field(("src", "tgt"), description="source and target language codes")
    licence: str = Field("", description="licence and attribution of the corpora, for the model card")
    bad_lines: Literal["skip", "stop"] = Field("skip", description="empty, over-long or bad UTF-8 lines")
    max_tokens: Positive = Field(256, description="longest side of a training pair, in subwords")
    max_ratio: float = Field(9.0, gt=1.0, description="longest side divided by shortest, at most")
    augment: dict[Literal["lower", "upper", "unpunctuated"], Probability] = Field(
        default_factory=dict,
        description="share of training sources shown in another surface form",
    )
    subword_sampling: Probability = Field(
        0.0, description="alpha of subword regularisation (Kudo 2018) or BPE dropout, 0 for none"
    )


class TransformerSettings(Closed):
    """The Transformer (M16) and its published variants."""

    family: Literal["transformer"] = "transformer"
    encoder_layers: Positive = 6
    decoder_layers: Positive = 6
    width: Positive = Field(512, description="d_model")
    heads: Positive = 8
    feed_forward: Positive = 2048
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = "relu"
    gated: bool = Field(False, description="gated feed-forward (Shazeer 2020)")
    norm: Literal["post", "pre"] = Field("post", description="layer norm after or before each block")
    positions: Literal["sinusoidal", "learned", "relative"] = "sinusoidal"
    max_length: Positive = Field(512, description="most tokens on either side")
    sinusoids: Literal["interleaved", "halves", "tensor2tensor"] = Field(
        "interleaved",
        description="order of sines and cosines: by turns, sines first, or with other rates too",
    )
    position_offset: Natural = Field(0, description="rows of the position table before the first token's")
    relative_buckets: int = Field(32, ge=4, description="of relative positions (Raffel 2020)")
    relative_distance: int = Field(128, ge=4, description="from which on relative positions are alike")
    embedding_scale: bool = Field(True, description="embeddings times the root of the width")
    embedding_norm: bool = Field(False, description="layer norm behind embeddings and positions")
    norm_kind: Literal["layer", "rms"] = Field("layer", description="layer norm, or RMS norm without bias")
    norm_epsilon: float = Field(1e-5, gt=0.0, description="added to the variance in norms")
    attention_bias: bool = Field(True, description="biases in attention's projections")
    feed_forward_bias: bool = Field(True, description="biases in the feed-forward")
    attention_scale: bool = Field(True, description="scores divided by the root of the head width")
    head_width: Positive | None = Field(None, description="width of a head, if not width / heads")
    decoder_heads: Positive | None = Field(None, description="heads of the decoder, if not those above")
    decoder_feed_forward: Positive | None = Field(None, description="of the decoder, if not the one above")
    output_bias: bool = Field(False, description="a bias for each target token's logit")
    output_scale: bool = Field(
        False, description="features divided by the root of the width before the output"
    )
    tie: Literal["none", "embeddings", "decoder", "all"] = Field(
        "all", description="share both embeddings, or the decoder's with the output, or all three"
    )
    dropout: Probability = Field(0.1, description="on embeddings and on every residual branch")
    attention_dropout: Probability = Field(0.0, description="on attention weights")
    activation_dropout: Probability = Field(0.0, description="inside the feed-forward")

    @model_validator(mode="after")
    def _heads_divide_width(self) -> TransformerSettings:
        for heads in (self.heads, self.decoder_heads or self.heads):
            if self.head_width is None and self.width % heads:
                raise ValueError(f"width {self.width} is not a multiple of heads {heads}")
        if self.positions == "sinusoidal" and self.width % 2:
            raise ValueError(f"sinusoidal positions need an even width, not {self.width}")
        if self.positions == "relative" and self.relative_distance <= self.relative_buckets // 2:
            raise ValueError("relative_distance must be more than half of relative_buckets")
        return self

    def check_alone(self) -> None:
        """Refuse what a decoder without a source (M18) does not have.

        Raises:
            SettingsError: names the setting.
        """
        if self.positions != "learned":
            raise SettingsError(f"a decoder without a source has learned positions, not {self.positions}")
        for name in ("decoder_heads", "decoder_feed_forward", "output_scale"):
            value = getattr(self, name)
            if value:
                raise SettingsError(f"a decoder without a source has no setting {name}, and it is {value}")


def _model(values: object) -> object:
    """A preset's name as its settings; settings that name no family as a Transformer's."""
    if isinstance(values, str):
        name = values.replace("_", "-")
        if name == "transformer":
            return TransformerSettings()
        if name not in PRESETS:
            known = ["transformer", *PRESETS]
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known)}"
            raise ValueError(f"no model preset is called {values!r}; {hint}")
        return PRESETS[name]()
    if isinstance(values, dict) and "family" not in values:
        return {"family": "transformer", **values}
    return values


Family = (
    TransformerSettings | ChoSettings | SutskeverSettings | BahdanauSettings | LuongSettings | GnmtSettings
)
FAMILIES: dict[str, type[Closed]] = {kind.model_fields["family"].default: kind for kind in get_args(Family)}
ModelSettings = Annotated[
    Annotated[Family, Field(discriminator="family")],
    BeforeValidator(_model),
]


class ScheduleSettings(Closed):
    """The learning rate over time."""

    kind: Literal["inverse_sqrt", "cosine", "linear", "constant"] = "inverse_sqrt"
    peak: float = Field(5e-4, gt=0.0, description="learning rate at the end of the warm-up")
    warmup: Natural = Field(4000, description="steps of linear warm-up")
    floor: float = Field(0.0, ge=0.0, description="lowest rate of cosine and linear")


class TrainingSettings(Closed):
    """The training loop."""

    seed: int = 1
    steps: Positive = Field(100_000, description="updates at most")
    batch_tokens: Positive = Field(4096, description="target tokens in a batch, padding included")
    accumulate: Positive = Field(1, description="batches per update")
    schedule: ScheduleSettings = Field(default_factory=ScheduleSettings)
    weight_decay: float = Field(0.0, ge=0.0, description="decoupled, as in AdamW")
    betas: tuple[float, float] = (0.9, 0.98)
    epsilon: float = Field(1e-9, gt=0.0)
    clip: float = Field(0.0, ge=0.0, description="largest gradient norm, 0 for no clipping")
    label_smoothing: Probability = 0.1
    precision: Literal["float32", "bfloat16"] = "float32"
    device: str = Field("auto", description="auto, cpu, cuda or cuda:N")
    threads: Natural = Field(0, description="CPU cores that share an update, 0 for all")
    validate_every: Positive = Field(1000, description="steps between validations")
    validation_sentences: Natural = Field(500, description="dev sentences decoded for BLEU, 0 for none")
    validation_beam: Positive = 1
    patience: Natural = Field(0, description="validations without a better score before stopping, 0: never")
    early_stopping_metric: Literal["loss", "bleu", "chrf"] = "loss"
    bleu_tokenise: str = Field("13a", description="sacreBLEU tokeniser; none for tokenised corpora")
    save_every: Positive = Field(1000, description="steps between checkpoints")
    save_dtype: Literal["float32", "float16", "bfloat16"] = Field(
        "float32", description="weights of the finished model"
    )
    keep_last: Positive = Field(5, description="newest checkpoints kept")
    keep_best: Natural = Field(1, description="best checkpoints kept")
    average: Natural = Field(5, description="newest checkpoints averaged into the final model, 0: none")


class DecodingSettings(Closed):
    """How a trained model translates unless told otherwise (M23 to M25)."""

    beam: Positive = Field(5, le=WIDEST_BEAM)
    length_penalty: float = Field(1.0, description="exponent alpha")
    length_formula: Literal["average", "gnmt", "none"] = Field(
        "average", description="divide by length**alpha, or by ((5 + length) / 6)**alpha, or not"
    )
    early_stopping: bool = Field(
        True, description="stop at `beam` finished hypotheses, or only when none can win"
    )
    min_length: Natural = Field(0, description="fewest target tokens")
    max_length: Positive = Field(256, description="most target tokens")
    max_ratio: float = Field(3.0, gt=0.0, description="most target tokens as a multiple of the source's")
    max_extra: Natural = Field(20, description="added to that multiple")
    no_repeat_ngram: Natural = Field(0, description="no n-gram of this size twice, 0 for off")
    split_above: Natural = Field(
        0,
        description="source tokens above which a line is split into sentences: 1 any line, 0 at the limit",
    )
    lower_capitals: bool = Field(
        False, description="lower-case a source sentence that is written in capitals, two words or more"
    )


class Settings(Closed):
    """A whole training run: the file that `uwaga train` reads."""

    run: Path = Field(description="folder for checkpoints, logs and the finished model")
    data: DataSettings
    text: TextSettings = Field(default_factory=TextSettings)
    model: ModelSettings = Field(
        default_factory=TransformerSettings,
        description="a preset's name (transformer, " + ", ".join(PRESETS) + ") or a family with its settings",
    )
    training: TrainingSettings = Field(default_factory=TrainingSettings)
    decoding: DecodingSettings = Field(default_factory=DecodingSettings)


Group = TypeVar("Group", bound=Closed)


def parse(kind: type[Group], values: object, where: str) -> Group:
    """Check raw values against a settings class.

    Raises:
        SettingsError: names ``where``, the key, what is wrong and the nearest known key.
    """
    if not isinstance(values, dict):
        raise SettingsError(f"{where}: expected a mapping of settings, found {type(values).__name__}")
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        lines = [_explain(kind, detail) for detail in error.errors(include_url=False)]
        raise SettingsError(f"{where}: " + "; ".join(lines)) from None


def load_settings(path: Path) -> Settings:
    """Read a training run's YAML settings file.

    Raises:
        SettingsError: the file is missing, is not YAML, or holds a bad setting.
    """
    return parse(Settings, read_yaml(path), str(path))


def read_yaml(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file, unchecked.

    Raises:
        SettingsError: the file is missing, cannot be read or does not hold a YAML mapping.
    """
    try:
        values = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 (a safe loader)
    except FileNotFoundError:
        raise SettingsError(
            f"{path}: no such settings file; `uwaga train --init {path}` writes one to start from"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: cannot be read: {error}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise SettingsError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise SettingsError(f"{path}: expected a mapping of settings, found {type(values).__name__}")
    return values


class _Loader(yaml.SafeLoader):
    """The safe loader, which also reads 1e-4 as a number (YAML 1.2) and not as text (YAML 1.1)."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)$"),
    list("-+0123456789."),
)


def _explain(kind: type[Closed], detail: Any) -> str:
    place, group = _follow(kind, [str(part) for part in detail["loc"]])
    name = ".".join(place)
    if detail["type"] == "extra_forbidden":
        known = list(group.model_fields)
        near = difflib.get_close_matches(place[-1], known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
        return f"unknown setting {name!r}; {hint}"
    if detail["type"] == "missing":
        return f"setting {name!r} is missing"
    if detail["type"] == "union_tag_invalid":
        found = detail["input"]["family"] if isinstance(detail["input"], dict) else detail["input"]
        near = difflib.get_close_matches(str(found), list(FAMILIES), n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(FAMILIES)}"
        return f"{name}.family: no model family is called {found!r}; {hint}"
    return f"{name}: {detail['msg']} (found {detail['input']!r})" if name else str(detail["msg"])


def _follow(kind: type[Closed], place: list[str]) -> tuple[list[str], type[Closed]]:
    """The place as users write it, without the family that pydantic puts into it, and its group."""
    written: list[str] = []
    inside, choosing = True, False  # whether `kind` is still the group; whether a family comes next
    for key in place:
        if choosing and key in FAMILIES:
            kind, choosing = FAMILIES[key], False
            continue
        written.append(key)
        field = kind.model_fields.get(key) if inside else None
        inner = field.annotation if field else None
        choosing = inner == Family
        if isinstance(inner, type) and issubclass(inner, Closed):
            kind = inner
        elif not choosing:
            inside = False
    return written, kind
