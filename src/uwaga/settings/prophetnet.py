"""Settings of ProphetNet (Qi 2020)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt, model_validator

from uwaga.settings.transformer import BlockSettings


class ProphetNetSettings(BlockSettings):
    """A Transformer whose decoder predicts the next ``ngram`` tokens at each position (Qi 2020)."""

    family: Literal["prophetnet"] = "prophetnet"
    encoder_layers: PositiveInt = Field(6, description="blocks of the encoder")
    decoder_layers: PositiveInt = Field(6, description="blocks of the decoder")
    decoder_heads: PositiveInt | None = Field(None, description="heads of the decoder, if not those above")
    decoder_feed_forward: PositiveInt | None = Field(None, description="of the decoder, if not the one above")
    ngram: int = Field(2, ge=1, le=16, description="tokens predicted at each position, the next one included")
    ngram_decay: float = Field(
        1.0, gt=0.0, le=1.0, description="weight of a token's loss over that of the one before it"
    )
    relative_buckets: int = Field(32, ge=4, description="of relative positions, one-way (Raffel 2020)")
    relative_distance: int = Field(128, ge=4, description="from which on relative positions are alike")
    norm: Literal["post"] = Field("post", description="layer norm after each block")
    embedding_norm: Literal[True] = Field(True, description="layer norm behind embeddings and positions")
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
        """Each predicted token's share of the loss, the next one's first: ``γ^j / Σ_i γ^i`` (Qi 2020)."""
        powers = [self.ngram_decay**number for number in range(self.ngram)]
        return tuple(power / sum(powers) for power in powers)
