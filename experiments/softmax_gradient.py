"""The gradient of the softmax against d_k, for scores that are scaled and scores that are not.

python experiments/softmax_gradient.py
"""

from __future__ import annotations

import torch

from uwaga.models.layers.attention import masked_softmax
from uwaga.models.layers.scores import make_score

WIDTHS, KEYS, DRAWS = (4, 16, 64, 256, 1024, 4096), 32, 400


def measure(name: str, width: int) -> tuple[float, float]:
    """Return averages of the largest weight and of the norm of ``∂ weights / ∂ scores`` over random queries.

    The Jacobian of a softmax with weights w is ``diag(w) - w wᵀ``.
    """
    torch.manual_seed(0)
    query, keys = torch.randn(DRAWS, 1, width), torch.randn(DRAWS, KEYS, width)
    score = make_score(name, width, width)
    weights = masked_softmax(score(query, score.prepare(keys)), None)[:, 0].double()  # (draws, keys)
    jacobian = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None]  # (draws, keys, keys)
    return float(weights.amax(dim=-1).mean()), float(jacobian.flatten(1).norm(dim=-1).median())


def main() -> None:
    """Print a row for each width."""
    print("  d_k   largest weight: dot, scaled   norm of the gradient (median): dot, scaled")
    for width in WIDTHS:
        (largest, gradient), (largest_scaled, gradient_scaled) = (
            measure("dot", width),
            measure("scaled_dot", width),
        )
        print(
            f"{width:5}   {largest:19.3f}  {largest_scaled:6.3f}   {gradient:34.1e}  {gradient_scaled:6.1e}"
        )


if __name__ == "__main__":
    main()
