"""Settings of the Transformer, ProphetNet, and of encoder-only and decoder-only models."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from uwaga.settings.parsing import Probability, StrictModel
from uwaga.settings.rotary import RotarySettings


class BlockSettings(StrictModel):
    """Settings common to the blocks and embeddings of all Transformers."""

    family: str
    width: PositiveInt = Field(512, description="d_model, width of the vector at each position")
    heads: PositiveInt = Field(8, description="number of attention heads of each layer")
    feed_forward: PositiveInt = Field(2048, description="d_ff, hidden units of the feed-forward layer")
    activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = Field(
        "relu", description="activation function of the feed-forward layer"
    )
    gated: bool = Field(False, description="gated feed-forward layer (Shazeer 2020)")
    norm: Literal["post", "pre", "both"] = Field(
        "post", description="norm after each block, before it, or both"
    )
    max_length: PositiveInt = Field(512, description="maximum number of tokens on either side")
    position_offset: NonNegativeInt = Field(
        0, description="number of rows in the position table before the row of the first token"
    )
    embedding_scale: bool = Field(True, description="multiply embeddings by the square root of the width")
    embedding_norm: bool = Field(False, description="layer norm after embeddings and positions")
    norm_kind: Literal["layer", "rms"] = Field("layer", description="layer norm, or RMS norm without bias")
    norm_epsilon: float = Field(1e-5, gt=0.0, description="number added to the variance in norms")
    attention_bias: bool = Field(True, description="biases in the projections of attention")
    feed_forward_bias: bool = Field(True, description="biases in the feed-forward layer")
    attention_scale: bool = Field(True, description="divide scores by the square root of the head width")
    head_width: PositiveInt | None = Field(None, description="width of a head; width / heads if not given")
    dropout: Probability = Field(0.1, description="dropout on embeddings and residual branches")
    attention_dropout: Probability = Field(0.0, description="dropout on attention weights")
    activation_dropout: Probability = Field(0.0, description="dropout in the feed-forward layer")

    @model_validator(mode="after")
    def _check_heads(self) -> BlockSettings:
        if self.head_width is None and self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self


class TransformerSettings(BlockSettings):
    """The Transformer and its published variants."""

    family: Literal["transformer"] = "transformer"
    norm: Literal["post", "pre"] = Field("post", description="layer norm after or before each block")
    encoder_layers: PositiveInt = Field(6, description="number of encoder blocks")
    decoder_layers: PositiveInt = Field(6, description="number of decoder blocks")
    positions: Literal["sinusoidal", "learned", "relative"] = Field(
        "sinusoidal", description="how positions are encoded"
    )
    sinusoids: Literal["interleaved", "halves", "tensor2tensor"] = Field(
        "interleaved",
        description="order of sines and cosines: alternating, sines first, or sines first with "
        "tensor2tensor's rates",
    )
    relative_buckets: int = Field(
        32, ge=4, description="number of buckets of relative positions (Raffel 2020)"
    )
    relative_distance: int = Field(
        128, ge=4, description="distance beyond which relative positions share a bucket"
    )
    self_attention: Literal["attention", "ssru", "aan"] = Field(
        "attention",
        description="how the decoder reads earlier tokens: by attention, by a recurrent layer (Kim 2019), "
        "or as their average (Zhang 2018)",
    )
    aan_layers: int = Field(2, ge=1, le=16, description="aan: number of matrices in its feed-forward layer")
    aan_feed_forward: PositiveInt | None = Field(
        None, description="aan: hidden units of its feed-forward layer; those of the decoder if not given"
    )
    aan_activation: Literal["relu", "gelu", "gelu_tanh", "silu"] = Field(
        "relu", description="aan: activation function of its feed-forward layer"
    )
    aan_gate: bool = Field(True, description="aan: gates for the average and for the token itself")
    decoder_heads: PositiveInt | None = Field(
        None, description="number of attention heads in the decoder; heads if not given"
    )
    decoder_feed_forward: PositiveInt | None = Field(
        None, description="hidden units of feed-forward layers in the decoder; feed_forward if not given"
    )
    output_bias: bool = Field(False, description="add a bias to the logit of each target token")
    output_scale: bool = Field(
        False, description="divide the input of the output layer by the square root of the width"
    )
    tie: Literal["none", "embeddings", "decoder", "all"] = Field(
        "all",
        description="tables that are shared: both embeddings, those of decoder and output layer, or all "
        "three",
    )

    @model_validator(mode="after")
    def _check_positions(self) -> TransformerSettings:
        heads = self.decoder_heads or self.heads
        if self.head_width is None and self.width % heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {heads}")
        if self.positions == "sinusoidal" and self.width % 2:
            raise ValueError(f"sinusoidal positions need an even width, not {self.width}")
        if self.positions == "relative" and self.relative_distance <= self.relative_buckets // 2:
            raise ValueError("relative_distance must be more than half of relative_buckets")
        if self.positions == "relative" and self.self_attention != "attention":
            raise ValueError(
                f"relative positions require self_attention: attention, not {self.self_attention}; "
                "use sinusoidal or learned positions"
            )
        return self

    @property
    def aan_sizes(self) -> list[tuple[int, int]]:
        """The input and output widths of each matrix in the feed-forward layer of average attention.

        The last matrix maps back to the model's width; it is omitted if its input already has that width.
        """
        inner_width = self.aan_feed_forward or self.decoder_feed_forward or self.feed_forward
        widths = [self.width] + [inner_width] * (self.aan_layers - 1)
        if widths[-1] != self.width:
            widths.append(self.width)
        return list(pairwise(widths))


class DecoderOnlySettings(BlockSettings):
    """A decoder that continues prompts, with causal self-attention (Radford 2019; Touvron 2023).

    The weights of layer N are ``decoder.N.attention.{query,key_value,output}``, where ``key_value`` has the
    rows of all keys, then those of all values; ``decoder.N.attention.{query_norm,key_norm}`` with
    ``query_key_norm``; ``decoder.N.feed_forward.{inner,gate,outer}``, where the activation follows ``inner``;
    ``decoder.N.{attention_norm,feed_forward_norm}``, and with ``norm: both`` also
    ``decoder.N.{attention_after_norm,feed_forward_after_norm}``.
    """

    family: Literal["decoder-only"] = "decoder-only"
    layers: PositiveInt = Field(12, description="number of blocks")
    norm: Literal["post", "pre", "both"] = Field(
        "post", description="norm after each block, before it, or before and after: x + n2(f(n1(x)))"
    )
    positions: Literal["learned", "rotary"] = Field("learned", description="how positions are encoded")
    rotary: RotarySettings | None = Field(None, description="rotary positions (Su 2021)")
    local_rotary: RotarySettings | None = Field(
        None, description="rotary positions of layers with a window; rotary if not given"
    )
    key_value_heads: PositiveInt | None = Field(
        None, description="number of key and value heads, each for a group of query heads; heads if not given"
    )
    window: PositiveInt | None = Field(
        None, description="number of tokens to which each token attends in local layers, including itself"
    )
    global_every: NonNegativeInt = Field(
        1,
        description="n: every n-th layer attends to all tokens, the other layers to the window; 0: all "
        "layers attend to the window",
    )
    query_key_norm: Literal["none", "before", "after"] = Field(
        "none", description="RMS norm of each head's query and key, before or after the rotation (Henry 2020)"
    )
    score_scale: float | None = Field(
        None, gt=0.0, description="factor of the scores, instead of 1 / square root of the head width"
    )
    score_cap: float | None = Field(None, gt=0.0, description="scores become cap * tanh(score / cap)")
    logit_cap: float | None = Field(None, gt=0.0, description="logits become cap * tanh(logit / cap)")
    output_projection_bias: bool | None = Field(
        None, description="bias in the output projection of attention; attention_bias if not given"
    )
    output_bias: bool = Field(False, description="add a bias to the logit of each token")
    tie_output: bool = Field(True, description="share the embeddings with the output layer")

    @model_validator(mode="after")
    def _check_options(self) -> DecoderOnlySettings:
        if self.positions == "rotary":
            if self.rotary is None:
                raise ValueError("positions: rotary needs the group rotary, such as rotary: {base: 10000}")
            if self.head_size % 2 or self.head_size < 4:
                raise ValueError(
                    f"rotary positions rotate pairs of numbers and need an even head width of at least 4, "
                    f"not {self.head_size}: change head_width, or width and heads"
                )
            if self.position_offset:
                raise ValueError("position_offset is for learned positions: omit it with positions: rotary")
        elif self.rotary is not None or self.local_rotary is not None:
            name = "local_rotary" if self.rotary is None else "rotary"
            raise ValueError(
                f"{name} requires positions: rotary, not {self.positions}: set positions: rotary or "
                f"omit {name}"
            )
        if self.heads % self.groups:
            raise ValueError(
                f"key_value_heads {self.groups} does not divide heads {self.heads}: each key and value head "
                "must serve the same number of query heads"
            )
        if self.window is not None and self.global_every == 1:
            raise ValueError(
                f"window {self.window} has no effect, because global_every 1 makes every layer global; set "
                "global_every to 0 for no global layers or to n for one in n, or omit window"
            )
        if self.window is None and self.global_every != 1:
            raise ValueError(
                f"global_every {self.global_every} needs a window: set window, or omit global_every"
            )
        if self.local_rotary is not None and self.window is None:
            raise ValueError("local_rotary is for layers with a window: set window, or omit local_rotary")
        if self.score_scale is not None and not self.attention_scale:
            raise ValueError(
                "score_scale replaces the scale that attention_scale: false disables: omit one of them"
            )
        return self

    @property
    def head_size(self) -> int:
        """The width of a head of queries, keys and values."""
        return self.head_width or self.width // self.heads

    @property
    def groups(self) -> int:
        """The number of heads of keys and values (M38)."""
        return self.key_value_heads or self.heads

    def is_local(self, layer: int) -> bool:
        """Return whether a layer, counted from 0, attends only to the window (M41)."""
        return self.window is not None and not (self.global_every and (layer + 1) % self.global_every == 0)

    def layer_rotary(self, layer: int) -> RotarySettings | None:
        """Return the rotary positions of a layer, counted from 0."""
        return (self.local_rotary or self.rotary) if self.is_local(layer) else self.rotary


class EncoderOnlySettings(BlockSettings):
    """A bidirectional encoder with learned positions and token types (Devlin 2018)."""

    family: Literal["encoder-only"] = "encoder-only"
    norm: Literal["post", "pre"] = Field("post", description="layer norm after or before each block")
    layers: PositiveInt = 12
    embedding_norm: Literal[True] = True
    token_types: PositiveInt = Field(
        2, description="number of segment types, such as the first and the second text of a pair"
    )
    head: bool = Field(True, description="whether the model has a head that predicts masked tokens")
    tie_output: bool = Field(True, description="share the embeddings with the output layer of the head")


class ProphetNetSettings(BlockSettings):
    """A Transformer whose decoder predicts the next ``ngram`` tokens at each position (Qi 2020)."""

    family: Literal["prophetnet"] = "prophetnet"
    encoder_layers: PositiveInt = Field(6, description="number of encoder blocks")
    decoder_layers: PositiveInt = Field(6, description="number of decoder blocks")
    decoder_heads: PositiveInt | None = Field(
        None, description="number of attention heads in the decoder; heads if not given"
    )
    decoder_feed_forward: PositiveInt | None = Field(
        None, description="hidden units of feed-forward layers in the decoder; feed_forward if not given"
    )
    ngram: int = Field(
        2, ge=1, le=16, description="number of tokens predicted at each position, including the next one"
    )
    ngram_decay: float = Field(
        1.0,
        gt=0.0,
        le=1.0,
        description="ratio of the loss weight of a predicted token to that of the token before it",
    )
    relative_buckets: int = Field(
        32, ge=4, description="number of buckets of relative positions, for earlier tokens only (Raffel 2020)"
    )
    relative_distance: int = Field(
        128, ge=4, description="distance beyond which relative positions share a bucket"
    )
    norm: Literal["post"] = Field("post", description="layer norm after each block")
    embedding_norm: Literal[True] = Field(True, description="layer norm after embeddings and positions")
    embedding_scale: Literal[False] = Field(False, description="embeddings are not scaled")
    norm_kind: Literal["layer"] = Field("layer", description="layer norm")
    attention_bias: Literal[True] = Field(True, description="biases in the projections of attention")
    feed_forward_bias: Literal[True] = Field(True, description="biases in the feed-forward layer")
    attention_scale: Literal[True] = Field(
        True, description="divide scores by the square root of the head width"
    )
    head_width: None = Field(None, description="the width of a head is width / heads")

    @model_validator(mode="after")
    def _check_sizes(self) -> ProphetNetSettings:
        heads = self.decoder_heads or self.heads
        if self.width % heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {heads}")
        if self.relative_distance <= self.relative_buckets // 2:
            raise ValueError("relative_distance must be more than half of relative_buckets")
        return self

    @property
    def loss_shares(self) -> tuple[float, ...]:
        """The weight in the loss of each predicted token, next token first: ``γ^j / Σ_i γ^i`` (Qi 2020)."""
        powers = [self.ngram_decay**exponent for exponent in range(self.ngram)]
        return tuple(power / sum(powers) for power in powers)
