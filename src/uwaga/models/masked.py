"""The encoder-only Transformer with masked-token prediction (M17; Devlin 2018)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from uwaga.errors import TextTooLongError
from uwaga.models.base import OutputLayer, describe_model, pad
from uwaga.models.blocks import EncoderBlock, Recording, make_norm
from uwaga.models.layers.dropout import Dropout
from uwaga.models.layers.feedforward import ACTIVATIONS
from uwaga.models.layers.positions import LearnedPositions
from uwaga.results.attention import Attentions
from uwaga.settings import EncoderOnlySettings

PADDING_TOKEN = 0
"""Token used as padding; any token can be used, because padding is masked."""


class MaskedHead(nn.Module):
    """The prediction head, which maps states to logits of masked tokens: ``W_emb norm(f(W h + b)) + c``.

    W_emb is the embedding table, or a separate matrix if ``tie_output`` is False.
    """

    def __init__(self, settings: EncoderOnlySettings, embedding: Tensor) -> None:
        super().__init__()
        self.transform = nn.Linear(settings.width, settings.width)
        self.activation = ACTIVATIONS[settings.activation]
        self.norm = make_norm(settings)
        self.weight = embedding if settings.tie_output else nn.Parameter(torch.empty_like(embedding))
        self.bias = nn.Parameter(torch.zeros(len(embedding)))
        if not settings.tie_output:
            nn.init.normal_(self.weight, std=settings.width**-0.5)

    @property
    def output(self) -> OutputLayer:
        """The output layer, which maps transformed states to logits."""
        return OutputLayer(self.weight, self.bias)

    def forward(self, states: Tensor) -> Tensor:
        """Return the logits (..., vocabulary) of states (..., width), in float32 or float64."""
        hidden = self.norm(self.activation(self.transform(states)))
        return self.output.logits(hidden)


class MaskedEncoder(nn.Module):
    """The encoder-only Transformer (M17).

    It has embeddings of tokens, positions and token types, a norm, and bidirectional blocks.

    Args:
        settings: settings of the encoder and its head.
        vocabulary: number of tokens.
    """

    def __init__(self, settings: EncoderOnlySettings, vocabulary: int) -> None:
        super().__init__()
        self.settings, self.vocabulary = settings, vocabulary
        self.embedding = nn.Embedding(vocabulary, settings.width)
        self.positions = LearnedPositions(settings.max_length, settings.width, settings.position_offset)
        self.types = nn.Embedding(settings.token_types, settings.width)
        self.embedding_norm = make_norm(settings)
        self.encoder = nn.ModuleList(EncoderBlock(settings) for _ in range(settings.layers))
        self.dropout = Dropout(settings.dropout)
        self.head = MaskedHead(settings, self.embedding.weight) if settings.head else None
        for table in (self.embedding.weight, self.types.weight):
            nn.init.normal_(table, std=settings.width**-0.5)

    @property
    def description(self) -> str:
        """The class, library, number format, device and number of threads, as text for display."""
        return describe_model(self)

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.embedding.weight.device

    def forward(
        self,
        tokens: Tensor,
        mask: Tensor | None = None,
        types: Tensor | None = None,
        recorded_weights: list[Tensor] | None = None,
    ) -> Tensor:
        """Return the states (texts, length, width) of padded texts.

        Args:
            tokens: (texts, length) ids, with the special tokens that the model expects.
            mask: (texts, length) bool, True on tokens; None if there is no padding.
            types: (texts, length) token types; all 0 if None.
            recorded_weights: list to which each layer's weights (texts, heads, length, length) are appended,
                the lowest layer first.
        """
        x: Tensor = self.embedding(tokens)  # (texts, length, width)
        token_types = torch.zeros_like(tokens) if types is None else types
        x = x + self.types(token_types) + self.positions(0, tokens.shape[1])
        x = self.dropout(self.embedding_norm(x))  # (texts, length, width)
        visible_keys = None if mask is None or bool(mask.all()) else mask[:, None, None, :]
        for block in self.encoder:
            x = block(x, visible_keys, recorded_weights=recorded_weights)
        return x

    @torch.inference_mode()
    def encode(
        self, texts: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None = None
    ) -> list[Tensor]:
        """Return the states (tokens, width) of each text, which do not depend on the other texts.

        Args:
            texts: token ids, with the special tokens that the model expects.
            types: token types of each text; all 0 if None.

        Raises:
            TextTooLongError: a text has more tokens than the model has positions.
        """
        states = self._run(texts, types, None)
        return [states[row, : len(text)] for row, text in enumerate(texts)]

    @torch.inference_mode()
    def attentions(
        self, texts: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None = None
    ) -> list[Attentions]:
        """Return the self-attention of each text, in the field ``encoder`` (layers, heads, query, key).

        Arguments and errors are those of :meth:`encode`.
        """
        recording, lengths = Recording(), [len(text) for text in texts]
        self._run(texts, types, recording.encoder)
        return recording.sentences(lengths, lengths)

    def _run(
        self,
        texts: Sequence[Sequence[int]],
        types: Sequence[Sequence[int]] | None,
        recorded_weights: list[Tensor] | None,
    ) -> Tensor:
        """Return states (texts, length, width) of right-padded texts of different lengths."""
        limit = self.settings.max_length
        for text_number, text in enumerate(texts, start=1):
            if len(text) > limit:
                raise TextTooLongError(
                    f"text {text_number}: has {len(text)} tokens, including special tokens, but the model "
                    f"accepts at most {limit}; shorten it"
                )
        if not texts:
            return torch.zeros(0, 0, self.settings.width, device=self.device)
        tokens = pad(texts, PADDING_TOKEN, self.device)
        lengths = torch.tensor([len(text) for text in texts], device=self.device)
        mask = torch.arange(tokens.shape[1], device=self.device) < lengths[:, None]  # (texts, length)
        token_types = None if types is None else pad(types, 0, self.device)
        out: Tensor = self(tokens, mask, token_types, recorded_weights)
        return out
