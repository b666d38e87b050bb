"""Attribution: the contribution of each source token to each target token's log-probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from uwaga.inspection.interventions import torch_transformer
from uwaga.inspection.matrices import Alignment, align, label, pad_with_end
from uwaga.results.attention import Floats
from uwaga.results.translation import Translation
from uwaga.settings.options import check_choice
from uwaga.translator import Translator

if TYPE_CHECKING:
    from torch import Tensor

    from uwaga.models.transformer import Transformer


Method = Literal["gradient_input", "integrated"]
PATH_STEPS = 64
"""Number of points on the path of integrated gradients."""


@dataclass(frozen=True, eq=False)
class Attribution:
    """A translation and the contributions of its source tokens.

    ``values`` (target, source) float32 are in nats, negative where a source token lowers the probability of a
    target token; rows and columns are those of ``translation.attention``, including end symbols.
    ``log_probs`` (target,) are the log-probabilities of the target tokens, and ``baseline`` (target,) are
    their log-probabilities if all source embeddings are zero.
    """

    translation: Translation
    values: Floats
    log_probs: Floats
    baseline: Floats

    @property
    def gap(self) -> float:
        """Largest difference between the sum of a row and ``log_probs - baseline``; 0 for exact integrals."""
        return float(np.abs(self.values.sum(axis=1) - (self.log_probs - self.baseline)).max())


def attribute(
    translator: Translator,
    source: str,
    target: str | None = None,
    method: Method = "integrated",
    steps: int = PATH_STEPS,
) -> Attribution:
    """Return the contribution of each source token to each target token's log-probability.

    ``gradient_input`` is ``Σ x ∂F/∂x`` over the width of a token's embedding x, where F is the
    log-probability; ``integrated`` is the mean of that gradient on the straight path from zero embeddings,
    times x (Sundararajan 2017): sums over the source are ``F(x) - F(0)`` up to the error of ``steps`` points.

    Args:
        translator: a Transformer in torch.
        source: text to translate.
        target: translation to explain; None for the model's translation.
        method: ``gradient_input`` or ``integrated``.
        steps: number of points on the path, by the midpoint rule.

    Raises:
        SettingsError: the model is not a Transformer in torch.
        TextTooLongError: the source or the target is too long for the model.
        DataError: ``source`` is empty.
    """
    import torch

    model = torch_transformer(translator)
    translation = translator.attend(
        source, translator.translate(source, sample=False).text if target is None else target
    )
    [(ids, outputs)] = translator.pair_ids([(source, target if target is not None else translation.text)])
    start = translator.decoding.start
    inputs = [model.symbols.start if start is None else start, *outputs[:-1]]
    vectors = model.source_embedding.weight[list(ids)].detach()  # (source, width)
    scale = 1.0 if method == "gradient_input" else None
    factors = torch.tensor([scale] if scale else [(step + 0.5) / steps for step in range(steps)])
    points = (factors[:, None, None].to(vectors) * vectors).requires_grad_()  # (points, source, width)
    scores = _log_probs(model, points, ids, inputs, outputs)  # (points, target)
    rows = []
    for position in range(len(outputs)):
        (gradient,) = torch.autograd.grad(scores[:, position].sum(), points, retain_graph=True)
        rows.append((gradient.mean(0) * vectors).sum(-1))  # (source,)
    endpoints = torch.stack([vectors, torch.zeros_like(vectors)])  # (2, source, width)
    with torch.no_grad():
        log_probs, baseline = _log_probs(model, endpoints, ids, inputs, outputs).float().cpu().numpy()
    return Attribution(translation, torch.stack(rows).float().cpu().numpy(), log_probs, baseline)


def _log_probs(
    model: Transformer, vectors: Tensor, ids: Sequence[int], inputs: list[int], outputs: Sequence[int]
) -> Tensor:
    """Return (points, target) log-probabilities of a target, given source vectors (points, source, width)."""
    import torch

    from uwaga.models.interventions import with_source_vectors

    points = len(vectors)
    source, target = (torch.tensor([row] * points, device=model.device) for row in (ids, inputs))
    features = with_source_vectors(model, vectors).features(source, target)
    log_probs = torch.log_softmax(model.logits(features), dim=-1)
    rows = torch.tensor([outputs] * points, device=model.device)[..., None]
    return log_probs.gather(-1, rows)[..., 0]


METHODS: tuple[str, ...] = get_args(Method)


def contributions(
    translator: Translator,
    source: str,
    target: str | None = None,
    method: Method = "integrated",
    *,
    words: bool = False,
    title: str = "",
) -> list[Alignment]:
    """Return two matrices of a translation: attention, and the contributions of the source tokens.

    The contributions are those of :func:`uwaga.inspection.attribution.attribute`, in nats. With ``words``,
    pieces are merged as in :func:`uwaga.inspection.align`: contributions are summed over the pieces of a
    source word and averaged over those of a target word.

    Args:
        translator: a Transformer in torch.
        source: text to translate.
        target: translation to explain; None for the model's translation.
        method: ``gradient_input`` or ``integrated``.
        words: whether to merge the pieces of each word.
        title: prefix of the titles.

    Raises:
        SettingsError: the method is unknown, or the model is not a Transformer in torch.
        TextTooLongError, DataError: as for :func:`uwaga.inspection.attribution.attribute`.
    """
    check_choice("attribution", method, METHODS)
    attribution = attribute(translator, source, target, method)
    translation, (rows, columns) = attribution.translation, attribution.values.shape
    labels = pad_with_end(translation.source_tokens, columns), pad_with_end(translation.tokens, rows)
    prefix = f"{title}: " if title else ""
    name = {"gradient_input": "gradient × input", "integrated": "integrated gradients"}[method]
    return [
        align(translation, words=words, title=f"{prefix}attention"),
        label(Alignment(*labels, attribution.values, f"{prefix}{name}, nats", "attribution"), words),
    ]
