"""Low-rank adaptation (M34; Hu 2021): a frozen matrix plus a trained product of two small matrices."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from uwaga.models.layers.dropout import Dropout


class LoraLinear(nn.Linear):
    """A linear layer with an adapter: ``h = W x + b + α/r · B A x`` (Hu 2021 eq. 3); W and b are frozen.

    Attributes:
        lora_a: A, (rank, inputs), initialised randomly.
        lora_b: B, (outputs, rank), initialised to zero, so that training starts from the original model
            (§4.1).
    """

    def __init__(self, layer: nn.Linear, rank: int, alpha: float, dropout: float) -> None:
        """Wrap the layer ``layer``, whose weights are shared and not trained.

        Args:
            layer: linear layer.
            rank: rank of the update.
            alpha: the update is multiplied by ``alpha / rank``.
            dropout: dropout probability on the input of the adapter.
        """
        with torch.device("meta"):
            super().__init__(layer.in_features, layer.out_features, bias=layer.bias is not None)
        self.weight, self.bias = layer.weight, layer.bias
        self.requires_grad_(False)
        self.scale = alpha / rank
        self.lora_dropout = Dropout(dropout)
        self.lora_a = nn.Parameter(layer.weight.new_empty(rank, layer.in_features))
        self.lora_b = nn.Parameter(layer.weight.new_zeros(layer.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (torch's name)
        """Map (..., inputs) to (..., outputs)."""
        projected = nn.functional.linear(self.lora_dropout(input), self.lora_a)  # (..., rank)
        update = nn.functional.linear(projected, self.lora_b)  # (..., outputs)
        return super().forward(input) + self.scale * update

    def merged(self) -> Tensor:
        """Return the matrix of an equivalent linear layer, ``W + α/r · B A``, (outputs, inputs)."""
        return self.weight + self.scale * (self.lora_b @ self.lora_a)
