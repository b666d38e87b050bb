"""Multi-stream self-attention: stream 0 reads the target, other streams predict it (M29; Qi 2020 §3.2)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from uwaga.models.layers.attention import masked_softmax
from uwaga.models.layers.dropout import dropout
from uwaga.models.layers.multihead import KeysValues, extend
from uwaga.models.layers.positions import relative_bucket


class StreamAttention(nn.Module):
    """Multi-stream attention; at position t, stream 0 attends to its positions up to t, as in any decoder.

    Stream s > 0 predicts the token after position t, s tokens ahead of its context: it attends to positions
    up to ``t - (s - 1)`` of stream 0, always to the first position of stream 0, and to position t of stream
    s. The scores are ``(q kᵀ) / √d + b``. The bias b is a projection of the query's input to one number for
    each head and bucket of distances.
    """

    def __init__(self, width: int, heads: int, buckets: int, distance: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.buckets, self.distance, self.dropout = heads, buckets, distance, dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.relative = nn.Linear(width, buckets * heads)
        self.output = nn.Linear(width, width)
        with torch.no_grad():
            key, value = self.key_value.weight.chunk(2)
            for weight in (self.query.weight, key, value, self.relative.weight, self.output.weight):
                nn.init.xavier_uniform_(weight)
        for layer in (self.query, self.key_value, self.relative, self.output):
            nn.init.zeros_(layer.bias)

    def forward(
        self, x: Tensor, past: KeysValues | None = None, recorded_weights: list[Tensor] | None = None
    ) -> tuple[Tensor, KeysValues]:
        """Return the outputs at all positions, or at new positions after those of ``past``, and the cache.

        Args:
            x: (rows, streams, target, width), stream 0 first.
            past: keys and values of stream 0's earlier positions, (rows, heads, past, head width).
            recorded_weights: list to which the weights of stream 0 (rows, heads, target, source) are
                appended.

        Returns:
            outputs of the same shape as ``x``, and the cache extended with stream 0.
        """
        rows, streams, target, width = x.shape
        query = self.query(x).view(rows, streams, target, self.heads, -1).transpose(2, 3)
        kv = self.key_value(x).view(rows, streams, target, 2, self.heads, -1)
        keys, values = kv.permute(3, 0, 1, 4, 2, 5).unbind(0)  # (rows, streams, heads, target, head width)
        cache = extend(past, KeysValues(keys[:, 0], values[:, 0]))
        past_scores = query @ cache.keys[:, None].transpose(-1, -2)  # (rows, streams, heads, target, source)
        stream_scores = (query * keys).sum(dim=-1, keepdim=True)  # (rows, streams, heads, target, 1)
        scores = torch.cat([past_scores, stream_scores], dim=-1) * query.shape[-1] ** -0.5
        source = cache.keys.shape[2]
        scores = scores + self.bias(x, source)
        weights = masked_softmax(scores, stream_mask(streams, target, source, x.device)[:, None])
        if recorded_weights is not None:
            recorded_weights.append(weights[:, 0, ..., :-1])
        weights = dropout(weights, self.dropout if self.training else 0.0)
        context = weights[..., :-1] @ cache.values[:, None] + weights[..., -1:] * values
        out: Tensor = self.output(context.transpose(2, 3).reshape(rows, streams, target, width))
        return out, cache

    def bias(self, x: Tensor, source: int) -> Tensor:
        """Return the bias (rows, streams, heads, target, source + 1) of the scores.

        A predicting stream is one position further than stream 0, so its distances to keys are larger by one.

        Args:
            x: (rows, streams, target, width) inputs of the queries.
            source: number of keys of stream 0.
        """
        rows, streams, target, _ = x.shape
        bucket_biases = self.relative(x).view(rows, streams, target, self.buckets, self.heads)
        bucket_biases = bucket_biases.permute(0, 1, 4, 2, 3)  # (rows, streams, heads, target, buckets)
        keys = torch.arange(source, device=x.device)
        distance = keys - torch.arange(source - target, source, device=x.device)[:, None]  # (target, source)
        reading = relative_bucket(distance, self.buckets, self.distance, bidirectional=False)
        predicting = relative_bucket(distance - 1, self.buckets, self.distance, bidirectional=False)
        index = torch.stack([reading, *[predicting] * (streams - 1)])  # (streams, target, source)
        index = torch.cat([index, torch.zeros_like(index[..., :1])], dim=-1)
        biases: Tensor = bucket_biases.gather(-1, index[:, None].expand(rows, -1, self.heads, -1, -1))
        return biases


def stream_mask(streams: int, target: int, source: int, device: torch.device | str | None = None) -> Tensor:
    """Return the attention mask (streams, target, source + 1), True where a query may attend.

    The last column is the position of the query in its stream; all other columns are the positions of stream
    0. The ``target`` new positions follow ``source - target`` earlier ones.
    """
    keys = torch.arange(source, device=device)
    queries = torch.arange(source - target, source, device=device)[:, None]
    masks = []
    for stream in range(streams):
        visible_keys = (keys <= queries - max(stream - 1, 0)) | (keys == 0) & (stream > 0)  # (target, source)
        own_position = torch.full((target, 1), stream > 0, device=device)
        masks.append(torch.cat([visible_keys, own_position], dim=-1))
    return torch.stack(masks)
