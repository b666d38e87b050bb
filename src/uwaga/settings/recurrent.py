"""Settings of the recurrent models: one class for each paper, and named presets.

The defaults are the sizes in the papers; the ``-small`` presets are for corpora of about ten thousand pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Literal

from pydantic import Field, PositiveInt, model_validator

from uwaga.settings.parsing import Probability, StrictModel

GruForm = Literal["paper", "fused"]

_SCORE_HELP = (
    "attention score: dot, scaled_dot, general, additive, additive_joint, concat, location, "
    "or the name of a custom score registered with uwaga.models.layers.scores"
)
_GRU_HELP = (
    "where the reset gate is applied: before the matrix, as in Cho 2014 (paper, a loop), "
    "or after it, as in torch (fused, one call)"
)


class RecurrentSettings(StrictModel):
    """Settings common to all recurrent models."""

    embedding: PositiveInt = Field(1000, description="width of the word vectors")
    hidden: PositiveInt = Field(1000, description="number of units of each recurrent layer")
    dropout: Probability = Field(
        0.0, description="dropout on embeddings, between layers and before the output"
    )
    variational: bool = Field(False, description="use one dropout mask for all positions (Gal 2016)")
    tie: Literal["none", "decoder", "all"] = Field(
        "none",
        description="share the decoder embeddings with the output layer (decoder), or with it and the "
        "encoder (all)",
    )
    max_length: PositiveInt = Field(512, description="maximum number of tokens on either side")

    @property
    def features(self) -> int:
        """The width of the input of the output layer."""
        return self.hidden

    @property
    def total_layers(self) -> int:
        """The total number of recurrent layers; a bidirectional layer counts as two."""
        return 2

    @model_validator(mode="after")
    def _check_tied_widths(self) -> RecurrentSettings:
        if self.tie != "none" and self.embedding != self.features:
            raise ValueError(
                f"tie {self.tie} shares embeddings of width {self.embedding} with an output layer of width "
                f"{self.features}; make them equal or set tie: none"
            )
        return self


class ChoSettings(RecurrentSettings):
    """The RNN encoder-decoder (Cho 2014): one vector for the complete sentence."""

    family: Literal["cho"] = "cho"
    embedding: PositiveInt = Field(100, description="width of the word vectors")
    read_out: PositiveInt = Field(500, description="number of maxout units before the output layer")
    gru: GruForm = Field("paper", description=_GRU_HELP)
    reverse: bool = Field(False, description="read the source backwards")

    @property
    def features(self) -> int:
        """The width of the input of the output layer."""
        return self.read_out


class SutskeverSettings(RecurrentSettings):
    """Deep LSTMs; the decoder starts from the final states of the reversed source (Sutskever 2014)."""

    family: Literal["sutskever"] = "sutskever"
    layers: PositiveInt = Field(4, description="number of layers of the encoder, and of the decoder")
    reverse: bool = Field(True, description="read the source backwards")

    @property
    def total_layers(self) -> int:
        """The total number of recurrent layers; a bidirectional layer counts as two."""
        return 2 * self.layers


class BahdanauSettings(RecurrentSettings):
    """Bidirectional GRU and attention from the previous decoder state (Bahdanau 2014)."""

    family: Literal["bahdanau"] = "bahdanau"
    embedding: PositiveInt = Field(620, description="width of the word vectors")
    read_out: PositiveInt = Field(500, description="number of maxout units before the output layer")
    score: str = Field("additive", description=_SCORE_HELP)
    gru: GruForm = Field("paper", description=_GRU_HELP)
    decoder: Literal["paper", "conditional"] = Field(
        "paper",
        description="one GRU that reads word and context, or two GRUs with the attention between them",
    )

    @property
    def features(self) -> int:
        """The width of the input of the output layer."""
        return self.read_out

    @property
    def total_layers(self) -> int:
        """The total number of recurrent layers; a bidirectional layer counts as two."""
        return 3 if self.decoder == "paper" else 4

    @model_validator(mode="after")
    def _check_score(self) -> BahdanauSettings:
        if self.score in ("dot", "scaled_dot"):
            raise ValueError(
                f"score {self.score} needs states and annotations of equal width, but annotations of a "
                "bidirectional encoder are twice as wide; use general"
            )
        return self


class LuongSettings(RecurrentSettings):
    """Stacked LSTMs and attention from the current decoder state (Luong 2015)."""

    family: Literal["luong"] = "luong"
    layers: PositiveInt = Field(4, description="number of layers of the encoder, and of the decoder")
    dropout: Probability = Field(
        0.2, description="dropout on embeddings, between layers and before the output"
    )
    score: str = Field("general", description=_SCORE_HELP)
    attention: Literal["global", "local-m", "local-p"] = Field(
        "global",
        description="attend to the whole source (global), or to a monotonic (local-m) or predicted (local-p) "
        "window",
    )
    window: PositiveInt | None = Field(None, description="D: the window of local attention is 2 D + 1 wide")
    input_feeding: bool = Field(True, description="feed the attentional vector to the next step")
    bidirectional: bool = Field(
        False, description="bidirectional encoder, with half of the units in each direction"
    )
    reverse: bool = Field(True, description="read the source backwards")

    @property
    def total_layers(self) -> int:
        """The total number of recurrent layers; a bidirectional layer counts as two."""
        return self.layers * (3 if self.bidirectional else 2)

    @model_validator(mode="after")
    def _check_options(self) -> LuongSettings:
        if self.attention != "global" and self.window is None:
            raise ValueError(f"attention {self.attention} needs a window, e.g. window: 10 (Luong 2015 §4.1)")
        if self.attention == "global" and self.window is not None:
            raise ValueError(
                f"window {self.window} is for local attention; set attention to local-m or local-p"
            )
        if self.bidirectional and self.reverse:
            raise ValueError("a bidirectional encoder already reads in both directions; set reverse: false")
        if self.bidirectional and self.hidden % 2:
            raise ValueError(
                f"hidden {self.hidden} is odd and cannot be divided between two directions; make it even"
            )
        return self


class GnmtSettings(RecurrentSettings):
    """Bidirectional first layer, residual stacks, attention from the first decoder layer (Wu 2016)."""

    family: Literal["gnmt"] = "gnmt"
    embedding: PositiveInt = Field(1024, description="width of the word vectors")
    hidden: PositiveInt = Field(1024, description="number of units of each recurrent layer")
    encoder_layers: int = Field(
        8, ge=2, description="number of encoder layers, of which the first is bidirectional"
    )
    decoder_layers: int = Field(
        8, ge=2, description="number of decoder layers, of which the first computes the attention query"
    )
    dropout: Probability = Field(
        0.2, description="dropout on embeddings, between layers and before the output"
    )
    score: str = Field("additive", description=_SCORE_HELP)

    @property
    def total_layers(self) -> int:
        """The total number of recurrent layers; a bidirectional layer counts as two."""
        return self.encoder_layers + 1 + self.decoder_layers


def cho(small: bool = False) -> ChoSettings:
    """Return the settings of Cho 2014 §4.1.1, or of a small version of that model."""
    if small:
        return ChoSettings(
            embedding=256, hidden=384, read_out=256, gru="fused", dropout=0.3, variational=True, tie="all"
        )
    return ChoSettings()


def sutskever(small: bool = False) -> SutskeverSettings:
    """Return the settings of Sutskever 2014 §3.4, or of a small version of that model."""
    if small:
        return SutskeverSettings(
            embedding=256, hidden=256, layers=2, dropout=0.3, variational=True, tie="all"
        )
    return SutskeverSettings()


def bahdanau(small: bool = False) -> BahdanauSettings:
    """Return the settings of Bahdanau 2014 §A.2.3, or of a small version of that model.

    The small version has the conditional GRU of Sennrich 2017.
    """
    if small:
        return BahdanauSettings(
            embedding=256,
            hidden=256,
            read_out=256,
            gru="fused",
            decoder="conditional",
            dropout=0.4,
            variational=True,
            tie="all",
        )
    return BahdanauSettings()


def bahdanau_published() -> BahdanauSettings:
    """Return small settings with the decoder of Bahdanau 2014 §A: Cho's GRU, attention from ``s_{i-1}``."""
    changes = {"gru": "paper", "decoder": "paper"}
    return BahdanauSettings.model_validate(bahdanau(small=True).model_dump() | changes)


