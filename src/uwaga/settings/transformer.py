"""Settings of the Transformer, ProphetNet, and of encoder-only and decoder-only models."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from uwaga.settings.parsing import Probability, StrictModel


class BlockSettings(StrictModel):
    """Settings common to the blocks and embeddings of every Transformer."""

    family: str
    width: PositiveInt = Field(512, description="d_model")
    heads: PositiveInt = Field(8, description="of each attention")
    feed_forward: PositiveInt = Field(2048, description="d_ff, units inside the feed-forward")
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = Field(
        "relu", description="inside the feed-forward"
    )
    gated: bool = Field(False, description="gated feed-forward (Shazeer 2020)")
    norm: Literal["post", "pre"] = Field("post", description="layer norm after or before each block")
    max_length: PositiveInt = Field(512, description="maximum of tokens on either side")
    position_offset: NonNegativeInt = Field(
        0, description="rows of the position table before that of the first token"
    )
    embedding_scale: bool = Field(True, description="embeddings multiplied by the root of the width")
    embedding_norm: bool = Field(False, description="layer norm after embeddings and positions")
    norm_kind: Literal["layer", "rms"] = Field("layer", description="layer norm, or RMS norm without bias")
    norm_epsilon: float = Field(1e-5, gt=0.0, description="added to the variance in norms")
    attention_bias: bool = Field(True, description="biases in attention's projections")
    feed_forward_bias: bool = Field(True, description="biases in the feed-forward")
    attention_scale: bool = Field(True, description="scores divided by the root of the head width")
    head_width: PositiveInt | None = Field(None, description="width of a head; width / heads if not given")
    dropout: Probability = Field(0.1, description="on embeddings and on every residual branch")
    attention_dropout: Probability = Field(0.0, description="on attention weights")
    activation_dropout: Probability = Field(0.0, description="inside the feed-forward")

    @model_validator(mode="after")
    def _heads_divide_width(self) -> BlockSettings:
        if self.head_width is None and self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self


class TransformerSettings(BlockSettings):
    """The Transformer and its published variants."""

    family: Literal["transformer"] = "transformer"
    encoder_layers: PositiveInt = Field(6, description="blocks of the encoder")
    decoder_layers: PositiveInt = Field(6, description="blocks of the decoder")
    positions: Literal["sinusoidal", "learned", "relative"] = Field(
        "sinusoidal", description="how positions are encoded"
    )
    sinusoids: Literal["interleaved", "halves", "tensor2tensor"] = Field(
        "interleaved",
        description="order of sines and cosines: alternating, sines first, or sines first with "
        "tensor2tensor's rates",
    )
    relative_buckets: int = Field(32, ge=4, description="of relative positions (Raffel 2020)")
    relative_distance: int = Field(
        128, ge=4, description="distance from which on relative positions share a bucket"
    )
    self_attention: Literal["attention", "ssru", "aan"] = Field(
        "attention",
        description="how the decoder reads earlier tokens: attention, a recurrent layer (Kim 2019), "
        "or their average (Zhang 2018)",
    )
    aan_layers: int = Field(2, ge=1, le=16, description="matrices of the average's feed-forward")
    aan_feed_forward: PositiveInt | None = Field(
        None, description="units inside the average's feed-forward; the decoder's if not given"
    )
    aan_activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = Field(
        "relu", description="inside the average's feed-forward"
    )
    aan_gate: bool = Field(True, description="gates between the average and the token itself")
    decoder_heads: PositiveInt | None = Field(None, description="heads of the decoder; heads if not given")
    decoder_feed_forward: PositiveInt | None = Field(
        None, description="of the decoder; feed_forward if not given"
    )
    output_bias: bool = Field(False, description="a bias for each target token's logit")
    output_scale: bool = Field(
        False, description="features divided by the root of the width before the output"
    )
    tie: Literal["none", "embeddings", "decoder", "all"] = Field(
        "all", description="share both embeddings, or the decoder's with the output, or all three"
    )

    @model_validator(mode="after")
    def _positions_fit(self) -> TransformerSettings:
        heads = self.decoder_heads or self.heads
        if self.head_width is None and self.width % heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {heads}")
        if self.positions == "sinusoidal" and self.width % 2:
            raise ValueError(f"sinusoidal positions need an even width, not {self.width}")
        if self.positions == "relative" and self.relative_distance <= self.relative_buckets // 2:
            raise ValueError("relative_distance must be more than half of relative_buckets")
        if self.positions == "relative" and self.self_attention != "attention":
            raise ValueError(
                f"relative positions are for self_attention: attention, not {self.self_attention}; "
                "use sinusoidal or learned ones"
            )
        return self

    @property
    def aan_sizes(self) -> list[tuple[int, int]]:
        """The input and output widths of each matrix of the average's feed-forward.

        The last one maps back to the width; it is left out where the vectors have that width already.
        """
        inner = self.aan_feed_forward or self.decoder_feed_forward or self.feed_forward
        widths = [self.width] + [inner] * (self.aan_layers - 1)
        if widths[-1] != self.width:
            widths.append(self.width)
        return list(pairwise(widths))


class DecoderOnlySettings(BlockSettings):
    """A decoder that continues prompts, with causal self-attention and learned positions (Radford 2019)."""

    family: Literal["decoder-only"] = "decoder-only"
    layers: PositiveInt = 12
    output_bias: bool = Field(False, description="a bias for each token's logit")
    tie_output: bool = Field(True, description="share the embeddings with the output")


class EncoderOnlySettings(BlockSettings):
    """A bidirectional encoder with learned positions and token types (Devlin 2018)."""

    family: Literal["encoder-only"] = "encoder-only"
    layers: PositiveInt = 12
    embedding_norm: Literal[True] = True
    token_types: PositiveInt = Field(
        2, description="types of segments, such as the first and the second of a pair"
    )
    head: bool = Field(True, description="whether it predicts masked tokens")
    tie_output: bool = Field(True, description="share the embeddings with the head's output")


class ProphetNetSettings(BlockSettings):
    """A Transformer whose decoder predicts the next ``ngram`` tokens at each position (Qi 2020)."""

    family: Literal["prophetnet"] = "prophetnet"
    encoder_layers: PositiveInt = Field(6, description="blocks of the encoder")
    decoder_layers: PositiveInt = Field(6, description="blocks of the decoder")
    decoder_heads: PositiveInt | None = Field(None, description="heads of the decoder; heads if not given")
    decoder_feed_forward: PositiveInt | None = Field(
        None, description="of the decoder; feed_forward if not given"
    )
    ngram: int = Field(2, ge=1, le=16, description="tokens predicted at each position, the next one included")
    ngram_decay: float = Field(
        1.0, gt=0.0, le=1.0, description="weight of a token's loss over that of the one before it"
    )
    relative_buckets: int = Field(32, ge=4, description="of relative positions, one-way (Raffel 2020)")
    relative_distance: int = Field(
        128, ge=4, description="distance from which on relative positions share a bucket"
    )
    norm: Literal["post"] = Field("post", description="layer norm after each block")
    embedding_norm: Literal[True] = Field(True, description="layer norm after embeddings and positions")
    embedding_scale: Literal[False] = Field(False, description="embeddings are not scaled")
    norm_kind: Literal["layer"] = Field("layer", description="layer norm")
    attention_bias: Literal[True] = Field(True, description="biases in attention's projections")
    feed_forward_bias: Literal[True] = Field(True, description="biases in the feed-forward")
    attention_scale: Literal[True] = Field(True, description="scores divided by the root of the head width")
    head_width: None = Field(None, description="a head is as wide as width / heads")

    @model_validator(mode="after")
    def _sizes_fit(self) -> ProphetNetSettings:
        heads = self.decoder_heads or self.heads
        if self.width % heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {heads}")
        if self.relative_distance <= self.relative_buckets // 2:
            raise ValueError("relative_distance must be more than half of relative_buckets")
        return self

    @property
    def shares(self) -> tuple[float, ...]:
        """The share of each predicted token in the loss, the next one first: ``γ^j / Σ_i γ^i`` (Qi 2020)."""
        powers = [self.ngram_decay**number for number in range(self.ngram)]
        return tuple(power / sum(powers) for power in powers)
