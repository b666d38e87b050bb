"""Attribution: the contribution of each source token to each target token's log-probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from uwaga.inspection.interventions import torch_transformer
from uwaga.inspection.matrices import Alignment, align, ended, label
from uwaga.results.attention import Floats
from uwaga.results.translation import Translation
from uwaga.settings.options import check_one_of
from uwaga.translator import Translator

if TYPE_CHECKING:
    from torch import Tensor

    from uwaga.models.transformer import Transformer


Method = Literal["gradient_input", "integrated"]
STEPS = 64
"""Points of the path of integrated gradients."""


@dataclass(frozen=True, eq=False)
class Attribution:
    """A translation, and what its source tokens contribute.

    ``values`` (target, source) float32 are in nats, below 0 where a source token speaks against a target
    token; rows and columns are those of ``translation.attention``, ends included. ``log_probs`` (target,) are
    the target tokens', ``baseline`` (target,) what they would be if all embeddings of the source were zero.
    """

    translation: Translation
    values: Floats
    log_probs: Floats
    baseline: Floats

    @property
    def gap(self) -> float:
        """The largest difference of a row's sum from ``log_probs - baseline``; exact integrals have none."""
        return float(np.abs(self.values.sum(axis=1) - (self.log_probs - self.baseline)).max())


def attribute(
    translator: Translator,
    source: str,
    target: str | None = None,
    method: Method = "integrated",
    steps: int = STEPS,
) -> Attribution:
    """Attribute each target token's log-probability to the source tokens.

    ``gradient_input`` is ``Σ x ∂F/∂x`` over the width of a token's embedding x, where F is the
    log-probability; ``integrated`` the mean of that gradient on the straight way from zero embeddings, times
    x (Sundararajan 2017): sums over the source are ``F(x) - F(0)`` but for the error of ``steps`` points.

    Args:
        translator: of a Transformer in torch.
        source: the text to translate.
        target: a translation to explain; the translator's own if None.
        method: ``gradient_input`` or ``integrated``.
        steps: points on the way, by the midpoint rule.

    Raises:
        SettingsError: the model is no Transformer in torch.
        TextTooLongError: a side is longer than the model can take.
        DataError: there is nothing to read in ``source``.
    """
    import torch

    model = torch_transformer(translator)
    found = translator.attend(
        source, translator.translate(source, sample=False).text if target is None else target
    )
    [ids], [wanted] = translator.pair_ids([(source, target if target is not None else found.text)])
    start = translator.decoding.start
    fed = [model.symbols.start if start is None else start, *wanted[:-1]]
    vectors = model.source_embedding.weight[list(ids)].detach()  # (source, width)
    whole = 1.0 if method == "gradient_input" else None
    at = torch.tensor([whole] if whole else [(step + 0.5) / steps for step in range(steps)])
    points = (at[:, None, None].to(vectors) * vectors).requires_grad_()  # (points, source, width)
    scores = _log_probs(model, points, ids, fed, wanted)  # (points, target)
    rows = []
    for place in range(len(wanted)):
        (grad,) = torch.autograd.grad(scores[:, place].sum(), points, retain_graph=True)
        rows.append((grad.mean(0) * vectors).sum(-1))  # (source,)
    ends = torch.stack([vectors, torch.zeros_like(vectors)])  # (2, source, width)
    with torch.no_grad():
        log_probs, baseline = _log_probs(model, ends, ids, fed, wanted).float().cpu().numpy()
    return Attribution(found, torch.stack(rows).float().cpu().numpy(), log_probs, baseline)


def _log_probs(
    model: Transformer, vectors: Tensor, ids: tuple[int, ...], fed: list[int], wanted: tuple[int, ...]
) -> Tensor:
    """(points, target) of a target, where the source has these vectors (points, source, width)."""
    import torch

    from uwaga.models.interventions import with_source_vectors

    points = len(vectors)
    source, target = (torch.tensor([row] * points, device=model.device) for row in (ids, fed))
    features = with_source_vectors(model, vectors).features(source, target)
    log_probs = torch.log_softmax(model.logits(features), dim=-1)
    rows = torch.tensor([wanted] * points, device=model.device)[..., None]
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
    """Two matrices of one translation: where the model looks, and what each source token contributes.

    The second is :func:`uwaga.inspection.attribution.attribute`'s, in nats: below 0 where a source token
    speaks against a target token. With ``words`` the contributions of a source word's pieces are added up,
    and those to a target word's pieces averaged, as :func:`uwaga.inspection.align` does with attention.

    Args:
        translator: of a Transformer in torch.
        source: the text to translate.
        target: a translation to explain; the model's own if None.
        method: ``gradient_input`` or ``integrated``.
        words: join the pieces of each word.
        title: what the titles begin with.

    Raises:
        SettingsError: an unknown method, or the model is no Transformer in torch.
        TextTooLongError, DataError: as :func:`uwaga.inspection.attribution.attribute`.
    """
    check_one_of("attribution", method, METHODS)
    found = attribute(translator, source, target, method)
    rows, columns = found.values.shape
    sides = ended(found.translation.tokens, rows), ended(found.translation.source_tokens, columns)
    before = f"{title}: " if title else ""
    called = {"gradient_input": "gradient × input", "integrated": "integrated gradients"}[method]
    return [
        align(found.translation, words=words, title=f"{before}attention"),
        label(found.values, *sides, words=words, title=f"{before}{called}, nats", kind="attribution"),
    ]