def luong(small: bool = False) -> LuongSettings:
    """Return the settings of Luong 2015 §4.1, or of a small version of that model.

    Both have global attention, the general score and input feeding.
    """
    if small:
        return LuongSettings(
            embedding=512,
            hidden=512,
            layers=1,
            dropout=0.35,
            variational=True,
            bidirectional=True,
            reverse=False,
            tie="all",
        )
    return LuongSettings()


def luong_stacked() -> LuongSettings:
    """Return small settings with the encoder of Luong 2015 §4.1: unidirectional, with a reversed source."""
    changes = {"layers": 2, "hidden": 384, "embedding": 384, "bidirectional": False, "reverse": True}
    return LuongSettings.model_validate(luong(small=True).model_dump() | changes)


def luong_local_p(small: bool = False) -> LuongSettings:
    """Return settings with local attention and a predicted window (Luong 2015 §3.2), optionally small."""
    changes = {"attention": "local-p", "window": 4 if small else 10}
    return LuongSettings.model_validate(luong(small).model_dump() | changes)


def gnmt(small: bool = False) -> GnmtSettings:
    """Return the settings of Wu 2016 §3, or of a small version of that model."""
    if small:
        return GnmtSettings(
            embedding=256,
            hidden=256,
            encoder_layers=3,
            decoder_layers=3,
            dropout=0.3,
            variational=True,
            tie="all",
        )
    return GnmtSettings()


_PRESETS_BY_PAPER: Mapping[str, Callable[[bool], RecurrentSettings]] = {
    "cho": cho,
    "sutskever": sutskever,
    "bahdanau": bahdanau,
    "luong": luong,
    "luong-local-p": luong_local_p,
    "gnmt": gnmt,
}
PRESETS: Mapping[str, Callable[[], RecurrentSettings]] = {
    **{name: partial(create, False) for name, create in _PRESETS_BY_PAPER.items()},
    **{f"{name}-small": partial(create, True) for name, create in _PRESETS_BY_PAPER.items()},
    "bahdanau-published-small": bahdanau_published,
    "luong-stacked-small": luong_stacked,
}
"""Functions that return the settings of a preset, by its name, as in ``model: bahdanau-small``."""
