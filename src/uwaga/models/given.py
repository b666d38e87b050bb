"""A Transformer that reads given vectors in the place of the embeddings of its source."""

from __future__ import annotations

from torch import Tensor, nn

from uwaga.models.interventions import with_interventions
from uwaga.models.transformer import Transformer


class GivenVectors(nn.Module):
    """An embedding that has been looked up already: ``vectors`` (sentences, source, width)."""

    def __init__(self, vectors: Tensor) -> None:
        super().__init__()
        self.vectors = vectors

    def forward(self, ids: Tensor) -> Tensor:
        """The vectors, whatever the ids (sentences, source) are."""
        return self.vectors


def with_source_vectors(model: Transformer, vectors: Tensor) -> Transformer:
    """The model reading ``vectors`` (sentences, source, width); the given one is left as it is."""
    made = with_interventions(model, [])
    made.source_embedding = GivenVectors(vectors)  # type: ignore[assignment]  # of the same face
    return made
